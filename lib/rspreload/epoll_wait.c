/* SPDX-License-Identifier: MIT */
/* epoll_wait.c - waiting for an epoll instance with rsockets (epoll.h). */
#include "epoll.h"

#include <sys/syscall.h>
#include <time.h>

enum { AT_EP, AT_IDLE, AT_REGS };

struct ready {
	int64_t order;
	uint32_t i, has;
};

struct view {
	struct pollfd *p; /* the instance, that of the idle ones, and the regs */
	int64_t *came;    /* of these, for rdmad_rpoll() */
	struct reg **r;   /* held, of p[AT_REGS + i] */
	struct ready *ready;
	uint32_t n, gen; /* gen: the instance's, when it was looked at */
	int64_t due;
};

/* Locked. */
static void view_add(struct view *v, struct reg *r)
{
	struct pollfd *p = &v->p[AT_REGS + v->n];
	const struct conn *c = r->c;

	reg_look(r, p, &v->came[AT_REGS + v->n]);
	if (r->off || conn_state(c) == CONN_TCP || (r->told & (EPOLLHUP | EPOLLERR) && !p->events))
		return;
	if (conn_state(c) == CONN_FAILED)
		v->due = 0;
	if (conn_state(c) == CONN_CONNECTING) {
		p->events = POLLOUT;
		v->due = c->deadline < v->due ? c->deadline : v->due;
	}
	v->r[v->n++] = r;
	r->refs++;
}

/* Locked. */
static int view_open(struct view *v, const struct ep *ep)
{
	size_t n = ep->looked.n + AT_REGS;
	void *mem = calloc(n, sizeof(*v->came) + sizeof(*v->ready) + sizeof(struct reg *) + sizeof(*v->p));

	*v = (struct view){ .due = INT64_MAX, .gen = ep->gen };
	if (!mem)
		return ENOMEM;
	v->came = mem;
	v->ready = (void *)(v->came + n);
	v->r = (void *)(v->ready + n);
	v->p = (void *)(v->r + n);
	v->p[AT_EP] = (struct pollfd){ ep->fd, POLLIN, 0 };
	v->p[AT_IDLE] = (struct pollfd){ ep->idle_fd, POLLIN, 0 };
	for (struct reg *r = ep->looked.first; r; r = r->next)
		view_add(v, r);
	return 0;
}

static void view_close(struct view *v)
{
	struct reg_work w = { 0 };
	int err = errno;

	pthread_mutex_lock(&ep_lock);
	for (uint32_t i = 0; i < v->n; i++)
		reg_put(v->r[i], &w);
	pthread_mutex_unlock(&ep_lock);
	regs_work(&w);
	free(v->came);
	errno = err;
}

/* Connections that have come about, or not. */
static void view_progress(struct view *v)
{
	for (uint32_t i = 0; i < v->n; i++)
		if (conn_state(v->r[i]->c) == CONN_CONNECTING)
			conn_progress(v->r[i]->fd, v->r[i]->c);
}

static uint32_t view_events(const struct view *v, uint32_t i)
{
	const struct reg *r = v->r[i];
	uint32_t has = (uint16_t)v->p[AT_REGS + i].revents, told = r->told;

	switch (conn_state(r->c)) {
	case CONN_CONNECTING:
	case CONN_TCP: return 0;
	case CONN_FAILED: has = EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLOUT; break;
	default: break;
	}
	if (v->came[AT_REGS + i] > r->came) /* else another thread has told it */
		told &= ~(uint32_t)EPOLLIN;
	return has & (r->want.events | EPOLLERR | EPOLLHUP) & ~told;
}

/* Locked.  It is told of. */
static struct epoll_event reg_tell(struct reg *r, uint32_t has, int64_t came)
{
	r->quiet = 0;
	r->turn = r->ep->turn;
	if (r->want.events & EPOLLET)
		r->told |= has;
	if (has & EPOLLIN)
		r->came = came;
	if (r->want.events & EPOLLONESHOT)
		r->off = true;
	reg_move(r, r->list); /* to the end: of those that came at once, the others come first next time */
	return (struct epoll_event){ .events = has, .data = r->want.data };
}

/* When it had its turn, or what is to be told has come. */
static int64_t order_of(const struct view *v, uint32_t i)
{
	return v->came[AT_REGS + i] > v->r[i]->turn ? v->came[AT_REGS + i] : v->r[i]->turn;
}

static int earlier(const void *a, const void *b)
{
	const struct ready *x = a, *y = b;

	return x->order < y->order ? -1 : x->order > y->order;
}

/*
 * Locked.  The events of the rsockets, for the program: what has come first is told first.  Of one that was changed since it was looked
 * at nothing is told: with EPOLLONESHOT another thread may have had what was there, and the next look tells what is true.
 */
static int view_collect(const struct view *v, struct ep *ep, struct epoll_event *out, int max)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n; i++) {
		const struct reg *r = v->r[i];
		bool is = r->list && !r->off && (int32_t)(r->since - v->gen) <= 0;
		uint32_t has = is ? view_events(v, i) : 0;

		if (has)
			v->ready[n++] = (struct ready){ order_of(v, i), i, has };
	}
	if (n > 1)
		qsort(v->ready, n, sizeof(*v->ready), earlier);
	for (uint32_t k = 0; k < n; k++)
		ep->turn = v->ready[k].order > ep->turn ? v->ready[k].order : ep->turn;
	ep->turn++;
	n = n < (uint32_t)max ? n : (uint32_t)max;
	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = v->ready[k].i;

		out[k] = reg_tell(v->r[i], v->ready[k].has, v->came[AT_REGS + i]);
	}
	return (int)n;
}

/* Without our own event. */
static int events_filter(const struct ep *ep, struct epoll_event *out, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++)
		if (out[i].data.ptr != ep)
			out[kept++] = out[i];
	return n < 0 ? n : kept;
}

static int real_collect(const struct ep *ep, struct epoll_event *out, int max)
{
	int n = max > 0 ? (int)real()->syscall(SYS_epoll_pwait, ep->fd, out, max, 0, NULL, 0) : 0;

	return n < 0 ? 0 : events_filter(ep, out, n);
}

/* The events of both, the instance's and the rsockets'. */
static int collect(const struct view *v, struct ep *ep, struct epoll_event *out, int max)
{
	bool has = v->p[AT_EP].revents, behind;
	int n;

	pthread_mutex_lock(&ep_lock);
	behind = has && ep->behind;
	ep->behind ^= has;
	n = behind ? 0 : view_collect(v, ep, out, max);
	pthread_mutex_unlock(&ep_lock);
	if (has)
		n += real_collect(ep, out + n, max - n);
	if (!behind)
		return n;
	pthread_mutex_lock(&ep_lock);
	n += view_collect(v, ep, out + n, max - n);
	pthread_mutex_unlock(&ep_lock);
	return n;
}

static void ep_drop(struct ep *ep)
{
	if (!ep)
		return;
	pthread_mutex_lock(&ep_lock);
	ep_put(ep);
	pthread_mutex_unlock(&ep_lock);
}

struct waiting {
	struct ep *ep;
	struct view v;
};

static void wait_cancelled(void *arg)
{
	struct waiting *w = arg;

	pthread_mutex_lock(&ep_lock);
	waiter_gone(w->ep, w->v.gen);
	pthread_mutex_unlock(&ep_lock);
	view_close(&w->v);
	ep_drop(w->ep);
}

/* Here the thread may be cancelled: then ep is dropped. */
static int sleep_for(struct waiting *w, int ms, const sigset_t *mask)
{
	int n;

	pthread_cleanup_push(wait_cancelled, w);
	n = rs_poll_came(w->v.p, w->v.n + AT_REGS, ms, mask, w->v.came);
	pthread_cleanup_pop(0);
	return n;
}

/* How many events.  *again: there is news of one that was idle. */
static int wait_once(struct ep *ep, struct epoll_event *out, int max, int64_t until, const sigset_t *mask, bool *again)
{
	int64_t end = until < 0 ? INT64_MAX : until, now = now_ms();
	struct waiting w = { .ep = ep };
	bool idle;
	int err, n;

	pthread_mutex_lock(&ep_lock);
	err = view_open(&w.v, ep);
	ep->waiters++;
	pthread_mutex_unlock(&ep_lock);
	n = err ? fail(err) : 0;
	if (!err) {
		end = w.v.due < end ? w.v.due : end;
		n = sleep_for(&w, end == INT64_MAX ? -1 : end < now ? 0 : (int)(end - now), mask);
	}
	err = errno;
	if (n >= 0)
		view_progress(&w.v);
	pthread_mutex_lock(&ep_lock);
	waiter_gone(ep, w.v.gen);
	idle = ep->idle.n;
	pthread_mutex_unlock(&ep_lock);
	if (n > 0 && idle) /* they may have had theirs before */
		*again = idle_wake(ep);
	if (n >= 0)
		n = *again ? 0 : collect(&w.v, ep, out, max);
	if (n > 0 || (!n && end > now))
		idle_rest(ep, w.v.r, w.v.n);
	errno = err;
	view_close(&w.v);
	return n;
}

static int wait_ms(struct ep *ep, struct epoll_event *out, int max, int ms, const sigset_t *mask)
{
	int64_t until = ms < 0 ? -1 : now_ms() + ms;
	struct heed before = heed_begin();
	bool again;
	int n;

	do {
		again = false;
		n = wait_once(ep, out, max, until, mask, &again);
		if (!n && ms && heed_ended())
			n = fail(EINTR);
	} while (!n && (again || until < 0 || now_ms() < until));
	heed_end(&before);
	return n;
}

static struct ep *ep_get(int fd)
{
	struct ep *ep = NULL;

	if (!__atomic_load_n(&ep_count, __ATOMIC_ACQUIRE))
		return NULL;
	pthread_mutex_lock(&ep_lock);
	ep = ep_find(fd);
	if (ep)
		ep->refs++;
	pthread_mutex_unlock(&ep_lock);
	return ep;
}

/* False: there is a list by now, which is the caller's to drop. */
static bool outer_begin(struct outer *o)
{
	pthread_mutex_lock(&ep_lock);
	o->ep = ep_find(o->fd);
	if (o->ep) {
		o->ep->refs++;
	} else {
		o->next = outers;
		outers = o;
	}
	pthread_mutex_unlock(&ep_lock);
	return !o->ep;
}

static void outer_end(struct outer *o)
{
	struct outer **p;

	pthread_mutex_lock(&ep_lock);
	for (p = &outers; *p != o; p = &(*p)->next)
		;
	*p = o->next;
	if (o->ep)
		waiter_gone(o->ep, 0);
	pthread_mutex_unlock(&ep_lock);
}

static void outer_cancelled(void *arg)
{
	struct outer *o = arg;

	outer_end(o);
	ep_drop(o->ep);
}

/* For an instance that had no list when the caller looked.  *ep: NULL, or the caller's to drop; then the events are without ours. */
static int wait_outside(int epfd, struct epoll_event *out, int max, int ms, const sigset_t *mask, struct ep **ep)
{
	struct outer o = { .fd = epfd };
	int n = 0, err;

	*ep = NULL;
	if (max <= 0)
		return real()->epoll_pwait(epfd, out, max, ms, mask);
	if (outer_begin(&o)) {
		pthread_cleanup_push(outer_cancelled, &o);
		n = real()->epoll_pwait(epfd, out, max, ms, mask);
		pthread_cleanup_pop(0);
		err = errno;
		outer_end(&o);
		errno = err;
	}
	*ep = o.ep;
	return o.ep ? events_filter(o.ep, out, n) : n;
}

EXPORT int epoll_pwait(int epfd, struct epoll_event *out, int max, int ms, const sigset_t *mask)
{
	struct ep *ep = max > 0 ? ep_get(epfd) : NULL;
	int n, err;

	if (!ep) {
		n = wait_outside(epfd, out, max, ms, mask, &ep);
		if (n || !ep) {
			ep_drop(ep);
			return n;
		}
	}
	n = wait_ms(ep, out, max, ms, mask);
	if (!n && mask)
		n = signals_take(mask);
	err = errno;
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

	if (!time_ok(t))
		return fail(EINVAL);
	return epoll_pwait(epfd, out, max, ms > INT32_MAX ? INT32_MAX : (int)ms, mask);
}
