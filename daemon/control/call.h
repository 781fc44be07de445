/* SPDX-License-Identifier: MIT */
/*
 * call.h - a request of a client while it is answered, and the part of it that is done in the shard.
 *
 *	session.c --verb_call()--> the handler of its row of msg.def --job_run()--> a function in the shard
 */
#ifndef DAEMON_CALL_H
#define DAEMON_CALL_H

#include "session.h"

#define REPLY_FDS 4u

struct call {
	struct ev_loop *loop;
	struct session *s;
	const struct msg_req *req;
	struct msg_rep *rep; /* zero at first; op and seq are set */
	int fd_in;           /* came with the request, -1: none.  A handler that keeps it sets -1 */
	int fd_err;          /* ENFILE: it has come, and there was no descriptor for it */
	int fds[REPLY_FDS];  /* go with the reply and are closed then */
	unsigned fd_n;
	uint8_t cause; /* of a refusal: enum why_cause, 0: not said; refuse() */
	char why[192];
};

/* Control thread: runs the handler of req->op; 0 or errno. */
int verb_call(struct ev_loop *, struct call *);

/* The same for a request of no descriptor and no reply, which the daemon itself makes on behalf of a client with a context. */
int verb_for(struct session *, const struct msg_req *);

/* The handlers, one for each row of msg.def; 0 or errno. */
#define MSG(name, row, needs, handler, verb) int verb_##handler(struct call *);
#define MSG_FREE(name, object, verb)
#include <rdmad/msg.def>
#undef MSG
#undef MSG_FREE
int verb_destroy(struct call *); /* of each MSG_FREE */

/*
 * Memory for an object, which begins with a struct obj: zeros, charged to the client with its own length, HCA_OBJ_LEN and what cost says
 * (NULL: no more).  NULL: *err says why.  The end: obj_drop() or obj_release().
 */
void *obj_new(struct call *, size_t len, const struct cost *, int *err);

/* Arguments and results of a function in the shard. */
struct job {
	struct call *call;
	void *obj; /* the object that it is about: made for it, or found by it */
	void *arg; /* more, if the two have more to say to each other */
};

/*
 * Control thread: runs fn in the thread of the shard of call's context, between two turns, or in this one while the shard sleeps; what
 * fn returns.
 */
int job_run(struct job *, int (*fn)(struct job *));

#endif
