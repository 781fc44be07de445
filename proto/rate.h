/* SPDX-License-Identifier: MIT */
/*
 * rate.h - how fast one QP may send: its program's limit, or a lower one of congestion.
 *
 *	now - depth       now            next
 *	     |-------------|--------------|------>	next: when what was sent is paid for at the rate in force
 *
 * A burst goes if next is not after now, and moves next on by what it takes at that rate.  A QP that was silent
 * may catch up by depth at most.  Requests and responses of READs wait; ACKs and results of atomics do not,
 * but count.
 */
#ifndef PROTO_RATE_H
#define PROTO_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "heap.h"

struct hca;
struct qp;

struct rate {
	uint32_t limit; /* kbit/s, the program's; 0: none */
	uint32_t cut;   /* kbit/s, of congestion; 0: none */
	uint32_t burst; /* bytes at once, at most; 0: what goes in a millisecond */
	mono_t next;
	struct timer timer; /* runs while something waits */
};

/* kbit/s in force; 0: none. */
static inline uint32_t rate_kbps(const struct rate *r)
{
	return r->limit && (!r->cut || r->limit < r->cut) ? r->limit : r->cut;
}

/* These two are for a QP that has a rate.  May it send now?  false: it is made ready when it may. */
bool rate_may(struct hca *, struct qp *);
/* Packets of the QP's MTU that may go in one burst, of n. */
uint32_t rate_fit(const struct qp *, uint32_t n);
/* A burst of n packets with len bytes of payload goes; the QP has a rate, or a path that is not local. */
void rate_sent(struct hca *, struct qp *, uint32_t n, uint64_t len);
/* 0: no limit.  QPs that wait for the old one are looked at again. */
void rate_limit(struct hca *, struct qp *, uint32_t kbps, uint32_t burst);
void rate_cut(struct hca *, struct qp *, uint32_t kbps);
bool rate_cnp(struct hca *, struct qp *); /* its peer said that the way is congested; false: it cannot know */
void rate_timer(struct hca *, struct qp *);

#endif
