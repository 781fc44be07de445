/* SPDX-License-Identifier: MIT */
/*
 * hca.h - a complete InfiniBand HCA in software: bytes in, bytes out, time an argument.
 *
 * No globals, no clock, no I/O; one thread at a time per HCA.  Objects are made and
 * destroyed by calls that may allocate; the data path (post, rx, tx, tick, completions)
 * never does.  The host - the daemon, the simulator, a fuzzer - turns like this:
 *
 *	hca_post_*()	what programs posted
 *	hca_rx_burst()	what arrived
 *	hca_tick()	if hca_deadline() has come
 *	hca_tx()	until 0: send each burst, or hand it to a local HCA, before the next call
 *	hca_completion(), hca_events()	until 0: publish
 *
 * A function that returns int returns 0 or a positive errno, the one that the verb
 * concerned has.  Numbers (pdn, key, cqn, srqn, qpn) are the HCA's; none is ever 0.
 */
#ifndef PROTO_HCA_H
#define PROTO_HCA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmad/abi.h>

#include "burst.h"
#include "gsi.h"
#include "mem.h"
#include "mono.h"

struct cong_law;
struct hca;
struct ring;
struct trace_rec;
struct why;

#define HCA_GIDS 64u

struct hca_cfg {
	const struct mem_ops *mem;
	void *mem_host;           /* first argument of mem's functions */
	uint64_t seed, seed_hi;   /* 128 bits that nobody knows: keys and numbers follow from them (secret.h) */
	uint32_t qpn_low;         /* every QPN has these low bits ... */
	unsigned qpn_low_bits;    /* ... this many of them: so several HCAs share one number space */
	uint8_t mtu;              /* enum ibv_mtu: the port's largest */
	uint32_t burst_len;       /* payload bytes of a burst to a foreign GID, at most (e.g. 61440) */
	uint32_t local_burst_len; /* and to a GID of hca_local_set() */
	bool early_retrans;       /* send again after some round trips, not only at the ACK timeout */
	uint8_t least_timeout;    /* a shorter ACK timeout of a QP counts as this one (code); 0: none does */
	bool selective;           /* keep what comes behind a gap (keep.h), and mend gaps of peers that do (mend.h) */
	uint32_t window_len;      /* bytes in flight to one foreign GID, at the start and at the most */
	uint32_t
		peer_room; /* bytes that a peer takes in while it is not looking: UC is sent no faster; 0: as fast as can be */
	struct marks marks;
	const struct cong_law *law; /* of congestion; it stays there.  NULL: the daemon's */
	uint32_t no_kinds;          /* of requests that are refused (RESP_OP_UNSUP), a bit each: 1 << KIND_... */
	bool lids;                  /* completions of UD have the LID of the sender: gid_lid() */
	uint16_t pkey[RD_PKEYS -
		      1]; /* rows of the P_Key table, from 1 on; row 0 is PKEY_DEFAULT; the first 0 ends them */
	uint32_t max_qp, max_cq, max_srq, max_mr, max_mw, max_pd, max_xrcd; /* 0: a default */
};

/* NULL: no memory. */
struct hca *hca_new(const struct hca_cfg *);
void hca_free(struct hca *); /* with all objects, nothing is published */

/* ---- the port ---------------------------------------------------------- */

/* Row i of the GID table; gid NULL empties it. */
int hca_gid_set(struct hca *, unsigned i, const uint8_t *gid);
/* This GID is reached without loss and without a window (a device of the same daemon), or no longer. */
int hca_local_set(struct hca *, const uint8_t *gid, bool local);
void hca_mtu_set(struct hca *, uint8_t mtu);

/* ---- objects ----------------------------------------------------------- */

/* Bytes of memory that objects take here, at most: any of them; a QP, an SRQ with its queue besides. */
#define HCA_OBJ_LEN 320u
struct qp_init;
size_t hca_qp_len(const struct qp_init *);
size_t hca_srq_len(uint32_t max_wr, uint32_t max_sge);

int hca_pd_alloc(struct hca *, uint32_t *pdn);
/* The user whose programs may be told what became of its keys, and the number of his program that has it; 0 without this. */
void hca_pd_owner(struct hca *, uint32_t pdn, uint32_t owner, uint32_t prog);
int hca_pd_free(struct hca *, uint32_t pdn); /* EBUSY while MRs, windows, QPs, SRQs use it */

struct mr_attr {
	uint32_t pdn;
	uint32_t access;    /* enum access_flag */
	uint64_t addr, len; /* where it is in the program */
	uint64_t iova;      /* the address that work requests and peers use for addr */
	void *region;       /* the host's name for it; put in spans */
};
int hca_mr_reg(struct hca *, const struct mr_attr *, uint32_t *key); /* lkey and rkey are the same */
int hca_mr_dereg(struct hca *, uint32_t key);                        /* EBUSY while a window is bound */
/* All of it anew, under the same key.  EBUSY while a window is bound. */
int hca_mr_rereg(struct hca *, uint32_t key, const struct mr_attr *);

/*
 * A window, not bound.  type: 1 or 2.  Of *key the upper 24 bits are the window; the lowest byte is what the program
 * says when it binds it (WR_BIND_MW).  dealloc unbinds, and does not look at that byte.
 */
int hca_mw_alloc(struct hca *, uint32_t pdn, unsigned type, uint32_t *key);
int hca_mw_dealloc(struct hca *, uint32_t key);
/* Of what a region or window is: its PD, and of a window the region that it is bound to, or 0.  false: it is none. */
bool hca_key_of(const struct hca *, uint32_t key, uint32_t *pdn, uint32_t *mr);
/* For causes: a region or window had this key and ended, or that is not known for certain. */
bool hca_key_maybe(const struct hca *, uint32_t key);
/* It is that late: before the calls above, which note for causes when a key ended. */
void hca_time(struct hca *, mono_t now);

int hca_cq_create(struct hca *, uint32_t cqe, uint32_t *cqn);
int hca_cq_destroy(struct hca *, uint32_t cqn); /* EBUSY while QPs use it */
/* The host could not publish a completion: the ring was full.  EV_CQ_ERR, and every QP on it to ERR. */
void hca_cq_overrun(struct hca *, uint32_t cqn, mono_t now);

/* An XRC domain.  free: EBUSY while SRQs or QPs are in it. */
int hca_xrcd_alloc(struct hca *, uint32_t *xrcdn);
int hca_xrcd_free(struct hca *, uint32_t xrcdn);

/*
 * xrcdn not 0: an SRQ of XRC, in that domain, whose receives complete on cqn.  Peers name it by its number.
 * done: where it is told how many of its receives have left it, with a completion or, of a queue pair that is gone, without;
 * NULL: nobody asks.
 */
struct srq_init {
	uint32_t pdn, max_wr, max_sge, limit, xrcdn, cqn;
	uint32_t *done;
};
int hca_srq_create(struct hca *, const struct srq_init *, uint32_t *srqn);
int hca_srq_limit(struct hca *, uint32_t srqn, uint32_t limit); /* arms EV_SRQ_LIMIT; 0 disarms */
int hca_srq_resize(struct hca *, uint32_t srqn, uint32_t max_wr);
int hca_srq_query(const struct hca *, uint32_t srqn, struct srq_init *);
int hca_srq_destroy(struct hca *, uint32_t srqn); /* EBUSY while QPs use it; those of XRC do not count */

struct qp_init {
	uint8_t type; /* enum qp_type */
	bool sq_sig_all;
	bool not_own;   /* UD: what it sends to a group does not come back to it */
	uint32_t owner; /* any number: owners take turns in sending, and then the QPs of each */
	/* XRC_SEND has pdn and send_cqn only, XRC_RECV xrcdn only. */
	uint32_t pdn, send_cqn, recv_cqn, srqn /* 0: none */, xrcdn;
	struct qp_cap cap;
};
int hca_qp_create(struct hca *, const struct qp_init *, uint32_t *qpn);
int hca_qp_modify(struct hca *, uint32_t qpn, const struct qp_attr *, uint32_t mask, mono_t now);
/*
 * Slows down all that the QP sends to kbps (kbit/s, of all bytes on the wire; 0: not), in bursts of so many bytes (0: a
 * millisecond's worth).  In RTS and SQD.
 */
int hca_qp_rate(struct hca *, uint32_t qpn, uint32_t kbps, uint32_t burst, mono_t now);
/*
 * From now on the QP adds what it completes to *c, which stays until the QP is destroyed; ops: bit per enum cntr_op; bytes: of
 * the messages, instead of their number.  EINVAL: not in RESET or INIT, or no such ops; EOPNOTSUPP: not those of CNTR_HAS;
 * EBUSY: some are counted already.
 */
int hca_qp_count(struct hca *, uint32_t qpn, uint32_t ops, bool bytes, struct comp_cntr *c);
int hca_qp_query(const struct hca *, uint32_t qpn, struct qp_attr *, struct qp_init *);
/* To ERR, since the host has found something wrong: enum why_cause. */
void hca_qp_fail(struct hca *, uint32_t qpn, unsigned cause, mono_t now);
int hca_qp_destroy(struct hca *, uint32_t qpn); /* its completions not yet handed out are dropped */
/*
 * The same by the will of its program: for some time the HCA goes on to acknowledge duplicates of what the QP has
 * executed, since its last ACK may be lost (ghost.h).  Its number is not given out as long.
 */
int hca_qp_retire(struct hca *, uint32_t qpn, mono_t now);

int hca_mcast_attach(struct hca *, uint32_t qpn,
		     const uint8_t *mgid); /* UD only; of an owner so many in a group: ENOMEM */
int hca_mcast_detach(struct hca *, uint32_t qpn, const uint8_t *mgid);
bool hca_mcast_has(struct hca *, const uint8_t *mgid); /* some QP is attached to it */

/* ---- the data path ----------------------------------------------------- */

/*
 * Copies the request, its sge and inline bytes: each once, so that they may lie where a program can write to them, and
 * no more than the queue was made for.  ENOMEM: the queue is full.  EINVAL: state, or opcode of this QP type.  E2BIG:
 * more sge or inline bytes than the queue has room for.  Errors that the specification reports by a completion are
 * reported by a completion.
 */
int hca_post_send(struct hca *, uint32_t qpn, const struct send_wr *, mono_t now);
int hca_post_recv(struct hca *, uint32_t qpn, const struct recv_wr *, mono_t now);
int hca_post_srq_recv(struct hca *, uint32_t srqn, const struct recv_wr *, mono_t now);
/*
 * The same for the n slots of a ring from number from on, up to the first one that is refused: how many were looked at, and
 * *err, 0 or what the last of these was refused with.
 */
uint32_t hca_post_sends(struct hca *, uint32_t qpn, const struct ring *, uint32_t from, uint32_t n, int *err,
			mono_t now);
uint32_t hca_post_recvs(struct hca *, uint32_t qpn, const struct ring *, uint32_t from, uint32_t n, int *err,
			mono_t now);
uint32_t hca_post_srq_recvs(struct hca *, uint32_t srqn, const struct ring *, uint32_t from, uint32_t n, int *err,
			    mono_t now);

/*
 * Takes one burst: what is wrong with it is counted, answered or dropped as the rules say.  0, or EIO: the payload of a
 * burst that another HCA of the host sent could not be read, by that one's doing: hca_tx_fault() is for it.
 */
int hca_rx_burst(struct hca *, const struct burst *, mono_t now);
/* Takes one UDP payload without its ICRC: burst_parse() and hca_rx_burst(). */
void hca_rx(struct hca *, const struct route *, const uint8_t *data, size_t len, mono_t now);
/* An Ethernet frame for a RAW_PACKET QP: the host steers.  sum_ok: and has seen that its checksums are right. */
void hca_rx_raw(struct hca *, uint32_t qpn, const uint8_t *frame, size_t len, bool sum_ok, mono_t now);
/* The host dropped a datagram before it got here; counted as stat (e.g. HCA_STAT_BAD_SOURCE). */
void hca_count(struct hca *, unsigned stat, uint64_t n);
/* A packet whose ICRC is wrong; NULL: it is not even one. */
void hca_damaged(struct hca *, const struct burst *);
/*
 * The host could not send n packets on a way, the first of them of this QP (0: of none).  err: its errno, or 0: the way begins at no
 * address of the host's.
 */
void hca_unsent(struct hca *, uint32_t qpn, const struct route *, unsigned n, int err);

/* A host or a router says that a datagram of this QP on this way, to that QP, did not arrive. */
void hca_refused(struct hca *, uint32_t qpn, const struct route *, uint32_t dqpn, mono_t now);

/* The next burst, good until the next call into this HCA (but hca_rx_burst of the very burst).  false: nothing to send now. */
bool hca_tx(struct hca *, struct burst *, mono_t now);
/* The same of what takes no receive of a program: MADs, and ACKs of ghosts.  Queue pairs wait for hca_tx(). */
bool hca_tx_own(struct hca *, struct burst *, mono_t now);
/* All bursts that were handed out have left by now.  A host that does not say so sends them as soon as they are handed out. */
void hca_sent(struct hca *, mono_t now);
/* It sends nothing, and no time passes for it, until it is let go.  What comes is the host's to keep away. */
void hca_stall(struct hca *, bool stalled);
/* Nothing of this QP is handed out until it is let go: its way out is full. */
void hca_qp_hold(struct hca *, uint32_t qpn, bool held);
/* The host could not read the payload of the burst just taken, behind so many packets that have gone: the WR or the read response fails. */
void hca_tx_fault(struct hca *, const struct burst *, uint32_t gone, mono_t now);

void hca_tick(struct hca *, mono_t now);
mono_t hca_deadline(const struct hca *); /* when to call hca_tick() next; MONO_NEVER */

/*
 * In order of completion per CQ.  hca_completion(): the next one where it lies, NULL: none; the host may write to it, and it is
 * good until the next call that can make one.  hca_completions(): copies of up to max; how many.
 */
struct cqe *hca_completion(struct hca *);
unsigned hca_completions(struct hca *, struct cqe *, unsigned max);
unsigned hca_completions_n(struct hca *); /* that wait */
bool hca_wants(struct hca *); /* it may have something for hca_tx(), hca_completion(), hca_events() or hca_why() */

struct hca_event {
	uint32_t type;   /* enum event_type */
	uint32_t number; /* qpn, cqn or srqn, as the type says */
};
unsigned hca_events(struct hca *, struct hca_event *, unsigned max);

/* ---- QP1 ---------------------------------------------------------------- */

/* The next MAD that came in; false: none.  MADs that nobody takes are dropped once some tens wait. */
bool hca_gsi_rx(struct hca *, struct gsi *);
bool hca_gsi_waits(const struct hca *); /* it has one */
/* Copies a MAD; hca_tx() sends it, before anything else.  ENOMEM: too many wait, repeat it later. */
int hca_gsi_send(struct hca *, const struct gsi *);

/* ---- looking in -------------------------------------------------------- */

enum hca_stat {
#define STAT(name, lower, text) HCA_STAT_##name,
#include "stats.def"
#undef STAT
	HCA_STATS
};
uint64_t hca_stat(const struct hca *, enum hca_stat); /* from any thread */
const char *hca_stat_name(enum hca_stat);             /* lower case, as rxe's hw_counters where it has one */

/* How often each row of fault.def was taken; for tests that want every rule reached. */
unsigned hca_fault_n(void);
const char *hca_fault_name(unsigned row);
const char *hca_fault_text(unsigned row);
uint64_t hca_fault_count(const struct hca *, unsigned row);

/* The next cause (why.h); false: none.  And how many there was no room for. */
bool hca_why(struct hca *, struct why *);
/* For what a live QP waits now, since then or longer: WAIT_...; false: it does not, or is busy.  w->since: since when. */
bool hca_wait(struct hca *, uint32_t qpn, mono_t then, struct why *w);
uint64_t hca_why_lost(const struct hca *);

/* Records (trace.h) from number *from on, which moves; how many.  *lost: numbers from there on that are gone. */
uint32_t hca_trace(const struct hca *, uint64_t *from, struct trace_rec *, uint32_t max, uint64_t *lost);
/* Each burst sent and received is a record, too.  0 or ENOMEM. */
int hca_trace_bursts(struct hca *, bool on);

/* A QP as it is shown to people. */
struct qp_info {
	uint32_t qpn, pdn, send_cqn, recv_cqn, srqn;
	uint8_t type, state;
	struct qp_attr attr;
	uint32_t sq_len, rq_len; /* WRs posted and not completed */
	uint32_t sq_psn_next, sq_psn_acked, rq_psn;
	uint32_t retry_left, rnr_left;
	uint64_t tx_bytes, rx_bytes, tx_pkts, rx_pkts, retrans;
	mono_t err_at;             /* in ERR: since when */
	mono_t moved;              /* when a send was posted to an empty queue, or ended */
	uint64_t rnrs;             /* RNR NAKs received */
	uint64_t window, inflight; /* bytes: of all QPs to the same GID, of this one; window 0: there is none */
};
bool hca_qp_info(const struct hca *, uint32_t qpn, struct qp_info *); /* false: no such QP */
/* RC, UC: how many requests of its peer are carried out, modulo 2^24; 0: no such QP */
uint32_t hca_qp_heard(const struct hca *, uint32_t qpn);
/* The numbers of all QPs, ascending, max of them at most; how many. */
uint32_t hca_qp_list(const struct hca *, uint32_t *qpn, uint32_t max);
/* How many objects there are (for leak checks). */
struct hca_live {
	uint32_t pd, mr, cq, srq, qp, mw, xrcd;
};
void hca_objects(const struct hca *, struct hca_live *);

/* Walks every invariant of every object; aborts with a message if one does not hold.  For tests: slow. */
void hca_verify(const struct hca *);

#endif
