/* SPDX-License-Identifier: MIT */
/*
 * rs_svc.c - the library's own thread, for work that no call of the program's does: to read the UDP side of datagram
 * sockets, to make and accept connections that a program does not wait for, and to tell peers that a stream is alive.
 *
 * There is no such thread while no socket needs it.  Locks: a socket's, then svc_lock; the thread holds only one of
 * them.
 */
#include "rs.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/apart.h>
#include <rdmad/clock.h>
#include <rdmad/high.h>

static pthread_mutex_t svc_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t svc_cond = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER; /* before svc_lock: the thread does not sleep */
static struct rsock *svc_list, **svc_end = &svc_list; /* in the order in which they came: so connections are begun */
static bool svc_runs;
static int svc_kick = -1;
static uint64_t svc_round; /* it has looked at the list anew */

enum { AGAIN_MS = 100 };

struct round {
	struct pollfd *p;
	struct rsock **rs; /* held; p[i + 1] is its */
	size_t n;
	int64_t due;
};

int64_t rs_now_ns(void) { return (int64_t)clock_ns(CLOCK_MONOTONIC); }
int64_t rs_now_ms(void) { return rs_now_ns() / 1000000; }

static bool connects(const struct rsock *rs) { return __atomic_load_n(&rs->svc.connects, __ATOMIC_RELAXED); }

static rs_early *listens(const struct rsock *rs) { return __atomic_load_n(&rs->svc.early, __ATOMIC_RELAXED); }

static bool needed(const struct rsock *rs)
{
	return rs->ds || connects(rs) || listens(rs) || __atomic_load_n(&rs->svc.due, __ATOMIC_RELAXED) != INT64_MAX;
}

/* Without those that need nothing any more: is one left? */
static bool list_left(void)
{
	struct rsock **p = &svc_list, *rs;

	while ((rs = *p)) {
		if (needed(rs)) {
			p = &rs->svc.next;
			continue;
		}
		*p = rs->svc.next;
		rs->svc.on = false;
	}
	svc_end = p;
	return svc_list;
}

static bool watched(const struct rsock *rs) { return rs->ds || connects(rs) || (listens(rs) && !rs->svc.early_at); }

static int64_t due_of(const struct rsock *rs)
{
	int64_t due = __atomic_load_n(&rs->svc.due, __ATOMIC_RELAXED);

	return rs->svc.early_at && rs->svc.early_at < due ? rs->svc.early_at : due;
}

static void round_end(struct round *r)
{
	for (size_t i = 0; i < r->n; i++)
		rs_put(r->rs[i]);
	free(r->p);
	free(r->rs);
}

/* For want of memory one without sockets, and a short one. */
static void round_begin(struct round *r)
{
	size_t n = 0;

	for (struct rsock *rs = svc_list; rs; rs = rs->svc.next)
		n++;
	*r = (struct round){ .due = INT64_MAX };
	r->p = calloc(n + 1, sizeof(*r->p));
	r->rs = calloc(n + 1, sizeof(struct rsock *));
	if (!r->p || !r->rs) {
		round_end(r);
		*r = (struct round){ .due = rs_now_ms() + AGAIN_MS };
		return;
	}
	r->p[0] = (struct pollfd){ .fd = svc_kick, .events = POLLIN };
	for (struct rsock *rs = svc_list; rs; rs = rs->svc.next) {
		rs_hold(rs);
		r->rs[r->n++] = rs;
		r->p[r->n] = (struct pollfd){ .fd = watched(rs) ? rs->fd : -1, .events = POLLIN };
		r->due = due_of(rs) < r->due ? due_of(rs) : r->due;
	}
}

static void round_sleep(struct round *r)
{
	int64_t left = r->due == INT64_MAX ? -1 : r->due - rs_now_ms();
	struct timespec t = { left / 1000, left % 1000 * 1000000 };
	eventfd_t n;

	if (left < 0)
		t = (struct timespec){ 0 };
	if (ppoll(r->p, r->p ? r->n + 1 : 0, r->due == INT64_MAX ? NULL : &t, NULL) < 0)
		return;
	if (r->p && r->p[0].revents)
		eventfd_read(svc_kick, &n);
}

static void connect_work(struct rsock *rs)
{
	pthread_mutex_lock(&rs->lock);
	rs_events(rs);
	pthread_mutex_unlock(&rs->lock);
}

static void listen_work(struct rsock *rs, bool came, int64_t now)
{
	bool waited = rs->svc.early_at && rs->svc.early_at <= now;

	if (came || waited)
		rs->svc.early_at = listens(rs)(rs, waited);
}

static void round_work(struct round *r)
{
	int64_t now = rs_now_ms();

	for (size_t i = 0; i < r->n; i++) {
		struct rsock *rs = r->rs[i];

		if (listens(rs))
			listen_work(rs, r->p[i + 1].revents, now);
		else if (r->p[i + 1].revents && rs->ds)
			ds_udp_work(rs);
		else if (r->p[i + 1].revents)
			connect_work(rs);
		if (__atomic_load_n(&rs->svc.due, __ATOMIC_RELAXED) <= now)
			rs_keep_work(rs, now);
	}
}

static void *svc_run(void *arg)
{
	static struct round
		r; /* not on its stack, which a child by fork() has no use for: there it would be memory that nobody has */

	pthread_mutex_lock(&work_lock);
	pthread_mutex_lock(&svc_lock);
	while (list_left()) {
		round_begin(&r);
		svc_round++;
		pthread_cond_broadcast(&svc_cond);
		pthread_mutex_unlock(&svc_lock);
		pthread_mutex_unlock(&work_lock);
		round_sleep(&r);
		pthread_mutex_lock(&work_lock);
		round_work(&r);
		round_end(&r);
		pthread_mutex_lock(&svc_lock);
	}
	svc_runs = false;
	close(svc_kick);
	svc_kick = -1;
	pthread_cond_broadcast(&svc_cond);
	pthread_mutex_unlock(&svc_lock);
	pthread_mutex_unlock(&work_lock);
	return arg;
}

static int svc_start(void)
{
	int err;

	svc_kick = fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (svc_kick < 0)
		return errno;
	err = apart_run(svc_run, NULL);
	if (err)
		close(svc_kick);
	svc_runs = !err;
	return err;
}

/* ---- fork ------------------------------------------------------------------------------- */

static void work_stop(void) { pthread_mutex_lock(&work_lock); }
static void work_go(void) { pthread_mutex_unlock(&work_lock); }

/*
 * A child of a program without threads may do all; so while such a program forks, the thread, of which it does not know, has no lock.
 * It works by calls of others, as of an allocator, or of rdmad-run --check, and their handlers lock them before a fork, too: this one
 * is registered as late as can be, and so waits before they do.
 */
static void work_guard(void)
{
	static bool guarded;

	if (!__atomic_exchange_n(&guarded, true, __ATOMIC_RELAXED))
		pthread_atfork(work_stop, work_go, work_go);
}

static void fork_before(void) { pthread_mutex_lock(&svc_lock); }
static void fork_after(void) { pthread_mutex_unlock(&svc_lock); }

/* Neither the thread nor its sockets are this process's. */
static void fork_child(void)
{
	if (svc_runs)
		close(svc_kick);
	svc_cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	svc_kick = -1;
	svc_runs = false;
	svc_list = NULL;
	svc_end = &svc_list;
	fork_after();
}

__attribute__((constructor)) static void svc_open(void) { pthread_atfork(fork_before, fork_after, fork_child); }

/* ---- the list ----------------------------------------------------------------------------- */

int rs_svc_add(struct rsock *rs, int64_t due)
{
	int err = 0, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	work_guard();
	pthread_mutex_lock(&svc_lock);
	__atomic_store_n(&rs->svc.due, due, __ATOMIC_RELAXED);
	if (!rs->svc.on) {
		rs->svc.next = NULL;
		*svc_end = rs;
		svc_end = &rs->svc.next;
		rs->svc.on = true;
	}
	if (!svc_runs)
		err = svc_start();
	else
		eventfd_write(svc_kick, 1);
	pthread_mutex_unlock(&svc_lock);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

void rs_svc_del(struct rsock *rs)
{
	struct rsock **p;
	uint64_t seen;

	pthread_mutex_lock(&svc_lock);
	for (p = &svc_list; *p && *p != rs; p = &(*p)->svc.next)
		;
	if (*p) {
		*p = rs->svc.next;
		if (!*p)
			svc_end = p;
		rs->svc.on = false;
		seen = svc_round;
		if (svc_runs)
			eventfd_write(svc_kick, 1);
		while (svc_runs && svc_round == seen)
			pthread_cond_wait(&svc_cond, &svc_lock);
	}
	pthread_mutex_unlock(&svc_lock);
}

/* ---- streams on their way --------------------------------------------------------------- */

void rs_svc_connect(struct rsock *rs)
{
	if (connects(rs))
		return;
	__atomic_store_n(&rs->svc.connects, true, __ATOMIC_RELAXED);
	rs_svc_add(rs, rs->svc.due);
}

void rs_svc_connected(struct rsock *rs)
{
	if (!connects(rs))
		return;
	__atomic_store_n(&rs->svc.connects, false, __ATOMIC_RELAXED);
	pthread_mutex_lock(&svc_lock);
	if (svc_runs)
		eventfd_write(svc_kick, 1);
	pthread_mutex_unlock(&svc_lock);
}

/* ---- listeners ---------------------------------------------------------------------------- */

/* Without a thread clients wait until the program comes. */
void rs_svc_listen(struct rsock *rs, rs_early *early)
{
	if (listens(rs))
		return;
	__atomic_store_n(&rs->svc.early, early, __ATOMIC_RELAXED);
	rs_svc_add(rs, rs->svc.due);
}

/* ---- streams that shall be kept alive ---------------------------------------------------- */

void rs_keep_update(struct rsock *rs)
{
	if (rs->opts.keepalive)
		rs_svc_add(rs, rs_now_ms() + (int64_t)rs->opts.keep_idle * 1000);
	else
		__atomic_store_n(&rs->svc.due, INT64_MAX, __ATOMIC_RELAXED);
}

void rs_keep_work(struct rsock *rs, int64_t now)
{
	pthread_mutex_lock(&rs->lock);
	__atomic_store_n(&rs->svc.due, now + (int64_t)rs->opts.keep_idle * 1000, __ATOMIC_RELAXED);
	rs_progress(rs);
	if (rs->state == RS_CONNECTED && rs->opts.keepalive && rs->link.ctl_free >= 2)
		rs_push_alive(rs);
	pthread_mutex_unlock(&rs->lock);
}
