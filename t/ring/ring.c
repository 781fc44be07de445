/* SPDX-License-Identifier: MIT */
/*
 * ring.c - include/rdmad/ring.h between threads: rings that are full, empty and wrap; bells rung by several
 * programs' threads while the daemon falls asleep; CQs armed while completions arrive.
 *
 * Slots are plain memory, so that ThreadSanitizer sees every ordering that is missing.  A wake-up that is
 * lost shows as a sleep that nobody ends: the sleeper gives up after LOST_MS and the test has failed.
 */
#include <rdmad/ring.h>

#include "t/suite.h"
#include "t/turn.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOST_MS 20000
#define SLOTS   64u

static uint32_t rnd(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void kick(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, 8) != 8)
		abort();
}

/* Sleeps until somebody kicks; false: nobody did. */
static bool await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t n;

	if (poll(&p, 1, LOST_MS) != 1)
		return false;
	if (read(fd, &n, 8) != 8)
		abort();
	return true;
}

/* A ring with both its private sides, its indices starting at a number of choice. */
struct pair {
	void *mem;
	struct ring prod, cons;
};

static void pair_init(struct pair *p, uint32_t start)
{
	size_t len = ring_bytes(SLOTS, sizeof(uint64_t));

	p->mem = aligned_alloc(256, (len + 255) / 256 * 256);
	ck_assert_ptr_nonnull(p->mem);
	ring_attach(&p->prod, p->mem, SLOTS, sizeof(uint64_t));
	ring_attach(&p->cons, p->mem, SLOTS, sizeof(uint64_t));
	*p->prod.hdr = (struct ring_hdr){ .slots = SLOTS, .prod = start, .cons = start };
	p->prod.pos = p->prod.seen = p->cons.pos = p->cons.seen = start;
}

/* Puts the numbers from *next on into free slots, as many as fit up to max; how many. */
static uint32_t put_some(struct ring *r, uint64_t *next, uint32_t max)
{
	uint32_t n = ring_room(r);

	n = n < max ? n : max;
	for (uint32_t i = 0; i < n; i++)
		*(uint64_t *)ring_slot(r, r->pos + i) = (*next)++;
	if (n)
		ring_publish(r, n);
	return n;
}

/* Takes up to max; they must be the numbers from *next on.  UINT32_MAX: they were not. */
static uint32_t take_some(struct ring *r, uint64_t *next, uint32_t max)
{
	uint32_t n = ring_used(r);

	if (n > SLOTS)
		return UINT32_MAX;
	n = n < max ? n : max;
	for (uint32_t i = 0; i < n; i++)
		if (*(uint64_t *)ring_slot(r, r->pos + i) != (*next)++)
			return UINT32_MAX;
	if (n)
		ring_consume(r, n);
	return n;
}

/* ---- the ring alone ------------------------------------------------------ */

#define STREAM 2000000u

static void *stream_producer(void *arg)
{
	struct ring *r = arg;
	uint64_t next = 0;
	uint32_t seed = 1;

	while (next < STREAM) {
		uint64_t left = STREAM - next;
		uint32_t max = 1 + rnd(&seed) % 70;

		if (!put_some(r, &next, left < max ? (uint32_t)left : max))
			turn_away();
	}
	return NULL;
}

START_TEST(stream)
{
	static const uint32_t starts[] = { 0, UINT32_MAX - 1000 };

	for (int k = 0; k < 2; k++) {
		struct pair p;
		pthread_t t;
		uint64_t next = 0;
		uint32_t seed = 2;

		pair_init(&p, starts[k]);
		ck_assert_int_eq(pthread_create(&t, NULL, stream_producer, &p.prod), 0);
		while (next < STREAM) {
			uint32_t n = take_some(&p.cons, &next, 1 + rnd(&seed) % 70);

			ck_assert_uint_ne(n, UINT32_MAX);
			if (!n)
				turn_away();
		}
		pthread_join(t, NULL);
		ck_assert_uint_eq(ring_used(&p.cons), 0);
		ck_assert_uint_eq(p.cons.pos, starts[k] + STREAM);
		free(p.mem);
	}
}
END_TEST

START_TEST(full_and_empty)
{
	struct pair p;
	uint64_t in = 0, out = 0;

	pair_init(&p, UINT32_MAX - 10);
	ck_assert_uint_eq(ring_room(&p.prod), SLOTS);
	ck_assert_uint_eq(ring_used(&p.cons), 0);
	ck_assert_uint_eq(put_some(&p.prod, &in, 1000), SLOTS);
	ck_assert_uint_eq(ring_room(&p.prod), 0);
	ck_assert_uint_eq(ring_used(&p.cons), SLOTS);
	ck_assert_uint_eq(take_some(&p.cons, &out, 3), 3);
	ck_assert_uint_eq(ring_room(&p.prod), 3);
	ck_assert_uint_eq(put_some(&p.prod, &in, 1000), 3);
	ck_assert_uint_eq(take_some(&p.cons, &out, 1000), SLOTS);
	ck_assert_uint_eq(out, SLOTS + 3);
	free(p.mem);
}
END_TEST

/* The other side may write anything; neither side may be led out of the ring. */
START_TEST(nonsense_indices)
{
	struct pair p;

	pair_init(&p, 0);
	for (uint32_t bit = 0; bit < 32; bit++) {
		uint32_t v = 1u << bit;

		p.prod.hdr->prod = v;
		ck_assert_uint_eq(ring_used(&p.cons), v <= SLOTS ? v : UINT32_MAX);
		p.prod.hdr->prod = -v;
		ck_assert_uint_eq(ring_used(&p.cons), UINT32_MAX);

		p.prod.pos = p.prod.seen = 0;
		p.prod.pos = SLOTS;
		p.prod.hdr->cons = SLOTS + v; /* has read what was not written yet */
		ck_assert_uint_eq(ring_room(&p.prod), 0);
		p.prod.hdr->cons = SLOTS - v;
		ck_assert_uint_le(ring_room(&p.prod), SLOTS);
	}
	free(p.mem);
}
END_TEST

/* ---- the bell ------------------------------------------------------------ */

/* The first and the last queue, neighbours in a word, in a sum, and in another sum. */
static const uint32_t queues[] = { 0, 1, 63, 64, 4096, 65535 };
#define QUEUES   6
#define PROGRAMS 3      /* threads; each owns two of the queues */
#define POSTS    30000u /* per queue */

static struct bell bell;
static int bell_fd;
static struct pair sq[QUEUES];
static bool program_stop;
static unsigned kicks;

/* A program acts on the answer of bell_ring(). */
static bool bell_kick(uint32_t answer)
{
	uint32_t how = answer & BELL_HOW;

	if (how == BELL_FD)
		kick(bell_fd);
	else if (how == BELL_FUTEX)
		syscall(SYS_futex, &bell.idle, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	bell_kicked(&bell, answer);
	return how != BELL_AWAKE;
}

/* Sleeps until somebody does; false: nobody did. */
static bool bell_await(enum bell_idle how)
{
	static const struct timespec limit = { LOST_MS / 1000, 0 };

	if (how == BELL_FD)
		return await(bell_fd);
	return !syscall(SYS_futex, &bell.idle, FUTEX_WAIT_PRIVATE, BELL_FUTEX, &limit, NULL, 0) || errno != ETIMEDOUT;
}

/* Has all that was posted to this queue been taken? */
static bool taken(struct ring *r) { return RING_LOAD(&r->hdr->cons) == r->pos; }

/*
 * Posts and rings; after some posts waits until the daemon took everything, which gives it the time to fall asleep
 * and makes the next bell the one that counts.
 */
static void *program(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	uint32_t seed = 77 + me;
	uint64_t next[2] = { 0 };

	while (next[0] < POSTS || next[1] < POSTS) {
		unsigned which = rnd(&seed) & 1, q = me * 2 + which;
		uint64_t left = POSTS - next[which];
		uint32_t max = rnd(&seed) % 4 ? 1 : 1 + rnd(&seed) % SLOTS;

		if (!left)
			continue;
		if (put_some(&sq[q].prod, &next[which], left < max ? (uint32_t)left : max) &&
		    bell_kick(bell_ring(&bell, queues[q])))
			__atomic_fetch_add(&kicks, 1, __ATOMIC_RELAXED);
		if (rnd(&seed) % 2)
			while (!taken(&sq[q].prod) && !__atomic_load_n(&program_stop, __ATOMIC_RELAXED))
				turn_away();
		if (__atomic_load_n(&program_stop, __ATOMIC_RELAXED))
			break;
	}
	return NULL;
}

/* The queue of the test that has this number; QUEUES: none, a bit that nobody set. */
static unsigned queue_of(uint32_t number)
{
	unsigned q = 0;

	while (q < QUEUES && queues[q] != number)
		q++;
	return q;
}

/* One turn of the daemon: all bits taken, their rings drained.  How many posts; UINT32_MAX: something is wrong. */
static uint32_t daemon_turn(uint64_t *next)
{
	uint32_t all = 0;

	for (uint32_t s = 0; s < BELL_QUEUES / 4096; s++) {
		for (uint64_t words = bell_take(bell_sum(&bell, s)); words; words &= words - 1) {
			uint32_t w = s * 64 + (uint32_t)__builtin_ctzll(words);

			for (uint64_t bits = bell_take(&bell.word[w]); bits; bits &= bits - 1) {
				unsigned q = queue_of(w * 64 + (uint32_t)__builtin_ctzll(bits));
				uint32_t n = q < QUEUES ? take_some(&sq[q].cons, &next[q], SLOTS) : UINT32_MAX;

				if (n == UINT32_MAX)
					return n;
				all += n;
			}
		}
	}
	return all;
}

static void bell_rings(enum bell_idle how)
{
	pthread_t t[PROGRAMS];
	uint64_t next[QUEUES] = { 0 };
	uint32_t n, all = 0;
	unsigned slept = 0;
	bool lost = false;

	kicks = 0;
	bell_fd = eventfd(0, EFD_CLOEXEC);
	for (unsigned q = 0; q < QUEUES; q++)
		pair_init(&sq[q], UINT32_MAX - q * 100);
	for (unsigned i = 0; i < PROGRAMS; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, program, (void *)(uintptr_t)i), 0);

	while (all < QUEUES * POSTS && !lost) {
		n = daemon_turn(next);
		if (n == UINT32_MAX)
			break;
		all += n;
		if (n || all == QUEUES * POSTS)
			continue;
		bell_sleep(&bell, how);
		if (!bell_any(&bell, BELL_QUEUES)) {
			slept++;
			lost = !bell_await(how);
		}
		bell_wake(&bell);
	}
	__atomic_store_n(&program_stop, all < QUEUES * POSTS, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < PROGRAMS; i++)
		pthread_join(t[i], NULL);
	ck_assert_msg(!lost, "asleep with %u of %u posts taken", all, QUEUES * POSTS);
	ck_assert_uint_eq(all, QUEUES * POSTS);
	ck_assert_uint_gt(slept, 0);
	ck_assert_uint_gt(kicks, 0);
	for (unsigned q = 0; q < QUEUES; q++)
		free(sq[q].mem);
	close(bell_fd);
}

START_TEST(bell_is_never_lost) { bell_rings(BELL_FD); }
END_TEST

START_TEST(futex_is_never_lost) { bell_rings(BELL_FUTEX); }
END_TEST

/* A sleeper is kicked until a kick was made, however many ring; one that is awake, not at all. */
START_TEST(one_kick_for_a_sleep)
{
	static struct bell b;
	uint32_t first, second;

	ck_assert(!bell_ring(&b, 7));
	ck_assert(bell_any(&b, BELL_QUEUES));
	ck_assert_uint_eq(bell_take(bell_sum(&b, 0)), 1);
	ck_assert_uint_eq(bell_take(&b.word[0]), 1 << 7);
	ck_assert(!bell_any(&b, BELL_QUEUES));
	bell_sleep(&b, BELL_FD);
	first = bell_ring(&b, 65535);
	ck_assert_uint_eq(first & (BELL_HOW | BELL_KICKING), BELL_FD | BELL_KICKING);
	ck_assert_uint_eq(bell_ring(&b, 65535), BELL_FD); /* the first one is still at it */
	bell_kicked(&b, BELL_FD);
	ck_assert_uint_eq(bell_ring(&b, 0), BELL_FD);
	bell_kicked(&b, first);
	ck_assert(!bell_ring(&b, 65535));
	bell_sleep(&b, BELL_FUTEX);
	ck_assert(bell_sleeps(&b, BELL_FUTEX));
	first = bell_ring(&b, 0);
	ck_assert(!bell_sleeps(&b, BELL_FUTEX));
	bell_wake(&b);
	bell_sleep(&b, BELL_FUTEX);
	second = bell_ring(&b, 0);
	bell_kicked(&b, first); /* of an earlier sleep: not the kick that is awaited now */
	ck_assert_uint_eq(bell_ring(&b, 0), BELL_FUTEX);
	bell_kicked(&b, second);
	ck_assert(!bell_ring(&b, 0));
	ck_assert_uint_eq(bell_take(bell_sum(&b, 15)), 1ull << 63);
	ck_assert_uint_eq(bell_take(&b.word[1023]), 1ull << 63);
	bell_sleep(&b, BELL_FD);
	ck_assert(bell_any(&b, BELL_QUEUES));
	bell_wake(&b);
	ck_assert(!bell_ring(&b, 1));
}
END_TEST

/* ---- a CQ's arm word ----------------------------------------------------- */

#define COMPLETIONS     100000u
#define SOLICITED_EVERY 7u

static struct pair cq;
static int cq_fd;
static unsigned fired;
static bool stop;

static bool solicited(uint64_t i) { return i % SOLICITED_EVERY == SOLICITED_EVERY - 1 || i == COMPLETIONS - 1; }

/* The daemon: publishes completions in ones and fews, and lets the program catch up now and then. */
static void *completer(void *)
{
	uint64_t next = 0;
	uint32_t seed = 5;

	while (next < COMPLETIONS && !__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint64_t left = COMPLETIONS - next, first = next;
		uint32_t max = rnd(&seed) % 3 ? 1 : 1 + rnd(&seed) % SLOTS;
		bool any = false;

		if (!put_some(&cq.prod, &next, left < max ? (uint32_t)left : max)) {
			turn_away();
			continue;
		}
		while (first < next)
			any |= solicited(first++);
		if (cq_fire(cq.prod.hdr, any)) {
			fired++;
			kick(cq_fd);
		}
		if (rnd(&seed) % 2)
			for (int i = 0; i < 50 && !taken(&cq.prod); i++)
				turn_away();
	}
	return NULL;
}

/* How many; UINT32_MAX: a wrong one. */
static uint32_t drain(uint64_t *next)
{
	uint32_t n, all = 0;

	while ((n = take_some(&cq.cons, next, SLOTS)) && n != UINT32_MAX)
		all += n;
	return n ? n : all;
}

/*
 * The program: drains, arms, drains again, waits - as ibv_req_notify_cq() wants it.  A full ring stops the
 * completer, so a program that waits for a solicited completion only must drain when it is woken, and the
 * ring must hold more than SOLICITED_EVERY.
 */
static void arm_and_wait(uint32_t how)
{
	uint64_t next = 0;
	unsigned armed = 0, waited = 0;
	bool lost = false;
	uint32_t n = 0;
	pthread_t t;

	_Static_assert(SLOTS > 2 * SOLICITED_EVERY, "else waiting for a solicited completion can be for ever");
	cq_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	fired = 0;
	stop = false;
	pair_init(&cq, UINT32_MAX - 5000);
	ck_assert_int_eq(pthread_create(&t, NULL, completer, NULL), 0);
	while (!lost && (n = drain(&next)) != UINT32_MAX && next < COMPLETIONS) {
		cq_arm(cq.cons.hdr, how);
		armed++;
		n = drain(&next);
		if (n == UINT32_MAX || next == COMPLETIONS)
			break;
		waited++;
		lost = !await(cq_fd);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	ck_assert_uint_ne(n, UINT32_MAX);
	ck_assert_msg(!lost, "armed, and no event came: %u of %u", (unsigned)next, COMPLETIONS);
	ck_assert_uint_eq(next, COMPLETIONS);
	ck_assert_uint_le(fired, armed);
	ck_assert_uint_gt(waited, 0);
	free(cq.mem);
	close(cq_fd);
}

START_TEST(any_event_is_never_lost) { arm_and_wait(CQ_ARM_ANY); }
END_TEST

START_TEST(solicited_event_is_never_lost) { arm_and_wait(CQ_ARM_SOLICITED); }
END_TEST

START_TEST(arm_rules)
{
	struct pair p;
	struct ring_hdr *h;

	pair_init(&p, 0);
	h = p.cons.hdr;
	ck_assert(!cq_fire(h, true));
	cq_arm(h, CQ_ARM_SOLICITED);
	ck_assert(!cq_fire(h, false));
	ck_assert(cq_fire(h, true));
	ck_assert(!cq_fire(h, true));
	cq_arm(h, CQ_ARM_ANY);
	cq_arm(h, CQ_ARM_SOLICITED); /* the stronger request stays */
	ck_assert(cq_fire(h, false));
	ck_assert(!cq_fire(h, true));
	cq_arm(h, CQ_ARM_SOLICITED);
	cq_arm(h, CQ_ARM_ANY);
	ck_assert(cq_fire(h, false));
	free(p.mem);
}
END_TEST

TEST_MAIN("ring", stream, full_and_empty, nonsense_indices, bell_is_never_lost, futex_is_never_lost,
	  one_kick_for_a_sleep, any_event_is_never_lost, solicited_event_is_never_lost, arm_rules)
