/* SPDX-License-Identifier: MIT */
/*
 * overdue.c - a shard that is late, as its core was somebody else's: what has come in time for a timer is looked at before it, and where
 * nobody has looked the timer does not run out.
 */
#include "daemon/base/clock.h"
#include "daemon/cma/cma_agent.h"
#include "daemon/shard/bells.h"
#include "daemon/shard/hooks.h"
#include "daemon/shard/inbox.h"
#include "daemon/shard/net.h"
#include "daemon/shard/tap.h"
#include "daemon/shard/turn.h"
#include "lab/rule.h"
#include "program.h"
#include "proto/hdr.h"
#include "proto/why.h"
#include "t/nap.h"
#include "t/suite.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DELAY_NS 1000000u /* of the answer: far less than the ACK timeout */

static struct program prog;
static struct turn state;
static struct hooks hooks_were;

static void drop_causes(struct shard *s, unsigned device)
{
	struct why w;

	while (hca_why(s->hca[device], &w))
		;
}

/* A shard whose turns this thread takes; the address of its programs is its own. */
static void set_up(void)
{
	shard_begin();
	shards[0] = &shard;
	hooks_were = hooks;
	hooks.why_collect = drop_causes;
	shard.bells_fd = -1;
	shard.sleeps_until = MONO_NEVER;
	shard.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	shard.inbox = inbox_new();
	ck_assert(shard.kick_fd >= 0 && shard.inbox);
	ck_assert_int_eq(io_new(&shard.io, IO_EPOLL), 0);
	ck_assert_int_eq(io_add(shard.io, KICK_SLOT, shard.kick_fd), 0);
	ck_assert_int_eq(bells_begin(&shard), 0);
	ck_assert_int_eq(net_new(&shard.net, &shard, shard.io), 0);
	devices[0].gid[0] = (struct gid_row){ .gid = { [15] = 1 } };
	ck_assert_int_eq(net_row_set(shard.net, &devices[0], 0), 0);
	turn_init(&state);
	program_begin(&prog);
}

static void tear_down(void)
{
	program_end(&prog);
	turn_end(&state);
	net_free(shard.net);
	bells_end(&shard);
	io_free(shard.io);
	inbox_free(shard.inbox);
	close(shard.kick_fd);
	shards[0] = NULL;
	shard_end();
	hooks = hooks_were;
}

/* One that does not sleep at its end. */
static void turn_once(void)
{
	inbox_wake(&shard);
	ck_assert(turn(&shard, &state));
}

static void sleep_until(mono_t t)
{
	unsigned waited = 0;

	ck_assert(!mono_is_never(t));
	while (mono_before(clock_now(), t))
		nap(&waited);
}

/* The control thread calls the shard at the start and at the end: that takes one of its own here. */
static void *call_begin(void *started)
{
	ck_assert_int_eq(agents_start(NULL), 0);
	__atomic_store_n((bool *)started, true, __ATOMIC_RELEASE);
	return NULL;
}

static void *call_end(void *ended)
{
	agents_stop();
	__atomic_store_n((bool *)ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static void calls_take(void *(*caller)(void *))
{
	bool done = false, stop;
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, caller, &done), 0);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		inbox_open(&shard, &stop);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
}

/* ---- connections -------------------------------------------------------------------- */

/* A request that is not repeated, and given up soon. */
static int ask(struct cm *cm, void *id, mono_t now)
{
	const struct cm_connect c = { .req = { .service_id = 7, .qpn = 8 },
				      .route = { .sgid = { [15] = 1 }, .dgid = { [15] = 2 } } };

	return cm_connect(cm, &c, NULL, id, now);
}

static int listen_too(struct cm *cm, void *id, mono_t) { return cm_listen(cm, 9, NULL, id); }

/* The answer may wait in the socket, which the control thread in the place of a sleeping shard does not read: nothing is given up. */
START_TEST(connection)
{
	struct cm_event ev;
	struct device *dev;
	uint32_t id, other;
	mono_t now;

	set_up();
	calls_take(call_begin);
	ck_assert_int_eq(agent_call(&devices[0], ask, &id), 0);
	shard.sleeps_until = hooks.agents_deadline(&shard);
	sleep_until(shard.sleeps_until);
	ck_assert_int_eq(agent_call(&devices[0], listen_too, &other), 0);
	ck_assert_msg(!agent_event(&dev, &ev), "event %u", ev.type);
	now = clock_now();
	hooks.agents_turn(&shard, now);
	ck_assert(agent_event(&dev, &ev));
	ck_assert(ev.type == CM_EV_TIMEOUT && ev.id == id);
	calls_take(call_end);
	tear_down();
}
END_TEST

/* ---- packets that a rule delays ------------------------------------------------------- */

static void decide(struct flow *, struct tap_pkt *p, struct rule_verdict *v)
{
	*v = (struct rule_verdict){ 0 };
	if (p->dir != TAP_OUT || p->kind != TAP_ACK)
		return;
	v->delay_ns = DELAY_NS;
	strcpy(v->text, "late");
}

static const struct tap_judge judge = { decide };

static void *judge_come(void *done)
{
	ck_assert_int_eq(tap_judge(&judge), 0);
	__atomic_store_n((bool *)done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void *judge_go(void *done)
{
	tap_judge(NULL);
	__atomic_store_n((bool *)done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* An answer that was due long before the timer: the message is not sent again. */
START_TEST(delayed)
{
	struct hca *hca;

	set_up();
	hca = shard.hca[0];
	calls_take(judge_come);
	program_post(&prog, 1, 1);
	turn_once();
	ck_assert_uint_eq(RING_LOAD(&prog.cq.ring.hdr->prod), 1);
	ck_assert_msg(!mono_is_never(tap_deadline(&shard)), "nothing is held back");
	ck_assert(mono_before(tap_deadline(&shard), hca_deadline(hca)));
	sleep_until(hca_deadline(hca));
	turn_once();
	ck_assert_uint_eq(hca_stat(hca, HCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	ck_assert(mono_is_never(hca_deadline(hca)));
	calls_take(judge_go);
	tear_down();
}
END_TEST

TEST_MAIN("overdue", connection, delayed)
