/* SPDX-License-Identifier: MIT */
/*
 * litmus.c - the races that include/rdmad/ring.h exists for, one moment at a time: two threads meet at a
 * gate, each takes its steps once, both meet again, and the outcome that must never be is looked for.
 *
 *	program                         daemon
 *	publish; bell_ring() = kick?    bell_sleep(); bell_any() = work?      not: neither
 *	publish; bell_ring(), bit set   bell_take(); ring_used()              not: unseen, and no bit left
 *	publish; bell_ring(), sum set   bell_take() of sum and word           not: word not taken, and no sum left
 *	publish; bell_ring(), bit set   the same; bell_sleep(); bell_any()    not: unseen, no bit left, no kick
 *	publish; bell_ring(), asleep    bell_wake(); bell_take(); ring_used() not: unseen, and no bit left
 *	publish; bell_note() = kick?    bell_away(); bell_sleep(); bell_any() = work?        not: neither
 *	publish; bell_note() = kick?    ring_state() of ERR, then bell_any() = work?         not: neither
 *	bell_ring(), kick; bell_kicked() in one thread, bell_ring() = kick? in another       not: no kick was made before it returns
 *	cq_arm(); ring_used() = work?   publish; cq_fire() = event?           not: neither
 *	word_sleep(); ring_used() = work? publish; cq_fire(); word_sleeps() = wake?          not: neither, by naps and by dozes
 */
#include "config.h"

#include <rdmad/ring.h>

#include "t/suite.h"
#include "t/turn.h"

#include <pthread.h>
#include <stdlib.h>

/* A sanitizer, or an emulator, makes moments which must meet far apart: each is there for what it finds itself, and soon. */
#ifdef REPEATS_LESS
#define ROUNDS 50000u
#else
#define ROUNDS 500000u
#endif
#define MOST_NS   5000000000 /* on a machine with more to do than this there are fewer, */
#define LEAST     2000u      /* but so many */
#define LOOK_EACH 256u       /* rounds: at the clock */
#define QUEUE     77u

static struct bell bell;
static struct ring prod, cons; /* of the program's and the daemon's side, or the other way round */
static bool left_saw, right_saw;
static uint32_t seen;

struct litmus {
	void (*setup)(void); /* alone */
	void (*left)(void);  /* the program */
	void (*right)(void); /* the daemon */
	bool (*ok)(void);    /* alone */
};

/* ---- two threads in step ------------------------------------------------- */

static uint32_t gate[2];
static bool last; /* this round is: written before its first meeting, read before its second one */

static void meet(int me, uint32_t round)
{
	RING_STORE(&gate[me], round);
	for (unsigned spins = 0; (int32_t)(RING_LOAD(&gate[!me]) - round) < 0; spins++)
		if (spins > 300)
			turn_away();
}

/* The meeting is not at the same instant: each side waits some moments more, others each time. */
static void jitter(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	for (uint32_t i = *seed >> 26; i; i--)
		__asm__ volatile("" ::: "memory");
}

static void *left_side(void *arg)
{
	const struct litmus *l = arg;
	uint32_t seed = 1;
	bool ends = false;

	for (uint32_t i = 0; !ends; i++) {
		meet(0, 2 * i + 1);
		ends = last;
		jitter(&seed);
		l->left();
		meet(0, 2 * i + 2);
	}
	return NULL;
}

static void run(const struct litmus *l)
{
	const int64_t began = turn_clock();
	uint32_t seed = 2, bad = 0, n = 0;
	void *mem = aligned_alloc(256, 1024);
	pthread_t t;

	ck_assert_ptr_nonnull(mem);
	*(struct ring_hdr *)mem = (struct ring_hdr){ .slots = 16 };
	ring_attach(&prod, mem, 16, 8);
	ring_attach(&cons, mem, 16, 8);
	gate[0] = gate[1] = 0;
	last = false;
	ck_assert_int_eq(pthread_create(&t, NULL, left_side, (void *)(uintptr_t)l), 0);
	for (; !last; n++) {
		last = n + 1 == ROUNDS || (n >= LEAST && n % LOOK_EACH == 0 && turn_clock() - began > MOST_NS);
		l->setup();
		meet(1, 2 * n + 1);
		jitter(&seed);
		l->right();
		meet(1, 2 * n + 2);
		bad += !l->ok();
	}
	pthread_join(t, NULL);
	free(mem);
	ck_assert_msg(!bad, "the forbidden outcome in %u of %u rounds", bad, n);
}

/* ---- falling asleep ------------------------------------------------------ */

static void bell_clear(void)
{
	bell_wake(&bell);
	bell_take(bell_sum(&bell, QUEUE >> 12));
	bell_take(&bell.word[QUEUE >> 6]);
	ring_consume(&cons, ring_used(&cons));
}

static void post_and_ring(void)
{
	ring_publish(&prod, 1);
	left_saw = bell_ring(&bell, QUEUE);
}

static void sleep_or_not(void)
{
	bell_sleep(&bell, BELL_FD);
	right_saw = bell_any(&bell, BELL_QUEUES);
}

static bool kicked_or_awake(void) { return left_saw || right_saw; }

START_TEST(sleep_against_ring)
{
	static const struct litmus l = { bell_clear, post_and_ring, sleep_or_not, kicked_or_awake };

	run(&l);
}
END_TEST

/* ---- a bell that is still ringing ---------------------------------------- */

static void bell_rung(void)
{
	bell_clear();
	bell_ring(&bell, QUEUE);
}

static void take_and_look(void)
{
	bell_take(bell_sum(&bell, QUEUE >> 12));
	bell_take(&bell.word[QUEUE >> 6]);
	seen = ring_used(&cons);
}

static bool seen_or_rung(void) { return seen == 1 || bell_any(&bell, BELL_QUEUES); }

START_TEST(take_against_ring)
{
	static const struct litmus l = { bell_rung, post_and_ring, take_and_look, seen_or_rung };

	run(&l);
}
END_TEST

/* The word was taken by a turn that came for another queue of it, and the sum of that time is left. */
static void sum_left(void)
{
	bell_rung();
	bell_take(&bell.word[QUEUE >> 6]);
}

static void take_and_look_if_rung(void)
{
	bell_take(bell_sum(&bell, QUEUE >> 12));
	seen = bell_take(&bell.word[QUEUE >> 6]) ? ring_used(&cons) : 0;
}

START_TEST(sum_against_word)
{
	static const struct litmus l = { sum_left, post_and_ring, take_and_look_if_rung, seen_or_rung };

	run(&l);
}
END_TEST

/* ---- one context of many falls idle, or wakes up as something came for it ------------ */

static void take_look_and_sleep(void)
{
	take_and_look();
	sleep_or_not();
}

static bool seen_or_kicked(void) { return seen == 1 || left_saw || right_saw; }

START_TEST(idle_against_ring)
{
	static const struct litmus l = { bell_rung, post_and_ring, take_look_and_sleep, seen_or_kicked };

	run(&l);
}
END_TEST

static void bell_asleep(void)
{
	bell_clear();
	bell_sleep(&bell, BELL_FD);
}

static void wake_take_and_look(void)
{
	bell_wake(&bell);
	take_and_look();
}

START_TEST(wake_against_ring)
{
	static const struct litmus l = { bell_asleep, post_and_ring, wake_take_and_look, seen_or_rung };

	run(&l);
}
END_TEST

/* ---- receives, for which nobody is woken ---------------------------------------------- */

static void works(void)
{
	ring_state(prod.hdr, QPS_RTS);
	bell_away(&bell, false);
	bell_clear();
}

static void works_asleep(void)
{
	works();
	bell_sleep(&bell, BELL_FD);
}

static void post_and_note(void)
{
	ring_publish(&prod, 1);
	left_saw = bell_note(&bell, QUEUE, prod.hdr);
}

static void forget(void)
{
	bell_away(&bell, true);
	sleep_or_not();
}

static void err(void)
{
	ring_state(prod.hdr, QPS_ERR);
	right_saw = bell_any(&bell, BELL_QUEUES);
}

static void err_and_sleep(void)
{
	ring_state(prod.hdr, QPS_ERR);
	sleep_or_not();
}

START_TEST(forget_against_note)
{
	static const struct litmus l = { works, post_and_note, forget, kicked_or_awake };

	run(&l);
}
END_TEST

START_TEST(error_against_note)
{
	static const struct litmus awake = { works, post_and_note, err_and_sleep, kicked_or_awake };
	static const struct litmus asleep = { works_asleep, post_and_note, err, kicked_or_awake };

	run(&awake);
	run(&asleep);
}
END_TEST

/* ---- two threads of a program ring, one of them kicks ---------------------------------- */

static uint32_t was_kicked; /* the kernel's: a kick is over */

static void bell_asleep_unkicked(void)
{
	bell_asleep();
	was_kicked = 0;
}

static void ring_and_kick(uint32_t queue, unsigned pause)
{
	uint32_t answer = bell_ring(&bell, queue);

	while (pause--)
		__asm__ volatile("" ::: "memory");
	if (answer)
		RING_STORE(&was_kicked, 1);
	bell_kicked(&bell, answer);
}

static void ring_slowly(void) { ring_and_kick(QUEUE, 300); }

static void ring_and_tell_peer(void)
{
	ring_and_kick(QUEUE + 1, 0);
	right_saw = RING_LOAD(&was_kicked);
}

static bool peer_is_told_late(void) { return right_saw; }

START_TEST(ring_against_ring)
{
	static const struct litmus l = { bell_asleep_unkicked, ring_slowly, ring_and_tell_peer, peer_is_told_late };

	run(&l);
}
END_TEST

/* ---- arming -------------------------------------------------------------- */

static void disarm(void)
{
	cq_fire(prod.hdr, true);
	ring_consume(&cons, ring_used(&cons));
}

static void arm_and_look(void)
{
	cq_arm(cons.hdr, CQ_ARM_ANY);
	left_saw = ring_used(&cons);
}

static void complete_and_fire(void)
{
	ring_publish(&prod, 1);
	right_saw = cq_fire(prod.hdr, false);
}

START_TEST(arm_against_completion)
{
	static const struct litmus l = { disarm, arm_and_look, complete_and_fire, kicked_or_awake };

	run(&l);
}
END_TEST

/* ---- a nap ----------------------------------------------------------------- */

static void up(void)
{
	word_sleeps(&bell.naps);
	ring_consume(&cons, ring_used(&cons));
}

static void nap_and_look(void)
{
	word_sleep(&bell.naps);
	left_saw = ring_used(&cons);
}

static void complete_and_wake(void)
{
	ring_publish(&prod, 1);
	cq_fire(prod.hdr, false);
	right_saw = word_sleeps(&bell.naps);
}

START_TEST(nap_against_completion)
{
	static const struct litmus l = { up, nap_and_look, complete_and_wake, kicked_or_awake };

	run(&l);
}
END_TEST

static void doze_and_look(void)
{
	word_sleep(&cons.hdr->dozes);
	left_saw = ring_used(&cons);
}

static void complete_and_rouse(void)
{
	ring_publish(&prod, 1);
	cq_fire(prod.hdr, false);
	right_saw = word_sleeps(&prod.hdr->dozes);
}

static void roused(void)
{
	word_sleeps(&prod.hdr->dozes);
	ring_consume(&cons, ring_used(&cons));
}

START_TEST(doze_against_completion)
{
	static const struct litmus l = { roused, doze_and_look, complete_and_rouse, kicked_or_awake };

	run(&l);
}
END_TEST

TEST_MAIN("litmus", sleep_against_ring, take_against_ring, sum_against_word, idle_against_ring, wake_against_ring,
	  forget_against_note, error_against_note, ring_against_ring, arm_against_completion, nap_against_completion,
	  doze_against_completion)
