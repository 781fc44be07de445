/* SPDX-License-Identifier: MIT */
/*
 * api_answer.c - programs that wait for their peer's answer in memory.  Where cores are few, the daemon keeps
 * completions back for them, and the library moves the thread that polls; neither may be seen but by the time it takes.
 * And that polls in vain give the core away, but do not toss it to and fro, and that they find what came meanwhile.
 */
#include "config.h"
#include "fixture.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdnoreturn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 20u
#define EVERY  4u /* empty polls, and the core is given away: lib/verbs/poll.c */

/* An answer that takes long: half a millisecond is (daemon/shard/answer.c). */
static void take_long(void) { nanosleep(&(struct timespec){ 0, 1000000 }, NULL); }

static void send_to(struct fix *f, struct ibv_qp *qp)
{
	ck_assert_int_eq(fix_write_to(f, qp, 0, (uintptr_t)f->buf + BUF_LEN - 8, f->mr->rkey, 8), 0);
}

/* From then on a completion of a waits for a message of b. */
static void play(struct fix *f, struct ibv_qp *a, struct ibv_qp *b)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		send_to(f, a);
		ck_assert_uint_eq(fix_wait_ok(f->cq).qp_num, a->qp_num);
		take_long();
		send_to(f, b);
		ck_assert_uint_eq(fix_wait_ok(f->cq).qp_num, b->qp_num);
	}
}

static void nothing_left(struct fix *f)
{
	struct ibv_wc wc;

	ck_assert_int_eq(ibv_poll_cq(f->cq, 1, &wc), 0);
}

START_TEST(without_answer)
{
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	play(&f, a, b);
	for (unsigned i = 0; i < ROUNDS; i++) { /* a no longer waits */
		send_to(&f, a);
		fix_wait_ok(f.cq);
	}
	nothing_left(&f);
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

/* The CQ gets another ring while something is kept. */
START_TEST(resized)
{
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	fix_pair(&f, &a, &b);
	for (unsigned i = 0; i < 4; i++) {
		play(&f, a, b);
		send_to(&f, a);
		ck_assert_int_eq(ibv_resize_cq(f.cq, i % 2 ? 64 : 500), 0);
		ck_assert_uint_eq(fix_wait_ok(f.cq).qp_num, a->qp_num);
		nothing_left(&f);
	}
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

/* A completion kept for a QP that was destroyed is not taken for one of a later QP, which may have its number. */
START_TEST(destroyed)
{
	struct ibv_qp *a, *b;
	struct fix f;

	fix_open(&f);
	for (unsigned i = 0; i < 4; i++) {
		fix_pair(&f, &a, &b);
		play(&f, a, b);
		send_to(&f, a);
		if (i % 2)
			ck_assert_int_eq(fix_state(a, IBV_QPS_RESET), 0);
		fix_pair_end(a, b);
	}
	take_long();
	take_long();
	nothing_left(&f);
	fix_close(&f);
}
END_TEST

/* Polls in vain for long: the thread may have gone to another core, and may run where it might before. */
START_TEST(affinity)
{
	struct timespec from, now;
	cpu_set_t may, then;
	struct fix f;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(may), &may), 0);
	fix_open(&f);
	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		struct ibv_qp *a, *b;

		fix_pair(&f, &a, &b);
		for (unsigned i = 0; i < 100; i++) {
			send_to(&f, a);
			fix_wait_ok(f.cq);
			nothing_left(&f);
		}
		fix_pair_end(a, b);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < 200);
	fix_close(&f);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(then), &then), 0);
	ck_assert(CPU_EQUAL(&may, &then));
}
END_TEST

#ifdef REPEATS_LESS /* with a sanitizer polls take longer than the core is kept */
#define TRIES 100u
#define EXACT false
#else
#define TRIES 2000u
#define EXACT true
#endif

static _Thread_local unsigned yields, sleeps;
static _Thread_local void (*while_away)(void); /* once */

/* In place of libc's, for the library, too. */
int sched_yield(void)
{
	void (*away)(void) = while_away;

	yields++;
	while_away = NULL;
	if (away)
		away();
	return (int)syscall(SYS_sched_yield);
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	sleeps++;
	return (int)syscall(SYS_nanosleep, t, left);
}

/* Not where the clock is read by a system call: by then the moment is over. */
static bool clock_is_quick(void)
{
	struct timespec a, b;

	for (unsigned i = 0; i < 100; i++) {
		clock_gettime(CLOCK_MONOTONIC, &a);
		clock_gettime(CLOCK_MONOTONIC, &b);
		if (a.tv_sec == b.tv_sec && b.tv_nsec - a.tv_nsec < 100)
			return true;
	}
	return false;
}

static unsigned polls_to_yield(struct fix *f)
{
	unsigned n = 0, before = yields;

	for (; yields == before; n++)
		nothing_left(f);
	return n;
}

/* How often it slept: also in place of yields, where others have the core for long. */
static uint64_t naps(void)
{
	struct rusage u;

	ck_assert_int_eq(getrusage(RUSAGE_THREAD, &u), 0);
	return (uint64_t)u.ru_nvcsw;
}

/* Two at most, for the library, which looks once.  How many there are. */
static int few_cores(void)
{
	cpu_set_t may;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(may), &may), 0);
	for (int i = CPU_SETSIZE; i-- && CPU_COUNT(&may) > 2;)
		CPU_CLR((unsigned)i, &may);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(may), &may), 0);
	return CPU_COUNT(&may);
}

struct keeper {
	struct fix *f;
	bool kept;
};

static void *keeper_run(void *arg)
{
	struct keeper *k = arg;
	uint64_t slept = naps();
	unsigned polls = polls_to_yield(k->f);

	k->kept = polls_to_yield(k->f) > EVERY && naps() == slept;
	ck_assert_msg(polls == EVERY || naps() > slept, "%u polls", polls);
	return NULL;
}

/*
 * The core is given away as soon as there is nothing, and what comes back is kept for a while if the daemon has another one.  Each try
 * is a new thread's: one that meets a neighbour that computes is with the daemon for a while.
 */
START_TEST(core_kept)
{
	struct keeper k = { .kept = false };
	struct ibv_qp *a, *b;
	struct fix f;

	if (few_cores() < 2)
		return;
	fix_open(&f);
	fix_pair(&f, &a, &b);
	k.f = &f;
	/* Not where the daemon is on this core, or the polls take long. */
	for (unsigned i = 0; i < TRIES && !k.kept; i++) {
		pthread_t t;

		send_to(&f, a);
		fix_wait_ok(f.cq);
		ck_assert_int_eq(pthread_create(&t, NULL, keeper_run, &k), 0);
		ck_assert_int_eq(pthread_join(t, NULL), 0);
	}
	ck_assert(k.kept || !EXACT || !clock_is_quick());
	fix_pair_end(a, b);
	fix_close(&f);
}
END_TEST

#define LOT    32u
#define LOTS   20000u /* where it naps, because others have the core, it takes some */
#define GIFT_N 384u   /* SENDs between two yields */

/* How many polls found completions and gave the core away all the same, until all of a lot were found. */
static unsigned gifts(struct ibv_cq *cq)
{
	unsigned n = 0, found = 0, before;
	struct ibv_wc wc;

	while (found < LOT) {
		before = yields;
		if (ibv_poll_cq(cq, 1, &wc) != 1)
			continue;
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		found++;
		n += yields != before;
	}
	return n;
}

/* All are carried out, and their completions there, before one is polled for: behind two requests there was a whole turn. */
static void lot(struct fix *from, struct ibv_qp *a, struct fix *to, struct ibv_qp *b)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	for (unsigned i = 0; i < LOT; i++) {
		ck_assert_int_eq(fix_recv(to, b, i, 0, 8), 0);
		ck_assert_int_eq(fix_send(from, a, i, 8, 8, IBV_SEND_SIGNALED), 0);
	}
	for (unsigned i = 0; i < LOT; i++)
		fix_wait_ok(to->cq);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_query_qp(a, &attr, IBV_QP_STATE, &init), 0);
}

/* A thread that sends, and finds completions each time, gives the core away now and then: the receiver may wait for it. */
START_TEST(core_given_to_receiver)
{
	struct fix f, to;
	unsigned n = 0, i;
	struct ibv_qp *a, *b;

	if (few_cores() < 2)
		return;
	fix_open(&f);
	to = f;
	to.cq = ibv_create_cq(f.ctx, 2 * LOT, NULL, NULL, 0);
	ck_assert(to.cq != NULL);
	a = fix_qp(&f, IBV_QPT_RC, 2 * LOT, NULL);
	b = fix_qp(&to, IBV_QPT_RC, 2 * LOT, NULL);
	fix_connect(&f, a, b);
	for (i = 0; i < LOTS && n < 3; i++) {
		lot(&f, a, &to, b);
		n += gifts(f.cq);
	}
	ck_assert_uint_eq(n, 3);
	ck_assert_uint_ge(i * LOT, n * GIFT_N);
	fix_pair_end(a, b);
	ck_assert_int_eq(ibv_destroy_cq(to.cq), 0);
	fix_close(&f);
}
END_TEST

/* Until it is killed, or its parent is gone. */
static noreturn void burn(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		;
	_exit(0);
}

static bool yield_is_long(void)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	syscall(SYS_sched_yield);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec >= 1000000;
}

/*
 * On a core with a neighbour that never gives it away the thread sleeps between polls, and does not yield; completions are found
 * all the same.  Not where a yield is short even so.
 */
START_TEST(naps_beside_a_hog)
{
	const pid_t parent = getpid(), hog = fork();
	struct ibv_qp *a, *b;
	unsigned tries = 0, before;
	uint64_t slept;
	cpu_set_t one;
	struct fix f;

	if (!hog)
		burn(parent);
	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	ck_assert_int_gt(hog, 0);
	ck_assert_int_eq(sched_setaffinity(hog, sizeof(one), &one), 0);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	fix_open(&f);
	fix_pair(&f, &a, &b);
	while (tries < 300 && !yield_is_long())
		tries++;
	for (unsigned i = 0, in_a_row = 0; tries < 300 && in_a_row < 12; i++) {
		ck_assert_uint_lt(i, 1000000);
		slept = naps();
		before = yields;
		nothing_left(&f);
		in_a_row = yields == before ? in_a_row + (naps() > slept) : 0;
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		send_to(&f, a);
		fix_wait_ok(f.cq);
		nothing_left(&f);
	}
	fix_pair_end(a, b);
	fix_close(&f);
	ck_assert_int_eq(kill(hog, SIGKILL), 0);
	ck_assert_int_eq(waitpid(hog, NULL, 0), hog);
}
END_TEST

/* A CQ with a channel, and two QPs on it. */
static struct {
	struct fix f, of_cq;
	struct ibv_comp_channel *ch;
	struct ibv_cq_ex *cq;
	struct ibv_qp *a, *b;
} late;

static void late_open(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };

	fix_open(&late.f);
	late.ch = attr.channel = ibv_create_comp_channel(late.f.ctx);
	ck_assert(late.ch != NULL);
	late.cq = ibv_create_cq_ex(late.f.ctx, &attr);
	ck_assert(late.cq != NULL);
	late.of_cq = late.f;
	late.of_cq.cq = ibv_cq_ex_to_cq(late.cq);
	fix_pair(&late.of_cq, &late.a, &late.b);
}

static void late_close(void)
{
	fix_pair_end(late.a, late.b);
	ck_assert_int_eq(ibv_destroy_cq(late.of_cq.cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(late.ch), 0);
	fix_close(&late.f);
}

/* Returns when the completion is there. */
static void late_send(void)
{
	struct pollfd p = { late.ch->fd, POLLIN, 0 };
	struct ibv_cq *cq;
	void *context;

	ck_assert_int_eq(ibv_req_notify_cq(late.of_cq.cq, 0), 0);
	send_to(&late.of_cq, late.a);
	ck_assert_int_eq(poll(&p, 1, PATIENCE_S * 1000), 1);
	ck_assert_int_eq(ibv_get_cq_event(late.ch, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
}

static int poll_plain(void)
{
	struct ibv_wc wc;

	return ibv_poll_cq(late.of_cq.cq, 1, &wc);
}

static int poll_extended(void)
{
	struct ibv_poll_cq_attr attr = { 0 };

	if (ibv_start_poll(late.cq, &attr))
		return 0;
	ibv_end_poll(late.cq);
	return 1;
}

/*
 * An empty CQ has nothing when the poll returns, not when it gave the core away: programs look for the end of the connection next,
 * and take the completions to be over then.
 */
START_TEST(came_while_away)
{
	int (*const kinds[])(void) = { poll_plain, poll_extended };

	late_open();
	for (unsigned i = 0; i < 2; i++) {
		int n = 0;

		while_away = late_send;
		for (unsigned polls = 0; while_away; polls++) {
			ck_assert_uint_lt(polls, 100000);
			ck_assert_int_eq(n, 0);
			n = kinds[i]();
		}
		ck_assert_int_eq(n, 1);
		ck_assert_int_eq(kinds[i](), 0);
	}
	late_close();
}
END_TEST

#define STREAM     64u
#define STREAM_LEN ((size_t)4 << 20)

static void stream_post(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, (uint32_t)STREAM_LEN, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)mr->addr + STREAM_LEN, mr->rkey },
	};

	ck_assert_int_eq(ibv_post_send(qp, &wr, &bad), 0);
}

/* A program that asks the daemon does not sleep until it answers, as that takes less time; not where others have the cores. */
START_TEST(asks_awake)
{
	bool awake = false;
	struct fix f;

	fix_open(&f);
	for (unsigned i = 0; i < 1000 && !awake; i++) {
		uint64_t slept = naps();

		for (unsigned k = 0; k < 50; k++) {
			struct ibv_pd *pd = ibv_alloc_pd(f.ctx);

			ck_assert(pd != NULL);
			ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
		}
		awake = naps() - slept < 50;
	}
#ifndef REPEATS_LESS
	ck_assert(awake);
#endif
	fix_close(&f);
}
END_TEST

/* A queue that ends, or is reset, with much to do: nobody sleeps for that any more. */
static void end_early(bool reset)
{
	unsigned char *p = aligned_alloc(4096, 2 * STREAM_LEN);
	struct ibv_qp *a, *b;
	struct ibv_mr *mr;
	struct fix f;

	ck_assert(p != NULL);
	memset(p, 1, 2 * STREAM_LEN);
	fix_open(&f);
	a = fix_qp(&f, IBV_QPT_RC, STREAM, NULL);
	b = fix_qp(&f, IBV_QPT_RC, STREAM, NULL);
	fix_connect(&f, a, b);
	mr = ibv_reg_mr(f.pd, p, 2 * STREAM_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ck_assert(mr != NULL);
	for (unsigned k = 0; k < STREAM; k++)
		stream_post(a, mr);
	for (unsigned k = 0; k < STREAM / 3; k++)
		fix_wait_ok(f.cq);
	if (reset)
		ck_assert_int_eq(fix_state(a, IBV_QPS_RESET), 0);
	else
		ck_assert_int_eq(ibv_destroy_qp(a), 0);
	sleeps = 0;
	for (unsigned k = 0; k < 2000; k++)
		nothing_left(&f);
	ck_assert_uint_eq(sleeps, 0);
	if (reset)
		ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	fix_close(&f);
	free(p);
}

START_TEST(naps_end_with_queue)
{
	end_early(false);
	end_early(true);
}
END_TEST

void api_answer(Suite *s)
{
	SUITE_ADD(s, without_answer, resized, destroyed, affinity, core_kept, core_given_to_receiver, naps_beside_a_hog,
		  came_while_away, asks_awake, naps_end_with_queue);
}
