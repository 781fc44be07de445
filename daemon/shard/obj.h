/* SPDX-License-Identifier: MIT */
/*
 * obj.h - the objects of contexts, and the table of a shard where they are found by the HCA's numbers.
 *
 * A handle that a client names is the HCA's number of the object; obj_get() finds it if it is of that kind and of that
 * context, so a client can name any number without reaching what is not its own.  PDs, MRs and device memory belong to the
 * context's family: the contexts that one was imported into, all on one shard.  Shard thread.
 */
#ifndef DAEMON_OBJ_H
#define DAEMON_OBJ_H

#include <rdmad/ring.h>

#include "../../proto/hca.h"
#include "../../proto/heap.h"
#include "../../proto/link.h"
#include "../base/quota.h"
#include "../base/slab.h"
#include "answer.h"
#include "shard.h"

enum obj_kind { OBJ_PD, OBJ_MR, OBJ_CHANNEL, OBJ_CQ, OBJ_SRQ, OBJ_QP, OBJ_MW, OBJ_DM, OBJ_XRCD, OBJ_KINDS };

struct obj {
	enum obj_kind kind;
	uint32_t number; /* the HCA's; a channel's comes from its context */
	struct ctx *ctx;
	struct obj *prev, *next; /* of the context, per kind */
	struct obj *chain;       /* in the shard's map */
	bool told;               /* an async event of it went to the client */
	struct bill bill;        /* the control thread's: what its user is charged with for it */
};

/* Queue of records for a descriptor that may be full: a channel, the event socket. */
struct outlet {
	int fd;
	bool stuck; /* full: the control thread waits until it can be written */
	bool ends;  /* after what waits nothing comes: its reader is told then */
	struct outlet *stuck_next;
	struct retry *retry; /* the control thread's, while it waits */
};

struct ctx_pd {
	struct obj obj;
};

struct ctx_mr {
	struct obj obj;
	struct region *region;
	struct peer *peer;  /* whose memory it is, or who sent it; NULL: nobody's */
	struct dm *dm;      /* or NULL */
	uint64_t addr, len; /* as the program has them */
};

/* Device memory: of the daemon's. */
struct dm {
	struct obj obj;
	struct shmem shm; /* keeps its descriptor */
	unsigned users;   /* MRs, and QPs that count there: one for each kind of work */
};

struct ctx_mw {
	struct obj obj;
}; /* its number is the first key it had */

/* A part of a domain, one context's: handles, and SRQs and receiving QPs, which need one. */
struct xrcd_part {
	unsigned handles, users;
};

struct ctx_xrcd {
	struct obj obj;
	struct domain *domain; /* shared; NULL: this program's own */
	struct xrcd_part *part;
};

struct channel {
	struct obj obj;
	struct outlet out;
	unsigned cq_n;   /* CQs that use it */
	struct link due; /* CQs whose event did not fit */
};

struct ctx_cq {
	struct obj obj;
	struct shmem shm;
	struct shmem piece; /* after a resize the one that it began with; the program may not have polled all of it */
	struct shmem next;  /* of a resize: its memory until the client has mapped it */
	uint32_t next_slots;
	struct ring ring;
	struct channel *channel; /* or NULL */
	uint64_t cookie;
	mono_t published; /* when the last ones were */
	uint32_t batch_n; /* slots written and not yet published */
	bool solicited;   /* in the batch: one that wakes a CQ armed for those only */
	uint32_t wakes;   /* the place in its ring behind the last batch with such a one */
	bool touched, overrun;
	bool times; /* each completion says when it was published, which is after its work was posted */
	struct ctx_cq *touched_next, *kept_next;
	struct link in_due; /* of its channel */
	struct {            /* the last one written: of a send that succeeded? */
		uint32_t qpn, wqe;
		bool sent;
	} last;
	struct { /* the completion that waits for the peer's answer: answer.h */
		bool on;
		uint32_t qpn, heard;
		mono_t until;
	} kept;
	struct {                    /* moderation (ibv_modify_cq) */
		uint32_t count, n;  /* completions that make an event, and those there are; count 0 or 1: each does */
		uint64_t period_ns; /* and how long after the first one it comes at the latest; 0: no such limit */
		struct timer timer; /* when; in its shard's while that is awaited */
		bool solicited;
	} mod;
};

/* A queue that the client posts receives to: of a QP or an SRQ. */
struct recv_queue {
	struct ring ring;
	uint32_t slots; /* 0: none (the QP uses an SRQ) */
	bool broken;    /* the client wrote nonsense; not looked at any more */
};

struct ctx_srq {
	struct obj obj;
	struct shmem shm;
	struct recv_queue rq;
	uint64_t cookie;
	uint32_t bell;
	uint32_t xrcd; /* 0: not of XRC */
};

struct ctx_qp {
	struct obj obj;
	struct shmem shm;
	struct ring sq;
	struct recv_queue rq;
	struct qp_cap cap;
	uint64_t cookie;
	uint32_t bell; /* unless xrcd is set */
	uint32_t xrcd; /* XRC_RECV: its domain; such a QP has no rings, and may have more holders */
	uint32_t nth;  /* of its device, since the start: 1, 2, ... */
	uint32_t
		sq_place; /* of those of a context the lowest is served first: ring_hdr.rung, until it has had its share */
	uint32_t sq_seen;    /* posted sends up to here are this turn's; see drain.c */
	uint32_t sq_skipped; /* sends taken from the ring that the core never saw: cqe.wqe counts them */
	uint8_t state;       /* as last written to the ring headers */
	bool sq_broken;      /* as rq.broken */
	struct answer answer;
	struct dm *cntr[CNTR_OPS]; /* where it counts what it completes; or NULL */
	struct raw *raw;           /* RAW_PACKET; raw.h */
	struct qp_group *groups;   /* that the host is in for it; verb_mcast.c */
};

/*
 * Of any context; not for channels.  The control thread may look by itself, too: nothing is made or destroyed but by its own
 * shard_call().
 */
struct obj *obj_find(const struct shard *, enum obj_kind, unsigned device, uint32_t number);
struct obj *obj_get(const struct ctx *, enum obj_kind, uint32_t number);
int obj_add(struct ctx *, struct obj *, enum obj_kind, uint32_t number); /* 0 or ENOMEM */
void obj_del(struct obj *);

/*
 * Some max objects of all contexts, from *at on, which begins with 0; false: those were the last.  Between two calls anything may
 * be made and destroyed: what was there all the time is shown, and if the table grew, some of it twice.
 */
bool obj_scan(const struct shard *, unsigned *at, unsigned max, void (*each)(struct obj *, void *), void *arg);

/* Another holder of the same object of the HCA, after this one; NULL: none. */
struct obj *obj_other(const struct obj *);

bool obj_is_shared(enum obj_kind); /* goes on in another context of the family */
/* The shard's table, if it has none yet; 0 or ENOMEM.  objs_end: its thread has ended. */
int objs_begin(struct shard *);
void objs_end(struct shard *);

/* The QP's state as the core has it now, into the ring headers (a hint for the library). */
void qp_hint(struct ctx_qp *);

#endif
