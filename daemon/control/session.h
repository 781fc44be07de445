/* SPDX-License-Identifier: MIT */
/*
 * session.h - one connection of a client to the control socket.  Control thread only.
 */
#ifndef DAEMON_SESSION_H
#define DAEMON_SESSION_H

#include <ev.h>

#include <rdmad/cmmsg.h>

#include "../shard/ctx.h"

struct cma_channel;
struct mail;
struct mailbox;

/* One byte more than the longest request shows that one is too long. */
union request {
	struct msg_req req;
	struct cmm_req cm;
	uint8_t bytes[(sizeof(struct msg_req) > sizeof(struct cmm_req) ? sizeof(struct msg_req)
								       : sizeof(struct cmm_req)) +
		      1];
};

struct session {
	struct session *next, *prev;
	struct bill bill;
	int refused; /* the errno that its first request is answered with, and then it ends: its user has too many */
	ev_io io;
	ev_io gone; /* the client's pidfd, once it has a context */
	int fd, pidfd;
	pid_t pid; /* SO_PEERCRED: at connect, as this PID namespace sees it; 0: it does not */
	uid_t uid;
	gid_t gid;
	char prog[RDMAD_NAME_LEN]; /* as the client calls itself; printable */
	struct msg_runs runs;
	bool hello, hold;
	bool waits; /* its next request, which has descriptors, for room for them, since then */
	mono_t waits_since;
	struct mailbox *mailbox; /* after MSG_MAIL */
	bool by_mail;            /* the request that is served came there */
	bool gave;               /* descriptors, and the client may not have read the reply that they came with */
	struct ctx *ctx;         /* after MSG_OPEN */
	struct cma_channel *cma; /* after CMM_OPEN */
	struct capture *capture; /* after MSG_CAPTURE */
	struct dump *dump;       /* on its way, or read just now; dump.h */
	mono_t said_since;       /* why_verb.c's */
	unsigned said_n;
	struct trace_reader *reader; /* after DUMP_TRACE */
	struct stuck *stuck;         /* MSG_WAITS: what threads of its program wait for, the newest first */
};

/* why_verb.c: one thread that waits. */
struct stuck {
	struct stuck *next;
	mono_t since;
	char verb[48], text[144]; /* as in struct msg_req */
};

/* Takes over fd.  NULL: there is no room, nor for one that is only told so: *err is ENOMEM or EMFILE, and fd is still the caller's. */
struct session *session_new(struct ev_loop *, int fd, const struct ucred *, int *err);
void session_end(struct ev_loop *, struct session *);
/*
 * Reads on, if it does not for want of room for its user's descriptors (../base/foreign.h), and there is room now; or ends, after
 * five seconds.  false: it goes on waiting.
 */
bool session_again(struct ev_loop *, struct session *);
/* Serves the request that is in its mailbox, if it may ask once more in this turn of the loop. */
bool session_mail(struct ev_loop *, struct session *, struct mail *);

/*
 * From now on the end of the process that connected ends the session, even if a child of it holds the connection open.  ESRCH:
 * it has ended.  0: it is watched, or that cannot be had here.
 */
int session_watch_pid(struct ev_loop *, struct session *);

/* xrcd.c: hooks (../shard/hooks.h). */
int xrcd_drop(struct ctx_xrcd *);
struct shard *xrcd_shard(uid_t, const struct device *);
/* verb_mcast.c: the same. */
void mcast_forget(struct ctx_qp *);

#endif
