/* SPDX-License-Identifier: MIT */
/*
 * sim.c - the clock, the event heap and the turn that every host of an HCA takes.
 *
 *	turn:  tick if it is time, tx until nothing, completions, events
 *
 * A turn of one node can make others dirty (local links hand bursts over at once); they
 * take their turns before time goes on.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

#define TURN_BURSTS 200000u /* of one turn: more is a core that never stops sending */
#define TURN_ROUNDS 200000u

struct sim *sim_current;

static void gid_v4(uint8_t *gid, unsigned i)
{
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	gid[12] = 10;
	gid[15] = (uint8_t)(i + 1);
}

static void gid_v6(uint8_t *gid, unsigned i)
{
	memset(gid, 0, 16);
	gid[0] = 0xfd;
	gid[15] = (uint8_t)(i + 1);
}

static void node_init(struct sim *s, unsigned i, const struct hca_cfg *cfg, uint32_t arena_len)
{
	struct node *n = &s->node[i];
	struct hca_cfg c = *cfg;

	n->sim = s;
	n->i = i;
	n->inbox_tail = &n->inbox;
	n->tick_at = UINT64_MAX;
	n->join = 500000;
	gid_v4(n->gid[0], i);
	gid_v6(n->gid[1], i);
	arena_init(&n->mem, n, arena_len, 0x700000000000u + ((uint64_t)i << 40));
	c.mem = &arena_ops;
	c.mem_host = n;
	c.seed = rng_next(&s->rng);
	c.qpn_low = i;
	c.qpn_low_bits = 2;
	n->hca = hca_new(&c);
	if (!n->hca)
		sim_fail(s, "hca_new");
	for (unsigned g = 0; g < 2; g++)
		if (hca_gid_set(n->hca, g, n->gid[g]))
			sim_fail(s, "hca_gid_set");
}

void sim_init(struct sim *s, const char *kind, uint64_t seed, unsigned nodes, const struct hca_cfg *cfg,
	      uint32_t arena_len)
{
	memset(s, 0, sizeof *s);
	sim_current = s;
	s->kind = kind;
	s->seed = seed;
	s->rng.s = seed * 0x2545f4914f6cdd1du + 1;
	s->node_n = nodes;
	s->verify_every = 16;
	s->hash = 0xcbf29ce484222325u;
	for (unsigned i = 0; i < nodes; i++)
		node_init(s, i, cfg, arena_len);
	capture_begin(s);
}

void sim_free(struct sim *s)
{
	for (unsigned i = 0; i < s->heap_n; i++)
		if (s->heap[i].pkt)
			pkt_put(s, s->heap[i].pkt);
	for (unsigned i = 0; i < s->node_n; i++) {
		struct node *n = &s->node[i];

		while (n->inbox) {
			struct pkt *p = n->inbox;

			n->inbox = p->next;
			pkt_put(s, p);
		}
		cover_hca(n->hca);
		hca_free(n->hca);
		arena_free(&n->mem);
	}
	while (s->spare) {
		struct pkt *p = s->spare;

		s->spare = p->next;
		free(p);
	}
	flows_fini(&s->flows);
	free(s->heap);
	s->heap = NULL;
	s->heap_n = s->heap_max = 0;
	sim_current = NULL;
}

void sim_link(struct sim *s, unsigned a, unsigned b, const struct link *l)
{
	s->link[a][b] = s->link[b][a] = *l;
	sim_local(s, a, b);
}

void sim_local(struct sim *s, unsigned a, unsigned b)
{
	for (unsigned g = 0; g < 2; g++) {
		hca_local_set(s->node[a].hca, s->node[b].gid[g], s->link[a][b].local);
		if (a != b)
			hca_local_set(s->node[b].hca, s->node[a].gid[g], s->link[a][b].local);
	}
	sim_dirty(&s->node[a]);
	sim_dirty(&s->node[b]);
}

void sim_heal(struct sim *s)
{
	trace_note(s, "the links are sound from now on");
	for (unsigned a = 0; a < s->node_n; a++)
		for (unsigned b = 0; b < s->node_n; b++) {
			struct link *l = &s->link[a][b];

			l->loss = l->dup = l->corrupt = l->reorder = 0;
			l->queue_len = 0;
			l->dark = false;
			l->mask_n = 0;
			l->drop = NULL;
		}
}

uint64_t sim_harm(const struct sim *s, const struct node *a, const struct node *b)
{
	return s->link[a->i][b->i].harm_n + s->link[b->i][a->i].harm_n;
}

/* ---- events ------------------------------------------------------------ */

static bool ev_before(const struct sim_ev *a, const struct sim_ev *b)
{
	return a->t != b->t ? a->t < b->t : a->seq < b->seq;
}

static void heap_push(struct sim *s, struct sim_ev e)
{
	unsigned i;

	if (s->heap_n == s->heap_max) {
		s->heap_max = s->heap_max ? 2 * s->heap_max : 64;
		s->heap = realloc(s->heap, s->heap_max * sizeof *s->heap);
		if (!s->heap)
			abort();
	}
	e.seq = s->seq++;
	for (i = s->heap_n++; i && ev_before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = e;
}

static struct sim_ev heap_pop(struct sim *s)
{
	struct sim_ev top = s->heap[0], e = s->heap[--s->heap_n];
	unsigned i = 0, c;

	while ((c = 2 * i + 1) < s->heap_n) {
		if (c + 1 < s->heap_n && ev_before(&s->heap[c + 1], &s->heap[c]))
			c++;
		if (!ev_before(&s->heap[c], &e))
			break;
		s->heap[i] = s->heap[c];
		i = c;
	}
	if (s->heap_n)
		s->heap[i] = e;
	return top;
}

void sim_at(struct sim *s, uint64_t t, void (*call)(struct sim *, void *), void *arg)
{
	heap_push(s, (struct sim_ev){ .t = t < s->now ? s->now : t, .kind = SIM_CALL, .call = call, .arg = arg });
}

void sim_push(struct sim *s, uint64_t t, enum sim_ev_kind kind, struct node *n, struct pkt *p)
{
	heap_push(s, (struct sim_ev){ .t = t, .kind = kind, .node = n, .pkt = p });
}

/* ---- the turn ---------------------------------------------------------- */

void sim_dirty(struct node *n) { n->dirty = true; }

void sim_reap(struct sim *s, struct node *n)
{
	struct cqe cqe[16];
	struct hca_event ev[4];
	unsigned k;

	while ((k = hca_completions(n->hca, cqe, 1 + rng_below(&s->rng, 16))))
		for (unsigned i = 0; i < k; i++) {
			trace_cqe(s, n, &cqe[i]);
			s->completions++;
			if (s->ops && s->ops->cqe)
				s->ops->cqe(s, n, &cqe[i]);
		}
	while ((k = hca_events(n->hca, ev, 4)))
		for (unsigned i = 0; i < k; i++) {
			trace_mix(s, &ev[i], sizeof ev[i]);
			trace_note(s, "%c EVENT type %u of 0x%x", 'A' + n->i, ev[i].type, ev[i].number);
			if (s->ops && s->ops->event)
				s->ops->event(s, n, &ev[i]);
		}
}

/* A turn at this time, or before. */
static void node_later(struct sim *s, struct node *n, uint64_t t)
{
	if (t >= n->tick_at)
		return;
	n->tick_at = t;
	sim_push(s, t, SIM_TICK, n, NULL);
}

static void node_turn(struct sim *s, struct node *n)
{
	unsigned bursts = 0;
	bool stop = false;
	struct burst b;
	mono_t d;

	n->dirty = false;
	if (n->tick_at <= s->now)
		n->tick_at = UINT64_MAX;
	if (mono_reached(sim_now(s), hca_deadline(n->hca)))
		hca_tick(n->hca, sim_now(s));
	while (hca_tx(n->hca, &b, sim_now(s))) {
		if (++bursts > TURN_BURSTS)
			sim_fail(s, "node %u never stops sending", n->i);
		stop = rng_ppm(&s->rng, n->lazy);
		if (s->ops && s->ops->tx)
			s->ops->tx(s, n, &b);
		link_tx(s, n, &b);
		if (stop)
			break;
	}
	if (stop || rng_ppm(&s->rng, n->lazy)) {
		node_later(s, n, s->now + rng_ns(&s->rng, n->late_ns));
		if (rng_one_in(&s->rng, 2))
			return;
	}
	sim_reap(s, n);
	d = hca_deadline(n->hca);
	if (mono_is_never(d))
		return;
	if (mono_reached(sim_now(s), d)) { /* again in this moment: the loop of sim_turns bounds it */
		n->dirty = true;
		return;
	}
	node_later(s, n, d.ns + rng_ns(&s->rng, n->late_ns));
}

void sim_turns(struct sim *s)
{
	unsigned rounds = 0;
	bool again;

	do {
		again = false;
		for (unsigned i = 0; i < s->node_n; i++)
			if (s->node[i].dirty) {
				node_turn(s, &s->node[i]);
				again = true;
			}
		if (++rounds > TURN_ROUNDS)
			sim_fail(s, "time stands still: hca_deadline() stays in the past, or a local loop");
	} while (again);
}

bool sim_step(struct sim *s)
{
	struct sim_ev e;

	sim_turns(s);
	if (!s->heap_n)
		return false;
	e = heap_pop(s);
	s->now = e.t;
	switch (e.kind) {
	case SIM_ARRIVE: link_arrive(s, e.pkt); break;
	case SIM_RX:
		e.node->rx_due = false;
		link_rx(s, e.node);
		sim_dirty(e.node);
		break;
	case SIM_TICK: sim_dirty(e.node); break;
	case SIM_CALL: e.call(s, e.arg); break;
	}
	sim_turns(s);
	if (s->verify_every && ++s->steps % s->verify_every == 0)
		for (unsigned i = 0; i < s->node_n; i++)
			hca_verify(s->node[i].hca);
	return true;
}

/* An abort of the core (hca_verify, assert) or a crash: say at least which run it was. */
static void on_signal(int sig)
{
	if (sim_current) {
		char text[160];
		int n = snprintf(text, sizeof text, "signal %d in %s seed %llu at %llu ns\n", sig, sim_current->kind,
				 (unsigned long long)sim_current->seed, (unsigned long long)sim_current->now);

		if (write(STDERR_FILENO, text, (size_t)n) < 0)
			_exit(1);
	}
	signal(sig, SIG_DFL);
	raise(sig);
}

void sim_catch(void)
{
	signal(SIGABRT, on_signal);
	signal(SIGSEGV, on_signal);
}

void sim_fail(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	trace_last(s);
	fprintf(stderr, "\n%s seed %llu%s%s, t %.6f ms: ", s->kind, (unsigned long long)s->seed, s->about ? " " : "",
		s->about ? s->about : "", (double)s->now / 1e6);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	signal(SIGABRT, SIG_DFL);
	abort();
}
