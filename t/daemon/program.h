/* SPDX-License-Identifier: MIT */
/* program.h - a shard without a thread, and contexts with an RC queue pair in RTS each, connected to itself: as the control thread would make them. */
#ifndef T_DAEMON_PROGRAM_H
#define T_DAEMON_PROGRAM_H

#include "daemon/shard/ctx.h"

#define PROGRAM_SLOTS 512u /* more than one queue gets in a turn */

struct program {
	struct ctx c;
	struct ctx_pd pd;
	struct ctx_cq cq;
	struct ctx_qp qp;
};

extern struct shard shard; /* its only one; with an HCA and nothing else */

void shard_begin(void);
void shard_end(void);
void program_begin(struct program *);
void program_end(struct program *);
void program_to(struct program *, uint8_t state, uint32_t mask); /* modifies the QP */

/* So many empty messages and receives more, as the library would; what bell_ring() said. */
uint32_t program_post(struct program *, uint32_t sends, uint32_t recvs);

/* Receives alone; what bell_note() said. */
uint32_t program_note(struct program *, uint32_t recvs);

/* Of those the shard has taken so many. */
static inline uint32_t program_sent(const struct program *p) { return RING_LOAD(&p->qp.sq.hdr->cons); }
static inline uint32_t program_received(const struct program *p) { return RING_LOAD(&p->qp.rq.ring.hdr->cons); }

#endif
