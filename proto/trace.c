/* SPDX-License-Identifier: MIT */
/* trace.c - records are written, and read from where one left off. */
#include "trace.h"

#include <errno.h>
#include <stdlib.h>

#include "hca_in.h"

int trace_init(struct hca *h)
{
	h->trace.size = TRACE_RING;
	h->trace.v = calloc(h->trace.size, sizeof(*h->trace.v));
	return h->trace.v ? 0 : ENOMEM;
}

void trace_fini(struct hca *h)
{
	free(h->trace.v);
	h->trace.v = NULL;
}

void trace_put(struct hca *h, struct qp *qp, const struct trace_rec *r)
{
	struct trace *t = &h->trace;
	struct trace_rec *to = &t->v[t->n++ & (t->size - 1)];

	*to = *r;
	to->at = h->now;
	to->qpn = qp->qpn;
	if (r->event != TR_TX && r->event != TR_RX)
		qp->log.rec[qp->log.n++ % QP_LOG] = *to;
}

unsigned trace_log(const struct qp *qp, struct trace_rec *v)
{
	uint32_t n = qp->log.n < QP_LOG ? qp->log.n : QP_LOG;

	for (uint32_t i = 0; i < n; i++)
		v[i] = qp->log.rec[(qp->log.n - n + i) % QP_LOG];
	return n;
}

int hca_trace_trains(struct hca *h, bool on)
{
	struct trace *t = &h->trace;
	struct trace_rec *v;

	if (on && t->size < TRACE_RING_ALL) {
		v = calloc(TRACE_RING_ALL, sizeof(*v));
		if (!v)
			return ENOMEM;
		if (t->n > t->size)
			t->first = t->n - t->size;
		for (uint64_t i = t->first; i < t->n; i++)
			v[i & (TRACE_RING_ALL - 1)] = t->v[i & (t->size - 1)];
		free(t->v);
		t->v = v;
		t->size = TRACE_RING_ALL;
	}
	t->trains = on;
	return 0;
}

uint32_t hca_trace(const struct hca *h, uint64_t *from, struct trace_rec *v, uint32_t max, uint64_t *lost)
{
	const struct trace *t = &h->trace;
	uint64_t old = t->n > t->size ? t->n - t->size : 0;
	uint32_t n = 0;

	if (old < t->first)
		old = t->first;
	*lost = *from < old ? old - *from : 0;
	if (*from < old || *from > t->n)
		*from = old;
	while (*from < t->n && n < max)
		v[n++] = t->v[(*from)++ & (t->size - 1)];
	return n;
}
