/* SPDX-License-Identifier: MIT */
/*
 * why.h - causes: when a QP, a work request or a change of a QP fails, the numbers that tell why.
 *
 *	fault_act(), hca_qp_modify() ... --> struct why, in a FIFO --> hca_why() --> the host finds the words
 *
 * Made where it fails, before anything is flushed, from what the QP and its log (trace.h) know; nothing is
 * allocated.  A cause is not a rule: what a violation does is fault.def's.
 */
#ifndef PROTO_WHY_H
#define PROTO_WHY_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmad/abi.h>

#include "burst.h"
#include "fault.h"
#include "trace.h"

struct hca;
struct keys;
struct pd;
struct qp;
struct swqe;

enum why_cause {
	WHY_NONE,
#define WHY(name, grade, what, hint)       WHY_##name,
#define WHY_FAULT(name, grade, what, hint) WHY_##name,
#define WHY_KEY(name, what, hint)          WHY_##name,
#include "why.def"
#undef WHY
#undef WHY_FAULT
#undef WHY_KEY
	WHY_CAUSES
};

enum why_grade { WHY_ERROR, WHY_NOTE, WHY_WAIT, WHY_PART };

/* An access to memory that was refused, and what its key is of. */
struct why_key {
	uint8_t why;              /* WHY_KEY_..., or 0: there was none */
	uint32_t key, need, have; /* rights: enum access_flag */
	uint64_t va, len;
	uint64_t base, size; /* of the region or window; if it exists */
	uint32_t pdn, key_pdn;
	uint32_t qpn;      /* KEY_QP */
	uint8_t end;       /* enum key_end: what became of it, */
	mono_t end_at;     /* and when; */
	uint32_t end_qpn;  /* by whose request, 0: by a verb */
	bool end_other;    /* it was another program's, */
	uint32_t end_prog; /* this one */
	bool unsure;       /* KEY_NONE: it may have been one, of another user, or longer ago than is remembered */
	int32_t sge;       /* which one of sge_n; -1: it was no sge */
	uint32_t sge_n;
};

struct why {
	mono_t at;
	uint8_t cause;          /* enum why_cause */
	uint8_t fault;          /* enum fault, or 0 */
	uint8_t status;         /* enum wc_status of the WR concerned; WC_SUCCESS: none */
	uint8_t type, from, to; /* of the QP: enum qp_type, enum qp_state before and after; MODIFY_...: wanted */
	uint8_t op;             /* BTH opcode of the packet concerned; of a WR: enum wr_op */
	bool is_wr;             /* op and wr_id are a WR's */
	bool is_recv;           /* a receive WR's: op says nothing */
	uint32_t qpn, dqpn;
	uint8_t sgid[16], dgid[16]; /* all zero: not connected */
	uint8_t other[16];          /* RX_...: where the packet came from */
	uint32_t cqn;               /* CQ_OVERRUN */
	mono_t lost_at;             /* UC: when the last packets were missed */
	uint32_t srqn;              /* WAIT_...: the QP's SRQ, 0: it has none */
	uint64_t wr_id;
	uint32_t psn;
	uint64_t len, room; /* of the message; of what it should fit */
	struct why_key key;
	/* The requester. */
	uint32_t timeouts, naks, rnrs; /* since something was acknowledged last */
	uint64_t timeout_ns;
	uint32_t retry_cnt;
	uint8_t last_op; /* BTH opcode sent last */
	uint64_t rx_pkts;
	uint64_t rx_pkts_since; /* since una was sent first */
	mono_t rx_last, since;  /* when the last packet came; when the QP came to RTR */
	uint32_t far_psn;       /* RX_PSN, and WAIT_PSN without is_wr: what came */
	uint32_t sq_psn, rq_psn;
	uint8_t syndrome;
	/* ibv_modify_qp */
	uint32_t mask, allowed; /* bits concerned; all that the change knows */
	/* WAIT_...: since: since when; got: receives posted (its SRQ's, if it has one), UC: packets lost, EMPTY: packets refused; max: rnr_retry, SIGNALED: depth, POLL: armed. */
	uint64_t got,
		max; /* RX_ROUTE: got is the QP that sent it, if that is known; RX_PKEY: theirs, and ours; UC_GAP: the first PSN that is missing; UNSENT, RETRY_UNSENT: errno */
	uint8_t err_cause; /* FLUSH_LATE: what brought the QP there */
	mono_t err_at;
	uint32_t flush_sq, flush_rq; /* WRs that end with the QP */
	uint8_t log_n;
	struct trace_rec log[QP_LOG];
};

#define WHYS 32u

struct whys {
	struct why *v; /* WHYS of them */
	uint32_t head, n;
	uint64_t lost;
};

/* Kept by a QP for its causes. */
struct qp_why {
	uint64_t told; /* bit per enum fault: of those that do not end it only the first is told */
	bool told_state, told_route, told_pkey, told_icrc, told_flush_late, told_unsent, told_refused;
	bool unsent; /* packets since the last retry were not sent, and the errno; 0: no socket has the address */
	int unsent_err;
	uint8_t last_op;
	uint8_t err_cause; /* what brought it to ERR or SQE */
	mono_t err_at;
	mono_t rx_last, since;
	uint32_t timeouts, naks, rnrs, early; /* since something was acknowledged last */
	uint64_t rx_pkts;                     /* then */
	uint64_t rx_base, tx_base;            /* when the QP came to RTR */
	mono_t moved;                         /* last progress of the sends, or since there are any */
	uint32_t quiet; /* sends that ended without a completion since the last one that had one */
	uint64_t lost;  /* UC: packets that did not come, as the next one showed */
	psn_t lost_psn; /* the first of those missed last */
	mono_t lost_at;
	bool heard; /* something was acknowledged since the QP came to RTR */
	/* Before that so many answers, all alike, and before anything was executed requests, with PSNs from elsewhere. */
	uint32_t far, far_rx;
	uint32_t far_psn, far_rx_psn; /* the one that the peer expects; the one that came */
	mono_t far_rx_since, far_rx_last;
	uint32_t refused; /* with RNR NAK, since a request was executed */
	mono_t refused_since, refused_last;
};
_Static_assert(FAULT_END <= 64, "a bit for each fault");

int whys_init(struct hca *); /* 0 or ENOMEM */
void whys_fini(struct hca *);

/* The row is about to be carried out; the state it leads to, and the status of the WR concerned or WC_SUCCESS. */
void why_fault(struct hca *, struct qp *, enum fault, uint8_t to, uint8_t status);
/* The program brings it to ERR. */
void why_program(struct hca *, struct qp *);
/* The host does. */
void why_host(struct hca *, struct qp *, enum why_cause);
/* A WR is posted to a QP in ERR or SQE. */
void why_flush_late(struct hca *, struct qp *);
/* It comes to RTR: what is told of is counted from here. */
void why_begin(struct hca *, struct qp *);
/* UC: packets from expected on did not come.  whole: they are whole messages, so no rule of the transport is broken. */
void why_uc_lost(struct hca *, struct qp *, psn_t expected, psn_t came, bool whole);
/* UC: a message came.  A program that still receives long after a loss does not wait for what was lost. */
void why_uc_came(const struct hca *, struct qp *);
/* The host could not send packets of it on this way; err as of hca_unsent(). */
void why_unsent(struct hca *, struct qp *, const struct route *, int err);
/* The same, of hca_refused(). */
void why_ud_refused(struct hca *, struct qp *, const struct route *, uint32_t dqpn);
/* The responder has no receive for what came. */
void why_refused(struct hca *, struct qp *);
/* The part that every cause has; and that of a WR. */
void why_fill(const struct hca *, const struct qp *, struct why *, enum why_cause);
void why_of_wr(struct why *, const struct swqe *);
/* An answer that is none to what is in flight; a request that is not the next one, and none was executed yet. */
void why_far_answer(struct qp *, const struct burst *);
void why_far_request(struct hca *, struct qp *, const struct burst *);
/* A single packet may be a late one of an earlier connection. */
#define WHY_FAR 2u
/* Something was acknowledged. */
void why_progress(struct qp *);
/* A packet that the QP is not to have: RX_STATE, RX_ROUTE, RX_PKEY or RX_ICRC. */
void why_drop(struct hca *, struct qp *, enum why_cause, const struct burst *);
/* hca_qp_modify() refuses. */
void why_modify(struct hca *, struct qp *, enum why_cause, uint8_t to, uint32_t mask, const struct qp_attr *);
void why_value(struct hca *, struct qp *, uint8_t to, uint32_t bit, uint64_t got, uint64_t max);

/* why_key.c: why these bytes were not opened. */
void why_rkey(const struct keys *, const struct qp *, struct why_key *, uint32_t key, const struct pd *, uint32_t need,
	      uint64_t va, uint64_t len);
void why_sges(const struct keys *, struct why_key *, const struct sge *, unsigned n, const struct pd *, uint32_t need,
	      uint64_t off, uint64_t len);
void why_inv(const struct keys *, const struct qp *, struct why_key *, uint32_t key);
void why_bind(const struct keys *, const struct qp *, struct why_key *, const struct send_wr *);

#endif
