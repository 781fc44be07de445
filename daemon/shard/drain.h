/* SPDX-License-Identifier: MIT */
/* drain.h - what programs posted goes from their rings into the HCAs.  Shard thread, each turn. */
#ifndef DAEMON_DRAIN_H
#define DAEMON_DRAIN_H

#include "obj.h"

/* Posts what the rings hold (all RQs and SRQs, then SQs), *sends of the latter; true: there was something. */
bool ctx_drain(struct shard *, unsigned *sends, mono_t now);
void ctx_drain_recvs(struct shard *, mono_t now); /* posts the receives only */
bool ctx_pending(const struct shard *);           /* some bell has work, of those that are awake (idle.h) */
/* The same without receives that were posted while the shard sleeps: they wait for what wakes it (bell_note()). */
bool ctx_any_rung(const struct shard *);
bool ctx_rung(const struct ctx *); /* of one, what no turn has seen yet; control thread, too */
void ctx_sleep(struct shard *);    /* bells_sleep() for all; then ctx_pending() is asked once more */
bool ctx_wake(struct shard *);     /* true: who kicked is on this core, and waits for it now */
void ctx_core(struct shard *);     /* tells the programs where the thread runs, if that is news */

/*
 * Posts all that this QP's own rings hold; nothing of any other queue.  The size of these rings limits the
 * cost.  For a change of its state: no packet moves before ctx_drain() has taken the rest.
 */
void drain_qp(struct ctx_qp *, mono_t now);
void drain_srq(struct ctx_srq *, mono_t now);
/* Takes what is in the QP's rings and drops it (to RESET). */
void drain_drop(struct ctx_qp *);

#endif
