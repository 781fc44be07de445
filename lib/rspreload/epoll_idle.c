/* SPDX-License-Identifier: MIT */
/*
 * epoll_idle.c - registrations that nothing was heard of for a while (epoll.h).
 *
 * To look at an rsocket costs less than a system call, but a server has thousands of which it hears nothing.  So what had no event in
 * QUIET waits, while others had or the thread slept, is left to the kernel: it sleeps as a thread would (rdmad_rs_sleep), and the
 * descriptors by which it would be woken are in an instance of their own, which each wait has among its entries.  FEW are looked at in
 * any case.
 */
#include "epoll.h"

#include <sys/syscall.h>

#include <rdmad/high.h>

enum { QUIET = 128, FEW = 8, AT_ONCE = 16, NEWS = 64 };

static bool reg_watch(struct reg *r, const struct pollfd *p, int64_t came)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = r };

	if (rdmad_rs_sleep(conn_rfd(r->c), p->events, came, &r->sleep))
		return false;
	for (unsigned i = 0; i < ARRAY_N(r->sleep.p); i++)
		if (r->sleep.p[i].fd >= 0 && real()->epoll_ctl(r->ep->idle_fd, EPOLL_CTL_ADD, r->sleep.p[i].fd, &e)) {
			reg_unwatch(r);
			return false;
		}
	return true;
}

/* ---- there is news ------------------------------------------------------------------------------------------ */

bool idle_wake(struct ep *ep)
{
	struct epoll_event e[NEWS];
	struct reg_work w = { 0 };
	bool any;
	int n;

	pthread_mutex_lock(&ep_lock); /* until then those of which the kernel knows are there */
	n = (int)real()->syscall(SYS_epoll_pwait, ep->idle_fd, e, NEWS, 0, NULL, 0);
	for (int i = 0; i < n; i++)
		reg_stir(e[i].data.ptr, &w);
	any = w.wake;
	if (any)
		ep_kick(ep);
	pthread_mutex_unlock(&ep_lock);
	regs_work(&w);
	return any;
}

/* ---- there is none ------------------------------------------------------------------------------------------ */

struct rest {
	struct reg *r;
	struct pollfd p;
	int64_t came;
	bool watched;
};

/* Locked. */
static bool may_rest(struct reg *r)
{
	struct ep *ep = r->ep;

	if (!r->list || r->moves || reg_is_idle(r) || r->off || conn_state(r->c) != CONN_RDMA || r->quiet < QUIET)
		return false;
	if (ep->idle_fd < 0)
		ep->idle_fd = fd_high((int)real()->syscall(SYS_epoll_create1, EPOLL_CLOEXEC));
	return ep->idle_fd >= 0;
}

/* Locked.  How many will rest. */
static int rests_choose(struct ep *ep, struct reg *const *r, uint32_t n, struct rest *rests)
{
	int k = 0;

	for (uint32_t i = 0; i < n; i++) {
		r[i]->quiet++;
		if (k == AT_ONCE || ep->looked.n <= FEW + (uint32_t)k || !may_rest(r[i]))
			continue;
		rests[k].r = r[i];
		reg_look(r[i], &rests[k].p, &rests[k].came);
		reg_moves(r[i]);
		k++;
	}
	return k;
}

/* Locked. */
static void rest_end(const struct rest *t, struct reg_work *w)
{
	struct reg *r = t->r;

	r->quiet = 0;
	if (t->watched && (!r->list || r->stirred)) {
		reg_wake_later(r, w);
		return;
	}
	r->moves = false;
	if (t->watched)
		reg_move(r, &r->ep->idle);
	reg_put(r, w);
}

void idle_rest(struct ep *ep, struct reg *const *r, uint32_t n)
{
	struct rest rests[AT_ONCE];
	struct reg_work w = { 0 };
	int k;

	if (n <= FEW)
		return;
	pthread_mutex_lock(&ep_lock);
	k = rests_choose(ep, r, n, rests);
	pthread_mutex_unlock(&ep_lock);
	if (!k)
		return;
	for (int i = 0; i < k; i++)
		rests[i].watched = reg_watch(rests[i].r, &rests[i].p, rests[i].came);
	pthread_mutex_lock(&ep_lock);
	for (int i = 0; i < k; i++)
		rest_end(&rests[i], &w);
	pthread_mutex_unlock(&ep_lock);
	regs_work(&w);
}
