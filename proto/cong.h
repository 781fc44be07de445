/* SPDX-License-Identifier: MIT */
/*
 * cong.h - how fast a QP may send once its peer has said that the network on the way is congested (CNP).
 *
 * There is no limit at first.  The first CNP sets one, from what was really sent recently; the rest is DCQCN as it was
 * published (Zhu and others, "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015) and as adapters have it.
 * Section 8 of protocol.md has the source of each number below, and says why it is the paper's, the adapters' or neither's:
 * where these two differ, it is the one that comes back more slowly, so a QP here takes no more of a link that it shares with
 * one of theirs.
 *
 *	CNP, once in cut_ns		target = limit;  limit -= limit * alpha / 2;  alpha += (1 - alpha) / gain
 *	timer_ns gone by		a stage of the timer;  alpha -= alpha / gain
 *	bytes sent			a stage of the byte counter
 *	with each stage of either	limit = (limit + target) / 2, but before that,
 *	  both up to fast		  nothing: fast recovery, half of what is missing each time
 *	  one beyond it			  target += ai: additive increase
 *	  both beyond it		  target += hai times how far the lesser one is: hyper increase
 *
 *	rate
 *	 start |----.              . . . no limit
 *	       |    |     ______..'
 *	       |    | .-''   fast recovery; then on, slowly at first
 *	       |    |'
 *	       +----CNP------------------> time
 *
 * A CNP has no PSN, so anybody who can send in the peer's name can forge one.  It counts only if it can be an answer: to
 * a packet with data that may be marked, not long ago, which no other CNP is an answer to.  A receiver never says more, however
 * slow the QP is; who forges does, once it has become slow.  From then on, for CONG_DOUBT_NS, each one that counts takes
 * CONG_PKTS packets since the last one: so floods slow the QP down, but not to nothing, and a QP whose traffic class does not
 * allow marks not at all.  What remains: who sees the QP's packets, or guesses well how many there are, and sends one CNP for each,
 * never more, cannot be told from a receiver, and holds a QP that allows marks at the least rate, 8 Mbit/s, as long as he goes on.
 *
 * alpha is 1 at the start: the first CNP halves.  At twice the rate it started from the limit is gone; if the rate of the line
 * is known, it starts from that, never goes beyond it, and stays.  No timer runs for it: the stages that are over are made up for
 * when the QP is about to send (rate.h).
 */
#ifndef PROTO_CONG_H
#define PROTO_CONG_H

#include <stdbool.h>
#include <stdint.h>

#include "mono.h"

/* The numbers of the law.  Rates are in kbit/s. */
struct cong_law {
	uint32_t cut_ns;   /* CNPs in so long count as one */
	uint32_t timer_ns; /* of a stage of the timer */
	uint32_t bytes;    /* of a stage of the byte counter */
	uint32_t fast;     /* stages of fast recovery */
	uint32_t ai, hai;  /* the steps of additive increase, and of hyper increase */
	uint32_t gain;     /* alpha moves by 1/gain of what is missing */
	uint32_t min;      /* never less */
	uint32_t line;     /* 0: not known */
};

extern const struct cong_law cong_law; /* the daemon's */

#define CONG_MOST     500000000u /* kbit/s: never more, where no line is known */
#define CONG_PKTS     16u
#define CONG_OPEN     64u         /* packets that CNPs may still come for: those of one that slows down are under way */
#define CONG_AGE_NS   2000000000u /* an answer to older packets has been lost */
#define CONG_DOUBT_NS 10000000000u

struct cong {
	uint32_t limit; /* kbit/s; 0: none */
	uint32_t target, start;
	uint32_t alpha;        /* of CONG_ONE */
	uint32_t timer, bytes; /* stages since the last CNP */
	uint64_t counted;      /* bytes of the stage that goes on */
	mono_t stepped;        /* when the last stage of the timer was over */
	mono_t cut;            /* the last CNP that counted */
	uint64_t sent;         /* the meter: bytes since then; kbit/s before */
	uint32_t seen;
	mono_t since;
	uint32_t marked_n; /* packets that may have been marked, since the last CNP that counted, CONG_PKTS at most */
	uint32_t open;     /* and those that no CNP has come for, CONG_OPEN at most */
	mono_t marked_at;  /* the last of them */
	mono_t doubt;      /* until then somebody may be forging */
};

#define CONG_ONE (1u << 20)

void cong_sent(struct cong *, const struct cong_law *, mono_t now, uint64_t n); /* may change the limit, or end it */
void cong_markable(struct cong *, mono_t now, uint32_t n);                      /* packets that may be marked go */
/* The stages that are over are made up for: the limit now. */
uint32_t cong_recover(struct cong *, const struct cong_law *, mono_t now);
/* A CNP came.  Behind cong_recover(). */
enum cong_cnp { CONG_CUT, CONG_SAME /* it counts as one with the last */, CONG_STRANGE /* it is no answer */ };
enum cong_cnp cong_cnp(struct cong *, const struct cong_law *, mono_t now);

#endif
