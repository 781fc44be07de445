/* SPDX-License-Identifier: MIT */
/* fabric.c - builds what the topology says, and lets the time pass. */
#include "fabric.h"

#include <stdlib.h>

#include "proto/link.h"

#include "routes.h"
#include "say.h"

/* ---- building ------------------------------------------------------------------------------------- */

static void port_init(struct port *p, uint32_t node, uint32_t other, const struct cable *c)
{
	p->node = node;
	p->other = other;
	p->rate = c->rate;
	p->delay_ns = c->delay_ns;
	p->sent.kind = AT_SENT;
	p->arrived.kind = AT_ARRIVED;
}

static struct port *port_new(struct fabric *f, uint32_t node, uint32_t other, const struct cable *c)
{
	uint32_t hosts = f->t->hosts;
	struct port *p;
	struct sw *s;

	if (node < hosts) {
		port_init(&f->host[node].port, node, other, c);
		return &f->host[node].port;
	}
	s = &f->sw[node - hosts];
	p = &s->port[s->port_n];
	port_init(p, node, other, c);
	p->index = (uint16_t)s->port_n++;
	p->ecn = &s->group->ecn;
	if (s->group->pfc) {
		p->room = topology_headroom(f->t, c);
		s->shared -= p->room;
	}
	if (other < hosts)
		f->seat[other] = (struct seat){ node - hosts, p->index };
	return p;
}

static void wire(struct fabric *f)
{
	const struct topology *t = f->t;
	uint32_t *n = room_new(t->hosts + t->switches, sizeof(*n));

	for (uint32_t i = 0; i < t->cable_n; i++) {
		n[t->cable[i].a]++;
		n[t->cable[i].b]++;
	}
	for (uint32_t i = 0; i < t->switches; i++) {
		struct sw *s = &f->sw[i];

		s->node = t->hosts + i;
		s->group = topology_group(t, s->node);
		s->shared = s->group->buffer;
		s->salt = (uint32_t)rng_next(&f->rng);
		s->port = room_new(n[s->node], sizeof(*s->port));
	}
	free(n);
	for (uint32_t i = 0; i < t->cable_n; i++) {
		const struct cable *c = &t->cable[i];
		struct port *a = port_new(f, c->a, c->b, c), *b = port_new(f, c->b, c->a, c);

		a->peer = b;
		b->peer = a;
	}
	routes_make(f->sw, t->switches, t->hosts);
}

void fabric_init(struct fabric *f, const struct topology *t)
{
	f->t = t;
	agenda_init(&f->agenda);
	f->rng.s = t->seed * 0x2545f4914f6cdd1du + 1;
	f->packet_len = topology_packet_len(t);
	f->host = room_new(t->hosts, sizeof(*f->host));
	f->sw = room_new(t->switches, sizeof(*f->sw));
	f->seat = room_new(t->hosts, sizeof(*f->seat));
	wire(f);
	for (uint32_t i = 0; i < t->hosts; i++)
		host_init(f, &f->host[i], i);
	work_init(f);
}

void fabric_fini(struct fabric *f)
{
	for (uint32_t i = 0; i < f->t->hosts; i++) {
		host_fini(&f->host[i]);
		port_fini(&f->packets, &f->host[i].port);
	}
	for (uint32_t i = 0; i < f->t->switches; i++) {
		for (uint32_t k = 0; k < f->sw[i].port_n; k++)
			port_fini(&f->packets, &f->sw[i].port[k]);
		free(f->sw[i].port);
	}
	routes_free(f->sw, f->t->switches);
	packets_fini(&f->packets);
	work_free(&f->work);
	agenda_fini(&f->agenda);
	free(f->host);
	free(f->sw);
	free(f->seat);
}

/* ---- running --------------------------------------------------------------------------------------- */

static void sent(struct fabric *f, struct port *p)
{
	if (p->node < f->t->hosts) {
		port_sent(&f->agenda, p);
		host_turn(&f->host[p->node]);
	} else {
		switch_sent(f, &f->sw[p->node - f->t->hosts], p);
		port_sent(&f->agenda, p);
	}
}

static void arrived(struct fabric *f, struct port *p)
{
	struct packet *pkt = port_arrived(&f->agenda, p);

	if (p->other < f->t->hosts)
		host_rx(&f->host[p->other], pkt);
	else
		switch_rx(f, &f->sw[p->other - f->t->hosts], p->peer, pkt);
}

/* All that happens up to that time; false: the work was done before. */
static bool run_until(struct fabric *f, uint64_t ns)
{
	struct moment *m;

	while (f->work.open && (m = agenda_next(&f->agenda, ns)))
		switch ((enum moment_kind)m->kind) {
		case AT_SENT: sent(f, LINK_OF(m, struct port, sent)); break;
		case AT_ARRIVED: arrived(f, LINK_OF(m, struct port, arrived)); break;
		case AT_TICK: host_turn(LINK_OF(m, struct host, tick)); break;
		case AT_START: work_start(f, LINK_OF(m, struct starter, start)->load); break;
		case AT_STOP: work_stop(f, LINK_OF(m, struct starter, stop)->load); break;
		}
	if (!f->work.open)
		return false;
	f->agenda.now_ns = ns;
	return true;
}

/* A sample follows on all that happens in its ns: so the last one, at the end, has some time to tell of. */
void fabric_run(struct fabric *f)
{
	uint64_t ns = f->t->sample_ns;

	for (; ns < f->t->duration_ns && run_until(f, ns); ns += f->t->sample_ns)
		csv_sample(f);
	run_until(f, f->t->duration_ns);
	csv_sample(f);
}

/* ---- conservation ------------------------------------------------------------------------------------ */

uint64_t fabric_check(const struct fabric *f, uint64_t *under_way)
{
	uint64_t dropped = 0, n = 0, posted, flow_bytes;

	for (uint32_t i = 0; i < f->t->hosts; i++)
		n += port_pkts(&f->host[i].port);
	for (uint32_t i = 0; i < f->t->switches; i++) {
		const struct sw *s = &f->sw[i];
		uint64_t held = 0;

		for (uint32_t k = 0; k < s->port_n; k++) {
			n += port_pkts(&s->port[k]);
			dropped += s->port[k].all.drops;
			held += s->port[k].held;
		}
		if (held != s->used || s->used > s->shared)
			broken("the buffer of a switch has lost count");
	}
	if (f->offered != f->delivered + dropped + n)
		broken("%llu packets sent, %llu came, %llu were dropped, %llu are under way",
		       (unsigned long long)f->offered, (unsigned long long)f->delivered, (unsigned long long)dropped,
		       (unsigned long long)n);
	for (uint32_t i = 0; i < f->work.flow_n; i++) {
		const struct flow *flow = &f->work.flow[i];

		posted = flow->posted * flow->size;
		flow_bytes = flow->done * flow->size;
		if (flow->stored < flow_bytes || flow->stored > posted)
			broken("flow %u: bytes came that nobody sent, or are missing", i);
	}
	*under_way = n;
	return dropped;
}
