/* SPDX-License-Identifier: MIT */
/*
 * epoll.c - epoll: the program's epoll instance keeps the descriptors that are not ours; a list beside it has the
 * rsockets.
 *
 * A thread that waits sleeps in rpoll(), on the instance and on the rsockets of the list.  An eventfd in the instance,
 * known by the list's address, wakes it when the list changes.  With edge triggering a state that was reported is not
 * reported again until the program has used the descriptor.
 */
#include "pre.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

struct reg {
	struct reg *next;
	int fd;
	struct conn *c; /* held */
	struct epoll_event want;
	uint32_t told; /* edge-triggered */
	bool off;      /* one-shot, and it has shot */
};

struct ep {
	struct ep *next;
	int fd;
	int kick;
	uint32_t refs; /* the list of them, and calls */
	struct reg *regs;
	uint32_t n;
};

static pthread_mutex_t ep_lock = PTHREAD_MUTEX_INITIALIZER; /* all of them */
static struct ep *eps;
static uint32_t ep_count; /* atomic */
static uint32_t et_count; /* atomic: edge-triggered registrations */
static uint32_t outside;  /* atomic: threads that wait in the kernel, for an instance that had no list when they came */

/* ---- instances ------------------------------------------------------------------------------------------ */

static struct ep *ep_find(int fd)
{
	struct ep *ep;

	for (ep = eps; ep && ep->fd != fd; ep = ep->next)
		;
	return ep;
}

static struct ep *ep_make(int fd)
{
	struct ep *ep = calloc(1, sizeof(*ep));
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = ep };

	if (!ep)
		return NULL;
	ep->fd = fd;
	ep->refs = 1;
	ep->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ep->kick < 0 || real()->epoll_ctl(fd, EPOLL_CTL_ADD, ep->kick, &e)) {
		if (ep->kick >= 0)
			real()->close(ep->kick);
		free(ep);
		return NULL;
	}
	ep->next = eps;
	eps = ep;
	__atomic_add_fetch(&ep_count, 1, __ATOMIC_SEQ_CST);
	return ep;
}

/* A conn's end calls close(), which comes here again: so it is not under the lock that it ends. */
static void reg_take(struct ep *ep, struct reg **p, struct reg **dead)
{
	struct reg *r = *p;

	*p = r->next;
	ep->n--;
	if (r->want.events & EPOLLET)
		__atomic_sub_fetch(&et_count, 1, __ATOMIC_RELAXED);
	r->next = *dead;
	*dead = r;
}

/* Not locked. */
static void regs_bury(struct reg *dead)
{
	struct reg *r;

	while ((r = dead)) {
		dead = r->next;
		conn_put(r->c);
		free(r);
	}
}

static void ep_put(struct ep *ep, struct reg **dead)
{
	if (--ep->refs)
		return;
	while (ep->regs)
		reg_take(ep, &ep->regs, dead);
	real()->close(ep->kick);
	free(ep);
}

/* Locked.  A thread that comes to wait later sees the list as it is by then. */
static void ep_kick(const struct ep *ep)
{
	uint64_t one = 1;
	bool waited = ep->refs > 1 || __atomic_load_n(&outside, __ATOMIC_SEQ_CST);

	if (waited && real()->write(ep->kick, &one, sizeof(one)) < 0) /* full: it is awake */
		return;
}

void reg_close_ep(int fd)
{
	struct reg *dead = NULL;
	struct ep **p, *ep;

	if (!__atomic_load_n(&ep_count, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&ep_lock);
	for (p = &eps; (ep = *p) && ep->fd != fd; p = &ep->next)
		;
	if (ep) {
		*p = ep->next;
		__atomic_sub_fetch(&ep_count, 1, __ATOMIC_RELEASE);
		ep_put(ep, &dead);
	}
	pthread_mutex_unlock(&ep_lock);
	regs_bury(dead);
}

/* ---- what is registered --------------------------------------------------------------------------------- */

static struct reg **reg_at(struct ep *ep, int fd)
{
	struct reg **p;

	for (p = &ep->regs; *p && (*p)->fd != fd; p = &(*p)->next)
		;
	return p;
}

void reg_close(struct conn *c)
{
	struct reg *dead = NULL;

	if (!__atomic_load_n(&ep_count, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&ep_lock);
	for (struct ep *ep = eps; ep; ep = ep->next) {
		for (struct reg **p = &ep->regs; *p;) {
			if ((*p)->c == c)
				reg_take(ep, p, &dead);
			else
				p = &(*p)->next;
		}
	}
	pthread_mutex_unlock(&ep_lock);
	regs_bury(dead);
}

void reg_dropped(int fd, struct conn *c)
{
	if (!__atomic_load_n(&ep_count, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&ep_lock);
	for (struct ep *ep = eps; ep; ep = ep->next) {
		for (struct reg *r = ep->regs; r; r = r->next) {
			if (r->c == c && !r->off)
				real()->epoll_ctl(ep->fd, EPOLL_CTL_ADD, r->fd == fd ? fd : r->fd, &r->want);
			if (r->c == c)
				ep_kick(ep);
		}
	}
	pthread_mutex_unlock(&ep_lock);
}

void reg_seen(struct conn *c, uint32_t events)
{
	int err = errno;

	if (!__atomic_load_n(&et_count, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&ep_lock);
	for (struct ep *ep = eps; ep; ep = ep->next) {
		for (struct reg *r = ep->regs; r; r = r->next) {
			if (r->c != c || !(r->told & events))
				continue;
			r->told &= ~events;
			ep_kick(ep);
		}
	}
	pthread_mutex_unlock(&ep_lock);
	errno = err;
}

static int reg_add(struct ep *ep, int fd, struct conn *c, const struct epoll_event *e)
{
	struct reg *r;

	if (*reg_at(ep, fd))
		return fail(EEXIST);
	r = calloc(1, sizeof(*r));
	if (!r)
		return fail(ENOMEM);
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	*r = (struct reg){ .next = ep->regs, .fd = fd, .c = c, .want = *e };
	ep->regs = r;
	ep->n++;
	if (e->events & EPOLLET)
		__atomic_add_fetch(&et_count, 1, __ATOMIC_RELAXED);
	return 0;
}

/* TCP is watched by the instance where it counts, too: of listeners, and of what has become TCP. */
static bool has_tcp(const struct conn *c) { return conn_state(c) == CONN_LISTEN || conn_state(c) == CONN_TCP; }

static void reg_change(struct reg *r, const struct epoll_event *e)
{
	if (r->want.events & EPOLLET)
		__atomic_sub_fetch(&et_count, 1, __ATOMIC_RELAXED);
	if (e->events & EPOLLET)
		__atomic_add_fetch(&et_count, 1, __ATOMIC_RELAXED);
	r->want = *e;
	r->told = 0;
	r->off = false;
}

static int reg_ctl(struct ep *ep, int op, int fd, struct conn *c, struct epoll_event *e, struct reg **dead)
{
	struct reg **p = reg_at(ep, fd);
	int ret = 0;

	if (op == EPOLL_CTL_ADD) {
		ret = reg_add(ep, fd, c, e);
	} else if (!*p) {
		return fail(ENOENT);
	} else if (op == EPOLL_CTL_DEL) {
		reg_take(ep, p, dead);
	} else {
		reg_change(*p, e);
	}
	if (!ret && has_tcp(c))
		ret = real()->epoll_ctl(ep->fd, op, fd, e);
	ep_kick(ep);
	return ret;
}

/* An entry that has become TCP since it was registered belongs to the epoll instance alone. */
static void reg_forget(int epfd, int fd, struct reg **dead)
{
	struct ep *ep = ep_find(epfd);
	struct reg **p = ep ? reg_at(ep, fd) : NULL;

	if (p && *p)
		reg_take(ep, p, dead);
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *e)
{
	struct conn *c = conn_get(fd);
	struct reg *dead = NULL;
	struct ep *ep;
	int ret;

	if (!c) {
		if (__atomic_load_n(&ep_count, __ATOMIC_ACQUIRE)) {
			pthread_mutex_lock(&ep_lock);
			reg_forget(epfd, fd, &dead);
			pthread_mutex_unlock(&ep_lock);
			regs_bury(dead);
		}
		return real()->epoll_ctl(epfd, op, fd, e);
	}
	pthread_mutex_lock(&ep_lock);
	ep = ep_find(epfd);
	if (!ep && op == EPOLL_CTL_ADD)
		ep = ep_make(epfd);
	ret = ep ? reg_ctl(ep, op, fd, c, e, &dead) : real()->epoll_ctl(epfd, op, fd, e);
	pthread_mutex_unlock(&ep_lock);
	regs_bury(dead);
	conn_put(c);
	return ret;
}

/* ---- waiting ---------------------------------------------------------------------------------------------- */

struct view {
	struct pollfd *p; /* p[0]: the instance; then the regs */
	struct conn **c;  /* held, of p[i + 1] */
	int *fd;
	uint32_t n;
	int64_t due;
};

/* Locked. */
static int view_open(struct view *v, const struct ep *ep)
{
	*v = (struct view){ .due = INT64_MAX };
	v->p = calloc(ep->n + 1, sizeof(*v->p));
	v->c = calloc(ep->n + 1, sizeof(struct conn *));
	v->fd = calloc(ep->n + 1, sizeof(*v->fd));
	if (!v->p || !v->c || !v->fd)
		return ENOMEM;
	v->p[0] = (struct pollfd){ ep->fd, POLLIN, 0 };
	for (struct reg *r = ep->regs; r; r = r->next) {
		uint32_t want = r->want.events & ~r->told & (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI);
		bool quiet = r->told & (EPOLLHUP | EPOLLERR);

		if (r->off || conn_state(r->c) == CONN_TCP || (quiet && !want))
			continue;
		__atomic_add_fetch(&r->c->refs, 1, __ATOMIC_RELAXED);
		v->c[v->n] = r->c;
		v->fd[v->n++] = r->fd;
		v->p[v->n] = (struct pollfd){ conn_rfd(r->c), (short)want, 0 };
		if (conn_state(r->c) == CONN_FAILED)
			v->due = 0;
		if (conn_state(r->c) != CONN_CONNECTING)
			continue;
		v->p[v->n].events = POLLOUT;
		v->due = r->c->deadline < v->due ? r->c->deadline : v->due;
	}
	return 0;
}

static void view_close(struct view *v)
{
	int err = errno;

	for (uint32_t i = 0; v->c && i < v->n; i++)
		conn_put(v->c[i]);
	free(v->p);
	free(v->c);
	free(v->fd);
	errno = err;
}

/* Connections that have come about, or not. */
static void view_progress(struct view *v)
{
	for (uint32_t i = 0; i < v->n; i++)
		if (conn_state(v->c[i]) == CONN_CONNECTING)
			conn_progress(v->fd[i], v->c[i]);
}

static uint32_t view_events(const struct view *v, uint32_t i, const struct reg *r)
{
	uint32_t has = (uint16_t)v->p[i + 1].revents;

	switch (conn_state(v->c[i])) {
	case CONN_CONNECTING:
	case CONN_TCP: return 0;
	case CONN_FAILED: has = EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLOUT; break;
	default: break;
	}
	return has & (r->want.events | EPOLLERR | EPOLLHUP) & ~r->told;
}

/* Locked.  The events of the rsockets, for the program. */
static int view_collect(const struct view *v, struct ep *ep, struct epoll_event *out, int max)
{
	int n = 0;

	for (uint32_t i = 0; i < v->n && n < max; i++) {
		struct reg **p, *r;
		uint32_t has;

		if (!v->p[i + 1].revents && conn_state(v->c[i]) != CONN_FAILED)
			continue;
		p = reg_at(ep, v->fd[i]);
		r = *p;
		has = r && r->c == v->c[i] ? view_events(v, i, r) : 0;
		if (!has)
			continue;
		out[n].events = has;
		out[n++].data = r->want.data;
		if (r->want.events & EPOLLET)
			r->told |= has;
		if (r->want.events & EPOLLONESHOT)
			r->off = true;
		*p = r->next; /* to the end: next time the others come first */
		r->next = NULL;
		while (*p)
			p = &(*p)->next;
		*p = r;
	}
	return n;
}

/* Without our own event. */
static int events_filter(const struct ep *ep, struct epoll_event *out, int n)
{
	int kept = 0;
	uint64_t count;

	for (int i = 0; i < n; i++) {
		if (out[i].data.ptr != ep)
			out[kept++] = out[i];
		else if (real()->read(ep->kick, &count, sizeof(count)) < 0) /* another thread was first */
			continue;
	}
	return n < 0 ? n : kept;
}

static int real_collect(const struct ep *ep, struct epoll_event *out, int max)
{
	int n = max > 0 ? real()->epoll_pwait(ep->fd, out, max, 0, NULL) : 0;

	return n < 0 ? 0 : events_filter(ep, out, n);
}

static int wait_once(struct ep *ep, struct epoll_event *out, int max, int64_t until)
{
	int64_t end = until < 0 ? INT64_MAX : until, now = now_ms();
	struct view v;
	int err, n;

	pthread_mutex_lock(&ep_lock);
	err = view_open(&v, ep);
	pthread_mutex_unlock(&ep_lock);
	n = err ? fail(err) : 0;
	if (!err) {
		end = v.due < end ? v.due : end;
		n = rs_poll(v.p, v.n + 1, end == INT64_MAX ? -1 : end < now ? 0 : (int)(end - now));
	}
	if (n >= 0) {
		view_progress(&v);
		pthread_mutex_lock(&ep_lock);
		n = view_collect(&v, ep, out, max);
		pthread_mutex_unlock(&ep_lock);
		if (v.p[0].revents)
			n += real_collect(ep, out + n, max - n);
	}
	view_close(&v);
	return n;
}

static int wait_ms(struct ep *ep, struct epoll_event *out, int max, int ms)
{
	int64_t until = ms < 0 ? -1 : now_ms() + ms;
	int n;

	do
		n = wait_once(ep, out, max, until);
	while (!n && (until < 0 || now_ms() < until));
	return n;
}

static struct ep *ep_get(int fd)
{
	struct ep *ep = NULL;

	if (!__atomic_load_n(&ep_count, __ATOMIC_SEQ_CST))
		return NULL;
	pthread_mutex_lock(&ep_lock);
	ep = ep_find(fd);
	if (ep)
		ep->refs++;
	pthread_mutex_unlock(&ep_lock);
	return ep;
}

static void ep_drop(struct ep *ep)
{
	struct reg *dead = NULL;

	if (!ep)
		return;
	pthread_mutex_lock(&ep_lock);
	ep_put(ep, &dead);
	pthread_mutex_unlock(&ep_lock);
	regs_bury(dead);
}

/*
 * For an instance without a list, when the caller looked.  It is asked for once more when this thread is counted: who makes a list
 * from then on wakes it.  *ep: NULL, or the caller's to drop; then the events are without ours.
 */
static int wait_outside(int epfd, struct epoll_event *out, int max, int ms, const sigset_t *mask, struct ep **ep)
{
	int n = 0;

	__atomic_add_fetch(&outside, 1, __ATOMIC_SEQ_CST);
	*ep = max > 0 ? ep_get(epfd) : NULL;
	if (!*ep)
		n = real()->epoll_pwait(epfd, out, max, ms, mask);
	__atomic_sub_fetch(&outside, 1, __ATOMIC_SEQ_CST);
	if (n > 0 && (*ep = ep_get(epfd)))
		n = events_filter(*ep, out, n);
	return n;
}

EXPORT int epoll_pwait(int epfd, struct epoll_event *out, int max, int ms, const sigset_t *mask)
{
	struct ep *ep = max > 0 ? ep_get(epfd) : NULL;
	sigset_t old;
	int n, err;

	if (!ep) {
		n = wait_outside(epfd, out, max, ms, mask, &ep);
		if (n || !ep) {
			ep_drop(ep);
			return n;
		}
	}
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &old);
	n = wait_ms(ep, out, max, ms);
	err = errno;
	if (mask)
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	ep_drop(ep);
	errno = err;
	return n;
}

EXPORT int epoll_wait(int epfd, struct epoll_event *out, int max, int ms)
{
	return epoll_pwait(epfd, out, max, ms, NULL);
}

EXPORT int epoll_pwait2(int epfd, struct epoll_event *out, int max, const struct timespec *t, const sigset_t *mask)
{
	int64_t ms = t ? t->tv_sec * INT64_C(1000) + (t->tv_nsec + 999999) / 1000000 : -1;

	return epoll_pwait(epfd, out, max, ms > INT32_MAX ? INT32_MAX : (int)ms, mask);
}
