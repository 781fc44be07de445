/* SPDX-License-Identifier: MIT */
/*
 * shard.h - a shard: the HCAs, contexts and rings that belong to one thread (turn.h), and the table of shards.
 */
#ifndef DAEMON_SHARD_H
#define DAEMON_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "../../proto/burst.h"
#include "../../proto/heap.h"
#include "../base/device.h"
#include "io.h"

struct ctx; /* a verbs context: ctx.h */
struct ctx_cq;
struct tap;

struct shard {
	unsigned index;
	int kick_fd;                  /* eventfd; of the daemon's own threads */
	int bells_fd;                 /* bells.c's: an epoll, */
	struct ctx *bells[IO_WORDS];  /* and whose words are waited for */
	struct hca *hca[DEVICES_MAX]; /* by device index */
	struct inbox *inbox;          /* what other threads want */
	struct thread *thread;        /* thread.c's */
	struct io *io;                /* what it waits for; its thread's, as all that follows */
	struct net *net;
	struct ctx *ctxs;           /* list through ctx->next */
	struct ctx *awake;          /* idle.c's: those that each turn looks at; through ctx->awake_next */
	struct ctx *round;          /* the next one of ctxs to be looked after, */
	mono_t round_at;            /* and when */
	unsigned ctx_n, idle_n;     /* all, and those that are idle */
	mono_t sleeps_until;        /* while it sleeps */
	bool asleep;                /* the bells of those that are awake say so, too */
	struct share *shares;       /* share.c's: the users of those */
	struct obj_table *objs;     /* obj.c's: which object belongs to a number; NULL: there was none yet */
	struct raw *raw[RAW_SLOTS]; /* raw.c's: packet sockets, the first raw_n of use */
	unsigned raw_n, raw_next;
	struct tap *tap;       /* tap.c's; NULL: nobody wants to see packets */
	struct heap moderated; /* publish.c's: CQs whose event waits for its time, with room for all */
	uint32_t cq_n;         /* that there are */
	struct ctx_cq *kept;   /* and those whose last completion waits for an answer; */
	bool keeps;            /* there was one: for all threads */
	uint64_t cqe_ns;       /* publish.c's: the time of the last completion, */
	uint32_t cqe_nth;      /* and how many before it had that */
	uint32_t core;         /* 1 + where it runs, as told to the programs (struct bell) */
	bool few_cores;
	bool naps;           /* publish.c's: a program that polls was asleep */
	const char *io_name; /* how it waits */
	struct {
		uint64_t turns, sleeps, kicks;
	} count; /* since its start */
};

extern struct shard *shards[SHARDS_MAX];
extern unsigned shards_n;

/* QPN: ... | device | shard */
unsigned shard_bits(void);
unsigned device_bits(void);
static inline unsigned qpn_shard(uint32_t qpn, unsigned bits) { return qpn & ((1u << bits) - 1); }
/* The shard of packets for that QP: QP1 and what goes to groups are the first one's. */
static inline unsigned qpn_owner(uint32_t qpn)
{
	return qpn <= 1 || qpn == QPN_MCAST ? 0 : qpn_shard(qpn, shard_bits());
}

#endif
