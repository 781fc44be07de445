/* SPDX-License-Identifier: MIT */
/* hca_in.h - an HCA from inside; for the files of proto/ only. */
#ifndef PROTO_HCA_IN_H
#define PROTO_HCA_IN_H

#include "hca.h"

#include "cnp.h"
#include "cong.h"
#include "cq.h"
#include "event.h"
#include "fault.h"
#include "ghost.h"
#include "gsi.h"
#include "heap.h"
#include "link.h"
#include "mcast.h"
#include "mr.h"
#include "mw.h"
#include "path.h"
#include "qp.h"
#include "rng.h"
#include "slots.h"
#include "srq.h"
#include "trace.h"
#include "why.h"

#define HCA_SPANS	1024u	/* spans of a burst, at most */
#define GRH_LEN		40u

/* What hca_tx() handed out last: its payload may turn out unreadable until the next call. */
struct taken {
	struct qp *qp;		/* NULL: nothing to come back to */
	bool resp;		/* a read response; else a request */
	bool done;		/* UC, UD: the WR completes with it */
	uint32_t index;		/* in the SQ, or the ring of responses */
	psn_t psn;
};

struct hca {
	struct hca_cfg cfg;
	mono_t now;		/* of the call under way */
	struct rng rng;
	uint8_t gid[HCA_GIDS][16];
	uint64_t gid_set;	/* bit per row */
	struct slots pd, mr, mw, cq, srq, xrcd;
	struct qp_tab qp;
	struct paths paths;
	struct mcasts mcast;
	struct gsi_qp gsi;
	struct ghosts ghosts;
	struct link ready;	/* QPs that may have something to send, in turn */
	struct heap timers;
	struct link events;
	struct comp_fifo comp;
	struct taken taken;
	struct trace trace;
	struct whys whys;
	const struct burst *rx;	/* the packet or train that is being looked at, for causes; NULL: none */
	uint64_t stat[HCA_STATS];
	uint64_t fault[FAULT_END];
	uint8_t grh[GRH_LEN];
	struct span tx_span[RD_MAX_SGE + 1];	/* of the burst handed out */
	struct span dst[RD_MAX_SGE];		/* where received bytes go */
	struct span slice[HCA_SPANS];		/* a part of the burst being received */
};

static inline void count(struct hca *h, enum hca_stat s, uint64_t n) { h->stat[s] += n; }
static inline uint32_t mtu_bytes(uint8_t mtu) { return 128u << mtu; }
void hca_settle(struct hca *);	/* the burst handed out last has gone */

#endif
