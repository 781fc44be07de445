/* SPDX-License-Identifier: MIT */
/*
 * object.h - the objects of a program, by pointer, and those that it has destroyed lately.
 *
 * A destroyed one is remembered, and its memory kept (rdmad/keep.h), until GRAVES others are.  All with check_lock, but
 * for object_take() and what follows it.
 */
#ifndef CALLPRELOAD_OBJECT_H
#define CALLPRELOAD_OBJECT_H

#include "pre.h"
#include "stack.h"

enum object_kind {
	OBJ_CONTEXT,
	OBJ_PD,
	OBJ_TD,
	OBJ_MR,
	OBJ_CQ,
	OBJ_QP,
	OBJ_SRQ,
	OBJ_AH,
	OBJ_MW,
	OBJ_CHANNEL,
	OBJ_ID,
	OBJ_DM,
	OBJ_XRCD,
	OBJ_WQ,
	OBJ_TABLE,
	OBJ_FLOW,
	OBJ_COUNTERS,
	OBJ_KINDS
};

struct note; /* a posted request, work.h */

struct queue {
	struct note *first, *last;
	uint32_t n;
	bool gone; /* of one of them, a region is */
};

struct object {
	struct object *next, *next_n; /* of the same bucket, by pointer and by number */
	struct object *newer, *older; /* alive, of its kind */
	struct object *grave;         /* destroyed after this one */
	const void *p;
	enum object_kind kind;
	bool dead;
	bool left;       /* dead, as its context was closed; its memory was not freed */
	bool inherited;  /* by a child of fork(2): not looked after here */
	bool single;     /* the program promised that one thread uses it at a time */
	bool held;       /* a call goes on beyond its return: start_poll, wr_start */
	uint32_t number; /* QPN, lkey */
	const struct ibv_context *context;
	const void *pd;
	pthread_mutex_t turn;
	pid_t in; /* the thread that has the turn */
	struct stack made, ended;
	void *kept; /* its memory */
	union {
		struct {
			uint64_t iova;
			const char *addr;
			size_t len;
			unsigned int access;
			bool plain; /* memory of the program that lies there */
		} mr;
		struct {
			uint32_t due;   /* completions to come, at most */
			uint32_t users; /* ends of QPs */
			bool polled, told;
			struct ibv_wc *taken; /* by cq_drain(), for the next poll */
			uint32_t taken_n;
			struct ibv_cq_ex real; /* its functions, of one that has some */
		} cq;
		struct {
			struct queue s, r;
			struct object *send_cq, *recv_cq, *srq;
			bool sig_all, flushed; /* flushed: so was the receive before */
			uint32_t max_send, max_send_sge, max_recv_sge;
			unsigned posts_after_error;
			bool erred;
			struct ibv_qp_ex real;
			struct draft *draft; /* between wr_start and wr_complete, ex.c */
		} qp;
		struct {
			struct queue r;
			uint32_t max_sge;
			bool xrc;
		} srq;
	};
};

/* Locking it fails, and does not wait, in a handler of a signal that came while this thread had it. */
#define CHECK_LOCK_NEW PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP
extern pthread_mutex_t check_lock;
extern bool check_on;

const char *object_name(const struct object *);

/* Of that pointer, alive, dead or inherited, or NULL: never noted.  For the sake of its real functions. */
struct object *object_any(enum object_kind, const void *p);
/* Alive, or NULL. */
struct object *object_find(enum object_kind, const void *p);
/* By number; dead ones, too, if there is none alive. */
struct object *object_number(enum object_kind, const struct ibv_context *, uint32_t number);
/* A new one, without a number; what was known of that pointer is forgotten.  NULL: no memory. */
struct object *object_made(enum object_kind, const void *p, const struct ibv_context *);
void object_number_set(struct object *, uint32_t number);
void object_each(enum object_kind, void (*)(struct object *, void *), void *);

/* A context was closed: all alive ones of it go with it.  */
void objects_leave(const struct ibv_context *);
/* In a child of fork(2): all is the parent's; those with functions of ours are still found by object_any(). */
void object_forked(void);

/* Takes check_lock itself.  False: it was destroyed, and that is told; the call must not be made. */
bool object_usable(enum object_kind, const void *p, const char *verb);
/* The same for who destroys it; until object_ended(), memory that is freed by this thread is kept for it. */
bool object_ending(enum object_kind, const void *p, const char *verb);
void object_ended(enum object_kind, const void *p, bool gone);

/* Its turn, without check_lock.  False: another thread has it, which this one may not wait for, and that is told. */
bool object_take(struct object *);
void object_give(struct object *);

#endif
