/* SPDX-License-Identifier: MIT */
/*
 * rs_wait.c - threads that sleep until there is news of a socket.
 *
 * Any of them may take the news of all: then it wakes the others (rs_wake.c).
 */
#include "rs.h"

#include <rdmad/own.h>
#include <rdmad/restart.h>

enum { AT_KICK, AT_CM, AT_CQ };

#define DOZE_NS 20000000

/* The CQ's event comes only for what completes after arming, so look once more. */
static bool link_arm(struct rsock *rs)
{
	if (!rs->link.armed) {
		ibv_req_notify_cq(rs->link.cq, 0);
		rs->link.armed = true;
	}
	return !rs_progress(rs);
}

int rs_sleep_begin(struct rsock *rs, struct pollfd *p, uint32_t *gen)
{
	bool quiet = rs->ds ? ds_arm(rs) : !rs->linked || link_arm(rs);

	if (!quiet)
		return 0;
	p[AT_KICK] = (struct pollfd){ .fd = rs->kick, .events = POLLIN };
	p[AT_CM] = (struct pollfd){ .fd = rs->ds ? -1 : rs->fd, .events = POLLIN };
	p[AT_CQ] = (struct pollfd){ .fd = -1, .events = POLLIN };
	if (rs->ds)
		p[AT_CQ].fd = ds_sleep_fd(rs);
	else if (rs->linked)
		p[AT_CQ].fd = rs->link.cc->fd;
	*gen = rs_sleeper_add(rs);
	return RS_FDS;
}

bool rs_sleep_channel(const struct pollfd *p) { return p[AT_CM].revents; }

static void cq_event_take(struct rsock *rs)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(rs->link.cc, &cq, &context)) {
		rdmad_cq_look(rs->link.cq); /* the daemon may have closed its end */
		return;
	}
	ibv_ack_cq_events(cq, 1);
	rs->link.armed = false;
	rs_wake(rs); /* others sleep because it was */
}

void rs_sleep_end(struct rsock *rs, const struct pollfd *p, int n, uint32_t gen)
{
	rs_sleeper_gone(rs, gen);
	if (n < RS_FDS)
		return;
	if (rs->ds) {
		if (p[AT_CQ].revents)
			ds_event_take(rs);
		ds_progress(rs);
		return;
	}
	if (p[AT_CQ].revents && rs->linked)
		cq_event_take(rs);
	if (rs->linked)
		rs_progress(rs);
	if (p[AT_CM].revents && rs->state != RS_LISTEN)
		rs_events(rs);
}

/*
 * Most of who waits for an answer has it in a moment, and is woken by the daemon alone: that takes half the time of a sleep on three
 * descriptors.  What else there may be to hear of (the peer has gone, the daemon has, this thread is cancelled) is heard by the
 * sleep behind it.
 */
int rs_doze(struct rsock *rs, int64_t until)
{
	int64_t left = until - rs_now_ns();
	int cancel = rs->cancel, err;

	if (!rs->linked || rs->ds || rs->state != RS_CONNECTED || rs->held || left <= 0)
		return ETIMEDOUT;
	rdmad_cq_doze(rs->link.cq);
	if (rs_progress(rs))
		return 0;
	rs->dozers++;
	pthread_mutex_unlock(&rs->lock);
	err = rdmad_cq_sleep(rs->link.cq, left < DOZE_NS ? left : DOZE_NS);
	pthread_mutex_lock(&rs->lock);
	rs->cancel = cancel;
	rs->dozers--;
	rs_progress(rs);
	return err;
}

/* false: nothing has happened.  Not of datagrams: who waits for those waits for UDP, too. */
static bool news_come(struct rsock *rs)
{
	uint32_t before = rs->news;
	struct rs_spin spin;

	if (!rs->linked || rs->ds)
		return false;
	rs_spin_begin(&spin);
	for (;;) {
		bool again;

		rs_progress(rs);
		if (rs->news != before)
			return true;
		pthread_mutex_unlock(&rs->lock);
		again = rs_spin_again(&spin, rs);
		pthread_mutex_lock(&rs->lock);
		if (!again)
			return rs->news != before;
	}
}

/* 0, or an errno. */
static int sleep_until(struct pollfd *p, int64_t until, enum rdmad_signal least)
{
	int64_t left = until - rs_now_ns();
	struct timespec t = { left / 1000000000, left % 1000000000 };
	int n = left > 0 ? rs_ppoll(p, RS_FDS, until == INT64_MAX ? NULL : &t, least) : 0, err = errno;

	if (n > 0)
		return 0;
	for (int i = 0; i < RS_FDS; i++)
		p[i].revents = 0;
	return n ? err : ETIMEDOUT;
}

struct sleep {
	struct rsock *rs;
	struct pollfd p[RS_FDS];
	uint32_t gen;
	int n, cancel;
};

static void sleep_end(struct sleep *s)
{
	pthread_mutex_lock(&s->rs->lock);
	s->rs->cancel = s->cancel;
	rs_sleep_end(s->rs, s->p, s->n, s->gen);
}

static void sleep_cancelled(void *arg)
{
	struct sleep *s = arg;

	sleep_end(s);
	rs_unlock_put(s->rs);
}

static int wait_until(struct rsock *rs, int64_t until, enum rdmad_signal least)
{
	struct sleep s = { .rs = rs, .cancel = rs->cancel };
	bool news = news_come(rs);
	int err;

	rs->cancel = s.cancel; /* another thread may have had the lock meanwhile */
	err = news ? 0 : rs_signal() >= least ? EINTR : rs_doze(rs, until);
	if (err != ETIMEDOUT)
		return err;
	s.n = rs_sleep_begin(rs, s.p, &s.gen);
	if (!s.n)
		return 0;
	pthread_mutex_unlock(&rs->lock);
	pthread_cleanup_push(sleep_cancelled, &s);
	pthread_setcancelstate(s.cancel, NULL);
	err = sleep_until(s.p, until, least);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
	sleep_end(&s);
	return err;
}

int rs_wait_until(struct rsock *rs, int64_t until) { return wait_until(rs, until, RDMAD_SIGNAL_ENDS + 1); }

int rs_wait(struct rsock *rs)
{
	int err = rs_signal() == RDMAD_SIGNAL_ENDS ? EINTR : wait_until(rs, INT64_MAX, RDMAD_SIGNAL_ENDS);

	if (err != EINTR)
		return err;
	switch (rs_signal()) {
	case RDMAD_SIGNAL_NONE: return restart_after_signal() ? 0 : err;
	case RDMAD_SIGNAL_RESTARTS: return 0;
	default: return err;
	}
}
