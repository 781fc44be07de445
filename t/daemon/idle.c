/* SPDX-License-Identifier: MIT */
/*
 * idle.c - contexts that were silent are not looked at until they kick, and then at once: a receive that was posted before a
 * send is there before it.  With io_uring, where a kick shows in a flag, and with epoll, where it must be looked for; by futex
 * and by eventfd.
 */
#include "daemon/shard/idle.h"

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/shard/bells.h"
#include "daemon/shard/drain.h"
#include "daemon/shard/inbox.h"
#include "daemon/shard/look.h"
#include "program.h"
#include "t/suite.h"

#define MANY 140u /* more than one look takes; and idle ones are worth it, also where kicks are hidden */

static struct program a, b;
static struct program more[MANY];
static mono_t now;

/* false: this kernel has no such way. */
static bool set_up(enum io_kind kind)
{
	shard_begin();
	now = clock_now();
	shard.bells_fd = -1;
	if (io_new(&shard.io, kind))
		return false;
	shard.inbox = inbox_new();
	ck_assert(shard.inbox != NULL);
	inbox_take(shard.inbox);
	ck_assert_int_eq(bells_begin(&shard), 0);
	program_begin(&a);
	program_begin(&b);
	for (unsigned i = 0; i < MANY; i++)
		program_begin(&more[i]);
	for (struct ctx *c = shard.awake; c; c = c->awake_next)
		ck_assert_int_eq(bells_add(c), 0);
	return true;
}

static void leave(struct program *p)
{
	bells_del(&p->c);
	program_end(p);
}

static void tear_down(void)
{
	for (unsigned i = 0; i < MANY; i++)
		leave(&more[i]);
	leave(&b);
	leave(&a);
	ck_assert(!shard.awake && !shard.idle_n && !shard.ctx_n);
	bells_end(&shard);
	io_free(shard.io);
	inbox_lend(shard.inbox);
	inbox_free(shard.inbox);
	shard_end();
}

/* A turn that looks at everything, as it does now and then. */
static void look(void)
{
	idle_sweep(&shard, now);
	look_wait(&shard, 0);
}

static void later(void)
{
	mono_t real = clock_now();

	now = mono_add(mono_before(now, real) ? real : now, 10000000);
}

/* All but a fall idle. */
static void only_a(void)
{
	later();
	idle_stir(&a.c, now);
	look();
	ck_assert(!a.c.idle && b.c.idle);
	ck_assert_uint_eq(shard.idle_n, MANY + 1);
	ck_assert_uint_ne(b.c.bell->idle, BELL_AWAKE);
	ck_assert_uint_eq(a.c.bell->idle, BELL_AWAKE);
}

static void kick(struct program *p, uint32_t answer)
{
	uint64_t one = 1;
	uint32_t how = answer & BELL_HOW;

	if (how == BELL_FUTEX)
		syscall(SYS_futex, &p->c.bell->idle, FUTEX_WAKE, 1, NULL, NULL, 0);
	else if (how == BELL_FD)
		ck_assert_int_eq(write(p->c.kick_fd, &one, sizeof(one)), sizeof(one));
	bell_kicked(p->c.bell, answer);
}

static void post(struct program *p, uint32_t sends, uint32_t recvs) { kick(p, program_post(p, sends, recvs)); }

static uint32_t drained(void)
{
	unsigned sends;

	ctx_drain(&shard, &sends, now);
	return sends;
}

static void each_way(void (*test)(void))
{
	static const enum io_kind kind[] = { IO_URING, IO_EPOLL };

	for (unsigned i = 0; i < 2; i++) {
		if (!set_up(kind[i]))
			continue;
		test();
		tear_down();
	}
}

/* b's kick was lost: the round comes to it. */
static void found(void)
{
	for (unsigned i = 0; i <= MANY + 2 && b.c.idle; i++) {
		now = mono_add(now, 60000);
		look();
	}
	ck_assert(!b.c.idle);
}

/* Nobody sees what an idle one writes, unless it kicks. */
static void not_looked_at(void)
{
	only_a();
	b.c.bell->idle = BELL_AWAKE; /* it does not kick */
	program_post(&b, 1, 1);
	post(&a, 1, 1);
	ck_assert_uint_eq(drained(), 1);
	ck_assert(b.c.idle && !program_received(&b) && !program_sent(&b));
	found();
	ck_assert_uint_eq(drained(), 1);
	ck_assert(program_received(&b) == 1 && program_sent(&b) == 1);
}

START_TEST(idle) { each_way(not_looked_at); }
END_TEST

static void receive_first(void)
{
	for (unsigned i = 1; i <= 20; i++) {
		only_a();
		post(&b, 0, 1);
		post(&a, 1, 0);
		ck_assert_uint_eq(drained(), 1);
		ck_assert_uint_eq(program_received(&b), i);
		ck_assert(!b.c.idle && b.c.bell->idle == BELL_AWAKE);
	}
	only_a();
	post(&b, 0, 1); /* and what is sent comes by a socket */
	ctx_drain_recvs(&shard, now);
	ck_assert_uint_eq(program_received(&b), 21);
}

START_TEST(before_a_send) { each_way(receive_first); }
END_TEST

/* A shard that sleeps is not kicked for receives, and has them before a send; but where it does not look, and in ERR, it is. */
static void noted_first(void)
{
	for (unsigned i = 1; i <= 20; i++) {
		only_a();
		idle_stir(&b.c, now);
		ctx_sleep(&shard);
		ck_assert_uint_eq(program_note(&b, 1), BELL_AWAKE);
		post(&a, 1, 0);
		ctx_wake(&shard);
		ck_assert_uint_eq(drained(), 1);
		ck_assert_uint_eq(program_received(&b), i);
	}
	only_a();
	ck_assert_uint_eq(b.c.bell->away, 1);
	kick(&b, program_note(&b, 1));
	post(&a, 1, 0);
	ck_assert_uint_eq(drained(), 1);
	ck_assert_uint_eq(program_received(&b), 21);
	ck_assert_uint_eq(b.c.bell->away, 0);
	ring_state(b.qp.rq.ring.hdr, QPS_ERR);
	ctx_sleep(&shard);
	ck_assert_uint_ne(program_note(&b, 1), BELL_AWAKE);
	ctx_wake(&shard);
}

START_TEST(without_a_kick) { each_way(noted_first); }
END_TEST

/* All at once, more than one look takes; each is served. */
static void crowd(void)
{
	unsigned n = 0;

	only_a();
	for (unsigned i = 0; i < MANY; i++)
		post(&more[i], 1, 1);
	post(&a, 1, 1);
	n = drained();
	n += drained();
	ck_assert_uint_eq(n, MANY + 1);
	ck_assert_uint_eq(shard.idle_n, 1);
}

START_TEST(all_kick) { each_way(crowd); }
END_TEST

static void rung(void)
{
	later();
	post(&b, 1, 1); /* not taken yet */
	look();
	ck_assert(!b.c.idle && b.c.bell->idle == BELL_AWAKE && a.c.idle);
	drained();
	later();
	look();
	ck_assert(b.c.idle);
}

START_TEST(stays_awake) { each_way(rung); }
END_TEST

/* Something comes for it; what was armed for its kick stays armed, for the next time. */
static void stirred(void)
{
	for (unsigned i = 0; i < 3; i++) {
		only_a();
		idle_stir(&b.c, now);
		ck_assert(!b.c.idle && b.c.bell->idle == BELL_AWAKE);
		post(&b, 1, 1);
		ck_assert_uint_eq(drained(), 1);
	}
	only_a();
	post(&b, 1, 1);
	idle_kicks(&shard, true);
	ck_assert(!b.c.idle);
}

START_TEST(comes_for_it) { each_way(stirred); }
END_TEST

/* Kicks while nobody asked for one, and a page full of nonsense: no harm, and it is served when it kicks again. */
static void nonsense(void)
{
	for (unsigned i = 0; i < 100; i++) {
		kick(&a, BELL_FD);
		kick(&a, BELL_FUTEX);
		look();
	}
	only_a();
	b.c.bell->idle = 0xdeadbeef;
	program_post(&b, 1, 1);
	found();
	ck_assert_uint_eq(drained(), 1);
	for (unsigned i = 0; i < 2; i++) { /* it is listened to again, and has kicked before */
		later();
		look();
	}
	ck_assert(a.c.idle);
	post(&a, 1, 1);
	idle_kicks(&shard, true);
	ck_assert_uint_eq(drained(), 1);
}

START_TEST(scribbled) { each_way(nonsense); }
END_TEST

/* An eventfd that was kicked once has a count that runs over, which only the kernel itself can do.  false: this one has no AIO. */
static bool run_over(int efd)
{
	uint64_t most = UINT64_MAX - 2;
	aio_context_t aio = 0;
	struct io_event done;
	char byte;
	int fd = open("/dev/zero", O_RDONLY);
	struct iocb cb = { .aio_fildes = (uint32_t)fd,
			   .aio_lio_opcode = IOCB_CMD_PREAD,
			   .aio_buf = (uintptr_t)&byte,
			   .aio_nbytes = 1,
			   .aio_flags = IOCB_FLAG_RESFD,
			   .aio_resfd = (uint32_t)efd };
	struct iocb *all = &cb;
	bool has;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(efd, &most, sizeof(most)), sizeof(most));
	has = !syscall(SYS_io_setup, 1, &aio);
	if (has) {
		ck_assert_int_eq(syscall(SYS_io_submit, aio, 1, &all), 1);
		ck_assert_int_eq(syscall(SYS_io_getevents, aio, 1, 1, &done, NULL), 1);
		syscall(SYS_io_destroy, aio);
	}
	close(fd);
	return has;
}

/* Their descriptors say EPOLLERR from now on: it is told a few times, and what kicks otherwise is served. */
static void over(void)
{
	uint64_t kicks;

	for (unsigned i = 0; i < MANY; i++)
		kick(&more[i], BELL_FD); /* awake, so it is not listened to from now on */
	look();
	for (unsigned i = 0; i < MANY; i++)
		if (!run_over(more[i].c.kick_fd))
			return;
	for (unsigned i = 0; i < 4; i++)
		look();
	kicks = shard.count.kicks;
	for (unsigned i = 0; i < 10; i++)
		look();
	ck_assert_uint_eq(shard.count.kicks, kicks);
	for (unsigned i = 0; i < 2; i++) { /* listened to again */
		later();
		look();
	}
	only_a();
	post(&b, 0, 1);
	post(&a, 1, 0);
	ck_assert_uint_eq(drained(), 1);
	ck_assert_uint_eq(program_received(&b), 1);
}

START_TEST(runs_over) { each_way(over); }
END_TEST

/* A program that goes on kicking though nobody asked is heard a few times, however often it does. */
static void unasked(void)
{
	uint64_t kicks = shard.count.kicks;

	for (unsigned n = 0; n < 20; n++) {
		for (unsigned i = 0; i < MANY; i++)
			kick(&more[i], BELL_FD);
		look();
	}
	ck_assert_uint_le(shard.count.kicks - kicks, 4 * MANY);
}

START_TEST(not_asked) { each_way(unasked); }
END_TEST

/* The descriptor is the program's, who can have made it one that blocks: the shard is told of kicks, and takes none out. */
static void counted(void)
{
	uint64_t n = 0;

	for (unsigned k = 0; k < 2; k++) {
		for (unsigned i = 0; i < MANY; i++)
			kick(&more[i], BELL_FD);
		look();
	}
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_int_eq(read(more[i].c.kick_fd, &n, sizeof(n)), sizeof(n));
		ck_assert_uint_eq(n, 2);
	}
}

START_TEST(not_taken) { each_way(counted); }
END_TEST

/* Its kick is on the way when it is gone. */
static void gone(void)
{
	only_a();
	post(&b, 1, 1);
	leave(&b);
	idle_kicks(&shard, true);
	look();
	program_begin(&b);
	ck_assert_int_eq(bells_add(&b.c), 0);
	idle_stir(&b.c, now);
	look();
	ck_assert(!b.c.idle);
	post(&b, 1, 1);
	ck_assert_uint_eq(drained(), 1);
}

START_TEST(ends) { each_way(gone); }
END_TEST

/* The shard sleeps, all are told to kick, and one that does wakes it. */
static void sleeps(void)
{
	struct program *p[] = { &a, &b };

	for (unsigned i = 0; i < 2; i++) {
		only_a();
		ctx_sleep(&shard);
		ck_assert(!ctx_pending(&shard));
		post(p[i], 1, 1);
		look_wait(&shard, UINT64_MAX);
		ctx_wake(&shard);
		ck_assert(ctx_pending(&shard) && p[i]->c.bell->idle == BELL_AWAKE);
		ck_assert_uint_eq(drained(), 1);
	}
}

START_TEST(shard_sleeps) { each_way(sleeps); }
END_TEST

/* The shard has the core of who woke it. */
START_TEST(woken_from_beside)
{
	cpu_set_t may;
	const int core = sched_getcpu();

	ck_assert(set_up(IO_EPOLL));
	CPU_ZERO(&may);
	CPU_SET((unsigned)core, &may);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(may), &may), 0);
	a.c.bell->kicker = (uint32_t)(core + 2);
	ck_assert(!ctx_wake(&shard));
	a.c.bell->kicker = (uint32_t)(core + 1);
	ck_assert(ctx_wake(&shard));
	ck_assert(!ctx_wake(&shard)); /* that was told */
	tear_down();
}
END_TEST

/* Where kicks are hidden, to look for them costs more than to look at a few contexts. */
START_TEST(few)
{
	ck_assert(set_up(IO_EPOLL));
	for (unsigned i = 12; i < MANY; i++)
		leave(&more[i]);
	later();
	look();
	ck_assert_uint_eq(shard.idle_n, 0);
	for (unsigned i = 12; i < MANY; i++) {
		program_begin(&more[i]);
		ck_assert_int_eq(bells_add(&more[i].c), 0);
	}
	look();
	ck_assert_uint_eq(shard.idle_n, MANY + 2);
	tear_down();
}
END_TEST

TEST_MAIN("idle", idle, before_a_send, without_a_kick, all_kick, stays_awake, comes_for_it, scribbled, runs_over,
	  not_asked, not_taken, ends, shard_sleeps, woken_from_beside, few)
