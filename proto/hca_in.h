/* SPDX-License-Identifier: MIT */
/* hca_in.h - an HCA from inside; for the files of proto/ only. */
#ifndef PROTO_HCA_IN_H
#define PROTO_HCA_IN_H

#include "hca.h"

#include "cq.h"
#include "event.h"
#include "fault.h"
#include "ghost.h"
#include "gsi.h"
#include "hdr.h"
#include "heap.h"
#include "keep.h"
#include "link.h"
#include "mcast.h"
#include "mr.h"
#include "path.h"
#include "qp.h"
#include "secret.h"
#include "slots.h"
#include "trace.h"
#include "turns.h"
#include "why.h"

#define HCA_SPANS 1024u /* spans of a burst, at most */
#define GRH_LEN   40u

/* The burst that hca_tx() handed out last: its payload may turn out unreadable until the next call. */
struct taken {
	struct qp *qp;  /* NULL: nothing to come back to */
	bool resp;      /* a read response; else a request */
	bool done;      /* UC, UD: the WR completes with it */
	uint32_t index; /* in the SQ, or the ring of responses */
	psn_t psn;
};

/* The fields that most packets need are side by side; large tables, which few packets need, lie elsewhere. */
struct hca {
	struct hca_cfg cfg;
	mono_t now;             /* of the call under way */
	const struct burst *rx; /* the packet or burst that is being looked at, for causes; NULL: none */
	bool stalled;           /* hca_stall() */
	bool rx_lost;           /* its payload could not be read */
	struct qp_tab qp;
	struct keys keys;
	struct turns ready; /* QPs that may have something to send, by owner */
	struct heap timers;
	struct link events;
	struct comp_fifo comp;
	struct taken taken;
	struct trace trace;
	struct ghosts ghosts;
	struct gsi_qp gsi;
	uint16_t pkey[RD_PKEYS];
	uint32_t pkey_n;
	uint64_t stat[HCA_STATS];
	struct span *slice;                  /* HCA_SPANS of them: a part of the burst being received */
	struct span dst[RD_MAX_SGE];         /* where received bytes go */
	struct span tx_span[RD_MAX_SGE + 1]; /* of the burst handed out */
	struct secret secret;
	uint8_t gid[HCA_GIDS][16];
	uint64_t gid_set; /* bit per row */
	struct slots pd, cq, srq, xrcd;
	struct paths paths;
	struct mcasts mcast;
	struct keep keep;
	struct whys whys;
	uint64_t fault[FAULT_END];
	uint8_t grh[GRH_LEN];
};

/* Two threads may have looked at the clock in another order than they call: time does not go back here. */
static inline void hca_clock(struct hca *h, mono_t now)
{
	if (mono_before(h->now, now))
		h->now = now;
}

/* Other threads may look (hca_stat()). */
static inline void count(struct hca *h, enum hca_stat s, uint64_t n)
{
	__atomic_store_n(&h->stat[s], h->stat[s] + n, __ATOMIC_RELAXED);
}

/* NULL: there is none of that number. */
static inline struct qp *qp_get(const struct hca *h, uint32_t qpn)
{
	struct qp *qp = h->qp.v[qpn >> h->cfg.qpn_low_bits & h->qp.mask];

	return qp && qp->qpn == qpn ? qp : NULL;
}

/* It may have something to send. */
static inline void qp_ready(struct hca *h, struct qp *qp)
{
	if (link_empty(&qp->ready))
		turns_put(&h->ready, qp->ready_lane, &qp->ready);
}

/* Has the responder anything to send? */
static inline bool resp_wants(const struct resp *r) { return r->ack || r->nak || r->rd_cur != r->rd_tail; }

/* Is there anything that it could send now or later?  While the answer is no it need not be in the list. */
static inline bool qp_has_more(const struct qp *qp)
{
	return qp->sq.next != qp->sq.tail || resp_wants(&qp->resp) || qp->cnp ||
	       !psn_eq(qp->req.mend_at, qp->req.mend_end);
}

/* The payload of the burst that is being looked at goes to dst[0..n).  As copy() of mem.h. */
static inline int rx_copy(struct hca *h, const struct span *dst, unsigned n, const struct burst *b)
{
	int err = h->cfg.mem->copy(h->cfg.mem_host, dst, n, b->span, b->span_n, 0);

	h->rx_lost |= err == EIO;
	return err;
}

/* Of the packets that the QP sends. */
static inline uint16_t qp_pkey(const struct hca *h, const struct qp *qp) { return h->pkey[qp->attr.pkey_index]; }

static inline uint32_t mtu_bytes(uint8_t mtu) { return 128u << mtu; }
#endif
