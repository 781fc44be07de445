/* SPDX-License-Identifier: MIT */
/*
 * cma_agent.h - the CM agents of the devices: struct cm of proto/cm.h, turned by the thread of shard 0, which QP1
 * belongs to.
 */
#ifndef DAEMON_CMA_AGENT_H
#define DAEMON_CMA_AGENT_H

#include "../../proto/cm.h"
#include "../base/device.h"
#include "../shard/shard.h"

#define AGENT_ACK_DELAY 15u /* local_ca_ack_delay, as rxe has it */

/* Control thread. */
int agents_start(void (*wake)(void)); /* wake: any thread; agent_event() has something.  0 or errno */
void agents_stop(void);
bool agent_event(struct device **, struct cm_event *); /* false: nothing more */
/* Runs fn, which may use nothing of the shard's, and returns what it returns. */
int agent_call(struct device *, int (*fn)(struct cm *, void *arg, mono_t now), void *arg);
/* The same; fn changes nothing. */
int agent_ask(struct device *, int (*fn)(struct cm *, void *arg, mono_t now), void *arg);
/* cm_id_free(), cm_request_drop() */
void agent_id_free(struct device *, uint32_t id);
void agent_request_drop(struct device *, uint32_t id);
void agent_counts(struct device *, struct cm_count *);

#endif
