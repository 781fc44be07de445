/* SPDX-License-Identifier: MIT */
/* api_arm.c - completion events: when they come, and when they do not. */
#include "scene.h"

#include <fcntl.h>

START_TEST(completion)
{
	struct scene s;
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	scene_open(&s);
	/* Not armed: nothing comes.  (The send's completion says that the receive's is there.) */
	send_one(&s, IBV_SEND_SOLICITED);
	fix_wait_ok(s.rcq);
	ck_assert(!readable(s.ch->fd, 0));
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 0), 0);
	send_one(&s, 0);
	ck_assert(readable(s.ch->fd, 10000));
	ck_assert_int_eq(ibv_get_cq_event(s.ch, &cq, &context), 0);
	ck_assert(cq == s.rcq && context == &s);
	fix_wait_ok(s.rcq);
	/* One event for one request. */
	send_one(&s, 0);
	fix_wait_ok(s.rcq);
	ck_assert(!readable(s.ch->fd, 0));
	/* Solicited only. */
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 1), 0);
	send_one(&s, 0);
	fix_wait_ok(s.rcq);
	ck_assert(!readable(s.ch->fd, 0));
	send_one(&s, IBV_SEND_SOLICITED);
	ck_assert(readable(s.ch->fd, 10000));
	ck_assert_int_eq(ibv_get_cq_event(s.ch, &cq, &context), 0);
	ibv_ack_cq_events(s.rcq, 2);
	/* Without waiting. */
	ck_assert_int_eq(fcntl(s.ch->fd, F_SETFL, fcntl(s.ch->fd, F_GETFL) | O_NONBLOCK), 0);
	errno = 0;
	ck_assert_int_eq(ibv_get_cq_event(s.ch, &cq, &context), -1);
	ck_assert_int_eq(errno, EAGAIN);
	scene_close(&s);
}
END_TEST

static void one_event(struct scene *s)
{
	event_take(s->ch, s->rcq);
	ck_assert(!readable(s->ch->fd, 0));
}

/* Errors wake also who waits for solicited ones only; the armed state survives a resize. */
START_TEST(armed)
{
	struct scene s;

	scene_open(&s);
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 1), 0);
	ck_assert_int_eq(ibv_resize_cq(s.rcq, 200), 0);
	ck_assert_int_eq(fix_state(s.b, IBV_QPS_ERR), 0);
	one_event(&s);
	for (unsigned i = 0; i < 16; i++)
		ck_assert_int_eq(fix_wait(s.rcq).status, IBV_WC_WR_FLUSH_ERR);
	scene_close(&s);
}
END_TEST

/* A CQ that holds completions when it is armed: there is an event at once, as with adapters; again, if some are left. */
START_TEST(armed_with_completions)
{
	struct scene s;

	scene_open(&s);
	for (int solicited = 0; solicited < 2; solicited++) {
		unsigned flags = solicited ? IBV_SEND_SOLICITED : 0;

		send_one(&s, flags);
		send_one(&s, flags);
		ck_assert_int_eq(ibv_req_notify_cq(s.rcq, solicited), 0);
		one_event(&s);
		fix_wait_ok(s.rcq);
		ck_assert_int_eq(ibv_req_notify_cq(s.rcq, solicited), 0);
		one_event(&s);
		fix_wait_ok(s.rcq);
		ck_assert_int_eq(ibv_req_notify_cq(s.rcq, solicited), 0);
		ck_assert(!readable(s.ch->fd, 0));
		send_one(&s, flags);
		one_event(&s);
		fix_wait_ok(s.rcq);
	}
	scene_close(&s);
}
END_TEST

/* Nobody is to be woken by those that are not solicited. */
START_TEST(armed_with_unsolicited)
{
	struct scene s;

	scene_open(&s);
	send_one(&s, 0);
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 1), 0);
	send_one(&s, 0); /* the daemon has been there */
	ck_assert(!readable(s.ch->fd, 0));
	fix_wait_ok(s.rcq);
	fix_wait_ok(s.rcq);
	scene_close(&s);
}
END_TEST

/* A program that has read an event, and arms before it polls, finds by polling what has come meanwhile. */
START_TEST(armed_by_event)
{
	struct scene s;

	scene_open(&s);
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 0), 0);
	send_one(&s, 0);
	one_event(&s);
	send_one(&s, 0);
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 0), 0);
	ck_assert(!readable(s.ch->fd, 0));
	fix_wait_ok(s.rcq);
	fix_wait_ok(s.rcq);
	scene_close(&s);
}
END_TEST

static bool event_come(struct scene *s)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(s->ch, &cq, &context))
		return false;
	ibv_ack_cq_events(cq, 1);
	return true;
}

/* A program that reads an event, arms, and polls one of two hears of the other one; once, if it does not poll that. */
START_TEST(armed_and_left)
{
	struct scene s;

	scene_open(&s);
	ck_assert_int_eq(fcntl(s.ch->fd, F_SETFL, fcntl(s.ch->fd, F_GETFL) | O_NONBLOCK), 0);
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 0), 0);
	send_one(&s, 0);
	send_one(&s, 0);
	one_event(&s);
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 0), 0);
	fix_wait_ok(s.rcq);
	if (!event_come(&s))
		one_event(&s);
	ck_assert(!event_come(&s));
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 0), 0);
	fix_wait_ok(s.rcq);
	ck_assert(!event_come(&s));
	ck_assert(!readable(s.ch->fd, 0));
	scene_close(&s);
}
END_TEST

/* The completions that a larger ring is behind of are looked at, too. */
START_TEST(armed_resized)
{
	struct scene s;

	scene_open(&s);
	send_one(&s, 0);
	ck_assert_int_eq(ibv_resize_cq(s.rcq, 200), 0);
	ck_assert_int_eq(ibv_req_notify_cq(s.rcq, 0), 0);
	one_event(&s);
	fix_wait_ok(s.rcq);
	scene_close(&s);
}
END_TEST

void api_arm(Suite *s)
{
	SUITE_ADD(s, completion, armed, armed_with_completions, armed_with_unsolicited, armed_by_event, armed_and_left,
		  armed_resized);
}
