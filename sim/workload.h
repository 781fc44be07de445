/* SPDX-License-Identifier: MIT */
/*
 * workload.h - flows: who sends to whom, messages one after the other, and when each was there.
 *
 *	incast		each of "from" to each of "to"
 *	permutation	each of "from" to another one, and each is sent to once
 *	allreduce	a ring: each to the next one, 2 (n - 1) parts of 1/n of the data a round; a part goes once the one
 *			before it has come from the other side
 *
 * A message is an RDMA WRITE; it is done when its sender has the completion.
 */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "agenda.h"
#include "topology.h"

struct fabric;

struct flow {
	const struct load *load;
	struct flow *next;    /* ALLREDUCE: of the host that this one leads to */
	uint64_t *posted_ns;  /* ring of depth */
	uint64_t size, limit; /* of a message; messages in all */
	uint64_t may;         /* messages whose data is there; all, but in a ring */
	uint64_t posted, done;
	uint64_t stored, seen; /* bytes at the receiver, and at the last sample */
	uint32_t i, from, to, depth;
	uint32_t qpn, to_qpn;
	uint8_t status;   /* enum wc_status of the one that failed; 0: none */
	bool begun, over; /* over: done, failed, or stopped with nothing under way */
};

/* When a load starts, and stops. */
struct starter {
	struct moment start, stop;
	const struct load *load;
};

struct work {
	struct flow *flow;
	uint32_t flow_n;
	struct starter *starter;
	uint64_t *took_ns; /* of each message that is done */
	uint64_t done, done_max;
	uint32_t open, failed; /* flows that are not over; that have failed */
};

/* Flows, and their queue pairs; all loads are on the agenda. */
void work_init(struct fabric *);
void work_free(struct work *);
void work_start(struct fabric *, const struct load *);
void work_stop(struct fabric *, const struct load *);
void work_done(struct fabric *, uint32_t flow, uint8_t status);
/* A message has come: its receiver may go on. */
void work_arrived(struct fabric *, struct flow *);

#endif
