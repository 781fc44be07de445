/* SPDX-License-Identifier: MIT */
/* rs_poll.c - rpoll and rselect: rsockets and other descriptors together. */
#include "rs.h"

#include <signal.h>
#include <time.h>

/* The entries that each one of the program's becomes while we sleep: of a socket up to RS_FDS, of anything else one. */
struct slot {
	struct rsock *rs; /* held; NULL: not an rsocket */
	uint32_t gen;
	int n; /* 0: does not sleep */
};

struct set {
	struct slot *slots;
	struct pollfd *p; /* RS_FDS for each */
	nfds_t n;
	nfds_t rsocks;
};

enum { SPIN_US = 10 };

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static bool cm_waits(const struct rsock *rs)
{
	struct pollfd p = { .fd = rs->fd, .events = POLLIN };

	return ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0;
}

short rs_ready(struct rsock *rs, short events)
{
	short r = 0;

	if (rs->ds)
		return ds_ready(rs, events);
	rs_progress(rs);
	switch (rs->state) {
	case RS_LISTEN: return events & POLLIN && cm_waits(rs) ? POLLIN : 0;
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
	if (rs->peer_shut)
		r |= POLLRDHUP;
	r &= events;
	/* Data that came before the end is read first: some programs look no further than POLLHUP. */
	if (rs->state == RS_CLOSED && !rs->link.recv.used)
		r |= rs->err ? POLLHUP | POLLERR : POLLHUP;
	return r;
}

/* ---- one look at all ----------------------------------------------------------------------- */

static int look(struct set *s, struct pollfd *fds)
{
	int ready = 0;

	for (nfds_t i = 0; i < s->n; i++) {
		struct rsock *rs = s->slots[i].rs;

		s->p[i] = (struct pollfd){ .fd = rs ? -1 : fds[i].fd, .events = fds[i].events };
		fds[i].revents = 0;
		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		fds[i].revents = rs_ready(rs, fds[i].events);
		pthread_mutex_unlock(&rs->lock);
		ready += fds[i].revents != 0;
	}
	if (s->rsocks == s->n)
		return ready;
	if (ppoll(s->p, s->n, &(struct timespec){ 0 }, NULL) < 0)
		return -1;
	for (nfds_t i = 0; i < s->n; i++) {
		if (s->slots[i].rs)
			continue;
		fds[i].revents = s->p[i].revents;
		ready += fds[i].revents != 0;
	}
	return ready;
}

/* A socket that waits for nothing but events of its connection: they are taken before the first look. */
static void events_take(struct set *s)
{
	for (nfds_t i = 0; i < s->n; i++) {
		struct rsock *rs = s->slots[i].rs;

		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		if (!rs->ds && rs->state != RS_LISTEN && cm_waits(rs))
			rs_events(rs);
		pthread_mutex_unlock(&rs->lock);
	}
}

/* ---- sleep ------------------------------------------------------------------------------------ */

/* Whether all of them sleep: none has news that came in between. */
static bool sleep_begin(struct set *s, const struct pollfd *fds)
{
	bool quiet = true;

	for (nfds_t i = 0; i < s->n; i++) {
		struct slot *t = &s->slots[i];
		struct pollfd *p = &s->p[i * RS_FDS];

		for (int k = 0; k < RS_FDS; k++)
			p[k] = (struct pollfd){ .fd = -1 };
		t->n = 0;
		if (!t->rs) {
			p[0] = (struct pollfd){ .fd = fds[i].fd, .events = fds[i].events };
			continue;
		}
		pthread_mutex_lock(&t->rs->lock);
		t->n = rs_sleep_begin(t->rs, p, &t->gen);
		if (!t->n || rs_ready(t->rs, fds[i].events))
			quiet = false;
		pthread_mutex_unlock(&t->rs->lock);
	}
	return quiet;
}

static void sleep_end(struct set *s)
{
	for (nfds_t i = 0; i < s->n; i++) {
		struct slot *t = &s->slots[i];

		if (!t->n)
			continue;
		pthread_mutex_lock(&t->rs->lock);
		rs_sleep_end(t->rs, &s->p[i * RS_FDS], t->n, t->gen);
		pthread_mutex_unlock(&t->rs->lock);
	}
}

/* until: in us, or -1.  0 or an errno. */
static int sleep_all(struct set *s, const struct pollfd *fds, int64_t until)
{
	struct timespec t = { 0 }, none = { 0 }, *timeout = NULL;
	int64_t left = until < 0 ? 0 : until - now_us();
	int err = 0;

	left = left < 0 ? 0 : left;
	if (until >= 0) {
		t = (struct timespec){ left / 1000000, left % 1000000 * 1000 };
		timeout = &t;
	}
	if (!sleep_begin(s, fds))
		timeout = &none;
	if (ppoll(s->p, s->n * RS_FDS, timeout, NULL) < 0) {
		err = errno;
		for (nfds_t i = 0; i < s->n * RS_FDS; i++)
			s->p[i].revents = 0;
	}
	sleep_end(s);
	return err;
}

static int poll_set(struct set *s, struct pollfd *fds, int timeout)
{
	int64_t start = now_us(), until = timeout < 0 ? -1 : start + timeout * INT64_C(1000);
	int n, err;

	events_take(s);
	for (;;) {
		n = look(s, fds);
		if (n || !timeout)
			return n;
		if (now_us() - start < SPIN_US)
			continue;
		if (until >= 0 && now_us() >= until)
			return 0;
		err = sleep_all(s, fds, until);
		if (err)
			return fail(err);
	}
}

/* ---- the calls ------------------------------------------------------------------------------------ */

static int set_open(struct set *s, const struct pollfd *fds, nfds_t n)
{
	*s = (struct set){ .n = n };
	s->slots = calloc(n ? n : 1, sizeof(*s->slots));
	s->p = calloc(n ? n * RS_FDS : 1, sizeof(*s->p));
	if (!s->slots || !s->p)
		return ENOMEM;
	for (nfds_t i = 0; i < n; i++) {
		s->slots[i].rs = fds[i].fd < 0 ? NULL : rs_get(fds[i].fd);
		s->rsocks += s->slots[i].rs != NULL;
	}
	return 0;
}

static void set_close(struct set *s)
{
	int err = errno;

	for (nfds_t i = 0; s->slots && i < s->n; i++)
		if (s->slots[i].rs)
			rs_put(s->slots[i].rs);
	free(s->slots);
	free(s->p);
	errno = err;
}

EXPORT int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct set s;
	int err = set_open(&s, fds, n), ret;

	ret = err ? fail(err) : poll_set(&s, fds, timeout);
	set_close(&s);
	return ret;
}

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

EXPORT int rselect(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	int ms = timeout ? (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000) : -1;
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
