/* SPDX-License-Identifier: MIT */
/*
 * abi.h - what a program and the daemon say to each other in shared memory.
 *
 * The numbers of opcodes, statuses, flags and attribute bits are those of the
 * verbs (lib/verbs/abi_check.c asserts each one against verbs.h), so that the
 * libraries pass them on unchanged.  proto/, which may not include verbs.h,
 * takes them from here: these structs are the work requests and completions of
 * the HCA core as well as the layout of a ring slot.
 *
 * All fields are in host byte order unless said otherwise; a length is in bytes.
 */
#ifndef RDMAD_ABI_H
#define RDMAD_ABI_H

#include <stddef.h>
#include <stdint.h>

#define RDMAD_ABI 30u /* raised whenever a layout in this file or msg.h changes */

#define RD_MAX_SGE     32u        /* scatter/gather entries of one work request */
#define RD_MAX_INLINE  1024u      /* bytes of inline data of one work request */
#define RD_MAX_TSO     65536u     /* payload of one WR_TSO */
#define RD_TSO_HDR     176u       /* and the headers in front of it */
#define RD_MAX_MSG     (1u << 31) /* the longest message */
#define RD_MAX_WR      16384u     /* the deepest send, receive or shared receive queue */
#define RD_MAX_CQE     (1u << 20) /* the largest completion queue */
#define RD_MAX_DM      (1u << 20) /* the largest piece of device memory */
#define RD_RATE_MIN    64u        /* the lowest rate limit of a QP, kbit/s */
#define RD_MAX_RD_ATOM 128u       /* outstanding reads and atomics of a QP, either side */
#define QPN_MASK       0xffffffu  /* numbers of queue pairs and SRQs have 24 bits */
#define RD_PKEYS       16u        /* rows of a port's P_Key table, at most */
#define PKEY_DEFAULT   0xffffu    /* row 0: the default partition, as a full member */

/* ---- work requests ---------------------------------------------------- */

enum wr_op { /* enum ibv_wr_opcode */
#define WR(name, code, kind, packet, on, data, len, right, wc, text) WR_##name = code,
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC
};

enum wr_flag { /* enum ibv_send_flags */
	       WR_FENCE = 1,
	       WR_SIGNALED = 2,
	       WR_SOLICITED = 4,
	       WR_INLINE = 8,
	       WR_IP_CSUM = 16,
};

struct sge { /* struct ibv_sge */
	uint64_t addr;
	uint32_t len;
	uint32_t lkey;
};

#define AV_OTHER_PD 0xffu /* the address handle is of another protection domain than the QP: LOC_QP_OP_ERR (C10-10) */

/* The address vector: where a QP's peer is, or where a datagram goes. */
struct av {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint8_t sgid_index; /* or AV_OTHER_PD */
	uint8_t hop_limit;  /* 0 is sent as 64 */
	uint8_t tclass;
	uint8_t sl;
};

/*
 * A send work request.  In a ring slot, and in hca_post_send(), it is followed
 * by sge_n struct sge and then by inline_len bytes of data.
 *
 * With inline_len - but for WR_TSO - the data was copied when it was posted and the sge are only
 * checked (WR_INLINE: there are none).  Without it the data is where the sge say.
 */
struct send_wr {
	uint64_t wr_id;
	uint8_t op;    /* enum wr_op */
	uint8_t flags; /* enum wr_flag */
	uint16_t sge_n;
	uint32_t imm; /* immediate data as the program gave it (network order), or the key to invalidate */
	uint32_t inline_len;
	uint32_t rkey;
	uint64_t remote_addr;
	union {
		struct {
			uint64_t compare_add;
			uint64_t swap;
		} atomic;
		struct {
			uint32_t dqpn;
			uint32_t qkey;
			struct av av;
		} ud;
		struct {                 /* WR_BIND_MW: rkey is the window's new key, remote_addr where it begins */
			uint64_t len;    /* 0: it is unbound */
			uint32_t lkey;   /* of the region */
			uint32_t access; /* enum access_flag */
		} bind;
		struct { /* XRC_SEND: which SRQ of the peer's domain; beside the atomics' operands */
			uint64_t atomic[2];
			uint32_t srqn;
		} xrc;
		struct {                /* WR_FLUSH */
			uint64_t len;   /* of the range */
			uint32_t type;  /* placement: 1 global visibility, 2 persistence, or both */
			uint32_t level; /* 0 the range, 1 the whole region */
		} flush;
		struct { /* WR_TSO: of the inline_len bytes, all are headers; the payload is where the sge say */
			uint32_t mss;
		} tso;
		uint64_t raw[4];
	};
};

/*
 * Bytes behind struct send_wr in a slot: the sge and behind them RD_SMALL bytes at least, so that the
 * library can copy a small send instead of having the daemon fetch it; or the inline data.  The core's
 * queue holds as much.
 */
#define RD_SMALL RD_TSO_HDR
static inline uint32_t send_tail_len(uint32_t max_sge, uint32_t max_inline)
{
	uint32_t len = max_sge * (uint32_t)sizeof(struct sge) + RD_SMALL;

	return ((len > max_inline ? len : max_inline) + 63u) & ~63u;
}

/* A receive work request; in a slot followed by sge_n struct sge. */
struct recv_wr {
	uint64_t wr_id;
	uint32_t sge_n;
	uint32_t rsv;
};

/* ---- completions ------------------------------------------------------ */

enum wc_status { /* enum ibv_wc_status */
		 WC_SUCCESS = 0,
		 WC_LOC_LEN_ERR = 1,
		 WC_LOC_QP_OP_ERR = 2,
		 WC_LOC_EEC_OP_ERR = 3,
		 WC_LOC_PROT_ERR = 4,
		 WC_WR_FLUSH_ERR = 5,
		 WC_MW_BIND_ERR = 6,
		 WC_BAD_RESP_ERR = 7,
		 WC_LOC_ACCESS_ERR = 8,
		 WC_REM_INV_REQ_ERR = 9,
		 WC_REM_ACCESS_ERR = 10,
		 WC_REM_OP_ERR = 11,
		 WC_RETRY_EXC_ERR = 12,
		 WC_RNR_RETRY_EXC_ERR = 13,
		 WC_FATAL_ERR = 19,
		 WC_RESP_TIMEOUT_ERR = 20,
		 WC_GENERAL_ERR = 21,
};

enum wc_op { /* enum ibv_wc_opcode */
#define WR(name, code, kind, packet, on, data, len, right, wc, text)
#define WC(name, code, text) WC_OP_##name = code,
#include <rdmad/wr.def>
#undef WR
#undef WC
};

enum wc_flag { /* enum ibv_wc_flags */
	       WC_GRH = 1,
	       WC_WITH_IMM = 2,
	       WC_IP_CSUM_OK = 4,
	       WC_WITH_INV = 8,
};

/* A completion: a slot of a CQ ring, and what hca_completion() hands out. */
struct cqe {
	uint64_t wr_id;
	uint64_t time_ns; /* monotonic; when the completion was made */
	uint32_t qpn;
	uint32_t byte_len; /* received bytes (UD: with the 40 of the GRH), or bytes read */
	uint32_t imm;      /* network order, or the invalidated rkey */
	uint32_t src_qp;   /* UD */
	uint32_t
		wqe; /* send: how many WRs of this SQ are done with this one, counted from the QP's creation, mod 2^32 */
	uint32_t vendor_err; /* 0, or the row of proto/fault.def plus 1 */
	uint8_t status;      /* enum wc_status */
	uint8_t op;          /* enum wc_op */
	uint8_t flags;       /* enum wc_flag */
	uint8_t solicited;   /* wakes a CQ armed for solicited completions only (errors do, too) */
	uint8_t is_send;     /* of the send queue: wqe is valid */
	uint8_t srq;         /* receive: the WR came from a shared receive queue; 2: from one of XRC */
	uint16_t pkey_index;
	uint32_t cqn; /* which CQ (of use to the daemon only) */
	uint8_t sl;
	uint8_t rsv;
	uint16_t slid; /* UD, of a port with LIDs: the sender's, or 0 */
	uint32_t srqn; /* with srq: which */
	uint32_t nth;  /* of the completions of this shard that have this time_ns */
};

/* ---- objects and their attributes -------------------------------------- */

enum qp_type { /* enum ibv_qp_type */
	       QPT_RC = 2,
	       QPT_UC = 3,
	       QPT_UD = 4,
	       QPT_RAW = 8,
	       QPT_XRC_SEND = 9,
	       QPT_XRC_RECV = 10,
};

enum qp_state { /* enum ibv_qp_state */
		QPS_RESET = 0,
		QPS_INIT = 1,
		QPS_RTR = 2,
		QPS_RTS = 3,
		QPS_SQD = 4,
		QPS_SQE = 5,
		QPS_ERR = 6,
};

enum access_flag { /* enum ibv_access_flags */
		   ACC_LOCAL_WRITE = 1,
		   ACC_REMOTE_WRITE = 2,
		   ACC_REMOTE_READ = 4,
		   ACC_REMOTE_ATOMIC = 8,
		   ACC_MW_BIND = 16,
		   ACC_ZERO_BASED = 32,
		   ACC_ON_DEMAND = 64,
		   ACC_HUGETLB = 128,
		   ACC_FLUSH_GLOBAL = 256,
		   ACC_FLUSH_PERSISTENT = 512,
		   ACC_RELAXED_ORDERING = 1 << 20,
};

enum qp_attr_bit { /* enum ibv_qp_attr_mask */
		   QPA_STATE = 1 << 0,
		   QPA_CUR_STATE = 1 << 1,
		   QPA_EN_SQD_ASYNC_NOTIFY = 1 << 2,
		   QPA_ACCESS_FLAGS = 1 << 3,
		   QPA_PKEY_INDEX = 1 << 4,
		   QPA_PORT = 1 << 5,
		   QPA_QKEY = 1 << 6,
		   QPA_AV = 1 << 7,
		   QPA_PATH_MTU = 1 << 8,
		   QPA_TIMEOUT = 1 << 9,
		   QPA_RETRY_CNT = 1 << 10,
		   QPA_RNR_RETRY = 1 << 11,
		   QPA_RQ_PSN = 1 << 12,
		   QPA_MAX_QP_RD_ATOMIC = 1 << 13,
		   QPA_ALT_PATH = 1 << 14,
		   QPA_MIN_RNR_TIMER = 1 << 15,
		   QPA_SQ_PSN = 1 << 16,
		   QPA_MAX_DEST_RD_ATOMIC = 1 << 17,
		   QPA_PATH_MIG_STATE = 1 << 18,
		   QPA_CAP = 1 << 19,
		   QPA_DEST_QPN = 1 << 20,
		   QPA_RATE_LIMIT = 1 << 25,
};

/* Of a Q_Key: in a work request it means the queue pair's own (protocol 4.11); a kernel gives such a one to the privileged only. */
#define QKEY_PRIVILEGED 0x80000000u

struct qp_attr {
	struct av av;
	uint32_t qkey;
	uint32_t rq_psn; /* 24 bits */
	uint32_t sq_psn; /* 24 bits */
	uint32_t dest_qpn;
	uint32_t access;     /* enum access_flag */
	uint32_t rate_limit; /* kbit/s */
	uint16_t pkey_index;
	uint8_t state; /* enum qp_state */
	uint8_t cur_state;
	uint8_t path_mtu; /* enum ibv_mtu: 1 = 256 ... 5 = 4096 */
	uint8_t port;
	uint8_t timeout; /* 4.096 us * 2^timeout; 0: never */
	uint8_t retry_cnt;
	uint8_t rnr_retry;     /* 7: for ever */
	uint8_t min_rnr_timer; /* code of protocol table 4.4 */
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining; /* query only */
	uint8_t rsv[6];
};

struct qp_cap { /* struct ibv_qp_cap */
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
};

enum event_type { /* enum ibv_event_type */
		  EV_CQ_ERR = 0,
		  EV_QP_FATAL = 1,
		  EV_QP_REQ_ERR = 2,
		  EV_QP_ACCESS_ERR = 3,
		  EV_COMM_EST = 4,
		  EV_SQ_DRAINED = 5,
		  EV_DEVICE_FATAL = 8,
		  EV_PORT_ACTIVE = 9,
		  EV_PORT_ERR = 10,
		  EV_SRQ_ERR = 14,
		  EV_SRQ_LIMIT = 15,
		  EV_QP_LAST_WQE = 16,
		  EV_GID_CHANGE = 18,
};

/* ---- completion counters ----------------------------------------------- */

enum cntr_op { /* the bits of enum ibv_qp_attach_comp_cntr_op */
	       CNTR_SEND,
	       CNTR_RECV,
	       CNTR_READ,
	       CNTR_REMOTE_READ,
	       CNTR_WRITE,
	       CNTR_REMOTE_WRITE,
	       CNTR_OPS
};
/* REMOTE_READ is not: a READ whose answer was lost reads once more, so nobody could say when it is done. */
#define CNTR_HAS (1u << CNTR_SEND | 1u << CNTR_RECV | 1u << CNTR_READ | 1u << CNTR_WRITE | 1u << CNTR_REMOTE_WRITE)

/* Lies in device memory.  The daemon adds to it, the program reads, sets and adds: cntr.h. */
struct comp_cntr {
	uint64_t done;   /* requests, or their bytes */
	uint64_t failed; /* requests */
};

/* ---- queue memory ------------------------------------------------------ */

/*
 * A ring: one producer, one consumer, both in shared memory.  prod and cons
 * run freely (mod 2^32); slot i lives at (i & (slots - 1)) * stride behind
 * the header.  The producer writes prod, the consumer cons; ring.h is the only
 * place that touches them.
 */
struct ring_hdr {
	uint32_t slots;  /* a power of two; for information: each side keeps its own copy */
	uint32_t stride; /* bytes */
	uint8_t pad0[56];
	_Alignas(64) uint32_t prod;
	uint32_t rung; /* send queue: the program's; of several of a context, those with the lowest are served first */
	_Alignas(64) uint32_t cons;
	uint32_t done;             /* SRQ: how many of its receives have completed; written as cons is */
	_Alignas(64) uint32_t arm; /* CQ: enum cq_arm */
	uint32_t err;              /* CQ: 1 after an overrun.  QP: enum qp_state, as the daemon last set it */
	uint32_t dozes;            /* CQ: 1: threads of the program sleep on this word until there is a completion */
};                                 /* 256 bytes; slots follow */

enum cq_arm { CQ_ARM_NONE = 0, CQ_ARM_SOLICITED = 1, CQ_ARM_ANY = 2 };

/*
 * The bell page of a context: which queues have new work.  Bit q of word[] says
 * that queue q has been posted to; bit w of sum[] says that word[w] is not zero.
 * idle is not 0 while the daemon does not look at this page, as it sleeps or as the
 * context was silent for a while, and tells how it is kicked.  A poster that finds it
 * so puts BELL_KICKING and a number of its own to it, kicks, and turns what it put to
 * 0; one that finds that somebody is kicking kicks, too.  For receives a daemon that
 * sleeps is kicked only if it would not look here when it wakes (away), or if the
 * queue pair is in ERR.
 */
enum bell_idle {
	BELL_AWAKE = 0,
	BELL_FD = 1,      /* 8 bytes to the context's eventfd */
	BELL_FUTEX = 2,   /* idle itself is the futex */
	BELL_HOW = 3,     /* these bits */
	BELL_KICKING = 4, /* with one of the two; above it the number */
};
#define BELL_QUEUES 65536u
struct bell {
	_Alignas(64) uint32_t core; /* 1 + the core that the shard runs on, a hint; 0: it does not say */
	uint32_t dead;              /* 1: the device was unplugged, the context is of no use any more */
	uint32_t naps;              /* a futex: 1 while threads of the program sleep until there is a completion */
	uint32_t kicker;            /* the program's: 1 + the core of who kicked, a hint; 0: it does not say */
	uint64_t sum[BELL_QUEUES / 4096]; /* from the last to the first: bell_sum() */
	uint32_t idle;
	uint32_t kicks; /* the program's: numbers for BELL_KICKING */
	uint32_t away;  /* 1: the daemon, awake or not, does not look at this page until it is kicked */
	uint32_t ask;   /* the program's: a CQ that it has armed while completions were there; 0: none */
	uint64_t word[BELL_QUEUES / 64];
};

_Static_assert(sizeof(struct sge) == 16, "struct sge is struct ibv_sge");
_Static_assert(sizeof(struct av) == 24, "struct av");
_Static_assert(sizeof(struct send_wr) == 64, "struct send_wr");
_Static_assert(sizeof(struct recv_wr) == 16, "struct recv_wr");
_Static_assert(sizeof(struct cqe) == 64, "a completion is one cache line");
_Static_assert(sizeof(struct comp_cntr) == 16, "struct comp_cntr");
_Static_assert(sizeof(struct ring_hdr) == 256, "struct ring_hdr");
_Static_assert(offsetof(struct bell, idle) == 144 && offsetof(struct bell, word) == 160,
	       "what the first queues use is one cache line");

#endif
