/* SPDX-License-Identifier: MIT */
/*
 * ctx.h - a verbs context: an open device, its connection and its bell page.
 *
 * The public struct is the last member, so that the slots that programs look for in front of it are ours, too
 * (context.c).
 *
 * Locks of the library, in the order in which they may nest:
 *	qp->sq_lock, qp->rq_lock, srq->lock	posting
 *	cq->lock				polling, and which QPs the CQ serves
 *	ctx->slab_turn				one queue is made at a time
 *	ctx->map_lock				which objects there are (events), which MRs and slabs
 *	conn.lock				one control request at a time
 */
#ifndef VERBS_CTX_H
#define VERBS_CTX_H

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdmad/ring.h>

#include "base.h"
#include "conn.h"
#include "hash.h"
#include "slab.h"

enum map_kind { MAP_CQ = 1, MAP_QP, MAP_SRQ };

/*
 * An object that an event can name.  Events carry the cookie: it is never used twice, so an event that comes after the
 * object's end finds nothing.
 */
struct map_node {
	struct hash_node hash; /* by cookie */
	enum map_kind kind;
	uint32_t async_got; /* async events given to the program */
	uint32_t comp_got;  /* completion events given to the program */
};

struct cntr_page;

struct rd_ctx {
	struct conn conn;
	struct bell *bell;
	size_t bell_len;
	int kick_fd;
	uint64_t key;   /* of struct cmm_qp */
	pid_t opener;   /* the process that opened it */
	long refused_s; /* atomic: refuse.c's */
	uint32_t refused_n;
	ino_t socket;        /* of conn.fd; see bye.c */
	struct rd_ctx *next; /* of all that are open */
	bool fatal_told;     /* the program has had IBV_EVENT_DEVICE_FATAL */
	struct msg_device_attr attr;
	uint32_t no_ops; /* bit per enum wr_op: the device does without it */

	pthread_mutex_t map_lock;
	pthread_mutex_t show_lock; /* the daemon remembers one segment of a context that is to be shown */
	uint64_t cookie_last;
	struct hash map;
	struct hash mrs; /* by lkey */
	pthread_mutex_t cntr_lock;
	struct cntr_page *cntrs; /* NULL: no completion counter; cntr.c's */
	pid_t cntr_owner;        /* the process that it was made in; 0: there never was one.  Atomic */
	struct slab *slabs;
	pthread_mutex_t slab_turn;
	bool many; /* it has had several queues */
	struct {
		uint8_t apart[64];
		uint32_t n; /* atomic: how often send queues were rung, where there are several */
		uint8_t behind[60];
	} rung;
	uint32_t mr_gen; /* atomic; counts deregistrations, so that a cached MR is known to be stale */

	void *newer_ops[16]; /* ops of later headers lie in front of ours: NULL */
	struct verbs_context v;
};

/* This is a forked child of the process that opened it. */
static inline bool ctx_inherited(const struct rd_ctx *c) { return c->opener != getpid(); }

static inline struct rd_ctx *to_ctx(struct ibv_context *c)
{
	return (struct rd_ctx *)((char *)c - offsetof(struct rd_ctx, v.context));
}

/* ---- ctx.c: services for objects */

/* Wakes the shard if it sleeps; q is the queue's bell number. */
void ctx_ring(struct rd_ctx *, uint32_t q);
/* Receives were posted: the shard may sleep on, it looks when a message comes. */
void ctx_note(struct rd_ctx *, uint32_t q, const struct ring *recvs);
static inline int ctx_call(struct rd_ctx *c, struct msg_req *req, struct msg_rep *rep)
{
	return conn_call(&c->conn, req, rep, -1, NULL, 0);
}
/*
 * For the ..._FREE and _DESTROY ops.  In a forked child, which owns nothing, and when the daemon is gone,
 * with which all objects went, they do nothing and succeed.
 */
int ctx_call_id(struct rd_ctx *, enum msg_op, uint32_t handle);
/* Makes an object that has a descriptor.  If that is lost on the way (RLIMIT_NOFILE), the object is ended: EMFILE. */
int ctx_call_fd(struct rd_ctx *, struct msg_req *, struct msg_rep *, int *fd, enum msg_op end);
/*
 * Returns when the daemon's loop has made a whole turn: requests run between two turns, so after the answer to a second
 * one there was a turn in which all that was posted before was taken, and all that could be completed at once was
 * completed.  It does not matter whether the request makes sense.
 */
void ctx_turn(struct rd_ctx *);
/* Maps a descriptor that came with a reply and closes it.  NULL: errno. */
void *ctx_map(int fd, size_t len);

uint64_t map_add(struct rd_ctx *, struct map_node *, enum map_kind);
/* No event finds the object from now on; its counts are final. */
void map_del(struct rd_ctx *, struct map_node *);

/* ---- context.c: open and close */

/* MSG_OPEN or MSG_IMPORT, with this process's memory.  fds: the four descriptors of the reply. */
int ctx_ask(struct conn *, struct msg_req *, struct msg_rep *, int *fds);
/* A context from the reply to MSG_OPEN or MSG_IMPORT and its four descriptors; c->conn is open.  On an error they are closed. */
int ctx_begin(struct rd_ctx *, struct ibv_device *, const struct msg_rep *, const int *fds);

/* ---- import.c */

/* In a forked child: a connection of its own to the same family.  0 or an errno. */
int ctx_rejoin(struct rd_ctx *);

/* ---- bye.c */

void bye_add(struct rd_ctx *); /* it is open: its end will be told */
void bye_del(struct rd_ctx *); /* it is being closed */

/* ---- refuse.c */

/* Tells the daemon what the library refuses itself.  qpn: or 0.  Returns err. */
int refuse(struct rd_ctx *, uint32_t qpn, const char *verb, int err, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* The same, since its profile does not have this feature (feature.h). */
int refuse_feature(struct rd_ctx *, uint32_t qpn, const char *verb, int err, unsigned feature);

/* ---- ops.c, stub.c: the functions that programs call through the context */

void ops_fill(struct verbs_context *);
/* Fills the slots of verbs_context for which there is nothing yet. */
void stub_ops(struct verbs_context *);

#endif
