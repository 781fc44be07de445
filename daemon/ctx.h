/* SPDX-License-Identifier: MIT */
/*
 * ctx.h - a verbs context and its objects: what one client has open.
 *
 * Everything here is changed in the thread of the context's shard only - the control thread gets there with
 * shard_call(), and while it waits for that it may read it - and so needs no lock.  A handle that a client
 * names is the HCA's number of the object; obj_get() finds it if it is of that kind and of that context, so
 * a client can name any number without reaching what is not its own.  PDs, MRs and device memory belong to
 * the context's family: the contexts that one was imported into, all on one shard.  What a context
 * leaves behind when it is closed is another one's then.
 *
 *	session.c, verb*.c	control thread: messages; make memory and descriptors, call the rest by shard_call()
 *	ctx.c, ctx_obj.c	shard thread: make, find and destroy
 *	drain.c, publish.c	shard thread: every turn
 */
#ifndef DAEMON_CTX_H
#define DAEMON_CTX_H

#include <sys/socket.h>

#include <rdmad/ring.h>

#include "../proto/hca.h"
#include "answer.h"
#include "peer.h"
#include "region.h"
#include "shard.h"

enum obj_kind { OBJ_PD, OBJ_MR, OBJ_CHANNEL, OBJ_CQ, OBJ_SRQ, OBJ_QP, OBJ_MW, OBJ_DM, OBJ_XRCD, OBJ_KINDS };

struct obj {
	enum obj_kind kind;
	uint32_t number;		/* the HCA's; a channel's comes from its context */
	struct ctx *ctx;
	struct obj *prev, *next;	/* of the context, per kind */
	struct obj *chain;		/* in the shard's map */
};

/* Shared memory of one object: the daemon's mapping, and the descriptor until it is sent. */
struct shmem {
	uint8_t *mem;
	size_t len;
	int fd;				/* -1: none */
};

/* Queue of records for a descriptor that may be full: a channel's pipe, the event socket. */
struct outlet {
	int fd;
	bool stuck;			/* atomic; full: the control thread waits until it can be written */
};

struct pd { struct obj obj; };

struct mr {
	struct obj obj;
	struct region *region;
	struct peer *peer;		/* whose memory it is; NULL: nobody's */
	struct dm *dm;			/* or NULL */
	uint64_t addr, len;		/* as the program has them */
};

/* Device memory: of the daemon's. */
struct dm {
	struct obj obj;
	struct shmem shm;		/* keeps its descriptor */
	unsigned users;			/* MRs */
};

struct mw { struct obj obj; };		/* its number is the first key it had */

struct xrcd {
	struct obj obj;
	struct domain *domain;		/* shared; NULL: this program's own */
};

struct channel {
	struct obj obj;
	struct outlet out;
	unsigned cq_n;			/* CQs that use it */
	struct cq *due;			/* CQs whose event did not fit, through cq->due_next */
};

struct cq {
	struct obj obj;
	struct shmem shm;
	struct ring ring;
	struct channel *channel;	/* or NULL */
	uint64_t cookie;
	uint32_t batch_n;		/* slots written and not yet published */
	bool solicited;			/* in the batch: one that wakes a CQ armed for those only */
	bool touched, due, overrun, late;
	struct cq *touched_next, *due_next, *late_next, *kept_next;
	struct {			/* the last one written: of a send that succeeded? */
		uint32_t qpn, wqe;
		bool sent;
	} last;
	struct {			/* the completion that waits for the peer's answer: answer.h */
		bool on;
		uint32_t qpn, heard;
		mono_t until;
	} kept;
	struct {			/* moderation (ibv_modify_cq) */
		uint32_t count, n;	/* completions that make an event, and those there are; count 0 or 1: each does */
		uint64_t period_ns;	/* and how long after the first one it comes at the latest; 0: no such limit */
		mono_t at;		/* when: late */
		bool solicited;
	} mod;
};

/* A queue that the client posts receives to: of a QP or an SRQ. */
struct recv_queue {
	struct ring ring;
	uint32_t slots;			/* 0: none (the QP uses an SRQ) */
	uint32_t max_sge;
	bool full;			/* SRQ: the core's queue is full, slots wait in the ring */
	bool broken;			/* the client wrote nonsense; not looked at any more */
};

struct srq {
	struct obj obj;
	struct shmem shm;
	struct recv_queue rq;
	uint64_t cookie;
	uint32_t bell;
	uint32_t xrcd;			/* 0: not of XRC */
};

struct qp {
	struct obj obj;
	struct shmem shm;
	struct ring sq;
	struct recv_queue rq;
	struct qp_cap cap;
	uint64_t cookie;
	uint32_t bell;			/* unless xrcd is set */
	uint32_t xrcd;			/* XRC_RECV: its domain; such a QP has no rings, and may have more holders */
	uint32_t nth;			/* of its device, since the start: 1, 2, ... */
	uint32_t sq_slots;
	uint32_t sq_seen;		/* posted sends up to here are this turn's; see drain.c */
	uint32_t sq_skipped;		/* sends taken from the ring that the core never saw: cqe.wqe counts them */
	uint8_t state;			/* as last written to the ring headers */
	bool sq_broken;			/* as rq.broken */
	struct answer answer;
	struct raw *raw;		/* RAW_PACKET; raw.h */
	struct qp_group *groups;	/* that the host is in for it; verb_mcast.c */
};

/* What a bell number stands for. */
struct bell_queue { struct qp *qp; struct srq *srq; };

struct family {
	struct msg_token token;
	unsigned n;			/* contexts */
	uint64_t dm_len;		/* bytes of device memory */
};

#define DM_LEN_MAX (64u << 20)		/* device memory of a family, in all */
#define EVENTS_MAX 128u			/* async events kept for a client that does not read them */

struct ctx {
	struct ctx *next, *prev;	/* of the shard */
	struct shard *shard;
	struct device *dev;
	struct hca *hca;
	unsigned id;			/* for logs and rdmactl */
	pid_t pid;
	uid_t uid;
	mono_t why_since;		/* why.c's: causes told since then */
	unsigned why_n;
	uint64_t run;			/* which rdmad-run it belongs to; 0: none */
	struct peer *peer;		/* its memory */
	struct family *family;
	int token_fd;			/* our end: holds the token for who peeks */
	char prog[RDMAD_NAME_LEN];

	struct shmem bell_shm;
	struct bell *bell;
	unsigned bell_slot;		/* of shard_bell_add() */
	struct bell_queue *queue;	/* queue_n of them, by bell number */
	uint32_t queue_n, queue_used;
	/* Bells taken and not worked off.  The private copy of struct bell's words. */
	uint64_t pend_sum[BELL_QUEUES / 4096];
	uint64_t pend_word[BELL_QUEUES / 64];
	uint32_t first;			/* the bell number whose sends are taken first: after the last one served */
	bool recv_left;			/* more receives were posted than one turn takes */
	bool skips;			/* some QP's sq_skipped is not 0 */
	bool bye;			/* MSG_BYE: its end is orderly */
	bool lost;			/* it ends without */
	unsigned srq_full_n;		/* SRQs whose rq.full is set */

	struct outlet event_out;
	struct msg_event event[EVENTS_MAX];	/* did not fit: event_n from event_pos on */
	unsigned event_pos, event_n;
	uint64_t events_lost;

	struct obj *objs[OBJ_KINDS];
	unsigned obj_n[OBJ_KINDS];
	uint32_t channel_last;
};

/* ---- ctx.c ---------------------------------------------------------------- */

/*
 * Control thread: makes it and puts it on a shard; like: a context whose family it joins, or NULL.  *event_fd, *token_fd: the
 * client's ends.  0 or errno.
 */
int ctx_open(struct ctx **, struct device *, struct ctx *like, const struct ucred *, const char *prog, int *event_fd,
	     int *token_fd);
/* Control thread: destroys all objects (QPs, SRQs, CQs, channels, MRs, PDs), then the context. */
void ctx_close(struct ctx *);

/* A sealed memfd of len bytes, mapped.  0 or errno. */
int shmem_make(struct shmem *, const char *name, size_t len);
void shmem_free(struct shmem *);

/* Shard thread. */
struct obj *obj_find(const struct shard *, enum obj_kind, unsigned device, uint32_t number);
struct obj *obj_get(const struct ctx *, enum obj_kind, uint32_t number);
int obj_add(struct ctx *, struct obj *, enum obj_kind, uint32_t number);	/* 0 or ENOMEM */
void obj_del(struct obj *);

/* Another holder of the same object of the HCA, after this one; NULL: none. */
struct obj *obj_other(const struct obj *);

/* A free bell number; 0 or ENOMEM. */
int bell_take_number(struct ctx *, uint32_t *);
void bell_give_back(struct ctx *, uint32_t);

extern unsigned ctx_n;	/* contexts that are open; control thread */

/* ---- ctx_obj.c: shard thread; 0 or errno.  A destroyed object is handed back for the control thread to release ---- */

int pd_make(struct ctx *, struct pd *);
int mr_make(struct ctx *, struct mr *, const struct msg_req *);
int mr_change(struct ctx *, const struct msg_req *, struct mr *);	/* the memory of the latter becomes the old one */
int dm_make(struct ctx *, struct dm *);
int mw_make(struct ctx *, struct mw *, const struct msg_req *, uint32_t *key);
int channel_make(struct ctx *, struct channel *);
int cq_make(struct ctx *, struct cq *, const struct msg_req *, uint32_t slots);
int cq_swap(struct ctx *, struct cq *, struct shmem *, uint32_t slots);	/* CQ_RESIZE: *shmem becomes the old one */
int srq_make(struct ctx *, struct srq *, const struct msg_req *, uint32_t slots, uint32_t stride);

struct qp_rings { uint32_t sq_slots, sq_stride, rq_slots, rq_stride; uint64_t rq_off; };
int qp_make(struct ctx *, struct qp *, const struct msg_req *, const struct qp_rings *);
int qp_change(struct ctx *, struct qp *, const struct qp_attr *, uint32_t mask);

int obj_destroy(struct obj *);		/* in the HCA and from all lists; EBUSY and the like leave it as it was */
void obj_release(struct obj *);		/* control thread: memory, descriptors, the struct itself */

/* verb_mcast.c, control thread: the QP is no more, the host leaves its groups. */
void mcast_forget(struct qp *);

/* xrcd.c */
int xrcd_drop(struct xrcd *);		/* EBUSY: the context has something in it */
struct shard *xrcd_shard(uid_t, const struct device *);	/* where this user shares domains; NULL: nowhere */

/* The QP's state as the core has it now, into the ring headers (a hint for the library). */
void qp_hint(struct qp *);

/* ---- drain.c, publish.c ------------------------------------------------------ */

/* Takes what is in the QP's rings and drops it (to RESET). */
void drain_drop(struct qp *);
/* Shard thread: an async event for the client. */
void event_send(struct ctx *, uint32_t type, uint32_t port, uint64_t cookie);
/* Shard thread: the descriptor can be written again. */
void outlet_retry(struct ctx *);
/* Forgets what is kept for a CQ or channel about to go. */
void publish_forget_cq(struct cq *);
/* Shard thread: what is kept back for an answer (answer.h) is published now: of a CQ that gets another ring, of a QP about to change. */
void publish_kept(struct cq *);
void publish_kept_of(const struct ctx *, uint32_t qpn);
/* Shard thread: the CQ takes no more completions; its QPs go to ERR. */
void publish_overrun(struct cq *, mono_t now);
/* Shard thread: the CQ's events come after so many completions, or so long after the first of them. */
void publish_moderate(struct cq *, uint32_t count, uint64_t period_ns);

/* ctl.c; any thread: some outlet of this shard is stuck. */
void ctl_outlet_stuck(void);

#endif
