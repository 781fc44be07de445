/* SPDX-License-Identifier: MIT */
/*
 * msg.h - the control messages between a program (or rdmactl, rdmad-run) and the daemon.
 *
 * A SOCK_SEQPACKET unix socket; one connection per verbs context.  One request, one
 * reply, in turn: a struct msg_req of exactly msg_req_len() bytes, answered by a whole
 * struct msg_rep.  File descriptors come with SCM_RIGHTS.  Those without may go by shared memory (mail.h).  A request that is too
 * short, too long or of an unknown op is answered with EINVAL and leaves the connection up.
 *
 * A daemon without a descriptor or memory for the client cannot wait for its request: it hangs up, and says so before, in a reply to
 * nothing (MSG_NONE) of ENFILE or ENOMEM.
 *
 * Where the daemon is: $RDMAD_SOCKET if set (a path, or @name for an abstract
 * socket); else RDMAD_SYSTEM_SOCKET; else the abstract socket @rdmad.<uid>, where a
 * private daemon of that user listens (abstract names belong to a network
 * namespace, so no daemon of another one can be met by mistake).  Each side checks
 * the other's uid (SO_PEERCRED): the program takes a daemon of root or of itself, or at the system's
 * socket one of the user to whom root gave that directory.
 */
#ifndef RDMAD_MSG_H
#define RDMAD_MSG_H

#include <stddef.h>
#include <stdint.h>

#include <rdmad/abi.h>

#define RDMAD_SYSTEM_DIR     "/run/rdmad"
#define RDMAD_SYSTEM_SOCKET  RDMAD_SYSTEM_DIR "/rdmad.sock"
#define RDMAD_PRIVATE_SOCKET "@rdmad.%u" /* uid */
#define RDMAD_NAME_LEN       64
#define PROFILE_NAME_LEN     32u
#define RDMAD_GIDS           64 /* rows of the GID table of a device */
#define RDMAD_DEVICES        32u

enum msg_op {
	MSG_NONE,
#define MSG(name, row, needs, handler, verb) MSG_##name,
#define MSG_FREE(name, object, verb)         MSG_##name,
#include <rdmad/msg.def>
#undef MSG
#undef MSG_FREE
	MSG_OPS
};

/* Advice to who is told ENFILE by a daemon. */
#define MSG_NO_FD_HINT "end programs, or raise LimitNOFILE (systemd) or ulimit -n where it is started"
/* Of a thread or process that cannot be made. */
#define MSG_NO_TASK_HINT "; raise TasksMax (systemd), pids.max (a container's) or ulimit -u"

#define MSG_CAPTURE_QPS 16
#define MSG_RUNS        4

/* $RDMAD_RUN: the rdmad-runs that a program belongs to, the innermost first; 0: none. */
struct msg_runs {
	uint64_t id[MSG_RUNS];
};

/*
 * Contexts of a family share their PDs, MRs and device memory (ibv_import_device).  The token socket, which is
 * ibv_context.cmd_fd, carries one record, the token, which is only peeked at: whoever has a copy of the
 * descriptor can join the family.
 */
struct msg_token {
	uint8_t v[16];
};

/* The kind of memory of an MR. */
enum msg_mr_kind {
	MR_MEM,    /* the program's; with ACC_ON_DEMAND it need not be there yet */
	MR_NULL,   /* none: reads as zeros, what is written is dropped.  addr, len, iova are not looked at */
	MR_DM,     /* device memory mr.dm, from mr.map_off on; addr is not looked at */
	MR_DMABUF, /* the fd's, a dma-buf or a memfd that cannot shrink, from mr.map_off on; likewise */
};

#define MSG_STEPS 3u /* states that a QP is taken through by one request */

/* As many of MSG_QP_MODIFY, one after the other. */
struct msg_steps {
	uint32_t n, rsv;
	struct {
		uint32_t mask, rsv;
		struct qp_attr attr;
	} v[MSG_STEPS];
};

enum msg_impair { IMPAIR_ADD = 1, IMPAIR_CLEAR };

#define DUMP_BURSTS 1u /* TRACE: from now on, as long as this connection is there, each burst */

enum msg_dump {
	DUMP_DEVICES = 1,
	DUMP_QPS,
	DUMP_STATS,
	DUMP_ENDS /* contexts and QPs that are no more */,
	DUMP_WHY /* what went wrong */,
	DUMP_TRACE /* the flight recorder, from where this connection left off */,
	DUMP_IMPAIR,
	DUMP_USERS /* what each user has of the daemon, and may have; a user sees himself */
};

struct msg_device {
	char name[RDMAD_NAME_LEN];
	uint64_t guid; /* as a number, the most significant byte first on the wire */
	uint32_t index;
	uint32_t node, transport; /* enum ibv_node_type, enum ibv_transport_type */
	uint32_t rsv;
	char board[32], hca_type[32];
};

struct msg_device_attr { /* of struct ibv_device_attr what is not a constant of the library */
	uint64_t guid, sys_guid;
	uint64_t no; /* features that it is without: feature.h */
	uint64_t max_mr_size;
	uint32_t vendor_id, part_id, hw_ver;
	uint32_t max_msg; /* bytes of a message */
	uint32_t max_sge_rd, max_init_rd_atom;
	uint32_t max_qp, max_qp_wr, max_sge, max_cq, max_cqe, max_mr, max_pd;
	uint32_t max_rd_atom, max_res_rd_atom, max_ah, max_srq, max_srq_wr, max_srq_sge;
	uint32_t max_inline, max_mcast_grp, max_mcast_qp_attach;
	uint32_t comp_vectors;
	uint32_t max_mw;
	uint32_t max_dm; /* bytes of device memory, at most, in one piece */
	uint32_t max_pkeys;
	uint32_t gid_pairs; /* rows 0, 2, ... of the GID table are those of RoCE v1, and mean the ones behind them */
	uint32_t lids;      /* its port has a LID, and peers may be addressed by theirs */
	char fw_ver[RDMAD_NAME_LEN];
	char profile[PROFILE_NAME_LEN]; /* empty: rdmad's own */
};

struct msg_port_attr {
	uint8_t state;               /* enum ibv_port_state: 1 down, 4 active */
	uint8_t max_mtu, active_mtu; /* enum ibv_mtu */
	uint8_t phys_state;          /* 3 disabled, 2 polling, 5 link up */
	uint8_t active_speed, active_width;
	uint8_t link_layer; /* IBV_LINK_LAYER_ */
	uint8_t rsv;
	uint32_t gid_n; /* rows of the GID table */
	uint32_t pkey_n;
	uint32_t max_msg;
	uint32_t bad_pkey, qkey_viol;
	uint32_t lid;            /* 0: this port has none */
	uint16_t pkey[RD_PKEYS]; /* pkey_n of them, in host order */
};

struct msg_gid {
	uint8_t gid[16]; /* all zero: the row is empty */
	uint32_t index;
	uint32_t ndev_ifindex;
	uint32_t type; /* enum ibv_gid_type: 2, RoCE v2 */
	uint32_t rsv;
};

/* ---- requests ---------------------------------------------------------- */

/* clang-format off */
struct msg_req {
	uint32_t op;		/* enum msg_op */
	uint32_t seq;		/* echoed */
	union {
		uint8_t none[0]; /* no more than op and seq */
		struct { uint32_t abi; uint32_t pid; char prog[32]; struct msg_runs runs; } hello; /* of this size in all versions, which tell each other theirs */
		struct { char name[RDMAD_NAME_LEN]; } open;
		struct { uint32_t port; uint32_t index; } gid;
		struct { uint32_t pd; uint32_t access; uint64_t addr, len, iova;
			 uint64_t map_addr, map_len, map_off; /* with an fd: which part of the region it holds */
			 uint32_t handle, kind /* enum msg_mr_kind */, dm, seg /* MR_MEM: that part is in the SysV segment of this id + 1, and there may be no fd; 0: in none */; } mr;
		struct { uint32_t handle; uint32_t lost; /* of a queue: its descriptor, or that of its slab, has not arrived */ } id;	/* ..._FREE, _DEREG, _DESTROY, SRQ_QUERY, QP_QUERY (handle: qpn), CQ_SWAP, DEVICE_LIST */
		struct { uint32_t cqe; uint32_t channel; /* 0: none */ uint64_t cookie; uint32_t vector, times; /* its completions say when they were made */ } cq;
		struct { uint32_t handle; uint32_t cqe; } cq_resize;
		struct { uint32_t handle, rsv; uint64_t cookie; } cq_event;
		struct { uint32_t pd, max_wr, max_sge, limit; uint64_t cookie; uint32_t xrcd, cq; /* 0: not of XRC */ } srq;
		struct { uint32_t handle, mask /* 1 max_wr, 2 limit */, max_wr, limit; } srq_mod;
		struct { uint32_t pd, send_cq, recv_cq, srq /* 0: none */; struct qp_cap cap; uint32_t type; uint16_t sq_sig_all, not_own; /* UD: its datagrams to groups do not come back to it */ uint32_t xrcd; /* XRC_RECV */ uint32_t wq; /* RAW_PACKET: a WQ; it has no packet socket */ uint64_t cookie; struct msg_steps steps; } qp;
		struct { uint32_t qpn, mask; struct qp_attr attr; } qp_mod;
		struct { uint32_t qpn, rsv; struct msg_steps steps; } qp_steps;
		struct { uint32_t qpn; uint32_t lid; uint8_t gid[16]; } mcast;
		struct { uint32_t what; uint32_t qpn; /* WHY, TRACE: of that QP only, 0: of all */ uint32_t flags, rsv; } dump;
		struct { uint32_t pd; uint32_t type; /* 1 or 2 */ } mw;
		struct { struct msg_token token; } import;
		struct { uint64_t len; uint32_t log_align, rsv; } dm;
		struct { uint32_t handle, count, period_us, rsv; } moderate;	/* count 0 or 1, period 0: each completion */
		struct { uint32_t shared; uint32_t oflags; /* O_CREAT, O_EXCL */ } xrcd;
		struct { uint32_t qpn, xrcd; uint64_t cookie; } qp_open;
		struct { uint32_t qpn, err, profile /* because of it */, rsv; char verb[48], text[144]; } refused;	/* qpn: or 0 */
		struct { uint32_t what, id /* CLEAR: 0 all */; uint32_t keep /* they stay when this connection ends */, seeded; uint64_t seed; } impair;
		struct { uint32_t qpn, kbps, burst /* bytes */, rsv; } rate;
		struct { uint32_t qpn, dm, ops /* bit per enum cntr_op */, bytes /* are counted, not requests */; uint64_t off; /* in the DM, of struct comp_cntr */ } count;
		struct { uint32_t devices;	/* bit per index; 0: all */
			 uint32_t snaplen;	/* bytes of UDP payload kept of each packet; 0: all */
			 uint32_t room;		/* bytes for each shard */
			 uint32_t qpn_n, qpn[MSG_CAPTURE_QPS]; /* only what these send and get; 0: all */ } capture;
	};
};
/* clang-format on */

/* Bytes of a request of this op: the head and its row.  0: no such op. */
static inline size_t msg_req_len(uint32_t op)
{
#define ROW(row) (offsetof(struct msg_req, row) + sizeof(((struct msg_req *)0)->row))
#define MSG(name, row, needs, handler, verb) \
	if (op == MSG_##name)                \
		return ROW(row);
#define MSG_FREE(name, object, verb) \
	if (op == MSG_##name)        \
		return ROW(id);
#include <rdmad/msg.def>
#undef MSG
#undef MSG_FREE
#undef ROW
	return 0;
}

/* ---- replies ----------------------------------------------------------- */

/*
 * Where the memory of a queue lies.  Queues of a context share slabs, which it maps as a whole: the descriptor comes
 * with the first queue that lies in one, and if it is lost on the way (RLIMIT_NOFILE), the program ends the queue and says
 * so (id.lost).  A slab goes on when its queues are gone, until the reply to a request that ends one says so (gone).
 */
struct msg_mem {
	uint64_t slab; /* its number, never used twice; 0: memory of its own, with a descriptor */
	uint64_t off;  /* of the queue in it */
	uint64_t all;  /* bytes of the slab */
};

/* clang-format off */
struct msg_rep {
	uint32_t op, seq;
	int32_t err;		/* 0 or a positive errno; the rest is valid with 0 only */
	uint32_t fd_n;
	union {
		struct { uint32_t abi; uint32_t pid; char version[RDMAD_NAME_LEN]; } hello;
		struct { uint32_t n; uint32_t rsv; struct msg_device dev[1]; } devices; /* how many there are; the one that was asked for */
		struct { uint32_t bell_len; uint32_t ctx; struct msg_device dev; uint64_t key; /* of struct cmm_qp */ } open;
		struct msg_device_attr device;
		struct msg_port_attr port;
		struct msg_gid gid;
		struct { uint32_t handle; uint32_t lkey, rkey; uint32_t rsv; } obj;	/* PD, MR, channel */
		struct { uint32_t handle, rsv; uint64_t len; } dm;
		struct { uint32_t handle; uint32_t slots, stride; uint32_t cqe; uint64_t map_len; struct msg_mem mem; } cq;
		struct { uint32_t handle; uint32_t slots, stride; uint32_t bell;
			 uint32_t max_wr, max_sge, limit, rsv; uint64_t map_len; struct msg_mem mem; } srq;
		struct { uint32_t qpn; uint32_t bell; uint32_t sq_slots, sq_stride, rq_slots, rq_stride; uint64_t rq_off;
			 uint64_t map_len; struct msg_mem mem; struct qp_cap cap; uint32_t rsv; } qp;
		struct { uint64_t slab; } gone;	/* ..._DESTROY: the slab that has ended with the queue; 0: none */
		struct { struct qp_attr attr; struct qp_cap cap; uint32_t sq_sig_all; } qp_query;
		struct { uint64_t mbps; } speed;
		struct { uint64_t len; } capture;
		struct { uint32_t n, wrong, line; char text[240]; } impair;	/* wrong: nothing was added, for this reason */
	};
};
/* clang-format on */

/* A message of the async event socket (SOCK_SEQPACKET, one record a message). */
struct msg_event {
	uint32_t type;   /* enum event_type */
	uint32_t port;   /* port events */
	uint64_t cookie; /* of the QP, CQ or SRQ concerned */
};

#endif
