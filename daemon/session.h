/* SPDX-License-Identifier: MIT */
/*
 * session.h - one connection of a client to the control socket.  Control thread only.
 */
#ifndef DAEMON_SESSION_H
#define DAEMON_SESSION_H

#include <ev.h>

#include "ctx.h"

#define REPLY_FDS 4u

struct cma_channel;

struct session {
	struct session *next, *prev;
	ev_io io;
	ev_io gone;		/* the client's pidfd, once it has a context */
	int fd, pidfd;
	pid_t pid;		/* SO_PEERCRED: at connect, as this PID namespace sees it; 0: it does not */
	uid_t uid;
	gid_t gid;
	char prog[RDMAD_NAME_LEN];	/* as the client calls itself; printable */
	uint64_t run;		/* of $RDMAD_RUN */
	bool hello, hold;
	struct ctx *ctx;	/* after MSG_OPEN */
	struct cma_channel *cma;	/* after CMM_OPEN */
	struct capture *capture;	/* after MSG_CAPTURE */
	mono_t said_since;	/* why_verb.c's */
	unsigned said_n;
	struct trace_reader *reader;	/* after DUMP_TRACE */
};

/* A request that is being answered. */
struct call {
	struct session *s;
	const struct msg_req *req;
	struct msg_rep *rep;	/* zero at first; op and seq are set */
	int fd_in;		/* came with the request, -1: none.  A handler that keeps it sets -1 */
	int fds[REPLY_FDS];	/* go with the reply and are closed then */
	unsigned fd_n;
	uint8_t cause;		/* of a refusal: enum why_cause, 0: not said; refuse() */
	char why[192];
};

/* Takes over fd.  NULL: no memory, fd is closed. */
struct session *session_new(struct ev_loop *, int fd, const struct ucred *);
void session_end(struct ev_loop *, struct session *);

/* The pid of the client ends the session even if a child of it holds the connection open. */
void session_watch_pid(struct ev_loop *, struct session *);

/* Runs the handler of req->op; 0 or errno. */
int verb_call(struct ev_loop *, struct call *);

/* The handlers in files of their own; 0 or errno. */
int verb_mr_reg(struct call *);
int verb_mr_rereg(struct call *);
int verb_dm_alloc(struct call *);
int verb_obj_import(struct call *);
int verb_cq_create(struct call *);
int verb_cq_moderate(struct call *);
int verb_qp_rate(struct call *);
int verb_raw_rules(struct call *);
int verb_cq_resize(struct call *);
int verb_srq_create(struct call *);
int verb_srq_modify(struct call *);
int verb_srq_query(struct call *);
int verb_qp_create(struct call *);
int verb_qp_modify(struct call *);
int verb_qp_query(struct call *);
int verb_mcast(struct call *);
int verb_xrcd_open(struct call *);
int verb_qp_open(struct call *);
int verb_query_device(struct call *);
int verb_query_port(struct call *);
int verb_query_gid(struct call *);
int verb_dump(struct call *);
int verb_capture(struct call *);
int verb_refused(struct call *);

extern struct session *sessions;
extern unsigned sessions_n, holds_n;

#endif
