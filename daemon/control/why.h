/* SPDX-License-Identifier: MIT */
/*
 * why.h - what went wrong recently, and for whom: kept beyond the end of the QP and of the program.
 *
 *	shard: hca_why() --why_collect()--> queue, ev_async --> control thread: words, log, store
 *	control thread: refused verbs, CM, ends ---why_say()---------------------^
 *
 * The store has so many slots for each user and no more; the oldest goes.  A user sees his own; root and the daemon's
 * own user see all.
 */
#ifndef DAEMON_WHY_H
#define DAEMON_WHY_H

#include <jansson.h>
#include <stdarg.h>

#include "ctl.h"
#include "call.h"
#include "why_text.h"

#define WHY_USERS   32u
#define WHY_KEPT    128u /* of a user */
#define WHY_RATE    64u  /* of a context, in a second; more are counted only */
#define WHY_PEERS   128u
#define WHY_WAIT_NS 1000000000u     /* who waits for less is busy */
#define WHY_THERE   (WHY_TEXT + 64) /* a sentence of the other end, and its program */

struct why_owner {
	pid_t pid;
	uid_t uid;
	struct msg_runs runs;
	unsigned ctx; /* 0: none */
	char prog[RDMAD_NAME_LEN];
};

struct why_entry {
	uint64_t number;  /* counts all of the daemon's; 0: the slot is free */
	uint64_t when_ns; /* of the clock on the wall */
	struct why_owner owner;
	int device; /* -1: none */
	uint32_t qpn;
	uint8_t cause;
	bool core; /* w is there */
	struct why w;
	char text[WHY_TEXT];
	char there[WHY_THERE]; /* what is known of the other end when it happens; or "" */
	char all[WHY_THERE];   /* the same for those who may see all, if that is more; or "" */
	char own[320];         /* what rules of the lab did to the packets concerned; or "" */
	bool by_rule;          /* and that is why */
	uint8_t refused;       /* WHY_REFUSED_...: somebody on the way to the peer said so; or 0 */
	uint64_t twin;    /* number of the entry of the other end, which tells of this one, too; 0: there is none */
	uint64_t like;    /* of its words, as why_say_like() has it; 0: it is no like of any */
	uint32_t again;   /* so many more of it have been since */
	uint64_t last_ns; /* as when_ns, the last of them */
};

/* Shard thread, each turn: causes of the HCA go to the control thread. */
void why_collect(struct shard *, unsigned device);

/* Control thread: a cause without a struct why.  device may be NULL, qpn 0. */
void why_say(const struct session *, unsigned cause, const struct device *, uint32_t qpn, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/*
 * The same for what a program may do over and over: where one of this cause, of this process and with the same words in like is
 * kept, it is counted there.  A client that tries until its server is there would push out why that one has ended.
 */
struct why_entry *why_say_like(const struct session *, unsigned cause, const struct device *, uint32_t qpn,
			       const char *like, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* The same of the daemon's own, for the user who started it: of each cause there is one. */
void why_say_own(unsigned cause, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A verb is refused; returns err.  The handler gives the reason; refusals without one are told in general words. */
int refuse(struct call *, unsigned cause, int err, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void why_verb(struct call *, int err);
bool why_may_say(const struct session *); /* would it be told of now? */
struct cma_id;
union cmm_addr;
void why_cm_event(const struct cma_id *, unsigned type, int status);
void why_cm_call(struct session *, unsigned op, int err, const char *reason);
/* Causes of what programs have been shown are told now: something that they are about will end. */
void why_catch_up(void);
/* The session's context is about to end. */
void why_ctx_end(const struct session *);
/* Nothing of it waits any more. */
void stuck_end(struct session *);

/* Each entry that viewer may see and that is of that QP (0: any), oldest first. */
void why_each(const struct session *viewer, uint32_t qpn, void (*each)(const struct why_entry *, void *), void *arg);
bool why_sees(const struct session *viewer, uid_t);
bool why_user_sees(uid_t viewer, uid_t);
/* The hint that helps; other: why_other_end(). */
const char *why_entry_hint(const struct why_entry *, const struct why_entry *other);
/* why_own.c: fills in own and by_rule. */
void why_own(struct why_entry *);
/* A note becomes a wait where a rule is the reason. */
enum why_grade why_entry_grade(const struct why_entry *);
/* 10.0.0.1:7, [::1]:7 */
void addr_words(struct words *, const union cmm_addr *);
/* For an entry whose peer said NAK: the peer's reason, if the peer is of this daemon and of the same user. */
const struct why_entry *why_other_end(const struct why_entry *);

/*
 * wait.c: for what live programs wait now, in pieces: shards and the control thread do something else in between.
 *
 *	waits_begin(); while (waits_look()) ...; waits_json(): rows as those of causes; waits_end()
 */
struct waits;
struct waits *waits_begin(const struct session *viewer, uint32_t qpn); /* qpn 0: all; NULL: no memory */
bool waits_look(struct waits *);                                       /* false: all has been looked at */
json_t *waits_json(struct waits *);
void waits_end(struct waits *);
size_t waits_len(void); /* bytes that they take */
/* wait_cm.c: connections.  *at begins with 0; how many of v[0..max) were filled in, *at UINT_MAX: there are no more. */
unsigned waits_cm(struct why_entry *v, unsigned max, unsigned *at, const struct session *viewer, mono_t now,
		  mono_t then);
void why_owner_of(struct why_owner *, const struct ctx *);
void why_owner_of_session(struct why_owner *, const struct session *);
/*
 * Fills in there of entries of connected QPs, and of connections that are asked for (their w has sgid, dgid, since and rx_last),
 * WHY_PEERS at most, with what viewer may know; each shard is asked once.
 * WAIT_RECV becomes WAIT_PEER if the peer is one of ours and has ended: it is waited for in vain.
 */
void why_peers_look(struct why_entry *, unsigned n, uid_t viewer);
/* The same of a connection that is asked for, since when: its entry. */
void why_cm_way(struct why_entry *, const struct cma_id *, mono_t since);
/* why_peer.c: its packets go nowhere, from a row of the table that has no socket to a GID that is not ours.  NULL: not so. */
const struct gid_row *why_inside_only(const struct why_entry *);
struct why_list {
	const struct session *viewer;
	json_t *rows;
};
void why_entry_json(const struct why_entry *, void *why_list);

/* why_json.c: DUMP_WHY, DUMP_TRACE. */
int why_send(struct call *, uint32_t qpn);
json_t *trace_json(struct session *, uint32_t qpn, bool bursts);
void trace_end(struct session *);

#endif
