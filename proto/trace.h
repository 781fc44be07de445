/* SPDX-License-Identifier: MIT */
/*
 * trace.h - the flight recorder: what happened to the QPs of an HCA, in records of a fixed size.
 *
 * Each record is written twice: into the QP's own short log, which is what a cause (why.h) quotes, and into the HCA's
 * ring, which those who look on follow (hca_trace()).  Only what happens seldom is recorded; each
 * burst sent and received is too while somebody asked for it, and then in the ring only.
 */
#ifndef PROTO_TRACE_H
#define PROTO_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "mono.h"

enum trace_event {
#define TRACE(name, word, what) TR_##name,
#include "trace.def"
#undef TRACE
	TR_EVENTS
};

struct trace_rec {
	mono_t at;
	uint32_t qpn, psn;
	uint32_t a, b;
	uint32_t n;
	uint8_t event; /* enum trace_event: says what the rest is */
	uint8_t op;    /* BTH opcode, unless the event says otherwise */
	uint8_t rsv[2];
};
_Static_assert(sizeof(struct trace_rec) == 32, "two to a cache line");

#define QP_LOG         16u    /* of a QP; a power of two */
#define TRACE_RING     1024u  /* of an HCA */
#define TRACE_RING_ALL 65536u /* while bursts are recorded */

struct qp_log {
	uint32_t n; /* written so far; the last QP_LOG of them are there */
	struct trace_rec rec[QP_LOG];
};

struct trace {
	struct trace_rec *v;
	uint32_t size;  /* a power of two */
	uint64_t n;     /* written so far */
	uint64_t first; /* none before this one is there */
	bool bursts;
};

int trace_init(struct trace *); /* 0 or ENOMEM */
void trace_fini(struct trace *);
void trace_put(struct trace *, struct qp_log *, const struct trace_rec *);
/* The rest of the record, by name: TRACE_PUT(h, qp, TIMEOUT, .psn = ..., .a = ...); */
#define TRACE_PUT(h, q, ev, ...)          \
	trace_put(&(h)->trace, &(q)->log, \
		  &(struct trace_rec){ .at = (h)->now, .qpn = (q)->qpn, .event = TR_##ev, __VA_ARGS__ })

/* The records of the log, oldest first, into v (QP_LOG of them fit); how many. */
unsigned trace_log(const struct qp_log *, struct trace_rec *v);
/* hca_trace() and hca_trace_bursts() (hca.h). */
uint32_t trace_read(const struct trace *, uint64_t *from, struct trace_rec *, uint32_t max, uint64_t *lost);
int trace_bursts(struct trace *, bool on);

#endif
