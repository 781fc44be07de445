/* SPDX-License-Identifier: MIT */
/*
 * rs_epoll.c - repoll_create, repoll_ctl, repoll_wait (rdma-core 65): what epoll(7) is to poll(2), for rpoll.
 *
 * A set's descriptor is an eventfd.  A thread that waits polls it with the entries: a change of the set wakes all that wait, and it
 * stays readable until each of them has seen it.  Everything is level-triggered; EPOLLET is not looked at.
 */
#include "rs.h"
#include "rs_epoll.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BITS (EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP)

_Static_assert(EPOLLIN == POLLIN && EPOLLPRI == POLLPRI && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
		       EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP,
	       "the same bits");

struct entry {
	int fd;
	bool off;       /* EPOLLONESHOT has been told: until EPOLL_CTL_MOD */
	uint32_t since; /* of gen: the first that has it so */
	struct epoll_event event;
};

struct epoll_set {
	struct epoll_set *next;
	int fd, refs;
	pid_t owner; /* the child of a fork has nothing of its parent's but the descriptor, which may be closed */
	bool closed;
	pthread_mutex_t lock;
	struct entry *entries;
	nfds_t n, room, turn; /* turn: who is told of first */
	uint32_t waiters, stale, gen;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct epoll_set *list;

/* ---- sets ------------------------------------------------------------------------------------ */

static struct epoll_set *set_get(int fd)
{
	struct epoll_set *s;

	pthread_mutex_lock(&list_lock);
	for (s = list; s && s->fd != fd; s = s->next)
		;
	if (s && s->owner != getpid())
		s = NULL;
	if (s)
		s->refs++;
	pthread_mutex_unlock(&list_lock);
	if (!s)
		errno = EBADF;
	return s;
}

static void set_free(struct epoll_set *s)
{
	close(s->fd);
	pthread_mutex_destroy(&s->lock);
	free(s->entries);
	free(s);
}

static void set_put(struct epoll_set *s)
{
	int left, err = errno;

	pthread_mutex_lock(&list_lock);
	left = --s->refs;
	pthread_mutex_unlock(&list_lock);
	if (!left)
		set_free(s);
	errno = err;
}

/* (In read() and write() the thread could be cancelled, with the lock.) */
static void kick(const struct epoll_set *s)
{
	eventfd_t n = 1;

	syscall(SYS_write, s->fd, &n, sizeof(n));
}

static void unkick(const struct epoll_set *s)
{
	eventfd_t n;

	syscall(SYS_read, s->fd, &n, sizeof(n));
}

/* Those that wait look again. */
static void set_changed(struct epoll_set *s)
{
	s->gen++;
	s->stale += s->waiters;
	if (s->waiters)
		kick(s);
	s->waiters = 0;
}

static void waiter_gone(struct epoll_set *s, uint32_t gen)
{
	if (gen == s->gen)
		s->waiters--;
	else if (!--s->stale)
		unkick(s);
}

EXPORT int repoll_create(int flags);
int repoll_create(int flags)
{
	struct epoll_set *s = flags & ~(EPOLL_CLOEXEC | O_NONBLOCK) ? NULL : calloc(1, sizeof(*s));

	if (!s)
		return fail(flags & ~(EPOLL_CLOEXEC | O_NONBLOCK) ? EINVAL : ENOMEM);
	s->fd = eventfd(0, EFD_NONBLOCK | (flags & EPOLL_CLOEXEC ? EFD_CLOEXEC : 0));
	if (s->fd < 0) {
		free(s);
		return -1;
	}
	s->refs = 1;
	s->owner = getpid();
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_lock(&list_lock);
	s->next = list;
	list = s;
	pthread_mutex_unlock(&list_lock);
	return s->fd;
}

bool rs_epoll_close(int fd)
{
	struct epoll_set **p, *s;

	pthread_mutex_lock(&list_lock);
	for (p = &list; *p && (*p)->fd != fd; p = &(*p)->next)
		;
	s = *p;
	if (s)
		*p = s->next;
	pthread_mutex_unlock(&list_lock);
	if (!s)
		return false;
	if (s->owner != getpid()) { /* those that wait are the parent's */
		set_free(s);
		return true;
	}
	pthread_mutex_lock(&s->lock);
	s->closed = true;
	set_changed(s);
	pthread_mutex_unlock(&s->lock);
	set_put(s);
	return true;
}

/* ---- entries ---------------------------------------------------------------------------------- */

static struct entry *entry_find(struct epoll_set *s, int fd)
{
	for (nfds_t i = 0; i < s->n; i++)
		if (s->entries[i].fd == fd)
			return &s->entries[i];
	return NULL;
}

/* 0, or an errno */
static int entry_add(struct epoll_set *s, int fd, const struct epoll_event *event)
{
	nfds_t room = s->n == s->room ? 2 * s->room + 8 : s->room;
	struct entry *e = room == s->room ? s->entries : realloc(s->entries, room * sizeof(*e));

	if (!e)
		return ENOMEM;
	s->entries = e;
	s->room = room;
	e[s->n++] = (struct entry){ .fd = fd, .since = s->gen + 1, .event = *event };
	return 0;
}

static int ctl(struct epoll_set *s, int op, int fd, const struct epoll_event *event)
{
	struct entry *e = entry_find(s, fd);

	if (op != EPOLL_CTL_DEL && !event)
		return EFAULT;
	switch (op) {
	case EPOLL_CTL_ADD: return e ? EEXIST : entry_add(s, fd, event);
	case EPOLL_CTL_MOD:
		if (e)
			*e = (struct entry){ .fd = fd, .since = s->gen + 1, .event = *event };
		return e ? 0 : ENOENT;
	case EPOLL_CTL_DEL:
		if (e)
			*e = s->entries[--s->n];
		return e ? 0 : ENOENT;
	default: return EINVAL;
	}
}

EXPORT int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct epoll_set *s = set_get(epfd);
	int err;

	if (!s)
		return -1;
	if (fd == epfd || (op == EPOLL_CTL_ADD && fcntl(fd, F_GETFD) < 0)) {
		set_put(s);
		return fail(fd == epfd ? EINVAL : EBADF);
	}
	pthread_mutex_lock(&s->lock);
	err = ctl(s, op, fd, event);
	if (!err)
		set_changed(s);
	pthread_mutex_unlock(&s->lock);
	set_put(s);
	return err ? fail(err) : 0;
}

void rs_epoll_forget(int fd)
{
	struct entry *e;

	pthread_mutex_lock(&list_lock);
	for (struct epoll_set *s = list; s; s = s->next) {
		if (s->owner != getpid())
			continue;
		pthread_mutex_lock(&s->lock);
		e = entry_find(s, fd);
		if (e) {
			*e = s->entries[--s->n];
			set_changed(s);
		}
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_unlock(&list_lock);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* For rpoll(): the set itself, then its entries.  NULL: no memory. */
static struct pollfd *fds_of(const struct epoll_set *s)
{
	struct pollfd *fds = malloc((s->n + 1) * sizeof(*fds));

	if (!fds)
		return NULL;
	fds[0] = (struct pollfd){ .fd = s->fd, .events = POLLIN };
	for (nfds_t i = 0; i < s->n; i++) {
		const struct entry *e = &s->entries[i];

		fds[i + 1] = (struct pollfd){ .fd = e->off ? -1 : e->fd, .events = (short)(e->event.events & BITS) };
	}
	return fds;
}

/*
 * Whether there is something to tell.  What was found in gen is not of an entry that was added or changed since: it may be another
 * file, or what was told already.  The next look tells what is true.
 */
static bool entry_tell(struct epoll_set *s, const struct pollfd *f, uint32_t gen, struct epoll_event *to)
{
	struct entry *e = f->revents ? entry_find(s, f->fd) : NULL;
	uint32_t events;

	if (!e || (int32_t)(e->since - gen) > 0)
		return false;
	events = (uint32_t)f->revents & (e->event.events | EPOLLERR | EPOLLHUP) & BITS;
	if (f->revents & POLLNVAL)
		*e = s->entries[--s->n]; /* it was closed */
	if (!events || e->off)
		return false;
	*to = (struct epoll_event){ .events = events, .data = e->event.data };
	e->off = e->event.events & EPOLLONESHOT;
	return true;
}

static int tell(struct epoll_set *s, const struct pollfd *fds, nfds_t n, uint32_t gen, struct epoll_event *events,
		int max)
{
	nfds_t first = n ? s->turn % n : 0, i;
	int k = 0;

	for (i = 0; i < n && k < max; i++)
		k += entry_tell(s, &fds[1 + (first + i) % n], gen, &events[k]);
	s->turn = first + i;
	return k;
}

struct wait {
	struct epoll_set *s;
	struct pollfd *fds;
	uint32_t gen;
};

static void wait_cancelled(void *arg)
{
	struct wait *w = arg;

	pthread_mutex_lock(&w->s->lock);
	waiter_gone(w->s, w->gen);
	pthread_mutex_unlock(&w->s->lock);
	free(w->fds);
	set_put(w->s);
}

/* One sleep: how many, or -1.  The lock is held, but not while it sleeps. */
static int wait_once(struct epoll_set *s, struct epoll_event *events, int max, int timeout)
{
	struct wait w = { s, fds_of(s), s->gen };
	nfds_t n = s->n;
	int ret;

	if (!w.fds)
		return fail(ENOMEM);
	s->waiters++;
	pthread_mutex_unlock(&s->lock);
	pthread_cleanup_push(wait_cancelled, &w);
	ret = rpoll(w.fds, n + 1, timeout);
	pthread_cleanup_pop(0);
	pthread_mutex_lock(&s->lock);
	waiter_gone(s, w.gen);
	if (ret > 0)
		ret = tell(s, w.fds, n, w.gen, events, max);
	free(w.fds);
	return ret;
}

EXPORT int repoll_wait(int epfd, struct epoll_event *events, int max, int timeout);
int repoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	int64_t until = timeout > 0 ? rs_now_ms() + timeout : 0, left = timeout;
	struct epoll_set *s = max < 1 ? NULL : set_get(epfd);
	int n;

	if (!s)
		return fail(max < 1 ? EINVAL : EBADF);
	pthread_mutex_lock(&s->lock);
	do {
		n = s->closed ? fail(EBADF) : wait_once(s, events, max, (int)left);
		if (timeout > 0)
			left = until - rs_now_ms();
	} while (!n && (timeout < 0 || (timeout && left > 0)));
	pthread_mutex_unlock(&s->lock);
	set_put(s);
	return n;
}
