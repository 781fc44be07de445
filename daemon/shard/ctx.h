/* SPDX-License-Identifier: MIT */
/*
 * ctx.h - a verbs context: what one client has open.
 *
 * Everything here is changed in the thread of the context's shard only, or in its place while it sleeps (inbox.h) - the control
 * thread gets there with shard_call(), and while it waits for that it may read it - and so needs no lock.  Objects that a
 * context leaves behind when it is closed belong to another one then, if a family shares them (obj.h).
 *
 *	session.c, verb*.c	control thread: messages; make memory and descriptors, call the rest by shard_call()
 *	ctx_obj.c, obj.c	shard thread: make and destroy objects, find them
 *	drain.c, publish.c	shard thread: every turn, for those that are not idle (idle.c)
 */
#ifndef DAEMON_CTX_H
#define DAEMON_CTX_H

#include <sys/socket.h>

#include "../base/peer.h"
#include "../base/region.h"
#include "inbox.h"
#include "obj.h"

/* The queue that a bell number stands for. */
struct bell_queue {
	struct ctx_qp *qp;
	struct ctx_srq *srq;
};

struct family {
	struct msg_token token;
	unsigned n;      /* contexts */
	uint64_t dm_len; /* bytes of device memory */
};

#define DM_LEN_MAX (64u << 20) /* device memory of a family, in all */
#define EVENTS_MAX 128u        /* async events kept for a client that does not read them */

struct ctx {
	struct ctx *awake_next, *awake_prev; /* idle.c's, as these: */
	mono_t stirred;                      /* when it was not idle last */
	bool idle;                           /* nobody looks at its bell: its program kicks */
	bool mute;                           /* bells.c's: nor at its eventfd */
	bool recv_left;                      /* more receives were posted than one turn takes */
	struct bell *bell;
	struct bell_queue *queue; /* queue_n of them, by bell number */
	uint32_t queue_n, queue_used;
	uint32_t queue_free; /* none before it is */
	/* Bells taken and not worked off.  The private copy of struct bell's words. */
	uint64_t pend_sum[BELL_QUEUES / 4096];
	uint64_t pend_word[BELL_QUEUES / 64];

	struct ctx *next, *prev; /* of the shard */
	struct shard *shard;
	struct device *dev;
	struct hca *hca;
	unsigned id;             /* for logs and rdmactl */
	uint64_t key;            /* who knows it may have its QPs moved: struct cmm_qp */
	struct session *session; /* the control half's */
	pid_t pid;
	uid_t uid;
	mono_t why_since; /* why.c's: causes told since then */
	unsigned why_n;
	struct share *share; /* share.c's: of its user */
	struct msg_runs runs;
	struct peer *peer; /* its memory */
	struct family *family;
	int token_fd; /* our end: holds the token for who peeks */
	char prog[RDMAD_NAME_LEN];
	struct bill bill;

	struct slabs slabs; /* the control thread's: where its queues lie */
	struct shmem bell_shm;
	unsigned bell_slot; /* bells.c's: of the futex; 0: none */
	int kick_fd;        /* eventfd of this program only; -1: not needed here any more */
	uint32_t sq_last;   /* the latest ring_hdr.rung that was seen */
	uint32_t first;     /* the bell number whose sends are taken first: after the last one served */
	bool skips;         /* some QP's sq_skipped is not 0 */
	bool bye;           /* MSG_BYE: its end is orderly */
	bool dead;          /* its device was unplugged: there is nothing but to close it */
	bool lost;          /* it ends without */

	struct outlet event_out;
	struct outlet *
		stuck; /* atomic; that the control thread has not seen yet, through outlet->stuck_next: outlet_push() */
	int event_in; /* the client's end of it, too, if it is of our own user, whom we may wait for; else -1: events_forget() */
	struct msg_event event[EVENTS_MAX]; /* did not fit: event_n from event_pos on */
	unsigned event_pos, event_n;
	uint64_t events_lost;

	struct obj *objs[OBJ_KINDS];
	unsigned obj_n[OBJ_KINDS];
	uint32_t channel_last;
};

/* Of a program: the same for all its contexts, if this PID namespace sees it.  No pid has the highest bit. */
static inline uint32_t prog_number(pid_t pid, unsigned ctx) { return pid ? (uint32_t)pid : 1u << 31 | ctx; }

/* By any thread; whoever takes some takes all of them. */
static inline void outlet_push(struct ctx *c, struct outlet *o)
{
	o->stuck_next = __atomic_load_n(&c->stuck, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&c->stuck, &o->stuck_next, o, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Some bell was taken and is not worked off. */
static inline bool ctx_pends(const struct ctx *c)
{
	for (unsigned i = 0; i < bell_sums(c->queue_n); i++)
		if (c->pend_sum[i])
			return true;
	return false;
}

/*
 * Control thread: makes it and puts it on a shard; like: a context whose family it joins, or NULL.  The peer is taken
 * over if 0 is returned.  *event_fd, *token_fd: the client's ends.  0 or errno.
 */
int ctx_open(struct ctx **, struct device *, struct ctx *like, const struct ucred *, struct peer *, const char *prog,
	     int *event_fd, int *token_fd);
/* Control thread: destroys all objects (QPs, SRQs, CQs, channels, MRs, PDs), then the context. */
void ctx_close(struct ctx *);

/*
 * Two ends of a socket of whole messages, from us to the client: what he sent would lie in ours, and a descriptor in it might make
 * our close() wait.  Ours does not wait; the client's does, until the client asks otherwise.  0 or errno.
 */
int client_pair(int *ours, int *theirs);
/* SO_SNDBUF, and what the kernel then keeps at most for a client that does not read: some 80 events. */
#define CLIENT_ROOM   32768
#define CLIENT_UNREAD (2u * CLIENT_ROOM)

extern unsigned ctx_n; /* contexts that are open; control thread */

#endif
