/* SPDX-License-Identifier: MIT */
/* copier.c - lists of pieces through the buffer of a copier, in whatever way they are cut; atomics of two; a job that ends while its
 * caller asks whether it waits; a program that ends. */
#include "daemon/base/copier.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t/suite.h"

enum { LEN = 1 << 20, HALF = 1 << 21, ROUNDS = 30, UID = 1001 };

static uint8_t *mem; /* a word, and from 4096 on a place for each of two threads */
static pid_t child;

/* NULL: the user has no patience left. */
static struct copier *copier_if_may(pid_t pid)
{
	struct copier *c = NULL;
	char path[64];
	int fd, err;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	err = copier_new(&c, UID, fd);
	if (err)
		close(fd);
	ck_assert(!err || err == EAGAIN);
	return c;
}

static struct copier *copier_of(pid_t pid)
{
	struct copier *c = copier_if_may(pid);

	ck_assert(c != NULL);
	return c;
}

static void setup(void)
{
	mem = mmap(NULL, 2 * HALF + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(mem, MAP_FAILED);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

static void child_end(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static uint64_t next_add(uint64_t old, uint64_t a, uint64_t) { return old + a; }

struct part {
	struct copier *copier;
	unsigned index;
};

static void round_trip(struct copier *c, uint8_t *buf, uint8_t *there, size_t n, uint8_t value)
{
	struct iovec h[2] = { { buf, n / 2 }, { buf + n / 2, n - n / 2 } };
	struct iovec t[3] = { { there, n / 3 },
			      { there + n / 3 + 7, n / 4 },
			      { there + n / 3 + n / 4 + 99, n - n / 3 - n / 4 } };

	memset(buf, value, n);
	ck_assert_int_eq(copier_move(c, true, h, 2, t, 3), (ssize_t)n);
	memset(buf, 0, n);
	ck_assert_int_eq(copier_move(c, false, h, 2, t, 3), (ssize_t)n);
	ck_assert(buf[0] == value && !memcmp(buf, buf + 1, n - 1));
}

static void *use(void *arg)
{
	struct part *p = arg;
	uint8_t *buf = malloc(LEN);
	uint64_t old;

	for (unsigned i = 1; i <= ROUNDS; i++) {
		round_trip(p->copier, buf, mem + 4096 + p->index * HALF, 12 + (size_t)i * i * 631 % (LEN - 12),
			   (uint8_t)(i + p->index));
		for (unsigned k = 0; k < 50; k++)
			ck_assert_int_eq(copier_atomic(p->copier, (uintptr_t)mem, next_add, 1, 0, &old), 0);
	}
	free(buf);
	return NULL;
}

static void two(struct copier *a, struct copier *b)
{
	struct part p[2] = { { a, 0 }, { b, 1 } };
	struct iovec here, there = { mem, sizeof(uint64_t) };
	pthread_t t[2];
	uint64_t n = 0;

	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, use, &p[i]), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	here = (struct iovec){ &n, sizeof(n) };
	ck_assert_int_eq(copier_move(a, false, &here, 1, &there, 1), sizeof(n));
	ck_assert_uint_eq(n, 2ul * ROUNDS * 50);
}

/* Two threads of one copier, as a shard and the control thread are. */
START_TEST(shared)
{
	struct copier *c;

	setup();
	c = copier_of(child);
	two(c, c);
	copier_end(c);
	child_end();
}
END_TEST

/* Two copiers of a user: two contexts, perhaps on two shards. */
START_TEST(atomic)
{
	struct copier *a, *b;

	setup();
	a = copier_of(child);
	b = copier_of(child);
	two(a, b);
	copier_end(a);
	copier_end(b);
	child_end();
}
END_TEST

/* ---- a job that is done while its caller looks whether it waits ---------------------------- */

static bool looked;
static int sched = -1; /* what stands for the thread's file of schedstat */

/* The state of the thread whose file of /proc that is; 0: it has ended. */
static char state_of(const char *path)
{
	char text[256] = { 0 }, *p;
	int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	if (fd >= 0)
		close(fd);
	p = strrchr(text, ')');
	return p ? p[2] : 0;
}

/* The copier's: it looks with its lock held.  Until it has read the state the job has ended, and the thread wants that lock. */
int open(const char *path, int flags, ...)
{
	if (sched >= 0 && strstr(path, "/schedstat"))
		return fcntl(sched, F_DUPFD_CLOEXEC, 0);
	if (strstr(path, "/task/")) {
		__atomic_store_n(&looked, true, __ATOMIC_SEQ_CST);
		for (unsigned ms = 0; ms < 20000 && state_of(path) && state_of(path) != 'S'; ms++)
			usleep(1000);
	}
	return openat(AT_FDCWD, path, flags, 0);
}

static uint64_t next_slow(uint64_t old, uint64_t a, uint64_t)
{
	while (!__atomic_load_n(&looked, __ATOMIC_SEQ_CST))
		;
	return old + a;
}

START_TEST(done_just_now)
{
	struct copier *c;
	uint64_t old;

	setup();
	c = copier_of(child);
	ck_assert_int_eq(copier_atomic(c, (uintptr_t)mem, next_slow, 1, 0, &old), 0);
	ck_assert(looked);
	ck_assert_int_eq(copier_atomic(c, (uintptr_t)mem, next_add, 1, 0, &old), 0);
	ck_assert_uint_eq(old, 1);
	copier_end(c);
	child_end();
}
END_TEST

/* From now on the kernel says that the thread of a copier had no processor for so long. */
static void queued_is(unsigned long long ms)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "0 %llu 0\n", ms * 1000000);

	if (sched < 0)
		sched = memfd_create("t-schedstat", MFD_CLOEXEC);
	ck_assert_int_eq(pwrite(sched, text, (size_t)n, 0), n);
}

/* Blocked for a moment, so says the kernel, and for all the rest without a processor. */
static uint64_t next_queued(uint64_t old, uint64_t a, uint64_t)
{
	static unsigned long long ms;

	usleep(150000);
	queued_is(ms += 100000); /* more than it can have been: what this machine really took does not count */
	return old + a;
}

/* A user does not pay for the time in which his copier could have run: five times 150 ms are more than he has. */
START_TEST(queue_is_free)
{
	struct copier *c, *other;
	uint64_t old;

	setup();
	queued_is(0);
	c = copier_of(child);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(copier_atomic(c, (uintptr_t)mem, next_queued, 1, 0, &old), 0);
	other = copier_of(child);
	copier_end(other);
	copier_end(c);
	child_end();
}
END_TEST

static uint64_t next_blocked(uint64_t old, uint64_t us, uint64_t)
{
	usleep((useconds_t)us);
	return old;
}

/*
 * He pays for the time in which it was blocked, though between his jobs the thread has often had no processor: each of his copiers
 * does a job that is quick, and then so many that are blocked for so long.
 */
static void pays(unsigned each, unsigned us)
{
	struct copier *c = NULL;
	unsigned n = 0;
	uint64_t old;
	int err = 0;

	setup();
	queued_is(0);
	while (!err && (c = copier_if_may(child))) {
		err = copier_atomic(c, (uintptr_t)mem, next_add, 1, 0, &old);
		usleep(20000);
		for (unsigned i = 0; i < each && !err; i++) {
			queued_is(1000000ull * ++n);
			err = copier_atomic(c, (uintptr_t)mem, next_blocked, us, 0, &old);
		}
		ck_assert(!err || err == EFAULT); /* that was more than what he had left */
		copier_end(c);
		ck_assert_msg(n * us < 750000, "he was blocked %u times for %u us, and still may", n, us);
	}
	child_end();
}

START_TEST(block_is_paid) { pays(1, 100000); }
END_TEST
START_TEST(blocks_are_paid) { pays(200, 500); }
END_TEST

START_TEST(missing)
{
	uint64_t n;
	struct iovec here = { &n, sizeof(n) }, there = { (void *)64, sizeof(n) };
	struct copier *c;

	setup();
	c = copier_of(child);
	ck_assert_int_eq(copier_move(c, false, &here, 1, &there, 1), -1);
	ck_assert_int_eq(errno, EFAULT);
	there.iov_base = mem;
	ck_assert_int_eq(copier_move(c, false, &here, 1, &there, 1), sizeof(n));
	child_end();
	ck_assert_int_eq(copier_move(c, false, &here, 1, &there, 1), -1);
	ck_assert_int_eq(errno, ESRCH);
	ck_assert_int_eq(copier_atomic(c, (uintptr_t)mem, next_add, 1, 0, &n), ESRCH);
	copier_end(c);
}
END_TEST

TEST_MAIN("copier", shared, atomic, done_just_now, queue_is_free, block_is_paid, blocks_are_paid, missing)
