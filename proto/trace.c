/* SPDX-License-Identifier: MIT */
/* trace.c - records are written, and read from where one left off. */
#include "trace.h"

#include <errno.h>
#include <stdlib.h>

int trace_init(struct trace *t)
{
	t->size = TRACE_RING;
	t->v = calloc(t->size, sizeof(*t->v));
	return t->v ? 0 : ENOMEM;
}

void trace_fini(struct trace *t)
{
	free(t->v);
	t->v = NULL;
}

void trace_put(struct trace *t, struct qp_log *log, const struct trace_rec *r)
{
	struct trace_rec *to = &t->v[t->n++ & (t->size - 1)];

	*to = *r;
	if (r->event != TR_TX && r->event != TR_RX)
		log->rec[log->n++ % QP_LOG] = *r;
}

unsigned trace_log(const struct qp_log *log, struct trace_rec *v)
{
	uint32_t n = log->n < QP_LOG ? log->n : QP_LOG;

	for (uint32_t i = 0; i < n; i++)
		v[i] = log->rec[(log->n - n + i) % QP_LOG];
	return n;
}

int trace_bursts(struct trace *t, bool on)
{
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
	t->bursts = on;
	return 0;
}

uint32_t trace_read(const struct trace *t, uint64_t *from, struct trace_rec *v, uint32_t max, uint64_t *lost)
{
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
