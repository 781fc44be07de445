/* SPDX-License-Identifier: MIT */
/* cq.h - completion queues and their channels. */
#ifndef VERBS_CQ_H
#define VERBS_CQ_H

#include "alone.h"
#include "ctx.h"
#include "nap.h"
#include "pd.h"

struct rd_qp;

/* The queue memory of a CQ.  A resize adds one; the oldest is emptied first. */
struct cq_ring {
	struct cq_ring *next; /* newer */
	struct ring ring;
	struct piece mem;
};

struct rd_channel {
	struct ibv_comp_channel ch;
	uint32_t handle;
	bool stale;       /* atomic; behind the first event that waits there may be some whose CQ is gone */
	uint64_t last_of; /* under map_lock: the cookie of the CQ whose event was read last, if it was not seen to */
};

static inline struct rd_channel *to_channel(struct ibv_comp_channel *c) { return (struct rd_channel *)c; }

struct cq_user { /* a QP that completes here; lives in the QP */
	struct hash_node hash;
	struct rd_qp *qp;
};

struct rd_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct rd_pd *mem; /* pd_free */
	struct map_node node;
	pthread_mutex_t lock;
	bool single;                /* IBV_CREATE_CQ_ATTR_SINGLE_THREADED: no lock */
	struct cq_ring *cur, *last; /* the oldest, to be polled; the newest, where the daemon writes */
	struct hash users;          /* struct cq_user, by QPN */
	struct rd_qp *last_qp;      /* of the last completion */
	struct cqe *now;            /* start_poll ... end_poll: the current one */
	uintptr_t poller;           /* atomic; the thread that has the lock from the one to the other; 0: none */
	uint32_t empty_n;           /* polls in a row that found nothing */
	uint32_t idle_n;            /* times the core was given away since something was found */
	bool gone;                  /* the daemon has gone: nothing will come any more */
	bool moderated;             /* the daemon puts events off */
	bool heard;                 /* atomic; the program has read an event, and not polled since */
	struct pace pace;           /* of the queue that had the last completion of a send */
	uint32_t sent_n;            /* SENDs that completed since the core was given away */
};

static inline struct rd_cq *to_cq(struct ibv_cq *c) { return (struct rd_cq *)c; }
static inline struct rd_cq *ex_to_cq(struct ibv_cq_ex *c) { return (struct rd_cq *)c; }

static inline void cq_lock(struct rd_cq *cq)
{
	if (!cq->single)
		pthread_mutex_lock(&cq->lock);
}

static inline void cq_unlock(struct rd_cq *cq)
{
	if (!cq->single)
		pthread_mutex_unlock(&cq->lock);
}

/* From the one to the other nothing of the program runs. */
static inline bool cq_enter(struct rd_cq *cq) { return !cq->single && lock_enter(&cq->lock); }
static inline void cq_leave(struct rd_cq *cq, bool entered) { lock_leave(&cq->lock, entered); }

static inline uintptr_t thread_me(void) { return (uintptr_t)pthread_self(); }

static inline bool cq_is_mine(const struct rd_cq *cq)
{
	return __atomic_load_n(&cq->poller, __ATOMIC_RELAXED) == thread_me();
}

/*
 * The lock for all but polling: before end_poll a program may arm the CQ, resize it, make and end QPs, as with adapters.
 * The table of QPs is locked also if only one thread polls.
 */
static inline void cq_lock_table(struct rd_cq *cq)
{
	if (!cq_is_mine(cq))
		pthread_mutex_lock(&cq->lock);
}

static inline void cq_unlock_table(struct rd_cq *cq)
{
	if (!cq_is_mine(cq))
		pthread_mutex_unlock(&cq->lock);
}

static inline void cq_lock_any(struct rd_cq *cq)
{
	if (!cq->single)
		cq_lock_table(cq);
}

static inline void cq_unlock_any(struct rd_cq *cq)
{
	if (!cq->single)
		cq_unlock_table(cq);
}

void cq_add_qp(struct rd_cq *, struct cq_user *, struct rd_qp *);
void cq_del_qp(struct rd_cq *, struct cq_user *);
/* The QP was reset, as cq_del_qp() does: its completions that lie in the ring are not shown any more, and take no room. */
void cq_purge(struct rd_cq *, struct rd_qp *);
/* The same for an SRQ of XRC that was destroyed. */
void cq_purge_srq(struct rd_cq *, uint32_t srqn);

/* Slots to read; 0 also if the daemon's index is nonsense, from then on for ever. */
static inline uint32_t ring_ahead(struct ring *r)
{
	uint32_t n = ring_used(r);

	if (n == UINT32_MAX)
		r->seen = r->pos;
	return n == UINT32_MAX ? 0 : n;
}

/* Completions to read; the producer's index is fetched only when those seen last time are used up. */
static inline uint32_t cur_used(struct ring *r)
{
	uint32_t n = r->seen - r->pos;

	return n ? n : ring_ahead(r);
}

/* A poll would find nothing.  With the lock held. */
static inline bool cq_is_empty(struct rd_cq *cq) { return !cur_used(&cq->cur->ring) && !cq->cur->next && !cq->gone; }

/*
 * The next completion to show, or NULL; it stays valid until cqe_done().  The QP's accounts are settled.
 * With the lock held.
 */
struct cqe *cqe_next(struct rd_cq *);
void cqe_done(struct rd_cq *);

int cq_poll(struct ibv_cq *, int n, struct ibv_wc *);
void cq_ex_ops(struct ibv_cq_ex *); /* fills in start_poll ... read_* */

/* A CQ of this channel is no more: its events that the program has not read do not make the descriptor readable. */
void channel_forget(struct ibv_comp_channel *);

int cq_req_notify(struct ibv_cq *, int solicited_only);
/* An event of what is there and was not polled: none is due; the shard looks; it is sent. */
enum due { DUE_NONE, DUE_LOOK, DUE_SEND };
void cq_event_due(struct rd_ctx *, uint64_t cookie, enum due); /* unless the CQ is gone */
enum due cq_left(struct rd_cq *);                              /* if it is armed, and nobody is polling it */

#endif
