/* SPDX-License-Identifier: MIT */
/* epoll_reg.c - registrations: lists and threads that have them, and how they are looked at (epoll.h). */
#include "epoll.h"

#include <sys/syscall.h>

pthread_mutex_t ep_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- those that wait -------------------------------------------------------------------------------------- */

void ep_kick(struct ep *ep)
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

/* ---- who has one ---------------------------------------------------------------------------------------- */

void ep_put(struct ep *ep)
{
	if (--ep->refs)
		return;
	if (ep->kick >= 0)
		real()->syscall(SYS_close, ep->kick);
	if (ep->idle_fd >= 0)
		real()->syscall(SYS_close, ep->idle_fd);
	free(ep);
}

void reg_move(struct reg *r, struct regs *to)
{
	if (r->list) {
		*r->at = r->next;
		*(r->next ? &r->next->at : &r->list->end) = r->at;
		r->list->n--;
	}
	r->list = to;
	if (!to)
		return;
	r->next = NULL;
	r->at = to->end;
	*to->end = r;
	to->end = &r->next;
	to->n++;
}

void reg_put(struct reg *r, struct reg_work *w)
{
	if (--r->refs)
		return;
	ep_put(r->ep);
	r->after = w->dead;
	w->dead = r;
}

/* ---- how it is looked at -------------------------------------------------------------------------------- */

void reg_look(const struct reg *r, struct pollfd *p, int64_t *came)
{
	uint32_t want = r->want.events & ~r->told &
			(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLRDNORM | EPOLLWRNORM);
	bool more = r->told & EPOLLIN && !(r->told & (EPOLLHUP | EPOLLERR)) && conn_state(r->c) == CONN_RDMA;

	*p = (struct pollfd){ conn_look(r->c, r->fd), (short)(want | (more ? EPOLLIN : 0)), 0 };
	*came = more ? r->came : -1;
}

void reg_moves(struct reg *r)
{
	r->moves = true;
	r->stirred = false;
	r->refs++;
}

void reg_wake_later(struct reg *r, struct reg_work *w)
{
	r->after = w->wake;
	w->wake = r;
}

void reg_stir(struct reg *r, struct reg_work *w)
{
	r->stirred = true;
	r->quiet = 0;
	if (!reg_is_idle(r))
		return;
	reg_move(r, &r->ep->looked);
	reg_moves(r);
	reg_wake_later(r, w);
}

void reg_unwatch(struct reg *r)
{
	for (unsigned i = 0; i < ARRAY_N(r->sleep.p); i++)
		if (r->sleep.p[i].fd >= 0)
			real()->epoll_ctl(r->ep->idle_fd, EPOLL_CTL_DEL, r->sleep.p[i].fd, NULL);
	rdmad_rs_awake(conn_rfd(r->c), &r->sleep);
}

/* A conn's end calls close(), which has the lock for a while. */
void regs_work(struct reg_work *w)
{
	struct reg *r;

	while ((r = w->wake)) {
		w->wake = r->after;
		reg_unwatch(r);
		pthread_mutex_lock(&ep_lock);
		r->moves = false;
		reg_put(r, w);
		pthread_mutex_unlock(&ep_lock);
	}
	while ((r = w->dead)) {
		w->dead = r->after;
		conn_put(r->c);
		free(r);
	}
}
