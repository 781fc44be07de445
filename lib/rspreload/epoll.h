/* SPDX-License-Identifier: MIT */
/*
 * epoll.h - epoll: the program's epoll instance keeps the descriptors that are not ours; two lists beside it have the
 * rsockets.
 *
 * A thread that waits sleeps in rpoll(), on the instance, on the rsockets that are looked at, and on a second instance of the kernel's,
 * which has the idle ones: they cost nothing until there is news (epoll_idle.c).  An eventfd in the instance, known by the list's
 * address, wakes it when the lists change, and stays readable until each of those that waited has seen it.  With edge triggering a
 * state that was reported is not reported again until it is another one: more has come to be read, a send did not find enough room, a
 * connection was accepted.
 */
#ifndef RSPRELOAD_EPOLL_H
#define RSPRELOAD_EPOLL_H

#include "pre.h"

#include <rdmad/own.h>

struct regs {
	struct reg *first, **end;
	uint32_t n;
};

struct reg {
	struct regs *list; /* its instance's looked or idle; NULL: it is not registered any more */
	struct reg *next, **at;
	struct reg *of_conn; /* the next one of the conn */
	struct reg *after;   /* of some work */
	struct ep *ep;       /* held */
	uint32_t refs;       /* the registration, and calls */
	int fd;
	struct conn *c; /* held */
	struct epoll_event want;
	uint32_t since; /* of the instance's gen: the first that has it so */
	uint32_t told;  /* edge-triggered */
	int64_t came;   /* of rdmad_rpoll(), when EPOLLIN was told */
	int64_t turn;   /* when it was last told of, as came counts: it comes behind what was there by then */
	bool off;       /* one-shot, and it has shot */
	bool moves;     /* a thread makes it idle, or has it looked at again, without the lock; */
	bool stirred;   /* and meanwhile it has changed */
	uint32_t quiet; /* waits without an event of it */
	struct rdmad_rs_sleep sleep;
};

struct ep {
	struct ep *next;
	int fd;           /* one of its numbers: there may be more, by dup() */
	unsigned numbers; /* how many */
	int kick;         /* -1: it has no lists yet */
	int idle_fd;      /* the kernel's instance of those that are idle; -1: none yet */
	uint32_t refs;    /* the list of them, registrations, and calls */
	struct regs looked, idle;
	int64_t turn; /* the latest of them */
	bool behind; /* the rsockets, next time: which are told of first changes, as there may be room for one event only */
	uint32_t waiters, stale, gen; /* threads since the last change; those that have not seen it */
};

/* A thread that waits in the kernel, for an instance that had no list when it came. */
struct outer {
	struct outer *next;
	int fd;
	struct ep *ep; /* made since; held, and this thread is one of its waiters */
};

/* Left to be done without the lock: registrations that are looked at again, and such that nobody has any more. */
struct reg_work {
	struct reg *wake, *dead;
};

extern pthread_mutex_t ep_lock; /* of all of them */
extern uint32_t ep_count;       /* atomic */
extern struct outer *outers;

/* ---- epoll.c; locked */
struct ep *ep_find(int fd);

/* ---- epoll_reg.c; locked, but for regs_work() and reg_unwatch() */
void ep_put(struct ep *);
void ep_kick(struct ep *); /* those that wait look at the lists anew */
void waiter_gone(struct ep *, uint32_t gen);
void reg_put(struct reg *, struct reg_work *);
void reg_move(struct reg *, struct regs *to); /* to its end; NULL: from where it is only */
/* How it is looked at: the events that are waited for, and came of rdmad_rpoll(). */
void reg_look(const struct reg *, struct pollfd *, int64_t *came);
static inline bool reg_is_idle(const struct reg *r) { return r->list == &r->ep->idle; }
void reg_stir(struct reg *, struct reg_work *);       /* it has changed, and is looked at */
void reg_moves(struct reg *);                         /* the caller moves it, and holds it for that */
void reg_wake_later(struct reg *, struct reg_work *); /* such one: the kernel has to forget it */
void reg_unwatch(struct reg *);                       /* the same at once */
void regs_work(struct reg_work *);

/* ---- epoll_idle.c; not locked.  Of which there is news is looked at; whether there is such. */
bool idle_wake(struct ep *);
/* After a wait: those that had no event for long are idle from now on. */
void idle_rest(struct ep *, struct reg *const *, uint32_t n);

#endif
