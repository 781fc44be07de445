/* SPDX-License-Identifier: MIT */
/* qp.h - queue pairs. */
#ifndef VERBS_QP_H
#define VERBS_QP_H

#include "cq.h"
#include "mr.h"

/* A WR being built by ibv_wr_*; see wr_build.h. */
struct wr_draft {
	struct send_wr *slot; /* NULL: none */
	uint32_t n;           /* finished since wr_start */
	int err;              /* the first error since wr_start */
};

struct rd_cntr;
struct rd_flow;
struct rd_table;

typedef void (*flush_fn)(struct ibv_qp_ex *, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level);

struct rd_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
		struct { /* as rdma-core 45 and later have it: one pointer more */
			char ex_44[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *)];
			flush_fn wr_flush;
		};
	};
	struct map_node node;
	uint32_t qpn; /* as in completions: qp_num is the program's to damage */
	struct rd_ctx *ctx;
	struct rd_pd *mem_pd;           /* pd_free */
	int raw_fd;                     /* RAW_PACKET: the packet socket; else -1 */
	uint8_t raw_mac[6];             /* of its interface, */
	bool raw_loop;                  /* which is the loopback one */
	struct rd_flow *flows;          /* of it; by priority; under rq_lock */
	struct rd_cntr *cntr[CNTR_OPS]; /* attached, or NULL */
	uint32_t changes;               /* of the state, by modify; under qp.mutex */
	uint32_t bell;
	struct piece mem;
	struct qp_cap cap;
	bool sq_sig_all;
	bool is_ex;
	struct cq_user send_user, recv_user;

	pthread_mutex_t sq_lock;
	struct ring sq;
	uint64_t done_ns;  /* when the last of them was done; of the poller, under the lock of the send CQ */
	struct pace pace;  /* as done_ns */
	uint32_t sq_done;  /* atomic; WRs whose completion, or a later one, was polled; written under the send
	                     CQ's lock */
	uint32_t sq_read;  /* behind the last READ or atomic, */
	uint32_t sq_fence; /* and the last WR that waited for one; no further back than sq_done, when a WR was posted */
	struct mr_cache mr_cache;
	struct wr_draft draft;
	struct ibv_wq *wq;   /* it is the one behind this WQ; or NULL */
	struct steer *rules; /* RAW_PACKET: those in force, shared with the daemon; or NULL */
	size_t steer_len;
	struct rd_table *table; /* RSS; or NULL */
	uint32_t hash_fields;
	uint8_t hash_key[40];
	uint16_t max_tso_header;
	uint8_t tso_hdr[RD_TSO_HDR]; /* of the WR that is being built */

	pthread_mutex_t rq_lock;
	struct ring rq;
	uint32_t rq_done; /* atomic; WRs completed; under the receive CQ's lock */
};

static inline struct rd_qp *to_qp(struct ibv_qp *q) { return (struct rd_qp *)q; }
static inline struct rd_qp *ex_to_qp(struct ibv_qp_ex *q) { return (struct rd_qp *)q; }

static inline uint32_t qp_create_flags(const struct ibv_qp_init_attr_ex *a)
{
	return a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? a->create_flags : 0;
}

/* wq: it is the QP behind this WQ, or NULL; steps: or NULL.  NULL: errno. */
struct rd_qp *qp_make(struct ibv_context *, struct ibv_qp_init_attr_ex *, struct ibv_wq *wq, const struct msg_steps *);
const char *state_str(enum ibv_qp_state);
const char *opcode_str(unsigned int); /* of enum ibv_wr_opcode */

/* ---- post.c, wr_ex.c */

int post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **bad);
void wr_ex_ops(struct rd_qp *); /* fills in the wr_* pointers */

/* ibv_create_qp_ex() and up to MSG_STEPS times ibv_modify_qp(), by one request: all of it, or NULL and errno.  librdmacm's. */
struct ibv_qp *rdmad_create_qp(struct ibv_context *, struct ibv_qp_init_attr_ex *, const struct ibv_qp_attr *,
			       const int *mask, unsigned n);
/* The daemon has moved it on behalf of the program.  librdmacm's. */
void rdmad_qp_state(struct ibv_qp *, enum ibv_qp_state);

#endif
