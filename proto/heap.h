/* SPDX-License-Identifier: MIT */
/*
 * heap.h - timers: a binary heap whose members are embedded in what they wake.
 *
 * Most timers are moved on before they fire (every ACK does it), so a later time only
 * changes timer.at; the heap sorts by timer.key, which is never later, and finds out when
 * the key comes up.  Only an earlier time moves a member at once.
 */
#ifndef PROTO_HEAP_H
#define PROTO_HEAP_H

#include <stdint.h>

#include "mono.h"

enum timer_of { TIMER_QP, TIMER_PATH, TIMER_PACE, TIMER_RATE };

struct timer {
	mono_t at;    /* when it fires; MONO_NEVER: it does not */
	mono_t key;   /* key in the heap, <= at */
	uint32_t pos; /* index in the heap plus 1; 0: not in it */
	uint8_t of;   /* enum timer_of: what it is embedded in */
};

struct heap {
	struct timer **v;
	uint32_t n, max;
};

int heap_reserve(struct heap *, uint32_t n); /* room for n timers in all; 0 or ENOMEM */
void heap_fini(struct heap *);

void timer_init(struct timer *);
void timer_set(struct heap *, struct timer *, mono_t at);
void timer_stop(struct timer *);               /* it stays in the heap until its key comes up */
void timer_del(struct heap *, struct timer *); /* before its memory goes away */

/* A timer that is due, stopped by this; NULL: none. */
struct timer *heap_due(struct heap *, mono_t now);

/* Not later than the next time that fires. */
static inline mono_t heap_next(const struct heap *h) { return h->n ? h->v[0]->key : MONO_NEVER; }

#endif
