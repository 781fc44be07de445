/* SPDX-License-Identifier: MIT */
/*
 * kick.c - a program that fills, empties and blocks the eventfd it wakes its shard with: that is its own affair.
 */
#include "t/suite.h"

#include "stage.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define FILLERS 4

static void *fill(void *arg)
{
	static const uint64_t most = UINT64_MAX - 1;

	while (write(*(int *)arg, &most, sizeof(most)) >= 0) /* waits while it is full, and fills it at once */
		;
	return NULL;
}

static void *empty(void *arg)
{
	uint64_t n;

	while (read(*(int *)arg, &n, sizeof(n)) >= 0)
		;
	return NULL;
}

/* note 0: which thread function; note 1: it has begun. */
static void block(void *arg)
{
	struct msg_req req = { .op = MSG_DEVICE_LIST };
	struct msg_rep rep;
	struct cx c;
	pthread_t t;

	cx_open(&c);
	cx_connect(&c, &c);
	fcntl(c.kick, F_SETFL, fcntl(c.kick, F_GETFL) & ~O_NONBLOCK);
	for (unsigned i = 0; i < FILLERS; i++)
		ck_assert_int_eq(pthread_create(&t, NULL, arg, &c.kick), 0);
	for (unsigned i = 1; i <= 20000; i++) {
		ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
		note_set(1, i);
		if (i % 64 == 0)
			c.bell->idle = (uint32_t)rand(); /* scribbled */
	}
	for (;;)
		pause();
}

static void blocked(const char *option, void *(*how)(void *))
{
	pid_t attacker;

	stage_open(option);
	attacker = part_begin(UID_ATTACKER, block, how);
	note_wait(1, 1);
	stage_goes_on(200);
	note_wait(1, 20000); /* and it is served like any other */
	part_kill(attacker);
	stage_goes_on(50);
	stage_close();
}

START_TEST(filled) { blocked("--shards=1", fill); }
END_TEST
START_TEST(emptied) { blocked("--shards=1", empty); }
END_TEST
START_TEST(filled_epoll) { blocked("--io=epoll", fill); }
END_TEST

/* A count that it writes stays, however the shard is woken meanwhile, and another of its contexts does not have it. */
static void count(void *)
{
	static const uint64_t mine = 5;
	struct msg_req req = { .op = MSG_PD_ALLOC };
	uint64_t n = 0;
	struct msg_rep rep;
	struct cx c, other;

	cx_open(&c);
	cx_open(&other);
	ck_assert_int_eq(write(c.kick, &mine, sizeof(mine)), sizeof(mine));
	ck_assert_int_lt(read(other.kick, &n, sizeof(n)), 0);
	for (unsigned i = 0; i < 500; i++) /* each has the control thread wake a shard, which looks at what woke it */
		ck_assert_int_eq(call(c.fd, &req, &rep, NULL), 0);
	ck_assert_int_eq(read(c.kick, &n, sizeof(n)), sizeof(n));
	ck_assert_uint_eq(n, mine);
	ck_assert_int_lt(read(c.kick, &n, sizeof(n)), 0);
}

static void counted(const char *option)
{
	stage_open(option);
	part_end(part_begin(UID_ATTACKER, count, NULL));
	stage_close();
}

START_TEST(own) { counted("--shards=1"); }
END_TEST
START_TEST(own_epoll) { counted("--io=epoll"); }
END_TEST

/* More contexts than there are words to wait for: the rest kick. */
#define CROWD 1100

static void crowd(void *)
{
	static struct cx c[CROWD];

	for (unsigned i = 0; i < CROWD; i++)
		cx_open(&c[i]);
	for (unsigned i = 0; i < CROWD; i += 99) {
		cx_connect(&c[i], &c[i]);
		cx_ping(&c[i]);
	}
	note_set(0, 1);
	for (unsigned i = 0; i < CROWD; i++)
		cx_close(&c[i]);
}

START_TEST(many)
{
	pid_t other;

	stage_open("--shards=1");
	other = part_begin(UID_ATTACKER, crowd, NULL);
	stage_goes_on(100);
	part_end(other);
	ck_assert_uint_eq(note->n[0], 1);
	stage_close();
}
END_TEST

STAGE_MAIN("hostile: kick", filled, emptied, filled_epoll, own, own_epoll, many)
