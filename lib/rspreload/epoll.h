/* SPDX-License-Identifier: MIT */
/*
 * epoll.h - epoll: the program's epoll instance keeps the descriptors that are not ours; a list beside it has the
 * rsockets.
 *
 * A thread that waits sleeps in rpoll(), on the instance and on the rsockets of the list.  An eventfd in the instance,
 * known by the list's address, wakes it when the list changes, and stays readable until each of those that waited has
 * seen it.  With edge triggering a state that was reported is not reported again until it is another one: more has come to be read, a
 * send did not find enough room, a connection was accepted.
 */
#ifndef RSPRELOAD_EPOLL_H
#define RSPRELOAD_EPOLL_H

#include "pre.h"

struct reg {
	struct reg *next;
	int fd;
	struct conn *c; /* held */
	struct epoll_event want;
	uint32_t told; /* edge-triggered */
	int64_t came;  /* of rdmad_rpoll(), when EPOLLIN was told */
	bool off;      /* one-shot, and it has shot */
};

struct ep {
	struct ep *next;
	int fd;
	int kick;
	uint32_t refs; /* the list of them, and calls */
	struct reg *regs;
	uint32_t n;
	bool behind; /* the rsockets, next time: which are told of first changes, as there may be room for one event only */
	uint32_t waiters, stale, gen; /* threads since the last change; those that have not seen it */
};

/* A thread that waits in the kernel, for an instance that had no list when it came. */
struct outer {
	struct outer *next;
	int fd;
	struct ep *ep; /* made since; held, and this thread is one of its waiters */
};

extern pthread_mutex_t ep_lock; /* of all of them */
extern uint32_t ep_count;       /* atomic */
extern struct outer *outers;

/* Locked. */
struct ep *ep_find(int fd);
struct reg **reg_at(struct ep *, int fd);
void ep_put(struct ep *, struct reg **dead);
void waiter_gone(struct ep *, uint32_t gen);

void regs_bury(struct reg *dead); /* not locked */

#endif
