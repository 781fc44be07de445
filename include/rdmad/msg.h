/* SPDX-License-Identifier: MIT */
/*
 * msg.h - the control messages between a program (or rdmactl, rdmad-run) and the daemon.
 *
 * A SOCK_SEQPACKET unix socket; one connection per verbs context.  One request, one
 * reply, in turn: a struct msg_req of exactly msg_req_len() bytes, answered by a whole
 * struct msg_rep.  File descriptors come with SCM_RIGHTS.  A request that is too
 * short, too long or of an unknown op is answered with EINVAL and leaves the connection up.
 *
 * Where the daemon is: $RDMAD_SOCKET if set (a path, or @name for an abstract
 * socket); else RDMAD_SYSTEM_SOCKET; else the abstract socket @rdmad.<uid>, where a
 * private daemon of that user listens (abstract names belong to a network
 * namespace, so no daemon of another one can be met by mistake).  Each side checks
 * the other's uid (SO_PEERCRED): the program takes a daemon of root or of itself.
 */
#ifndef RDMAD_MSG_H
#define RDMAD_MSG_H

#include <stddef.h>
#include <stdint.h>

#include <rdmad/abi.h>

#define RDMAD_SYSTEM_SOCKET	"/run/rdmad/rdmad.sock"
#define RDMAD_PRIVATE_SOCKET	"@rdmad.%u"	/* uid */
#define RDMAD_NAME_LEN		64
#define RDMAD_GIDS		64		/* rows of the GID table of a device */

enum msg_op {
	MSG_HELLO = 1,		/* first on every connection; version check */
	MSG_HOLD,		/* a private daemon lives as long as a connection holds it */
	MSG_DEVICE_LIST,
	MSG_OPEN,		/* makes this connection a verbs context.  fds back: bell page, kick eventfd, async event socket, token socket */
	MSG_QUERY_DEVICE,
	MSG_QUERY_PORT,		/* row gid: port */
	MSG_QUERY_GID,		/* EINVAL: no such row; an empty row is answered with a GID of zeros */
	MSG_PD_ALLOC,
	MSG_PD_FREE,
	MSG_MR_REG,		/* fd with it (optional): a memfd sealed against shrinking that holds the memory */
	MSG_MR_DEREG,
	MSG_MR_REREG,		/* as MSG_MR_REG, for the MR mr.handle, which keeps its keys */
	MSG_CHANNEL_CREATE,	/* fd back: a pipe's read end; each event is the 8 bytes of the CQ's cookie */
	MSG_CHANNEL_DESTROY,
	MSG_CQ_CREATE,		/* fd back: memfd with the ring */
	MSG_CQ_RESIZE,		/* fd back: the new ring, with the old one's arm word.  Completions published before the reply are in the old one */
	MSG_CQ_DESTROY,
	MSG_SRQ_CREATE,		/* fd back: memfd with the ring.  The daemon leaves slots in it while the core's SRQ is full */
	MSG_SRQ_MODIFY,
	MSG_SRQ_QUERY,
	MSG_SRQ_DESTROY,
	MSG_QP_CREATE,		/* fd back: memfd with the SQ ring and, behind it, the RQ ring.  RAW_PACKET: fd with it, a packet socket */
	MSG_QP_MODIFY,		/* to RESET: the daemon takes what is in the rings and drops it; cqe.wqe goes on counting as if it was done */
	MSG_QP_QUERY,
	MSG_QP_DESTROY,
	MSG_MCAST_ATTACH,
	MSG_MCAST_DETACH,
	MSG_DUMP,		/* fd back: a memfd with JSON text */
	MSG_MW_ALLOC,		/* a memory window, not bound */
	MSG_MW_FREE,
	MSG_IMPORT,		/* as MSG_OPEN: a context of the family whose token it is (struct msg_token) */
	MSG_PD_IMPORT,		/* is there such a PD in the family? */
	MSG_MR_IMPORT,		/* the same; rep.obj: its keys */
	MSG_DM_ALLOC,		/* device memory.  fd back: a memfd that holds it */
	MSG_DM_IMPORT,		/* rep.dm.  fd back: the same memfd */
	MSG_DM_FREE,		/* EBUSY while MRs are on it */
	MSG_CQ_MODERATE,
	MSG_BYE,		/* the context ends by the will of its program, not because it was killed; nobody reads the reply */
	MSG_XRCD_OPEN,		/* fd with it, if shared: the file that names the domain */
	MSG_XRCD_CLOSE,		/* id */
	MSG_QP_OPEN,		/* one more holder of a receiving QP of XRC; MSG_QP_DESTROY gives it up */
	MSG_QP_RATE,		/* rate limit */
	MSG_CAPTURE,		/* this connection captures packets until it ends.  fds back: a memfd, the spool (lab/spool.h); an eventfd: look at it */
	MSG_RAW_RULES,		/* of a RAW_PACKET QP.  fd with it: see rules.h; without one: none any more.  What it replaces is not written to any more */
	MSG_REFUSED,		/* the library has refused a verb itself: why, for rdmactl why */
	MSG_FAULT,		/* rules for packets come or go (rdmad-fault(5)).  FAULT_ADD: fd with it, a memfd with their text */
	MSG_OPS
};

#define MSG_CAPTURE_QPS 16

/*
 * Contexts of a family share their PDs, MRs and device memory (ibv_import_device).  The token socket, which is
 * ibv_context.cmd_fd, carries one record, the token, which is only peeked at: who has a copy of the
 * descriptor can join the family.
 */
struct msg_token { uint8_t v[16]; };

/* What the memory of an MR is. */
enum msg_mr_kind {
	MR_MEM,			/* the program's; with ACC_ON_DEMAND it need not be there yet */
	MR_NULL,		/* none: reads as zeros, what is written is dropped.  addr, len, iova are not looked at */
	MR_DM,			/* device memory mr.dm, from mr.map_off on; addr is not looked at */
	MR_DMABUF,		/* the fd's, a dma-buf or a memfd that cannot shrink, from mr.map_off on; likewise */
};

enum msg_fault { FAULT_ADD = 1, FAULT_CLEAR };

#define DUMP_TRAINS 1u	/* TRACE: from now on, as long as this connection is there, each train */

enum msg_dump { DUMP_DEVICES = 1, DUMP_QPS, DUMP_STATS, DUMP_ENDS /* contexts and QPs that are no more */,
		DUMP_WHY /* what went wrong */, DUMP_TRACE /* the flight recorder, from where this connection left off */,
		DUMP_FAULTS };

struct msg_device {
	char name[RDMAD_NAME_LEN];
	uint64_t guid;		/* as a number, the most significant byte first on the wire */
	uint32_t index;
	uint32_t ports;
};

struct msg_device_attr {	/* of struct ibv_device_attr what is not a constant of the library */
	uint64_t guid;
	uint64_t max_mr_size;
	uint32_t max_qp, max_qp_wr, max_sge, max_cq, max_cqe, max_mr, max_pd;
	uint32_t max_rd_atom, max_res_rd_atom, max_ah, max_srq, max_srq_wr, max_srq_sge;
	uint32_t max_inline, max_mcast_grp, max_mcast_qp_attach;
	uint32_t comp_vectors;
	uint32_t max_mw;
	uint32_t max_dm;	/* bytes of device memory, at most, in one piece */
	char fw_ver[RDMAD_NAME_LEN];
};

struct msg_port_attr {
	uint8_t state;		/* enum ibv_port_state: 1 down, 4 active */
	uint8_t max_mtu, active_mtu;	/* enum ibv_mtu */
	uint8_t phys_state;	/* 3 disabled, 2 polling, 5 link up */
	uint8_t active_speed, active_width;
	uint8_t rsv[2];
	uint32_t gid_n;		/* rows of the GID table */
	uint32_t pkey_n;
	uint32_t max_msg;
	uint32_t bad_pkey, qkey_viol;
};

struct msg_gid {
	uint8_t gid[16];	/* all zero: the row is empty */
	uint32_t index;
	uint32_t ndev_ifindex;
	uint32_t type;		/* enum ibv_gid_type: 2, RoCE v2 */
	uint32_t rsv;
};

/* ---- requests ---------------------------------------------------------- */

struct msg_req {
	uint32_t op;		/* enum msg_op */
	uint32_t seq;		/* echoed */
	union {
		struct { uint32_t abi; uint32_t pid; char prog[56]; uint64_t run; /* $RDMAD_RUN: which rdmad-run it belongs to; 0: none */ } hello;
		struct { char name[RDMAD_NAME_LEN]; } open;
		struct { uint32_t port; uint32_t index; } gid;
		struct { uint32_t pd; uint32_t access; uint64_t addr, len, iova;
			 uint64_t map_addr, map_len, map_off; /* with an fd: which part of the region it holds */
			 uint32_t handle, kind /* enum msg_mr_kind */, dm, rsv; } mr;
		struct { uint32_t handle; uint32_t rsv; } id;	/* ..._FREE, _DEREG, _DESTROY, SRQ_QUERY, QP_QUERY (handle: qpn) */
		struct { uint32_t cqe; uint32_t channel; /* 0: none */ uint64_t cookie; uint32_t vector, rsv; } cq;
		struct { uint32_t handle; uint32_t cqe; } cq_resize;
		struct { uint32_t pd, max_wr, max_sge, limit; uint64_t cookie; uint32_t xrcd, cq; /* 0: not of XRC */ } srq;
		struct { uint32_t handle, mask /* 1 max_wr, 2 limit */, max_wr, limit; } srq_mod;
		struct { uint32_t pd, send_cq, recv_cq, srq /* 0: none */; struct qp_cap cap; uint32_t type, sq_sig_all; uint32_t xrcd; /* XRC_RECV */ uint32_t wq; /* RAW_PACKET: a WQ; it has no packet socket */ uint64_t cookie; } qp;
		struct { uint32_t qpn, mask; struct qp_attr attr; } qp_mod;
		struct { uint32_t qpn; uint32_t lid; uint8_t gid[16]; } mcast;
		struct { uint32_t what; uint32_t qpn; /* WHY, TRACE: of that QP only, 0: of all */ uint32_t flags, rsv; } dump;
		struct { uint32_t pd; uint32_t type; /* 1 or 2 */ } mw;
		struct { struct msg_token token; } import;
		struct { uint64_t len; uint32_t log_align, rsv; } dm;
		struct { uint32_t handle, count, period_us, rsv; } moderate;	/* count 0 or 1, period 0: each completion */
		struct { uint32_t shared; uint32_t oflags; /* O_CREAT, O_EXCL */ } xrcd;
		struct { uint32_t qpn, xrcd; uint64_t cookie; } qp_open;
		struct { uint32_t qpn, err; char verb[48], text[144]; } refused;	/* qpn: or 0 */
		struct { uint32_t what, id /* CLEAR: 0 all */; uint32_t keep /* they stay when this connection ends */, seeded; uint64_t seed; } fault;
		struct { uint32_t qpn, kbps, burst /* bytes */, rsv; } rate;
		struct { uint32_t devices;	/* bit per index; 0: all */
			 uint32_t snaplen;	/* bytes of UDP payload kept of each packet; 0: all */
			 uint32_t room;		/* bytes for each shard */
			 uint32_t qpn_n, qpn[MSG_CAPTURE_QPS]; /* only what these send and get; 0: all */ } capture;
	};
};

/* Bytes of a request of this op: the head and its row.  0: no such op. */
static inline size_t msg_req_len(uint32_t op)
{
#define ROW(row) (offsetof(struct msg_req, row) + sizeof(((struct msg_req *)0)->row))
	switch (op) {
	case MSG_HELLO: return ROW(hello);
	case MSG_HOLD: case MSG_DEVICE_LIST: case MSG_QUERY_DEVICE: case MSG_PD_ALLOC: case MSG_CHANNEL_CREATE: case MSG_BYE:
		return offsetof(struct msg_req, hello);
	case MSG_OPEN: return ROW(open);
	case MSG_QUERY_PORT: case MSG_QUERY_GID: return ROW(gid);
	case MSG_MR_REG: case MSG_MR_REREG: return ROW(mr);
	case MSG_PD_FREE: case MSG_MR_DEREG: case MSG_CHANNEL_DESTROY: case MSG_CQ_DESTROY: case MSG_SRQ_QUERY:
	case MSG_SRQ_DESTROY: case MSG_QP_QUERY: case MSG_QP_DESTROY:
		return ROW(id);
	case MSG_CQ_CREATE: return ROW(cq);
	case MSG_CQ_RESIZE: return ROW(cq_resize);
	case MSG_SRQ_CREATE: return ROW(srq);
	case MSG_SRQ_MODIFY: return ROW(srq_mod);
	case MSG_QP_CREATE: return ROW(qp);
	case MSG_QP_MODIFY: return ROW(qp_mod);
	case MSG_MCAST_ATTACH: case MSG_MCAST_DETACH: return ROW(mcast);
	case MSG_DUMP: return ROW(dump);
	case MSG_MW_ALLOC: return ROW(mw);
	case MSG_IMPORT: return ROW(import);
	case MSG_PD_IMPORT: case MSG_MR_IMPORT: case MSG_DM_IMPORT: case MSG_DM_FREE: return ROW(id);
	case MSG_DM_ALLOC: return ROW(dm);
	case MSG_CQ_MODERATE: return ROW(moderate);
	case MSG_MW_FREE: case MSG_XRCD_CLOSE: return ROW(id);
	case MSG_XRCD_OPEN: return ROW(xrcd);
	case MSG_QP_OPEN: return ROW(qp_open);
	case MSG_RAW_RULES: return ROW(id);
	case MSG_FAULT: return ROW(fault);
	case MSG_QP_RATE: return ROW(rate);
	case MSG_CAPTURE: return ROW(capture);
	case MSG_REFUSED: return ROW(refused);
	}
#undef ROW
	return 0;
}

/* ---- replies ----------------------------------------------------------- */

struct msg_rep {
	uint32_t op, seq;
	int32_t err;		/* 0 or a positive errno; the rest is valid with 0 only */
	uint32_t fd_n;
	union {
		struct { uint32_t abi; uint32_t pid; char version[RDMAD_NAME_LEN]; } hello;
		struct { uint32_t n; uint32_t rsv; struct msg_device dev[32]; } devices;
		struct { uint32_t bell_len; uint32_t ctx; struct msg_device dev; } open;
		struct msg_device_attr device;
		struct msg_port_attr port;
		struct msg_gid gid;
		struct { uint32_t handle; uint32_t lkey, rkey; uint32_t rsv; } obj;	/* PD, MR, channel */
		struct { uint32_t handle, rsv; uint64_t len; } dm;
		struct { uint32_t handle; uint32_t slots, stride; uint32_t cqe; uint64_t map_len; } cq;
		struct { uint32_t handle; uint32_t slots, stride; uint32_t bell;
			 uint32_t max_wr, max_sge, limit, rsv; uint64_t map_len; } srq;
		struct { uint32_t qpn; uint32_t bell; uint32_t sq_slots, sq_stride, rq_slots, rq_stride; uint64_t rq_off;
			 uint64_t map_len; struct qp_cap cap; uint32_t rsv; } qp;
		struct { struct qp_attr attr; struct qp_cap cap; uint32_t sq_sig_all; } qp_query;
		struct { uint64_t len; } dump;
		struct { uint64_t len; } capture;
		struct { uint32_t n, wrong, line; char text[240]; } fault;	/* wrong: nothing was added, for this reason */
	};
};

/* What the async event socket carries (SOCK_SEQPACKET, one record a message). */
struct msg_event {
	uint32_t type;		/* enum event_type */
	uint32_t port;		/* port events */
	uint64_t cookie;	/* of the QP, CQ or SRQ concerned */
};

#endif
