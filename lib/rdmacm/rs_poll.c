/* SPDX-License-Identifier: MIT */
/* rs_poll.c - rpoll and rselect: rsockets and other descriptors together. */
#include "rs.h"

#include <limits.h>
#include <time.h>

#include <rdmad/own.h>

#define FILES_NS    100000
#define FILES_LOOKS 16u
#define FILES_SPINS 4u /* looks at streams alone for each one at ordinary descriptors, where nothing is ready */
#define FEW         4u /* descriptors that need no memory */

/* The entries that each one of the program's becomes while we sleep: of a socket up to RS_FDS, of anything else one. */
struct slot {
	struct rsock *rs;  /* held; NULL: not an rsocket */
	int64_t had, came; /* of rdmad_rpoll() */
	uint32_t gen;
	nfds_t at; /* of the set's p */
	int n;     /* 0: does not sleep, or the program passes the entry over */
};

struct set {
	struct slot *slots;
	struct pollfd *p;   /* room for RS_FDS of each */
	nfds_t n, p_n;      /* p_n: without gaps, as the kernel takes no more than a process may have descriptors */
	int cancel;         /* the thread's cancelability when it came */
	bool masked;        /* of rdmad_rpoll() */
	struct rsock *link; /* a connection, if there is one: news may come without the kernel */
	struct slot few_slots[FEW];
	struct pollfd few_p[FEW * RS_FDS];
};

/* The other news of a listener are its channel's, which is looked at with the other descriptors. */
short rs_ready(struct rsock *rs, short events)
{
	short r = 0;

	if (rs->ds)
		return ds_ready(rs, events);
	rs_progress(rs);
	switch (rs->state) {
	case RS_LISTEN: return rs->queue.n ? (short)(events & (POLLIN | POLLRDNORM)) : 0;
	case RS_FAILED: return (short)((events & (POLLIN | POLLOUT)) | POLLERR | POLLHUP);
	case RS_NEW: return (short)(POLLHUP | (events & POLLOUT));
	case RS_ADDR:
	case RS_ROUTE:
	case RS_CONNECTING: return 0;
	default: break;
	}
	if (rs->link.recv.used || rs->peer_shut || rs->rd_shut || rs->state == RS_CLOSED)
		r |= POLLIN | POLLRDNORM;
	if (rs->state == RS_CLOSED || rs->wr_shut || rs_can_send(rs))
		r |= POLLOUT | POLLWRNORM;
	if (rs->peer_shut || rs->rd_shut)
		r |= POLLRDHUP;
	r &= events;
	/* Data that came before the end is read first: some programs look no further than POLLHUP. */
	if (rs->wr_shut && rs->peer_shut && !rs->link.recv.used)
		r |= POLLHUP;
	if (rs->state == RS_CLOSED && !rs->link.recv.used && !rs_half(rs))
		r |= rs->err ? POLLHUP | POLLERR : POLLHUP;
	return r;
}

/* Locked.  The same for rdmad_rpoll(). */
static short slot_ready(struct slot *t, short events)
{
	short r = rs_ready(t->rs, events);

	t->came = t->rs->came;
	return t->had == t->came ? (short)(r & ~(POLLIN | POLLRDNORM)) : r;
}

/* Locked.  Whether it sleeps: nothing has come in between. */
static bool slot_sleep(struct slot *t, struct pollfd *p, short events)
{
	t->n = rs_sleep_begin(t->rs, p, &t->gen);
	return t->n && !slot_ready(t, events);
}

/* ---- one that somebody else looks after ----------------------------------------------------- */

EXPORT int rdmad_rs_sleep(int fd, short events, int64_t came, struct rdmad_rs_sleep *s)
{
	struct rsock *rs = rs_lock(fd);
	struct slot t = { .rs = rs, .had = came };
	bool sleeps;

	if (!rs)
		return -1;
	sleeps = rs->linked && !rs->ds && slot_sleep(&t, s->p, events);
	if (t.n && !sleeps)
		rs_sleeper_gone(rs, t.gen);
	s->gen = t.gen;
	rs_unlock_put(rs);
	return sleeps ? 0 : fail(EAGAIN);
}

EXPORT void rdmad_rs_awake(int fd, struct rdmad_rs_sleep *s)
{
	struct rsock *rs = rs_lock(fd);

	if (!rs)
		return;
	poll(s->p, RS_FDS, 0);
	rs_sleep_end(rs, s->p, RS_FDS, s->gen);
	rs_unlock_put(rs);
}

/* ---- one look at all ----------------------------------------------------------------------- */

/* At what is in memory: how many are ready. */
static int look(struct set *s, struct pollfd *fds)
{
	int n = 0;

	for (nfds_t i = 0; i < s->n; i++) {
		struct rsock *rs = s->slots[i].rs;

		fds[i].revents = 0;
		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		fds[i].revents = slot_ready(&s->slots[i], fds[i].events);
		if (rs->linked)
			s->link = rs;
		pthread_mutex_unlock(&rs->lock);
		n += fds[i].revents != 0;
	}
	return n;
}

/* Of one entry, with what the kernel found at its channel. */
static short found(struct slot *t, const struct pollfd *f, short channel)
{
	struct rsock *rs = t->rs;
	short r = f->revents;

	if (!channel)
		return r;
	pthread_mutex_lock(&rs->lock);
	if (rs->state == RS_LISTEN) {
		r |= f->events & POLLIN;
	} else {
		rs_events(rs);
		r = slot_ready(t, f->events);
	}
	pthread_mutex_unlock(&rs->lock);
	return r;
}

/* A number for the descriptors of a set; others mostly have another one. */
static uint64_t set_sum(const struct set *s, const struct pollfd *fds)
{
	uint64_t sum = s->n;

	for (nfds_t i = 0; i < s->n; i++)
		sum = sum * 31 + (unsigned)fds[i].fd;
	return sum;
}

/*
 * At everything, after look(), which found so many: how many are ready, or -1.  To ask the kernel takes longer than to serve a
 * socket that has data.  So while there are such it is asked once in FILES_NS, or in FILES_LOOKS looks of this thread at the same
 * descriptors: what is ready there is told so much later.
 */
static int look_all(struct set *s, struct pollfd *fds, int found_n)
{
	static _Thread_local struct {
		uint64_t set;
		int64_t at;
		unsigned looks;
	} asked;
	uint64_t set = set_sum(s, fds);
	int64_t now = rs_now_ns();
	int n = 0;

	if (found_n && asked.set == set && ++asked.looks < FILES_LOOKS && now - asked.at < FILES_NS)
		return found_n;
	asked.set = set;
	asked.at = now;
	asked.looks = 0;
	for (nfds_t i = 0; i < s->n; i++) {
		const struct rsock *rs = s->slots[i].rs;

		s->p[i] = rs ? (struct pollfd){ rs->ds ? -1 : rs->fd, POLLIN, 0 } : fds[i];
	}
	if (ppoll(s->p, s->n, &(struct timespec){ 0 }, NULL) < 0)
		return -1;
	for (nfds_t i = 0; i < s->n; i++) {
		struct slot *t = &s->slots[i];

		fds[i].revents = t->rs ? found(t, &fds[i], s->p[i].revents) : s->p[i].revents;
		n += fds[i].revents != 0;
	}
	return n;
}

static bool files_ready(struct set *s, const struct pollfd *fds)
{
	nfds_t n = 0;

	for (nfds_t i = 0; i < s->n; i++)
		if (!s->slots[i].rs && fds[i].fd >= 0)
			s->p[n++] = (struct pollfd){ .fd = fds[i].fd, .events = fds[i].events };
	return n && ppoll(s->p, n, &(struct timespec){ 0 }, NULL) > 0;
}

/*
 * The same as look(); if nothing is ready, and may soon be, for a while, or until an ordinary descriptor is: another thread may wake
 * this one by it for each message.
 */
static int look_on(struct set *s, struct pollfd *fds)
{
	struct rs_spin spin;
	int n = look(s, fds);

	if (n || !s->link)
		return n;
	rs_spin_begin(&spin);
	for (unsigned i = 1; !n && rs_signal() == RDMAD_SIGNAL_NONE && rs_spin_again(&spin, s->link); i++) {
		n = look(s, fds);
		if (!n && i % FILES_SPINS == 0 && files_ready(s, fds))
			return look_all(s, fds, 0);
	}
	return n;
}

/* ---- sleep ------------------------------------------------------------------------------------ */

static bool sleep_begin_rs(struct slot *t, struct pollfd *p, short events)
{
	bool quiet;

	pthread_mutex_lock(&t->rs->lock);
	quiet = slot_sleep(t, p, events);
	pthread_mutex_unlock(&t->rs->lock);
	return quiet;
}

/* Whether all of them sleep: none has news that came in between. */
static bool sleep_begin(struct set *s, const struct pollfd *fds)
{
	bool quiet = true;

	s->p_n = 0;
	for (nfds_t i = 0; i < s->n; i++) {
		struct slot *t = &s->slots[i];
		struct pollfd *p = &s->p[s->p_n];

		t->at = s->p_n;
		t->n = !t->rs && fds[i].fd >= 0;
		if (t->n)
			*p = (struct pollfd){ .fd = fds[i].fd, .events = fds[i].events };
		else if (t->rs && !sleep_begin_rs(t, p, fds[i].events))
			quiet = false;
		s->p_n += (nfds_t)t->n;
	}
	return quiet;
}

/* How many are ready. */
static int sleep_end(struct set *s, struct pollfd *fds)
{
	int ready = 0;

	for (nfds_t i = 0; i < s->n; i++) {
		struct slot *t = &s->slots[i];
		const struct pollfd *p = &s->p[t->at];

		fds[i].revents = t->n ? p->revents : 0;
		if (t->rs) {
			pthread_mutex_lock(&t->rs->lock);
			if (t->n)
				rs_sleep_end(t->rs, p, t->n, t->gen);
			fds[i].revents = slot_ready(t, fds[i].events);
			if (t->n && t->rs->state == RS_LISTEN && rs_sleep_channel(p))
				fds[i].revents |= fds[i].events & POLLIN;
			pthread_mutex_unlock(&t->rs->lock);
		}
		ready += fds[i].revents != 0;
	}
	return ready;
}

static void set_close(struct set *s)
{
	int err = errno;

	for (nfds_t i = 0; s->slots && i < s->n; i++)
		if (s->slots[i].rs)
			rs_put(s->slots[i].rs);
	if (s->slots != s->few_slots) {
		free(s->slots);
		free(s->p);
	}
	pthread_setcancelstate(s->cancel, NULL);
	errno = err;
}

struct sleeper {
	struct set *s;
	struct pollfd *fds;
};

static void sleep_cancelled(void *arg)
{
	const struct sleeper *t = arg;

	sleep_end(t->s, t->fds);
	set_close(t->s);
}

/* Here the thread may be cancelled. */
static int sleep_poll(struct set *s, struct pollfd *fds, const struct timespec *timeout)
{
	struct sleeper t = { s, fds };
	int n;

	pthread_cleanup_push(sleep_cancelled, &t);
	pthread_setcancelstate(s->cancel, NULL);
	n = s->masked ? ppoll(s->p, s->p_n, timeout, NULL) : rs_ppoll(s->p, s->p_n, timeout, RDMAD_SIGNAL_RESTARTS);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_pop(0);
	return n;
}

/* until: of rs_now_ns(), or -1.  How many are ready, or -1. */
static int sleep_all(struct set *s, struct pollfd *fds, int64_t until)
{
	struct timespec t = { 0 }, none = { 0 }, *timeout = NULL;
	int64_t left = until < 0 ? 0 : until - rs_now_ns();
	int err = 0, n;

	left = left < 0 ? 0 : left;
	if (until >= 0) {
		t = (struct timespec){ left / 1000000000, left % 1000000000 };
		timeout = &t;
	}
	if (!sleep_begin(s, fds))
		timeout = &none;
	if (sleep_poll(s, fds, timeout) < 0) {
		err = errno;
		for (nfds_t i = 0; i < s->p_n; i++)
			s->p[i].revents = 0;
	}
	n = sleep_end(s, fds);
	return err ? fail(err) : n;
}

/* As rs_doze(), for a set of one stream.  How many are ready, or -1. */
static int doze_or_sleep(struct set *s, struct pollfd *fds, int64_t until)
{
	struct slot *t = &s->slots[0];
	int err = ETIMEDOUT;

	if (rs_signal() != RDMAD_SIGNAL_NONE)
		return fail(EINTR);
	if (s->n == 1 && s->link && !s->masked) {
		pthread_mutex_lock(&t->rs->lock);
		err = slot_ready(t, fds->events) ? 0 : rs_doze(t->rs, until < 0 ? INT64_MAX : until);
		fds->revents = slot_ready(t, fds->events);
		pthread_mutex_unlock(&t->rs->lock);
	}
	if (err == ETIMEDOUT)
		return sleep_all(s, fds, until);
	return err ? fail(err) : fds->revents != 0;
}

/* All that is asked for: the kernel would tell nothing more. */
static bool all_found(const struct set *s, const struct pollfd *fds)
{
	nfds_t i = 0;

	while (i < s->n && fds[i].revents && !(fds[i].events & ~fds[i].revents))
		i++;
	return i == s->n;
}

static int poll_set(struct set *s, struct pollfd *fds, int timeout)
{
	int64_t until = timeout < 0 ? -1 : rs_now_ns() + timeout * INT64_C(1000000);
	int n;

	n = timeout ? look_on(s, fds) : look(s, fds);
	if ((n || !timeout) && !all_found(s, fds))
		n = look_all(s, fds, n);
	/* For who asks in a loop: what it waits for needs a core, too; and if it needs it for long, this takes a nap. */
	if (!timeout && !n && s->link)
		rdmad_cq_idle(s->link->link.cq);
	if (!timeout || n)
		return n;
	do
		n = doze_or_sleep(s, fds, until);
	while (!n && (until < 0 || rs_now_ns() < until));
	return n;
}

/* ---- the calls ------------------------------------------------------------------------------------ */

static int set_open(struct set *s, const struct pollfd *fds, nfds_t n, const int64_t *came, bool masked)
{
	*s = (struct set){ .n = n, .masked = masked };
	pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel);
	s->slots = n > FEW ? calloc(n, sizeof(*s->slots)) : s->few_slots;
	s->p = n > FEW ? calloc(n * RS_FDS, sizeof(*s->p)) : s->few_p;
	if (!s->slots || !s->p)
		return ENOMEM;
	for (nfds_t i = 0; i < n; i++) {
		s->slots[i].rs = fds[i].fd < 0 ? NULL : rs_get(fds[i].fd);
		s->slots[i].had = came ? came[i] : -1;
	}
	return 0;
}

EXPORT int rdmad_rpoll(struct pollfd *fds, nfds_t n, int timeout, int64_t *came, bool masked)
{
	struct set s;
	int err = set_open(&s, fds, n, came, masked), ret;

	ret = err ? fail(err) : poll_set(&s, fds, timeout);
	for (nfds_t i = 0; came && !err && i < n; i++)
		if (s.slots[i].rs)
			came[i] = s.slots[i].came;
	set_close(&s);
	return ret;
}

EXPORT int rpoll(struct pollfd *fds, nfds_t n, int timeout) { return rdmad_rpoll(fds, n, timeout, NULL, false); }

static bool in_set(int fd, const fd_set *s) { return s && FD_ISSET(fd, s); }

static nfds_t sets_to_fds(int n, const fd_set *r, const fd_set *w, const fd_set *e, struct pollfd *fds)
{
	nfds_t k = 0;

	for (int fd = 0; fd < n; fd++) {
		short events = 0;

		if (in_set(fd, r))
			events |= POLLIN;
		if (in_set(fd, w))
			events |= POLLOUT;
		if (in_set(fd, e))
			events |= POLLPRI;
		if (events)
			fds[k++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return k;
}

static int bit_keep(int fd, fd_set *s, bool on)
{
	if (!in_set(fd, s))
		return 0;
	if (!on)
		FD_CLR(fd, s);
	return on;
}

/* At most what an int says: 24 days. */
static int ms_of(const struct timeval *t)
{
	return t->tv_sec >= INT_MAX / 1000 ? INT_MAX : (int)(t->tv_sec * 1000 + (t->tv_usec + 999) / 1000);
}

EXPORT int rselect(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	int ms = timeout ? ms_of(timeout) : -1;
	int ret, bits = 0;
	nfds_t k;

	if (n < 0 || n > FD_SETSIZE)
		return fail(EINVAL);
	k = sets_to_fds(n, r, w, e, fds);
	ret = rpoll(fds, k, ms);
	if (ret < 0)
		return -1;
	for (nfds_t i = 0; i < k; i++) {
		short v = fds[i].revents;

		if (v & POLLNVAL)
			return fail(EBADF);
		bits += bit_keep(fds[i].fd, r, v & (POLLIN | POLLHUP | POLLERR));
		bits += bit_keep(fds[i].fd, w, v & (POLLOUT | POLLERR));
		bits += bit_keep(fds[i].fd, e, v & POLLPRI);
	}
	return bits;
}
