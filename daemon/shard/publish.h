/* SPDX-License-Identifier: MIT */
/* publish.h - completions and events go from the HCAs to the programs.  Shard thread, but for publish_before(). */
#ifndef DAEMON_PUBLISH_H
#define DAEMON_PUBLISH_H

#include "ctx.h"

bool ctx_publish(struct shard *, mono_t now); /* hca_completion(), hca_events() to rings, channels, event sockets */
mono_t ctx_deadline(const struct shard *);    /* when ctx_publish() has an event to send that it put off */

/* an async event for the client. */
void event_send(struct ctx *, uint32_t type, uint32_t port, uint64_t cookie);
/* the same, of a CQ, SRQ or QP; and when the client destroyed it, what it has not read of its events is taken back. */
void event_of(struct obj *, uint32_t type);
void events_forget(struct obj *);
/* one that was stuck, of a channel or event_out, can be written again. */
void outlet_retry(struct ctx *, struct outlet *);
/* The device is gone: who waits for completion events or async ones gets those that there are, and then an error. */
void publish_end(struct ctx *);
/* Forgets what is kept for a CQ or channel about to go. */
void publish_forget_cq(struct ctx_cq *);
/* what is kept back for an answer (answer.h) is published now: of a CQ that gets another ring, of a QP about to change. */
void publish_kept(struct ctx_cq *);
void publish_kept_of(const struct ctx *, uint32_t qpn);
/*
 * The same, of the whole shard.  Control thread, before a program learns that its peer has hung up: what has been
 * acknowledged by then is complete.
 */
void publish_before(struct shard *);
/* the CQ takes no more completions; its QPs go to ERR. */
void publish_overrun(struct ctx_cq *, mono_t now);
/* its cookie goes into its channel, now or when there is room. */
void publish_event(struct ctx_cq *);
/* An event of the CQ with that number, if there is one, it is armed, and something that it waits for is there. */
void publish_asked(const struct ctx *, uint32_t handle);
/* the CQ's events come after so many completions, or so long after the first of them. */
void publish_moderate(struct ctx_cq *, uint32_t count, uint64_t period_ns);

#endif
