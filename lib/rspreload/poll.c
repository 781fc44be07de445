/* SPDX-License-Identifier: MIT */
/*
 * poll.c - poll and select: rpoll() looks at the rsocket of a descriptor that has one, and at both sides of a listener.
 */
#include "pre.h"

#include <time.h>

#include <rdmad/own.h>

/* The entries that one look waits for; the first n are the program's entries, behind them the TCP sides of listeners. */
struct look {
	struct conn **c; /* held; NULL: an ordinary descriptor */
	struct pollfd *p;
	nfds_t n, extra;
	int64_t due; /* when a connection is given up; INT64_MAX */
	bool failed; /* one has failed: nobody waits */
};

/* In rpoll(), which polls what it is given, also TCP sides of listeners: then they are meant. */
static __thread int inside;
/* For its sleep: a signal that waits ends that, and comes at no other time. */
static __thread const sigset_t *inside_mask;

static void inside_cancelled(void *arg)
{
	(void)arg;
	inside--;
	inside_mask = NULL;
}

int rs_poll_came(struct pollfd *p, nfds_t n, int ms, const sigset_t *mask, int64_t *came)
{
	int ret;

	inside++;
	inside_mask = mask;
	pthread_cleanup_push(inside_cancelled, NULL);
	ret = rdmad_rpoll(p, n, ms, came, mask);
	pthread_cleanup_pop(0);
	inside_mask = NULL;
	inside--;
	return ret;
}

int rs_poll(struct pollfd *p, nfds_t n, int ms, const sigset_t *mask) { return rs_poll_came(p, n, ms, mask, NULL); }

int rs_wait_for(int rfd, short events, int ms)
{
	struct pollfd p = { rfd, events, 0 };

	return rs_poll(&p, 1, ms, NULL);
}

static void look_entry(struct look *l, nfds_t i, const struct pollfd *f)
{
	struct conn *c = conn_get(f->fd);

	l->p[i] = (struct pollfd){ f->fd, f->events, 0 };
	if (c && conn_state(c) == CONN_CONNECTING)
		conn_progress(f->fd, c);
	if (c && conn_state(c) == CONN_LISTEN)
		listener_await(c);
	if (c && conn_state(c) == CONN_TCP) {
		conn_put(c);
		c = NULL;
	}
	l->c[i] = c;
	if (!c)
		return;
	l->p[i].fd = conn_look(c, f->fd);
	switch (conn_state(c)) {
	case CONN_LISTEN: l->p[l->n + l->extra++] = (struct pollfd){ f->fd, f->events, (short)0 }; break;
	case CONN_CONNECTING:
		l->due = c->deadline < l->due ? c->deadline : l->due;
		l->p[i].events = POLLOUT;
		break;
	case CONN_FAILED:
		l->failed = true;
		l->p[i].fd = -1;
		break;
	default: break;
	}
}

static int look_open(struct look *l, const struct pollfd *fds, nfds_t n)
{
	*l = (struct look){ .n = n, .due = INT64_MAX };
	l->c = calloc(n + 1, sizeof(struct conn *));
	l->p = calloc(2 * n + 1, sizeof(*l->p));
	if (!l->c || !l->p)
		return ENOMEM;
	for (nfds_t i = 0; i < n; i++)
		look_entry(l, i, &fds[i]);
	return 0;
}

static void look_close(struct look *l)
{
	int err = errno;

	for (nfds_t i = 0; l->c && i < l->n; i++)
		if (l->c[i])
			conn_put(l->c[i]);
	free(l->c);
	free(l->p);
	errno = err;
}

static void look_cancelled(void *look) { look_close(look); }

/* Here the thread may be cancelled. */
static int look_sleep(struct look *l, int ms, const sigset_t *mask)
{
	int n;

	pthread_cleanup_push(look_cancelled, l);
	n = rs_poll(l->p, l->n + l->extra, ms, mask);
	pthread_cleanup_pop(0);
	return n;
}

/* The events it found, as the program sees them. */
static int look_result(struct look *l, struct pollfd *fds)
{
	nfds_t extra = l->n;
	int ready = 0;

	for (nfds_t i = 0; i < l->n; i++) {
		struct conn *c = l->c[i];
		short r = l->p[i].revents;

		if (c && conn_state(c) == CONN_LISTEN && extra < l->n + l->extra && l->p[extra].fd == fds[i].fd)
			r |= l->p[extra++].revents;
		if (c && conn_state(c) == CONN_CONNECTING) /* the next look tells */
			r = 0;
		if (c && conn_state(c) == CONN_FAILED)
			r = (short)((fds[i].events & (POLLIN | POLLOUT)) | POLLERR | POLLHUP);
		fds[i].revents = r;
		ready += r != 0;
	}
	return ready;
}

/* until: of now_ms(), or -1.  *again: something has happened that the program does not see. */
static int look_once(struct pollfd *fds, nfds_t n, int64_t until, const sigset_t *mask, bool *again)
{
	struct look l;
	int ret = look_open(&l, fds, n) ? fail(ENOMEM) : 0;
	int64_t end = until < 0 ? INT64_MAX : until, now = now_ms();

	*again = false;
	if (!ret) {
		end = l.due < end ? l.due : end;
		if (l.failed)
			end = now;
		ret = look_sleep(&l, end == INT64_MAX ? -1 : end < now ? 0 : (int)(end - now), mask);
		*again = ret > 0 || l.due <= now_ms();
		if (ret >= 0)
			ret = look_result(&l, fds);
	}
	look_close(&l);
	return ret;
}

static bool any_ours(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n && !inside; i++) {
		struct conn *c = conn_get(fds[i].fd);

		if (c) {
			conn_put(c);
			return true;
		}
	}
	return false;
}

static int poll_heeding(struct pollfd *fds, nfds_t n, int64_t ms, const sigset_t *mask)
{
	int64_t until = ms < 0 ? -1 : now_ms() + ms;
	bool again;
	int ret;

	for (;;) {
		ret = look_once(fds, n, until, mask, &again);
		if (ret)
			return ret;
		if (ms && heed_ended())
			return fail(EINTR);
		if (!again && until >= 0 && now_ms() >= until)
			return 0;
		if (again && !ms) /* a last look, for who does not wait */
			return look_once(fds, n, until, mask, &again);
	}
}

static int poll_ms(struct pollfd *fds, nfds_t n, int64_t ms, const sigset_t *mask)
{
	struct heed before = heed_begin();
	int ret = poll_heeding(fds, n, ms, mask);

	heed_end(&before);
	return ret;
}

bool time_ok(const struct timespec *t) { return !t || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000); }

int signals_take(const sigset_t *mask) { return real()->ppoll(NULL, 0, &(struct timespec){ 0 }, mask); }

static __attribute__((noinline)) int wait_for(struct pollfd *fds, nfds_t n, const struct timespec *t,
					      const sigset_t *mask)
{
	bool sleeps = !t || t->tv_sec || t->tv_nsec;
	int ret;

	if (!time_ok(t))
		return fail(EINVAL);
	if (!any_ours(fds, n))
		return real()->ppoll(fds, n, t, sleeps && !mask ? inside_mask : mask);
	ret = poll_ms(fds, n, t ? t->tv_sec * INT64_C(1000) + (t->tv_nsec + 999999) / 1000000 : -1, mask);
	return ret || !mask ? ret : signals_take(mask);
}

/* (The C library's header says that ppoll only writes to fds, which a compiler that looks inside takes amiss.) */
EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	return wait_for(fds, n, t, mask);
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	return ppoll(fds, n, ms < 0 ? NULL : &t, NULL);
}

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size);

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t size)
{
	if (size / sizeof(*fds) < n)
		abort();
	return poll(fds, n, ms);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size)
{
	if (size / sizeof(*fds) < n)
		abort();
	return ppoll(fds, n, t, mask);
}

/* ---- select ------------------------------------------------------------------------------------------ */

static bool in_set(int fd, const fd_set *s) { return s && FD_ISSET(fd, s); }

static nfds_t sets_to_fds(int n, const fd_set *r, const fd_set *w, const fd_set *e, struct pollfd *fds)
{
	nfds_t k = 0;

	for (int fd = 0; fd < n; fd++) {
		short events = (short)((in_set(fd, r) ? POLLIN : 0) | (in_set(fd, w) ? POLLOUT : 0) |
				       (in_set(fd, e) ? POLLPRI : 0));

		if (events)
			fds[k++] = (struct pollfd){ fd, events, 0 };
	}
	return k;
}

static int keep(int fd, fd_set *s, bool on)
{
	if (!in_set(fd, s))
		return 0;
	if (!on)
		FD_CLR(fd, s);
	return on;
}

static int sets_from_fds(const struct pollfd *fds, nfds_t k, fd_set *r, fd_set *w, fd_set *e)
{
	int bits = 0;

	for (nfds_t i = 0; i < k; i++)
		if (fds[i].revents & POLLNVAL)
			return fail(EBADF);
	for (nfds_t i = 0; i < k; i++) {
		short v = fds[i].revents;

		bits += keep(fds[i].fd, r, v & (POLLIN | POLLHUP | POLLERR));
		bits += keep(fds[i].fd, w, v & (POLLOUT | POLLERR));
		bits += keep(fds[i].fd, e, v & POLLPRI);
	}
	return bits;
}

/* Urgent data never come to one of ours: who waits for nothing else waits. */
static nfds_t urgent_drop(struct pollfd *fds, nfds_t k, fd_set *e)
{
	nfds_t left = 0;

	for (nfds_t i = 0; i < k; i++) {
		struct conn *c = fds[i].events == POLLPRI ? conn_get(fds[i].fd) : NULL;

		if (c && conn_state(c) == CONN_RDMA)
			FD_CLR(fds[i].fd, e);
		else
			fds[left++] = fds[i];
		if (c)
			conn_put(c);
	}
	return left;
}

static int select_in(struct pollfd *fds, int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t,
		     const sigset_t *mask)
{
	nfds_t k = sets_to_fds(n, r, w, e, fds);

	if (!any_ours(fds, k))
		return real()->pselect(n, r, w, e, t, mask);
	k = urgent_drop(fds, k, e);
	if (ppoll(fds, k, t, mask) < 0)
		return -1;
	return sets_from_fds(fds, k, r, w, e);
}

static void select_cancelled(void *fds) { free(fds); }

/* Sets may be longer than those of the headers. */
static int select_many(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *mask)
{
	struct pollfd *fds = malloc((size_t)n * sizeof(*fds));
	int ret, err;

	if (!fds)
		return fail(ENOMEM);
	pthread_cleanup_push(select_cancelled, fds);
	ret = select_in(fds, n, r, w, e, t, mask);
	err = errno;
	pthread_cleanup_pop(1);
	errno = err;
	return ret;
}

EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *mask)
{
	struct pollfd fds[FD_SETSIZE];

	if (n < 0 || !time_ok(t))
		return fail(EINVAL);
	return n > FD_SETSIZE ? select_many(n, r, w, e, t, mask) : select_in(fds, n, r, w, e, t, mask);
}

/* As Linux does, it tells how much time is left. */
EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	int64_t start = now_ms(), left;
	struct timespec ts = { 0 };
	int ret;

	if (t && (t->tv_sec < 0 || t->tv_usec < 0))
		return fail(EINVAL);
	if (t)
		ts = (struct timespec){ t->tv_sec + t->tv_usec / 1000000, t->tv_usec % 1000000 * 1000 };
	ret = pselect(n, r, w, e, t ? &ts : NULL, NULL);
	if (t) {
		left = ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000 - (now_ms() - start);
		left = left < 0 ? 0 : left;
		*t = (struct timeval){ left / 1000, left % 1000 * 1000 };
	}
	return ret;
}
