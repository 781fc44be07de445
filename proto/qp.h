/* SPDX-License-Identifier: MIT */
/*
 * qp.h - the queue pair: two queues, and the state of the transport on either side.
 *
 * Requester (RC), in PSNs:
 *
 *	 acknowledged      in flight         cut again or for the first time
 *	--------------|------------------|------------------|----------->
 *	             una                next               max
 *
 * next falls back to una when something was lost (go-back-N); max does not.  una is always in the WR at
 * sq.head, next in the one at sq.next, pos packets behind its start.
 */
#ifndef PROTO_QP_H
#define PROTO_QP_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmad/abi.h>

#include "burst.h"
#include "cong.h"
#include "event.h"
#include "fault.h"
#include "heap.h"
#include "link.h"
#include "mr.h"
#include "rate.h"
#include "seq.h"
#include "srq.h"
#include "trace.h"
#include "why.h"
#include "wqe.h"

struct hca;
struct cq;
struct path;
struct lane;
struct room;

#define PSN_WINDOW (1u << 22) /* PSNs in flight, at most: half of what rule 4.1 allows */

#define SVC_NONE 0xffu /* qp.svc of RAW_PACKET: no packet of the transport is for it */

struct req {
	psn_t una, next, max;
	psn_t restart; /* where it last fell back to: responses may start afresh there */
	uint32_t pos;
	uint8_t retry_left, rnr_left;
	bool rnr_wait;     /* the timer runs for an RNR NAK */
	bool implied;      /* fell back for a lost response; once is enough until something arrives */
	psn_t implied_end; /* a response from here on was not under way then */
	bool drained;      /* SQD: nothing begun is unfinished, and it was said */
	uint8_t early;     /* early retransmissions since something was acknowledged that had none */
	psn_t early_end;   /* behind what had been sent when the last one was made */
	bool probe;        /* after one: a single packet, until something is acknowledged */
	bool rtt_on;       /* rtt_psn, sent at rtt_at, is being timed */
	psn_t rtt_psn;
	mono_t rtt_at;
	uint64_t rtt_ns;   /* smoothed; 0: not known */
	mono_t patience;   /* when the ACK timeout of the specification is over; MONO_NEVER: not begun */
	uint64_t inflight; /* our share of path.inflight, if path.epoch is epoch */
	uint32_t epoch;
	uint64_t unasked;        /* weight of what was sent since the last AckReq */
	uint32_t asked;          /* index of the WR that had it */
	psn_t ask_end;           /* behind the last packet that ever had one */
	psn_t owed_end;          /* and behind the last one since it fell back */
	bool owed;               /* that is not answered: the path counts us */
	psn_t mend_at, mend_end; /* what is to be sent again alone: from here up to there (mend.h) */
	uint32_t mend_n;         /* packets of it in all */
	psn_t left;    /* una, or further on: what is before has left the window, for the peer has it or lost it */
	bool mending;  /* nothing behind it has been acknowledged yet */
	psn_t *rd_end; /* ring: the PSN behind each READ request or atomic under way */
	uint32_t rd_max, rd_mask, rd_head, rd_tail;
};

/* A READ or atomic that was executed: its response, and what is needed to make it again (rule 4.2). */
struct rd {
	psn_t psn;
	uint32_t n; /* PSNs */
	uint32_t msn;
	uint8_t kind;    /* one of ROLE_ASK */
	bool want;       /* the response, or the rest of it, is to be sent */
	bool again;      /* and was before: the peer may have it already */
	bool whole;      /* READ: it was sent to its end once */
	bool ack_before; /* and an ACK of all before it */
	uint32_t rkey;
	uint64_t va;
	uint32_t len;
	uint32_t begin, at, end; /* READ: response packets asked for last, and the next one */
	uint32_t end_off;        /* bytes where the last of them ends */
	uint64_t orig;           /* ATOMIC */
	uint32_t pdn;            /* READ: whose keys are good */
};

struct resp {
	psn_t epsn; /* expected */
	uint32_t msn;
	uint8_t kind; /* of the message under way: KIND_NONE, KIND_SEND, KIND_WRITE */
	uint64_t off; /* bytes of it that came */
	uint64_t va;  /* WRITE: its RETH */
	uint32_t rkey, dma_len;
	struct rwqe *wqe; /* receive WR in use; NULL: none */
	bool silent;      /* NAKed: say nothing until epsn comes */
	bool rnr;         /* by an RNR NAK: all behind it will come again */
	bool dropping;    /* UC: the message under way is lost, and counted */
	bool est;         /* RTR: a packet came */
	bool ack;         /* an ACK of all before epsn is to be sent */
	uint8_t nak;      /* syndrome of a NAK that is to be sent; 0: none */
	psn_t nak_psn;    /* of a NAK that ended the QP; else epsn */
	bool nak_fatal;
	struct room *room; /* what came behind a gap; NULL: nothing */
	psn_t refused;     /* behind the newest packet that a sequence NAK, not yet sent, is about */
	struct rd *rd;     /* ring of rd_max */
	uint32_t rd_max, rd_mask;
	uint32_t rd_n; /* valid ones: [rd_tail - rd_n, rd_tail) */
	uint32_t rd_tail;
	uint32_t rd_cur; /* none before this wants anything */
};

/* Messages executed when the program brought it from a state that receives to ERR: for ghost.h. */
struct part {
	bool on;
	psn_t end;
	uint32_t msn;
};

struct qp {
	uint32_t qpn;
	uint8_t type, state;
	bool sig_all;
	bool not_own;
	bool yield;   /* it sent a read response: a request may go first */
	uint8_t svc;  /* SVC_... */
	uint32_t mtu; /* bytes; UD: of the port, when sending */
	/* XRC_RECV: those of the SRQ that the last request named, or NULL. */
	struct pd *pd;
	struct cq *scq, *rcq;
	struct srq *srq;
	struct xrcd *xrcd;                     /* XRC_RECV */
	struct link in_scq, in_rcq;            /* in cq.sends, cq.recvs */
	struct link in_srq;                    /* XRC_RECV: in srq.targets */
	struct path *path;                     /* RC, UC, once the AV is known */
	struct burst head;                     /* what all that it sends has in common; the rest is 0 */
	struct link ready;                     /* in hca.ready */
	struct link waiter;                    /* in path.waiters, or those of its pace */
	struct lane *ready_lane, *waiter_lane; /* its owner's; the second with path */
	bool held;                             /* nothing of it is sent: hca_qp_hold() */
	bool cnp;                              /* is to be sent */
	mono_t cnp_next;                       /* no other one before */
	struct cong cong;
	struct timer timer; /* RC: ACK timeout or RNR */
	struct rate rate;
	struct sq sq;
	struct req req;
	struct resp resp;
	struct rq rq;
	struct rwqe *srq_wqe; /* the WR taken from the SRQ */
	struct part part;
	struct qp_attr attr;
	struct qp_cap cap;
	struct comp_cntr *cntr[CNTR_OPS]; /* the host's memory; NULL: not counted */
	uint8_t cntr_bytes;               /* bit per enum cntr_op: bytes, not requests */
	struct link mws;                  /* windows of type 2 bound to it */
	struct link groups;               /* of struct mcast_member */
	struct events ev;
	uint64_t tx_bytes, rx_bytes, tx_pkts, rx_pkts, retrans, rnrs;
	struct qp_why why;
	struct qp_log log;
};

struct qp_tab {
	struct qp **v; /* by (qpn >> qpn_low_bits) & mask */
	uint32_t mask, live;
	uint32_t last; /* number given out last, without the low bits */
};

static inline struct rd *rd_at(const struct resp *r, uint32_t i) { return &r->rd[i & r->rd_mask]; }

/* Acknowledged, with PSNs and retries: RC and XRC. */
static inline bool qp_reliable(const struct qp *qp) { return qp->svc == SVC_RC || qp->svc == SVC_XRC; }

void qp_to_err(struct hca *, struct qp *); /* flushes */
void qp_to_sqe(struct hca *, struct qp *);
void qp_xrc_srq(struct qp *, struct srq *); /* XRC_RECV: requests are for this one now */
void qp_reset(struct hca *, struct qp *);   /* all queues, PSNs, counters */
void qps_fini(struct hca *);

#endif
