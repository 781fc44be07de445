/* SPDX-License-Identifier: MIT */
/* epoll.c - epoll instances, and what is registered there (epoll.h). */
#include "epoll.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <rdmad/high.h>

pthread_mutex_t ep_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ep *eps;
uint32_t ep_count;        /* atomic */
static uint32_t et_count; /* atomic: edge-triggered registrations */
struct outer *outers;
static uint8_t ep_at[FD_MAX]; /* atomic: the numbers of instances */

/* Under the lock calls go to the kernel past the C library: in its read(), write() and close() the thread could be cancelled. */

/* ---- instances ------------------------------------------------------------------------------------------ */

bool reg_is_ep(int fd) { return fd >= 0 && fd < FD_MAX && __atomic_load_n(&ep_at[fd], __ATOMIC_ACQUIRE); }

static void ep_note(int fd, bool is)
{
	if (fd < FD_MAX)
		__atomic_store_n(&ep_at[fd], is, __ATOMIC_RELEASE);
}

struct ep *ep_find(int fd)
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
	ep->kick = fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (ep->kick < 0 || real()->epoll_ctl(fd, EPOLL_CTL_ADD, ep->kick, &e)) {
		if (ep->kick >= 0)
			real()->syscall(SYS_close, ep->kick);
		free(ep);
		return NULL;
	}
	ep->next = eps;
	eps = ep;
	ep_note(fd, true);
	__atomic_add_fetch(&ep_count, 1, __ATOMIC_RELEASE);
	for (struct outer *o = outers; o; o = o->next) {
		if (o->fd != fd)
			continue;
		o->ep = ep;
		ep->refs++;
		ep->waiters++;
	}
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

void regs_bury(struct reg *dead)
{
	struct reg *r;

	while ((r = dead)) {
		dead = r->next;
		conn_put(r->c);
		free(r);
	}
}

void ep_put(struct ep *ep, struct reg **dead)
{
	if (--ep->refs)
		return;
	while (ep->regs)
		reg_take(ep, &ep->regs, dead);
	real()->syscall(SYS_close, ep->kick);
	free(ep);
}

/* ---- fork: the child has its parent's instances, the listeners of TCP in them, and none of the threads that wait --- */

static void fork_before(void) { pthread_mutex_lock(&ep_lock); }
static void fork_parent(void) { pthread_mutex_unlock(&ep_lock); }

/* The conns stay as they are: to end one would end the parent's connection. */
static void fork_child(void)
{
	struct reg *dead = NULL, *r;

	outers = NULL;
	for (struct ep *ep = eps; ep; ep = ep->next) {
		ep->waiters = ep->stale = 0;
		while (ep->regs)
			reg_take(ep, &ep->regs, &dead);
	}
	pthread_mutex_unlock(&ep_lock);
	while ((r = dead)) {
		dead = r->next;
		free(r);
	}
}

__attribute__((constructor)) static void epoll_open(void) { pthread_atfork(fork_before, fork_parent, fork_child); }

/* ---- those that wait -------------------------------------------------------------------------------------- */

/* Locked.  Those that wait look at the list anew. */
static void ep_kick(struct ep *ep)
{
	uint64_t one = 1;
	bool waited = ep->waiters;

	ep->gen++;
	ep->stale += ep->waiters;
	ep->waiters = 0;
	if (waited)
		real()->syscall(SYS_write, ep->kick, &one, sizeof(one)); /* full: it is readable */
}

void waiter_gone(struct ep *ep, uint32_t gen)
{
	uint64_t count;

	if (gen == ep->gen)
		ep->waiters--;
	else if (!--ep->stale)
		real()->syscall(SYS_read, ep->kick, &count, sizeof(count));
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
		ep_note(fd, false);
		__atomic_sub_fetch(&ep_count, 1, __ATOMIC_RELEASE);
		ep_put(ep, &dead);
	}
	pthread_mutex_unlock(&ep_lock);
	regs_bury(dead);
}

/* ---- what is registered --------------------------------------------------------------------------------- */

struct reg **reg_at(struct ep *ep, int fd)
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
	listener_await(c);
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
