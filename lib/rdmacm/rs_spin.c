/* SPDX-License-Identifier: MIT */
/*
 * rs_spin.c - before a thread sleeps it looks for news for a while, and gives the core away between two looks.
 *
 * To fall asleep and be woken takes 15 to 30 us, and a message passes three threads that would.  While all of them look, it is
 * 2 us for each.  It is a loss if nothing comes, or if a neighbour that computes keeps the core for longer than SLOW_NS.  So a
 * thread looks on credit: it loses an eighth of its time that way, and no more; to a neighbour, who will be there again, a
 * sixty-fourth.  One that met a neighbour twice in a row sleeps on the daemon's core until it has paid: once it may have been its peer,
 * with much to do.
 */
#include "rs.h"

#include <sched.h>

#include <rdmad/own.h>

enum {
	SHARE = 8,
	SPIN_NS = 50000,
	SLOW_NS = 1000000,
	SLOW_TIMES = 8,
	SLOW_MANY = 2,
	CREDIT_NS = SHARE * SPIN_NS,
	DEBT_NS = 64 * SLOW_NS
};

static _Thread_local struct {
	int64_t at;     /* the last time, CLOCK_MONOTONIC */
	int64_t credit; /* that may be lost; from -DEBT_NS to CREDIT_NS */
	unsigned slow;  /* so many looks in a row met a neighbour */
	bool met;       /* the last one did */
} me;

void rs_spin_begin(struct rs_spin *s)
{
	int64_t now = rs_now_ns();

	me.credit += (now - me.at) / SHARE;
	if (me.credit > CREDIT_NS)
		me.credit = CREDIT_NS;
	me.at = s->start = now;
	s->over = me.credit < SPIN_NS;
	if (s->over)
		return;
	if (!me.met)
		me.slow = 0;
	me.met = false;
}

static void lose(struct rs_spin *s, int64_t ns)
{
	me.credit = me.credit - ns < -DEBT_NS ? -DEBT_NS : me.credit - ns;
	s->over = true;
}

bool rs_spin_again(struct rs_spin *s, const struct rsock *rs)
{
	int64_t before, lost;

	if (s->over) {
		if (me.slow >= SLOW_MANY && me.credit < -SPIN_NS)
			rdmad_cq_join(rs->link.cq);
		return false;
	}
	before = rs_now_ns();
	if (before - s->start >= SPIN_NS) {
		lose(s, before - s->start);
		return false;
	}
	rdmad_cq_idle(rs->link.cq);
	sched_yield();
	lost = rs_now_ns() - before;
	if (lost >= SLOW_NS) {
		lose(s, SLOW_TIMES * lost); /* one more look */
		me.met = true;
		me.slow++;
	}
	return true;
}
