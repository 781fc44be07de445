/* SPDX-License-Identifier: MIT */
/*
 * work.h - requests that are posted and not complete, and what they use.
 *
 * A post is noted before it is made and taken back if it fails; all with the turn of the queue's object.  Completions
 * retire what they complete, with the CQ's turn.
 */
#ifndef CALLPRELOAD_WORK_H
#define CALLPRELOAD_WORK_H

#include "content.h"
#include "object.h"

#define NOTE_SGES 4 /* more are not looked into */

struct note {
	struct note *next;
	uint64_t wr_id;
	uint64_t seq; /* of the post */
	bool recv, signaled, gone,
		reads; /* gone: a region of it was deregistered; reads: its data is taken from the memory; else it is put there */
	uint8_t sge_n;
	struct ibv_sge sge[NOTE_SGES];
	struct content content[NOTE_SGES];
	struct stack post;
};

/* In front of the post of one request.  Receives of an XRC SRQ are looked at then, and not noted. */
void send_note(struct object *qp, const struct ibv_send_wr *);
void recv_note(struct object *of, const struct ibv_recv_wr *);
/* Behind it: the newest n notes are taken back, as they were not posted. */
void send_settle(struct object *qp, uint32_t n);
void recv_settle(struct object *of, uint32_t n);
/* A post of sends failed for want of room. */
void send_full(struct object *qp);

void work_done(struct object *qp, const struct ibv_wc *);
/* RESET, or the end of a QP or SRQ. */
void work_forget(struct object *);

/*
 * What requests use is about to go: a region, or memory.  Of a region it is told when the queue pair goes on with it: a
 * program that ends may deregister first and destroy its queues then.
 */
void work_dereg(const struct object *mr);
void work_unmap(const void *at, size_t len);
/* Is anything posted?  Without check_lock, a hint. */
bool work_there(void);
unsigned long work_looked(void);
/* In a child of fork(2). */
void work_forked(void);

#endif
