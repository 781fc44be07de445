/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the memory ordering between a program and the daemon, all of it.
 *
 * No other file but mail.h touches a shared word with an atomic.  Each function says which
 * side may call it.  A side that reads an index written by the other one gets a
 * number that may be anything: it must be checked (ring_used() does) before use.
 */
#ifndef RDMAD_RING_H
#define RDMAD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmad/abi.h>

#define RING_LOAD(p)     __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define RING_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

/*
 * Stores what the other side looks at, before a sequentially consistent load of what that side stores.  An exchange, which on
 * x86 such a store is, too: on ARM a store would do, but QEMU up to 7.2 at least lets the load go before it (doc/ordering.md).
 */
#define RING_SAY(p, v) ((void)__atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))

/* The private side of a ring: what one process knows without reading shared memory. */
struct ring {
	struct ring_hdr *hdr;
	uint8_t *slot0;
	uint32_t mask; /* slots - 1 */
	uint32_t stride;
	uint32_t pos;  /* producer: next slot to write; consumer: next slot to read */
	uint32_t seen; /* the other side's index, as last read */
};

/* So many slots has a queue for n entries; n at most 2^31. */
static inline uint32_t pow2_at_least(uint32_t n) { return n < 2 ? 1 : 1u << (32 - __builtin_clz(n - 1)); }

static inline size_t ring_bytes(uint32_t slots, uint32_t stride)
{
	return sizeof(struct ring_hdr) + (size_t)slots * stride;
}

/* Either side, over memory that is zero or holds a ring of just these measures. */
static inline void ring_attach(struct ring *r, void *mem, uint32_t slots, uint32_t stride)
{
	r->hdr = mem;
	r->slot0 = (uint8_t *)mem + sizeof(struct ring_hdr);
	r->mask = slots - 1;
	r->stride = stride;
	r->pos = 0;
	r->seen = 0;
}

static inline void *ring_slot(const struct ring *r, uint32_t i) { return r->slot0 + (size_t)(i & r->mask) * r->stride; }

/* Producer: free slots.  0 also if the consumer's index is nonsense. */
static inline uint32_t ring_room(struct ring *r)
{
	uint32_t used = r->pos - r->seen;

	if (used > r->mask || used > r->mask / 2) {
		r->seen = RING_LOAD(&r->hdr->cons);
		used = r->pos - r->seen;
	}
	return used > r->mask + 1 ? 0 : r->mask + 1 - used;
}

/* Producer: published slots that the consumer has not taken yet, as of now.  More than the ring has: nonsense. */
static inline uint32_t ring_behind(struct ring *r)
{
	r->seen = RING_LOAD(&r->hdr->cons);
	return r->pos - r->seen;
}

/* Producer of an SRQ: receives that have not completed.  More than were posted: nonsense. */
static inline uint32_t ring_undone(const struct ring *r) { return r->pos - RING_LOAD(&r->hdr->done); }

/* Producer: the slots written from pos on (n of them) are there to read. */
static inline void ring_publish(struct ring *r, uint32_t n)
{
	r->pos += n;
	RING_STORE(&r->hdr->prod, r->pos);
}

/*
 * Consumer: slots to read.  Never more than the ring has; UINT32_MAX if the producer's index is nonsense.
 * Sequentially consistent (for free on x86), so that a look after bell_take() sees what was published before the bell.
 */
static inline uint32_t ring_used(struct ring *r)
{
	uint32_t n;

	r->seen = __atomic_load_n(&r->hdr->prod, __ATOMIC_SEQ_CST);
	n = r->seen - r->pos;
	return n > r->mask + 1 ? UINT32_MAX : n;
}

/* Consumer: n slots have been read and may be written again. */
static inline void ring_consume(struct ring *r, uint32_t n)
{
	r->pos += n;
	RING_STORE(&r->hdr->cons, r->pos);
}

/* ---- the bell ---------------------------------------------------------- */

static inline uint64_t *bell_sum(struct bell *b, unsigned i) { return &b->sum[BELL_QUEUES / 4096 - 1 - i]; }

/*
 * bell_sleep(); bell_any() on one side, and on the other ring_publish(); bell_ring(): each side writes, then reads what the other
 * one writes, with a full barrier between.  So either the daemon finds the bell, and stays awake, or the program finds out that
 * it must kick.  As long as that kick is under way, who rings kicks, too: to return without would be to say that the daemon
 * knows, and a program tells its peer so.  A bit that was set already was not taken before that barrier, or is taken after it:
 * see ring_used().
 *
 * The two levels are a pair of the same kind: bell_ring() sets the word, then reads the sum; bell_take() clears the sum, then
 * reads the word.  All four are sequentially consistent, the loads, too (for free on x86): an exchange does not keep back a
 * plain load behind it on every processor, and a sum that is read as still set would leave a word that nobody looks at.
 */

/* Program: BELL_AWAKE, or how to kick (BELL_HOW); with BELL_KICKING bell_kicked() is to be called after it. */
static inline uint32_t bell_answer(struct bell *b)
{
	uint32_t mine, idle = __atomic_load_n(&b->idle, __ATOMIC_SEQ_CST);

	while (idle != BELL_AWAKE && !(idle & BELL_KICKING)) {
		mine = (idle & BELL_HOW) | BELL_KICKING |
		       __atomic_fetch_add(&b->kicks, 1, __ATOMIC_RELAXED) * (2 * BELL_KICKING);
		if (__atomic_compare_exchange_n(&b->idle, &idle, mine, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			return mine;
	}
	return idle & BELL_HOW;
}

/*
 * The kick that bell_ring() asked for has been made: from now on nobody else need.  If the daemon has been awake in between,
 * and is asleep once more, the number is not there any more, and the word stays what it is.
 */
static inline void bell_kicked(struct bell *b, uint32_t answer)
{
	if (answer & BELL_KICKING)
		__atomic_compare_exchange_n(&b->idle, &answer, BELL_AWAKE, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Program: there is something in queue q. */
static inline void bell_set(struct bell *b, uint32_t q)
{
	uint64_t wbit = 1ull << (q & 63), sbit = 1ull << ((q >> 6) & 63);
	uint64_t *word = &b->word[q >> 6], *sum = bell_sum(b, q >> 12);
	bool was = __atomic_load_n(word, __ATOMIC_RELAXED) & wbit;

	if (was) /* else to set it is a barrier, too */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!was || !(__atomic_load_n(word, __ATOMIC_SEQ_CST) & wbit))
		__atomic_fetch_or(word, wbit, __ATOMIC_SEQ_CST);
	if (!(__atomic_load_n(sum, __ATOMIC_SEQ_CST) & sbit))
		__atomic_fetch_or(sum, sbit, __ATOMIC_SEQ_CST);
}

/* Program, after ring_publish(): BELL_AWAKE, or the daemon does not look at this page, and how it must be kicked: bell_answer(). */
static inline uint32_t bell_ring(struct bell *b, uint32_t q)
{
	bell_set(b, q);
	return bell_answer(b);
}

/*
 * Program, after ring_publish() of receives: as bell_ring(), but the daemon may sleep on, as there is nothing to do until a message
 * comes, and then it looks here first (drain.c).  Not if it has forgotten this page, nor if the queue pair is in ERR, where
 * receives are flushed: the ring's header h says so, or else the daemon, which wrote that before it looked at the bells
 * (ring_state()), has found this one.
 */
static inline uint32_t bell_note(struct bell *b, uint32_t q, const struct ring_hdr *h)
{
	bool busy;

	bell_set(b, q);
	if (__atomic_load_n(&b->idle, __ATOMIC_SEQ_CST) == BELL_AWAKE)
		return BELL_AWAKE;
	busy = __atomic_load_n(&b->away, __ATOMIC_SEQ_CST) || __atomic_load_n(&h->err, __ATOMIC_SEQ_CST) == QPS_ERR;
	return busy ? bell_answer(b) : BELL_AWAKE;
}

/* Program, before bell_ring() of queue 0: the daemon is to look at this CQ.  false: it has not come for another one yet. */
static inline bool bell_ask(struct bell *b, uint32_t cq)
{
	uint32_t was = 0;

	return __atomic_compare_exchange_n(&b->ask, &was, cq, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) || was == cq;
}

/* Daemon: behind bell_take() of the first sum: that CQ, or 0. */
static inline uint32_t bell_asked(struct bell *b)
{
	return __atomic_load_n(&b->ask, __ATOMIC_RELAXED) ? __atomic_exchange_n(&b->ask, 0, __ATOMIC_SEQ_CST) : 0;
}

/* Daemon: takes the set bits of sum[i], then of word[w].  Clear first, look at the rings after. */
static inline uint64_t bell_take(uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST) ? __atomic_exchange_n(p, 0, __ATOMIC_SEQ_CST) : 0;
}

/* Words of sum[] that n queues, numbered from 0 on, can set. */
static inline unsigned bell_sums(uint32_t n) { return (n + 4095) / 4096; }

/* Daemon: is there anything of the first n queues?  After bell_sleep() this decides whether to look no more. */
static inline bool bell_any(struct bell *b, uint32_t n)
{
	for (unsigned i = 0; i < bell_sums(n); i++)
		if (__atomic_load_n(bell_sum(b, i), __ATOMIC_SEQ_CST))
			return true;
	return false;
}

/*
 * A word on which threads of a program sleep: naps of the bell page, dozes of a CQ.
 *
 * Program: what it waits for is looked for behind this, and then it sleeps as long as the word is 1.
 */
static inline void word_sleep(uint32_t *w)
{
	__atomic_store_n(w, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Daemon, behind ring_publish() and a fence, or the program: are there any to be woken? */
static inline bool word_sleeps(uint32_t *w)
{
	return __atomic_load_n(w, __ATOMIC_RELAXED) && __atomic_exchange_n(w, 0, __ATOMIC_SEQ_CST);
}

static inline void bell_sleep(struct bell *b, enum bell_idle how)
{
	__atomic_store_n(&b->idle, how, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Daemon: nobody has answered bell_sleep(), or it was undone by nobody. */
static inline bool bell_sleeps(const struct bell *b, enum bell_idle how)
{
	return __atomic_load_n(&b->idle, __ATOMIC_RELAXED) == (uint32_t)how;
}

/* Daemon, before bell_sleep(), or once it looks here again. */
static inline void bell_away(struct bell *b, bool away) { __atomic_store_n(&b->away, away, __ATOMIC_SEQ_CST); }

/* Daemon: the state of the queue pair, before it looks at the bells for the last time. */
static inline void ring_state(struct ring_hdr *h, uint32_t state) { RING_SAY(&h->err, state); }

static inline void bell_wake(struct bell *b) { __atomic_store_n(&b->idle, BELL_AWAKE, __ATOMIC_SEQ_CST); }

/* ---- the arm word of a CQ ---------------------------------------------- */

/* Program: ask for one event.  A stronger request stays. */
static inline void cq_arm(struct ring_hdr *h, uint32_t how)
{
	uint32_t old = __atomic_load_n(&h->arm, __ATOMIC_RELAXED);

	while (old < how && !__atomic_compare_exchange_n(&h->arm, &old, how, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Either side: an event is due; false: the other one has found that, too. */
static inline bool cq_disarm(struct ring_hdr *h)
{
	return __atomic_exchange_n(&h->arm, CQ_ARM_NONE, __ATOMIC_SEQ_CST) != CQ_ARM_NONE;
}

/* Daemon, after ring_publish(): true if an event is due.  solicited: some new completion is, or is an error. */
static inline bool cq_fire(struct ring_hdr *h, bool solicited)
{
	uint32_t old;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	old = __atomic_load_n(&h->arm, __ATOMIC_RELAXED);
	if (old == CQ_ARM_NONE || (old == CQ_ARM_SOLICITED && !solicited))
		return false;
	return cq_disarm(h);
}

#endif
