/* SPDX-License-Identifier: MIT */
/*
 * idlers.c - programs that were silent while another one kept the shard busy: what they post then is carried out, what comes
 * for them arrives, and nothing that they write harms the other one.
 */
#include "client.h"
#include "t/suite.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MANY  40u   /* also where kicks are hidden some are idle */
#define CROWD 1100u /* more than there are words to wait for */

static struct cx busy, more[MANY], crowd[CROWD];
static struct cx sleeper, peer;
static pthread_t thread;
static unsigned pings;
static bool stop;

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void *ping_on(void *)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		cx_ping(&busy);
		__atomic_fetch_add(&pings, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static unsigned pinged(void) { return __atomic_load_n(&pings, __ATOMIC_ACQUIRE); }

static void scene(const char *option)
{
	own_network();
	daemon_start_with(option);
	cx_open(&busy);
	cx_connect(&busy, &busy);
	for (unsigned i = 0; i < MANY; i++)
		cx_open(&more[i]);
	cx_open(&sleeper);
	cx_open(&peer);
	cx_connect(&sleeper, &peer);
	cx_connect(&peer, &sleeper);
	stop = false;
	ck_assert_int_eq(pthread_create(&thread, NULL, ping_on, NULL), 0);
}

static void scene_over(void)
{
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	cx_ping(&busy);
	cx_close(&sleeper);
	cx_close(&peer);
	for (unsigned i = 0; i < MANY; i++)
		cx_close(&more[i]);
	cx_close(&busy);
	daemon_clean();
	daemon_stop();
}

/* The shard goes on, and does not look at it. */
static void wait_idle(const struct cx *c)
{
	double end = seconds() + PATIENCE_MS / 1e3;
	unsigned from = pinged();

	while (pinged() - from < 20) {
		if (__atomic_load_n(&c->bell->idle, __ATOMIC_RELAXED) == BELL_AWAKE)
			from = pinged();
		ck_assert_msg(seconds() < end, "it does not fall idle");
		sched_yield();
	}
}

static const char *const ways[] = { "--shards=1", "--io=epoll" };

static void receives(struct cx *c, uint64_t wr_id)
{
	struct cqe e;

	ck_assert_msg(cx_poll(c, &e), "no completion");
	ck_assert_uint_eq(e.status, WC_SUCCESS);
	ck_assert_uint_eq(e.wr_id, wr_id);
}

static long rnr_naks(void)
{
	json_t *j = dump(busy.fd, DUMP_STATS), *d;
	const char *name;
	long n = 0;

	json_object_foreach(json_object_get(j, "devices"), name, d)
		n += (long)json_integer_value(json_object_get(json_object_get(d, "counters"), "send_rnr_err"));
	json_decref(j);
	return n;
}

/* A receive of one that was idle is there before what its peer sends afterwards. */
START_TEST(posts)
{
	long before;

	scene(ways[_i]);
	before = rnr_naks();
	for (unsigned i = 0; i < 60; i++) {
		wait_idle(&sleeper);
		cx_recv(&sleeper, i, 0, 64);
		cx_send(&peer, i, 1024, 5);
		receives(&sleeper, i);
		receives(&peer, i);
	}
	ck_assert_int_eq(rnr_naks(), before);
	for (unsigned i = 0; i < 5; i++) {
		cx_recv(&peer, i, 0, 64);
		wait_idle(&sleeper);
		cx_send(&sleeper, i, 1024, 5);
		receives(&sleeper, i);
		receives(&peer, i);
	}
	scene_over();
}
END_TEST

/* It waits for an event; what comes is the peer's doing. */
START_TEST(is_sent_to)
{
	struct pollfd p;
	uint64_t cookie;

	scene(ways[_i]);
	p = (struct pollfd){ .fd = sleeper.channel_fd, .events = POLLIN };
	for (unsigned i = 0; i < 5; i++) {
		cx_recv(&sleeper, i, 0, 64);
		wait_idle(&sleeper);
		cq_arm(sleeper.cq_ring.hdr, CQ_ARM_ANY);
		ck_assert_uint_eq(ring_used(&sleeper.cq_ring), 0);
		wait_idle(&sleeper);
		cx_send(&peer, i, 1024, 5);
		ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
		ck_assert_int_eq(read(sleeper.channel_fd, &cookie, sizeof(cookie)), sizeof(cookie));
		receives(&sleeper, i);
		receives(&peer, i);
	}
	scene_over();
}
END_TEST

START_TEST(ends)
{
	struct cx c;

	scene(ways[_i]);
	for (unsigned i = 0; i < 10; i++) {
		cx_open(&c);
		cx_connect(&c, &c);
		wait_idle(&c);
		if (i & 1)
			cx_send(&c, 1, 1024, 5);
		cx_close(&c);
	}
	scene_over();
}
END_TEST

/* Its page says anything, and it kicks all the time: that is its own affair. */
START_TEST(scribbles)
{
	static const uint32_t nonsense[] = { 0, 1, 2, 3, UINT32_MAX };
	uint64_t one = 1;
	unsigned from;

	scene(ways[_i]);
	wait_idle(&sleeper);
	from = pinged();
	for (unsigned i = 0; pinged() - from < 2000; i++) {
		__atomic_store_n(&sleeper.bell->idle, nonsense[i % 5], __ATOMIC_RELAXED);
		syscall(SYS_futex, &sleeper.bell->idle, FUTEX_WAKE, 1, NULL, NULL, 0);
		ck_assert_int_eq(write(sleeper.kick, &one, sizeof(one)), sizeof(one));
	}
	wait_idle(&sleeper);
	/* Without a kick, too, it is found sometime; and from then on it is like any other. */
	__atomic_store_n(&sleeper.bell->idle, BELL_AWAKE, __ATOMIC_RELAXED);
	cx_recv(&sleeper, 1, 0, 64);
	cx_send(&peer, 1, 1024, 5);
	receives(&sleeper, 1);
	receives(&peer, 1);
	wait_idle(&sleeper);
	cx_recv(&sleeper, 2, 0, 64);
	cx_send(&peer, 2, 1024, 5);
	receives(&sleeper, 2);
	receives(&peer, 2);
	scene_over();
}
END_TEST

/* More than there are words to wait for: the last ones kick by descriptors. */
START_TEST(in_a_crowd)
{
	struct rlimit files;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	scene("--shards=1");
	for (unsigned i = 0; i < CROWD; i++)
		cx_open(&crowd[i]);
	for (unsigned i = 0; i < CROWD; i += 50) {
		cx_connect(&crowd[i], &crowd[i]);
		wait_idle(&crowd[i]);
		cx_ping(&crowd[i]);
	}
	cx_connect(&crowd[CROWD - 1], &crowd[CROWD - 1]);
	wait_idle(&crowd[CROWD - 1]);
	cx_ping(&crowd[CROWD - 1]);
	for (unsigned i = 0; i < CROWD; i++)
		cx_close(&crowd[i]);
	scene_over();
}
END_TEST

int main(void)
{
	const TTest *const each[] = { posts, is_sent_to, ends, scribbles };
	Suite *suite = suite_create("idlers");
	TCase *tc;

	for (unsigned i = 0; i < sizeof(each) / sizeof(*each); i++) {
		tc = tcase_create(each[i]->name);
		tcase_set_timeout(tc, 60);
		tcase_add_loop_test(tc, each[i], 0, 2);
		suite_add_tcase(suite, tc);
	}
	tc = tcase_create("in_a_crowd");
	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, in_a_crowd);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
