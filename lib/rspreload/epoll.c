/* SPDX-License-Identifier: MIT */
/* epoll.c - epoll instances, and what is registered there (epoll.h). */
#include "epoll.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <rdmad/high.h>

static struct ep *eps;
uint32_t ep_count;        /* atomic */
static uint32_t et_count; /* atomic: edge-triggered registrations */
struct outer *outers;
static struct ep *ep_of[FD_MAX]; /* by each of its numbers; read without the lock, whether it is NULL */

/* Under the lock calls go to the kernel past the C library: in its read(), write() and close() the thread could be cancelled. */

/* ---- lists ------------------------------------------------------------------------------------------------ */

static void regs_init(struct regs *l) { *l = (struct regs){ .end = &l->first }; }

static void reg_take(struct reg *r, struct reg_work *w)
{
	struct reg **p;

	reg_stir(r, w);
	reg_move(r, NULL);
	for (p = &r->c->regs; *p != r; p = &(*p)->of_conn)
		;
	*p = r->of_conn;
	if (r->want.events & EPOLLET)
		__atomic_sub_fetch(&et_count, 1, __ATOMIC_RELAXED);
	reg_put(r, w);
}

static void regs_take(struct regs *l, struct reg_work *w)
{
	while (l->first)
		reg_take(l->first, w);
}

/* ---- instances ------------------------------------------------------------------------------------------ */

bool reg_is_ep(int fd) { return fd >= 0 && fd < FD_MAX && __atomic_load_n(&ep_of[fd], __ATOMIC_ACQUIRE); }

static struct ep *ep_by(int fd) { return reg_is_ep(fd) ? ep_of[fd] : NULL; }

/* One that has lists. */
struct ep *ep_find(int fd)
{
	struct ep *ep = ep_by(fd);

	return ep && ep->kick >= 0 ? ep : NULL;
}

/* It has this number, too. */
static void ep_number(struct ep *ep, int fd)
{
	__atomic_store_n(&ep_of[fd], ep, __ATOMIC_RELEASE);
	ep->numbers++;
}

/* Without lists, which it has when it needs some. */
static struct ep *ep_new(int fd)
{
	struct ep *ep = fd >= 0 && fd < FD_MAX ? calloc(1, sizeof(*ep)) : NULL;

	if (!ep)
		return NULL;
	ep->fd = fd;
	ep->refs = 1;
	ep->kick = ep->idle_fd = -1;
	regs_init(&ep->looked);
	regs_init(&ep->idle);
	ep_number(ep, fd);
	ep->next = eps;
	eps = ep;
	return ep;
}

static struct ep *ep_make(int fd)
{
	struct ep *ep = reg_is_ep(fd) ? ep_of[fd] : ep_new(fd);
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = ep };
	int kick;

	if (!ep)
		return NULL;
	kick = fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (kick < 0 || real()->epoll_ctl(fd, EPOLL_CTL_ADD, kick, &e)) {
		if (kick >= 0)
			real()->syscall(SYS_close, kick);
		return NULL;
	}
	ep->kick = kick;
	__atomic_add_fetch(&ep_count, 1, __ATOMIC_RELEASE);
	for (struct outer *o = outers; o; o = o->next) {
		if (ep_by(o->fd) != ep)
			continue;
		o->ep = ep;
		ep->refs++;
		ep->waiters++;
	}
	return ep;
}

/* ---- fork: the child has its parent's instances, the listeners of TCP in them, and none of the threads that wait --- */

static void fork_before(void) { pthread_mutex_lock(&ep_lock); }
static void fork_parent(void) { pthread_mutex_unlock(&ep_lock); }

/* They are the parent's. */
static void idle_leave(struct ep *ep)
{
	while (ep->idle.first)
		reg_move(ep->idle.first, &ep->looked);
	if (ep->idle_fd >= 0)
		real()->syscall(SYS_close, ep->idle_fd);
	ep->idle_fd = -1;
}

/* The conns stay as they are: to end one would end the parent's connection. */
static void fork_child(void)
{
	struct reg_work w = { 0 };
	struct reg *r;

	outers = NULL;
	for (struct ep *ep = eps; ep; ep = ep->next) {
		ep->waiters = ep->stale = 0;
		idle_leave(ep);
		regs_take(&ep->looked, &w);
	}
	pthread_mutex_unlock(&ep_lock);
	while ((r = w.dead)) {
		w.dead = r->after;
		free(r);
	}
}

__attribute__((constructor)) static void epoll_open(void) { pthread_atfork(fork_before, fork_parent, fork_child); }

/* Its last number has gone. */
static void ep_end(struct ep *ep, struct reg_work *w)
{
	struct ep **p = &eps;

	while (*p != ep)
		p = &(*p)->next;
	*p = ep->next;
	if (ep->kick >= 0)
		__atomic_sub_fetch(&ep_count, 1, __ATOMIC_RELEASE);
	regs_take(&ep->looked, w);
	regs_take(&ep->idle, w);
	ep_put(ep);
}

static int other_number(const struct ep *ep)
{
	int fd = 0;

	while (ep_of[fd] != ep)
		fd++;
	return fd;
}

void reg_close_ep(int fd)
{
	struct reg_work w = { 0 };
	struct ep *ep;

	if (!reg_is_ep(fd))
		return;
	pthread_mutex_lock(&ep_lock);
	ep = ep_by(fd);
	if (ep) {
		__atomic_store_n(&ep_of[fd], NULL, __ATOMIC_RELEASE);
		if (!--ep->numbers)
			ep_end(ep, &w);
		else if (ep->fd == fd)
			ep->fd = other_number(ep);
	}
	pthread_mutex_unlock(&ep_lock);
	regs_work(&w);
}

void reg_follow(int fd, int new)
{
	if (!reg_is_ep(fd) || new < 0 || new >= FD_MAX)
		return;
	pthread_mutex_lock(&ep_lock);
	if (ep_by(fd))
		ep_number(ep_of[fd], new);
	pthread_mutex_unlock(&ep_lock);
}

/* It may have another number before there is anything of ours in it, as of a Rust program's runtime. */
EXPORT int epoll_create1(int flags)
{
	int fd = (int)real()->syscall(SYS_epoll_create1, flags);

	reg_close_ep(fd);
	pthread_mutex_lock(&ep_lock);
	if (!reg_is_ep(fd))
		ep_new(fd);
	pthread_mutex_unlock(&ep_lock);
	return fd;
}

EXPORT int epoll_create(int size) { return size > 0 ? epoll_create1(0) : fail(EINVAL); }

/* ---- what is registered --------------------------------------------------------------------------------- */

static struct reg *reg_find(const struct ep *ep, int fd, const struct conn *c)
{
	struct reg *r = c->regs;

	while (r && (r->ep != ep || r->fd != fd))
		r = r->of_conn;
	return r;
}

void reg_close(struct conn *c)
{
	struct reg_work w = { 0 };

	if (!__atomic_load_n(&ep_count, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&ep_lock);
	while (c->regs)
		reg_take(c->regs, &w);
	pthread_mutex_unlock(&ep_lock);
	regs_work(&w);
}

void reg_dropped(struct conn *c)
{
	bool stays = conn_state(c) == CONN_LISTEN;
	struct reg_work w = { 0 };
	struct reg *r, *next;

	if (!__atomic_load_n(&ep_count, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&ep_lock);
	for (r = c->regs; r; r = next) {
		next = r->of_conn;
		if (!r->off)
			real()->epoll_ctl(r->ep->fd, EPOLL_CTL_ADD, r->fd, &r->want);
		ep_kick(r->ep);
		if (!stays)
			reg_take(r, &w);
	}
	pthread_mutex_unlock(&ep_lock);
	regs_work(&w);
}

void reg_seen(struct conn *c, uint32_t events)
{
	struct reg_work w = { 0 };
	int err = errno;

	if (!__atomic_load_n(&et_count, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&ep_lock);
	for (struct reg *r = c->regs; r; r = r->of_conn) {
		if (!(r->told & events))
			continue;
		r->told &= ~events;
		reg_stir(r, &w);
		ep_kick(r->ep);
	}
	pthread_mutex_unlock(&ep_lock);
	regs_work(&w);
	errno = err;
}

static int reg_add(struct ep *ep, int fd, struct conn *c, const struct epoll_event *e)
{
	struct reg *r = calloc(1, sizeof(*r));

	if (!r)
		return fail(ENOMEM);
	conn_hold(c);
	ep->refs++;
	*r = (struct reg){
		.ep = ep, .refs = 1, .fd = fd, .c = c, .want = *e, .since = ep->gen + 1, .of_conn = c->regs
	};
	c->regs = r;
	reg_move(r, &ep->looked);
	if (e->events & EPOLLET)
		__atomic_add_fetch(&et_count, 1, __ATOMIC_RELAXED);
	return 0;
}

/* TCP is watched by the instance where it counts, too: of listeners, and of what has become TCP. */
static bool has_tcp(const struct conn *c) { return conn_state(c) == CONN_LISTEN || conn_state(c) == CONN_TCP; }

static void reg_change(struct reg *r, const struct epoll_event *e, struct reg_work *w)
{
	if (r->want.events & EPOLLET)
		__atomic_sub_fetch(&et_count, 1, __ATOMIC_RELAXED);
	if (e->events & EPOLLET)
		__atomic_add_fetch(&et_count, 1, __ATOMIC_RELAXED);
	r->want = *e;
	r->since = r->ep->gen + 1;
	r->told = 0;
	r->off = false;
	reg_stir(r, w);
}

static int reg_ctl(struct ep *ep, int op, int fd, struct conn *c, struct epoll_event *e, struct reg_work *w)
{
	struct reg *r = reg_find(ep, fd, c);
	int ret = 0;

	if (r && op == EPOLL_CTL_ADD)
		return fail(EEXIST);
	if (!r && op != EPOLL_CTL_ADD) /* it may have become TCP just now */
		return real()->epoll_ctl(ep->fd, op, fd, e);
	if (op == EPOLL_CTL_ADD)
		ret = reg_add(ep, fd, c, e);
	else if (op == EPOLL_CTL_DEL)
		reg_take(r, w);
	else
		reg_change(r, e, w);
	if (!ret && has_tcp(c))
		ret = real()->epoll_ctl(ep->fd, op, fd, e);
	ep_kick(ep);
	return ret;
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *e)
{
	struct conn *c = conn_get(fd);
	struct reg_work w = { 0 };
	struct ep *ep;
	int ret;

	if (!c)
		return real()->epoll_ctl(epfd, op, fd, e);
	listener_await(c);
	pthread_mutex_lock(&ep_lock);
	ep = ep_find(epfd);
	if (!ep && op == EPOLL_CTL_ADD)
		ep = ep_make(epfd);
	ret = ep ? reg_ctl(ep, op, fd, c, e, &w) : real()->epoll_ctl(epfd, op, fd, e);
	pthread_mutex_unlock(&ep_lock);
	regs_work(&w);
	conn_put(c);
	return ret;
}
