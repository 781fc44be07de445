/* SPDX-License-Identifier: MIT */
/*
 * flow.h - what is remembered of a QP from packet to packet: which PSNs it has sent or got how often, and what a rule
 * has in store for the next ones.
 *
 * Each QP has six streams: out and in, of requests, of responses, of acknowledgements.
 */
#ifndef LAB_FLOW_H
#define LAB_FLOW_H

#include "tap.h"

#define FLOW_SWALLOWS 8u

struct stream {
	uint8_t *count; /* ring by PSN: transmissions of those in (max - size, max] */
	uint32_t size;
	psn_t first, max; /* seen first; the newest one */
	bool muted;       /* what is behind mute is dropped, until that comes again */
	psn_t mute;
	unsigned mute_rule;
	mono_t hold_until; /* nothing goes on before */
	unsigned hold_rule;
};

/* ACKs that cover this PSN are dropped, n more of them. */
struct swallow {
	enum tap_dir dir;
	psn_t psn;
	uint32_t n;
	unsigned rule;
};

struct flow {
	struct flow *next; /* same hash */
	unsigned device;
	uint32_t qpn;
	struct stream stream[2][TAP_KINDS];
	struct swallow swallow[FLOW_SWALLOWS];
	unsigned swallow_n;
	uint32_t sender; /* its place among the QPs that have sent while there were rules, from 1; 0: it has not */
	uint32_t *count; /* per rule id: matches, for rules that count each QP on its own */
	unsigned count_n;
};

#define FLOW_HASH 256u

struct flows {
	struct flow *head[FLOW_HASH];
	/* false: there is no such QP. */
	bool (*qp)(void *host, unsigned device, uint32_t qpn, struct tap_qp *);
	void *host;
};

void flows_fini(struct flows *); /* it may be used again */

/* Fills in what tap_pkt says of its QP.  NULL: the packet is of no QP that is known, or there is no memory. */
struct flow *flow_note(struct flows *, struct tap_pkt *);
/* The QP was reset or destroyed. */
void flow_gone(struct flows *, unsigned device, uint32_t qpn);

/* The stream of the flow that a packet belongs to. */
static inline struct stream *flow_stream(struct flow *f, const struct tap_pkt *p)
{
	return &f->stream[p->dir][p->kind];
}

/* The counter of a rule for this QP; NULL: no memory. */
uint32_t *flow_count(struct flow *, unsigned rule);

#endif
