/* SPDX-License-Identifier: MIT */
/* ahead.c - see ahead.h. */
#include "ahead.h"

#include <string.h>

#include "proto/warm.h"

#include "fabric.h"

static struct port *port_of(const struct moment *m)
{
	return m->kind == AT_SENT ? LINK_OF(m, struct port, sent) : LINK_OF(m, struct port, arrived);
}

/* The host that will have something to do; NULL: none. */
static struct host *host_of(struct fabric *f, const struct moment *m)
{
	uint32_t node;

	if (m->kind == AT_TICK)
		return LINK_OF(m, struct host, tick);
	node = m->kind == AT_SENT ? port_of(m)->node : port_of(m)->other;
	return node < f->t->hosts ? &f->host[node] : NULL;
}

static void warm_port(const struct moment *m)
{
	if (m->kind == AT_TICK)
		warm(LINK_OF(m, struct host, tick), sizeof(struct host));
	else
		warm(port_of(m), sizeof(struct port));
}

static void warm_far_end(struct fabric *f, const struct moment *m)
{
	const struct host *h = host_of(f, m);
	const struct port *p = port_of(m);

	if (h)
		warm(h, sizeof(*h));
	if (m->kind == AT_ARRIVED) {
		if (!h)
			warm(p->peer, sizeof(*p));
		warm(p->wire.head, sizeof(struct packet));
	} else if (m->kind == AT_SENT && p->queue[CLASS_DATA].head) {
		warm(p->queue[CLASS_DATA].head, 64);
	}
}

static void warm_hca(struct fabric *f, const struct moment *m, unsigned step)
{
	const struct host *h = host_of(f, m);

	if (!step && m->kind == AT_ARRIVED && port_of(m)->wire.head->next)
		warm(port_of(m)->wire.head->next, WARM_LINE);
	if (h)
		hca_warm(h->hca, m->kind == AT_ARRIVED ? port_of(m)->wire.head->burst.dqpn : 0, h->key, step);
	else if (m->kind == AT_ARRIVED && !step)
		switch_warm(f, &f->sw[port_of(m)->other - f->t->hosts], port_of(m)->wire.head);
}

/* The i-th step of a moment.  It may have been moved, or be over, since it was found. */
static void step(struct fabric *f, const struct moment *m, unsigned i)
{
	if (i == 0) {
		warm(m, sizeof(*m));
		return;
	}
	if (!moment_is_set(m) || m->kind > AT_TICK)
		return;
	if (m->kind == AT_ARRIVED && i > 1 && !port_of(m)->wire.head)
		return;
	if (i == 1)
		warm_port(m);
	else if (i == 2)
		warm_far_end(f, m);
	else
		warm_hca(f, m, i - 3);
}

void ahead_turn(struct fabric *f, const struct moment *now)
{
	struct ahead *a = &f->ahead;

	if (a->n && (a->v[0] == now || !moment_is_set(a->v[0])))
		memmove(a->v, a->v + 1, --a->n * sizeof(a->v[0]));
	for (unsigned more = 2; more && a->n < AHEAD; more--) {
		struct moment *m = agenda_behind(&f->agenda, a->n ? a->v[a->n - 1] : NULL);

		if (!m)
			break;
		a->v[a->n++] = m;
	}
	for (uint32_t i = 0; i < a->n; i++)
		step(f, a->v[i], AHEAD - 1 - i);
}
