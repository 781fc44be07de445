/* SPDX-License-Identifier: MIT */
/* workload.c - see workload.h. */
#include "workload.h"

#include <stdlib.h>

#include "csv.h"
#include "fabric.h"
#include "say.h"

#define PSN_BITS 0xffffffu

static struct flow *flow_add(struct fabric *f, const struct load *l, uint32_t from, uint32_t to)
{
	struct work *w = &f->work;
	struct flow *flow = &w->flow[w->flow_n];

	*flow = (struct flow){ .load = l,
			       .i = w->flow_n++,
			       .from = from,
			       .to = to,
			       .size = l->size,
			       .depth = l->depth,
			       .limit = l->count ? l->count : UINT64_MAX,
			       .may = UINT64_MAX };
	return flow;
}

/* ---- which flows a load has -------------------------------------------------------------------- */

static void incast(struct fabric *f, const struct load *l)
{
	for (uint32_t to = 0; to < l->to.n; to++)
		for (uint32_t i = 0; i < l->from.n; i++)
			if (l->from.first + i != l->to.first + to)
				flow_add(f, l, l->from.first + i, l->to.first + to);
}

/* All of them in one circle, in an order that the seed makes: nobody sends to himself. */
static void permutation(struct fabric *f, const struct load *l)
{
	uint32_t n = l->from.n, *to = room_new(n, sizeof(*to));

	for (uint32_t i = 0; i < n; i++)
		to[i] = i;
	for (uint32_t i = n - 1; i; i--) {
		uint32_t k = rng_below(&f->rng, i), was = to[i];

		to[i] = to[k];
		to[k] = was;
	}
	for (uint32_t i = 0; i < n; i++)
		flow_add(f, l, l->from.first + i, l->from.first + to[i]);
	free(to);
}

static void allreduce(struct fabric *f, const struct load *l)
{
	uint32_t n = l->from.n, first = f->work.flow_n;

	for (uint32_t i = 0; i < n; i++) {
		struct flow *flow = flow_add(f, l, l->from.first + i, l->from.first + (i + 1) % n);

		flow->size = (l->size + n - 1) / n;
		flow->limit = l->count ? l->count * 2 * (n - 1) : UINT64_MAX;
		flow->may = 1;
		flow->next = &f->work.flow[first + (i + 1) % n];
	}
}

static void connect_all(struct fabric *f)
{
	for (uint32_t i = 0; i < f->work.flow_n; i++) {
		struct flow *flow = &f->work.flow[i];
		struct host *from = &f->host[flow->from], *to = &f->host[flow->to];
		uint32_t psn = rng_next(&f->rng) & PSN_BITS, back = rng_next(&f->rng) & PSN_BITS;

		flow->posted_ns = room_new(flow->depth, sizeof(*flow->posted_ns));
		flow->qpn = host_qp(from, flow->depth);
		flow->to_qpn = host_qp(to, 1);
		host_connect(from, flow->qpn, to, flow->to_qpn, psn, back);
		host_connect(to, flow->to_qpn, from, flow->qpn, back, psn);
	}
}

void work_init(struct fabric *f)
{
	const struct topology *t = f->t;
	struct work *w = &f->work;
	uint64_t n = 0;

	for (unsigned i = 0; i < t->load_n; i++)
		n += topology_flows(&t->load[i]);
	w->flow = room_new(n, sizeof(*w->flow));
	w->starter = room_new(t->load_n, sizeof(*w->starter));
	for (unsigned i = 0; i < t->load_n; i++) {
		const struct load *l = &t->load[i];

		switch (l->kind) {
		case LOAD_INCAST: incast(f, l); break;
		case LOAD_PERMUTATION: permutation(f, l); break;
		case LOAD_ALLREDUCE: allreduce(f, l); break;
		case LOADS: break;
		}
		w->starter[i] = (struct starter){ .start.kind = AT_START, .stop.kind = AT_STOP, .load = l };
		agenda_set(&f->agenda, &w->starter[i].start, l->start_ns);
		if (l->stop_ns < t->duration_ns)
			agenda_set(&f->agenda, &w->starter[i].stop, l->stop_ns);
	}
	w->open = w->flow_n;
	connect_all(f);
}

void work_free(struct work *w)
{
	for (uint32_t i = 0; i < w->flow_n; i++)
		free(w->flow[i].posted_ns);
	free(w->flow);
	free(w->starter);
	free(w->took_ns);
}

/* ---- messages ------------------------------------------------------------------------------------ */

static void feed(struct fabric *f, struct flow *flow)
{
	uint64_t now = f->agenda.now_ns;

	while (flow->begun && !flow->status && flow->posted - flow->done < flow->depth && flow->posted < flow->limit &&
	       flow->posted < flow->may && now < flow->load->stop_ns) {
		flow->posted_ns[flow->posted++ % flow->depth] = now;
		host_write(&f->host[flow->from], flow->qpn, flow->i, (uint32_t)flow->size, &f->host[flow->to]);
	}
}

void work_start(struct fabric *f, const struct load *l)
{
	for (uint32_t i = 0; i < f->work.flow_n; i++) {
		struct flow *flow = &f->work.flow[i];

		if (flow->load != l)
			continue;
		flow->begun = true;
		feed(f, flow);
		host_turn(&f->host[flow->from]);
	}
}

static void close_if_over(struct fabric *f, struct flow *flow)
{
	bool stopped = f->agenda.now_ns >= flow->load->stop_ns && flow->posted == flow->done;

	if (flow->over || !(flow->status || flow->done == flow->limit || stopped))
		return;
	flow->over = true;
	f->work.open--;
}

/* Those that have nothing under way end here; the others with their last message. */
void work_stop(struct fabric *f, const struct load *l)
{
	for (uint32_t i = 0; i < f->work.flow_n; i++)
		if (f->work.flow[i].load == l)
			close_if_over(f, &f->work.flow[i]);
}

void work_done(struct fabric *f, uint32_t i, uint8_t status)
{
	struct work *w = &f->work;
	struct flow *flow = flow_at(f, i);
	uint64_t began = flow->posted_ns[flow->done % flow->depth], now = f->agenda.now_ns;

	if (status) {
		if (!flow->status) {
			flow->status = status;
			w->failed++;
			close_if_over(f, flow);
		}
		return;
	}
	if (flow->stored < (flow->done + 1) * flow->size)
		broken("flow %u: a message is done whose bytes have not come", i);
	csv_message(f, flow, flow->done, began);
	flow->done++;
	if (w->done == w->done_max) {
		w->done_max = w->done_max ? 2 * w->done_max : 4096;
		w->took_ns = room_for(w->took_ns, w->done_max, sizeof(*w->took_ns));
	}
	w->took_ns[w->done++] = now - began;
	feed(f, flow);
	close_if_over(f, flow);
}

void work_arrived(struct fabric *f, struct flow *flow)
{
	if (!flow->next)
		return;
	flow->next->may = flow->stored / flow->size + 1;
	feed(f, flow->next);
}
