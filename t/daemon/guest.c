/* SPDX-License-Identifier: MIT */
/* guest.c - verbs while the shard sleeps: the control thread carries them out, and what is to be done then is done all the same. */
#include "client.h"
#include "t/suite.h"

#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CALLS 600u
#define TURNS 300u /* less than one for each two calls */

static const char *const ways[] = { "--shards=1", "--io=epoll" };

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static long turns(const struct cx *c)
{
	json_t *j = dump(c->fd, DUMP_STATS), *shard = json_array_get(json_object_get(j, "shards"), 0);
	long n = (long)json_integer_value(json_object_get(shard, "turns"));

	ck_assert_int_gt(n, 0);
	json_decref(j);
	return n;
}

/* Each is carried out in what is the shard's. */
static void calls(struct cx *c)
{
	struct msg_rep rep;

	for (unsigned i = 0; i < CALLS / 2; i++) {
		struct msg_req req = { .op = MSG_PD_ALLOC };

		ck_assert_int_eq(call(c->fd, &req, &rep, NULL), 0);
		req = (struct msg_req){ .op = MSG_PD_FREE, .id.handle = rep.obj.handle };
		ck_assert_int_eq(call(c->fd, &req, &rep, NULL), 0);
	}
}

/* Whether it slept when they began it does not say itself: in one of some series it did. */
START_TEST(sleeps_on)
{
	double end = seconds() + PATIENCE_MS / 1e3;
	struct cx c;
	long before, n;

	own_network(); /* whose addresses do not change */
	daemon_start_with(ways[_i]);
	cx_open(&c);
	do {
		before = turns(&c);
		calls(&c);
		n = turns(&c) - before;
		ck_assert_msg(seconds() < end, "%u calls took %ld turns", CALLS, n);
	} while (n > TURNS);
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* While the shard sleeps, which it mostly goes on to do. */
static void recv_asleep(struct cx *c, uint64_t wr_id, uint32_t off, uint32_t len)
{
	double end = seconds() + PATIENCE_MS / 1e3;
	uint32_t answer;

	while (__atomic_load_n(&c->bell->idle, __ATOMIC_SEQ_CST) == BELL_AWAKE) {
		ck_assert_msg(seconds() < end, "the shard does not sleep");
		usleep(100);
	}
	cx_recv_put(c, wr_id, off, len);
	answer = bell_note(c->bell, c->qp_bell, c->rq.hdr);
	if (answer)
		cx_kick(c);
	bell_kicked(c->bell, answer);
}

/* A receive that was posted meanwhile changes nothing: no turn takes it.  (Of some series in one: something else may wake the shard.) */
START_TEST(sleeps_on_receives)
{
	bool untaken = false;
	struct cx c;

	own_network(); /* whose addresses do not change */
	daemon_start_with(ways[_i]);
	for (unsigned i = 0; i < 50 && !untaken; i++) {
		cx_open(&c);
		cx_connect(&c, &c);
		recv_asleep(&c, i, 0, 64);
		calls(&c);
		untaken = bell_any(c.bell, c.qp_bell + 1);
		cx_close(&c);
	}
	ck_assert(untaken);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* To ERR: a receive that was posted before completes, and nobody but that call could see to it. */
static void flushes(void (*recv)(struct cx *, uint64_t, uint32_t, uint32_t))
{
	struct cx c;
	struct cqe e;

	for (unsigned i = 0; i < 100; i++) {
		cx_open(&c);
		cx_connect(&c, &c);
		recv(&c, i, 0, 64);
		ck_assert_int_eq(cx_state(&c, QPS_ERR), 0);
		ck_assert_msg(cx_poll(&c, &e), "no completion");
		ck_assert_uint_eq(e.status, WC_WR_FLUSH_ERR);
		ck_assert_uint_eq(e.wr_id, i);
		cx_close(&c);
	}
}

START_TEST(flushes_posted)
{
	own_network(); /* whose addresses do not change */
	daemon_start_with(ways[_i]);
	flushes(cx_recv);
	flushes(recv_asleep);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* Behind calls of others, what is posted wakes the shard as ever. */
START_TEST(goes_on)
{
	struct cx c;

	own_network(); /* whose addresses do not change */
	daemon_start_with(ways[_i]);
	cx_open(&c);
	cx_connect(&c, &c);
	for (unsigned i = 0; i < 200; i++) {
		calls(&c);
		cx_ping(&c);
	}
	cx_close(&c);
	daemon_clean();
	daemon_stop();
}
END_TEST

int main(void)
{
	const TTest *const each[] = { sleeps_on, sleeps_on_receives, flushes_posted, goes_on };
	Suite *suite = suite_create("guest");

	for (unsigned i = 0; i < sizeof(each) / sizeof(*each); i++) {
		TCase *tc = tcase_create(each[i]->name);

		tcase_set_timeout(tc, 60);
		tcase_add_loop_test(tc, each[i], 0, 2);
		suite_add_tcase(suite, tc);
	}
	return suite_run(suite);
}
