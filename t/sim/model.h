/* SPDX-License-Identifier: MIT */
/*
 * model.h - what verbs promise, and nothing of how.
 *
 * The scenarios post through the model; it knows every work request, every message
 * and every byte that may change, and judges what comes back:
 *
 *  - every signaled WR completes once, in order, with the right count of done WRs (cqe.wqe);
 *  - a successful WR did what it says: bytes written, read, delivered, an atomic executed once;
 *  - receive completions in order, with the right length, immediate data and solicited flag;
 *  - after an error only flushes, and an error only where somebody gave cause for it;
 *  - once links and memory are sound, everything completes in bounded virtual time.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "sim.h"

#define MODEL_QPS   48u
#define MODEL_SRQS  8u
#define MODEL_WORDS 4u
#define MODEL_CQS   3u /* of a node */
#define MODEL_MWS   64u

struct model;
struct mqp;

/* clang-format off */
/* Ways in which a send WR is wrong on purpose. */
enum bad { BAD_NONE, BAD_RKEY, BAD_BOUNDS, BAD_PERM, BAD_PD, BAD_LKEY, BAD_LBOUNDS, BAD_ALIGN,
	   BAD_MW /* of the window concerned */ };
/* clang-format on */

/* A message that takes a receive WR. */
struct msg {
	struct msg *next;
	struct mqp *from, *to; /* to NULL: lost its receiver */
	struct content *c;
	uint32_t len, imm;
	bool has_imm, inv /* imm is a key */, solicited, write;
	bool known, ok; /* its sender has been told, and that it arrived */
	unsigned delivered;
};

struct mwr {
	struct mwr *next;
	struct mqp *qp;
	uint64_t id;
	uint8_t op;
	bool signaled, fence, started;
	uint32_t len; /* of the message; of a receive: its room */
	uint32_t idx; /* how many WRs of this SQ came before */
	struct piece *loc[RD_MAX_SGE];
	unsigned loc_n;
	struct piece *remote;
	unsigned ver; /* WRITE: which version of the remote content it writes */
	struct msg *msg;
	struct mmw *mw;      /* that it goes through, binds or ends */
	uint64_t harm;       /* of the links, when it was posted */
	uint32_t expect;     /* statuses that its own wrongness leads to; 0: it is right */
	unsigned exec_n;     /* atomics: how often it was executed, ... */
	uint64_t a, b, orig; /* ... with what, and what it found */
};

/*
 * A window on all of a node's REGION_ALL, bound on one of its QPs, for that QP's peer to use.  A window of which the
 * model does not know for sure - a bind that was flushed, an invalidation that may be lost - is dead.
 */
enum mmw_state { MMW_FREE, MMW_BINDING, MMW_BOUND, MMW_ENDING, MMW_DEAD };
struct mmw {
	struct mqp *of;
	uint32_t key;
	uint8_t type;
	bool zero; /* peers count from 0 */
	enum mmw_state state;
	unsigned uses; /* posted WRs that go through it */
};

struct msrq {
	struct node *node;
	uint32_t srqn;
	uint32_t max_wr, max_sge;
	uint32_t cqn; /* of XRC: where its receives complete; else 0 */
	struct mwr *wr;
	unsigned n;
	unsigned armed; /* times that the limit was armed and has not fired */
	unsigned limit_events;
};

struct mqp {
	struct model *m;
	struct node *node;
	uint32_t qpn;
	uint8_t type, state;
	bool exists, sig_all;
	bool left;        /* by model_leave() */
	struct mqp *peer; /* RC, UC */
	struct msrq *srq;
	struct qp_cap cap;
	struct qp_attr attr;
	uint32_t send_cqn, recv_cqn;

	struct mwr *sq, **sq_tail, *rq, **rq_tail;
	unsigned sq_n, rq_n;
	uint32_t posted;             /* since its creation, RESET or not */
	struct msg *msg, **msg_tail; /* RC: not delivered yet; UC, UD: all */
	struct piece *target;        /* the last WRITE's, for READs and WRITEs of the same place */

	bool sq_err, rq_err; /* an error completion was seen: only flushes now */
	bool cause;          /* there is a reason to go to ERR */
	bool orphaned;       /* it was reset or destroyed in the middle of work */
	bool asked_drain, drained, last_wqe, overrun;
	uint32_t rq_may; /* statuses that a receive of it may have */
	unsigned events;
	unsigned group; /* UD: may receive what is for another QP of the same group, not 0 */
};

struct model {
	struct sim s;
	struct mqp qp[MODEL_QPS];
	unsigned qp_n;
	struct msrq srq[MODEL_SRQS];
	unsigned srq_n;
	struct mmw mw[MODEL_MWS];
	unsigned mw_n;
	struct piece *word[SIM_NODES][MODEL_WORDS];
	uint32_t pdn[SIM_NODES][2], xrcdn[SIM_NODES], cqn[SIM_NODES][MODEL_CQS];
	uint64_t next_id;
	uint64_t progress;  /* when something last completed */
	bool mem_lost;      /* some memory was unmapped or deregistered: whatever used it may fail */
	bool lenient;       /* packets may be late without being counted as harm */
	bool rnr;           /* receives may be missing for long */
	bool quiet_bad;     /* wrong WRs look right to their sender (UC) */
	bool strange;       /* receives may hold what nobody of the model sent */
	bool recv_bad;      /* receives are posted with a wrong lkey */
	bool copies;        /* packets may arrive twice or late: UC and UD may deliver so */
	uint32_t seen[256]; /* completions by status; for tests of one thing */
	uint32_t seen_op[256];
	void (*on_settle)(struct model *); /* called while model_settle() waits: post receives ... */
};

enum { REGION_ALL, REGION_IOVA, REGION_LOCAL, REGION_RO, REGION_PD1 };

struct model_cfg {
	const char *kind;
	uint64_t seed;
	unsigned nodes;
	uint32_t arena_len;
	struct hca_cfg hca;
	bool trace;
};
void model_init(struct model *, const struct model_cfg *);
/* Everything completes, or sim_fail(). */
void model_settle(struct model *);
/* Destroys all objects in order, wants none left. */
void model_end(struct model *);
struct hca_cfg model_hca(void);

/* ---- objects ----------------------------------------------------------- */

struct mqp_cfg {
	uint8_t type;
	struct msrq *srq;
	uint32_t max_send_wr, max_recv_wr, max_sge;
	bool sig_all;
	unsigned cq;
};
struct mqp *model_qp(struct model *, unsigned node, const struct mqp_cfg *);
struct msrq *model_srq(struct model *, unsigned node, uint32_t max_wr);
struct msrq *model_xsrq(struct model *, unsigned node, uint32_t max_wr, unsigned cq); /* for QPs of XRC_RECV */
void model_srq_gone(struct msrq *); /* destroyed, of XRC or unused; its place in the model stays */
/* INIT, RTR, RTS of both ends; attr has what they share: mtu, timeouts, retries, rd_atomic ...; PSNs by seed,
 * near 2^24 if wrap. */
void model_connect(struct mqp *, struct mqp *, const struct qp_attr *, bool wrap, unsigned gid);
void model_ready(struct mqp *, uint32_t qkey); /* UD */
struct qp_attr model_attr(void);               /* what a patient program would choose */
int model_modify(struct mqp *, const struct qp_attr *, uint32_t mask);
int model_state(struct mqp *, uint8_t state); /* no other attribute */
void model_to_init(struct mqp *);
void model_destroy(struct mqp *); /* by its program, or because that was killed */
/*
 * Has it done all of its own work and received all that its peer has sent, though the peer may not know yet?  Then
 * its program may destroy it, and the peer must not come to harm by that.
 */
bool model_may_leave(const struct mqp *);
void model_leave(struct mqp *);
void model_orphan(struct mqp *); /* its WRs will not complete: RESET, destroy */
void model_forget(struct mqp *); /* what it has sent */

void model_overrun(struct model *, struct node *, uint32_t cqn); /* the host could not publish */

/* ---- work -------------------------------------------------------------- */

struct post {
	uint8_t op, flags;
	uint32_t len;
	unsigned sge_n; /* 0: one */
	bool inl;       /* the bytes go with the WR */
	bool again;     /* at the place of the last WRITE */
	enum bad bad;
	uint32_t expect; /* statuses that must follow (bits); bad sets it by itself */
	unsigned word;   /* atomics */
	struct mmw *mw;  /* BIND_MW, LOCAL_INV, SEND_INV: this one; else: through it, if it can be */
	struct mqp *to;  /* UD */
	uint32_t qkey;
	unsigned gid;
	bool no_source;      /* UD: of a GID that is not there */
	const uint8_t *mgid; /* UD: to this group instead */
};
/* 0; ENOBUFS: no room in the simulated memory, nothing was posted; else what hca_post_send() said. */
int model_send(struct mqp *, const struct post *);
int model_recv(struct mqp *, uint32_t len, unsigned sge_n);
int model_srq_recv(struct msrq *, uint32_t len, unsigned sge_n);
unsigned model_owed(const struct mqp *); /* receives that its peer still needs, beyond those posted */

/* ---- model_check.c ------------------------------------------------------ */

extern const struct sim_ops model_ops;
void model_watch(struct mqp *); /* notes changes of state that nobody asked for */
void wr_free(struct mwr *, bool remote);
struct mmw *model_mw(struct mqp *of, uint8_t type);
bool mmw_usable(const struct mmw *, const struct mqp *); /* by this peer, now */
struct mqp *model_find(struct model *, const struct node *, uint32_t qpn);
static inline struct model *model_of(struct sim *s) { return s->user; }
static inline bool mqp_rel(const struct mqp *q)
{
	return q->type == QPT_RC || q->type == QPT_XRC_SEND || q->type == QPT_XRC_RECV;
}
static inline bool op_takes_recv(uint8_t op)
{
	return op == WR_SEND || op == WR_SEND_IMM || op == WR_SEND_INV || op == WR_WRITE_IMM;
}
static inline bool op_is_atomic(uint8_t op) { return op == WR_CMP_SWP || op == WR_FETCH_ADD; }
static inline bool op_is_local(uint8_t op) { return op == WR_BIND_MW || op == WR_LOCAL_INV; }
static inline bool op_waits(uint8_t op) { return op == WR_READ || op_is_atomic(op); }

#endif
