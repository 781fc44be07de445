/* SPDX-License-Identifier: MIT */
/*
 * cmmsg.h - the messages between librdmacm and the daemon: what the RDMA CM of a kernel does for its users.
 *
 * One connection of msg.h per event channel: MSG_HELLO, then CMM_OPEN, then the requests below, in turn: a
 * struct cmm_req of exactly cmm_req_len() bytes, answered by a whole struct cmm_rep.  MSG_HOLD and the like
 * may be said on it too, MSG_OPEN may not.
 *
 * CMM_OPEN hands back an end of a pipe (of a socket, if the program is neither root's nor the daemon's own user's) that is
 * rdma_event_channel.fd.  It is readable exactly while an event is
 * queued, each event is an edge, and nothing but that: the program may poll it and set O_NONBLOCK, nobody reads it.  An event is
 * fetched by CMM_GET_EVENT, which never waits: EAGAIN if there is none; then a library whose channel is not
 * O_NONBLOCK polls the pipe and asks again.
 *
 * No request waits for the network.  The answer to CMM_RESOLVE_ADDR, _RESOLVE_ROUTE, _CONNECT, _JOIN is an
 * event; it may be queued before the reply is read.
 *
 *	CREATE_ID [BIND] RESOLVE_ADDR	 ADDR_RESOLVED	   RESOLVE_ROUTE  ROUTE_RESOLVED
 *	CONNECT		  CONNECT_RESPONSE [ESTABLISH]	   (nothing more: the id is connected)
 *	CREATE_ID BIND LISTEN		 CONNECT_REQUEST (info, a new id)  ACCEPT | REJECT  ESTABLISHED
 *
 * Ids are numbers of the daemon; an id belongs to the channel that made it (or whose listener got the
 * request) until CMM_MIGRATE.  Every request that names an id must come on its channel's connection, else
 * ENOENT.  Events say the cookie that the program gave its id.  An id made by CONNECT_REQUEST has cookie 0
 * until CMM_ACCEPT gives it one; while it has none, it has no events.
 *
 * QPs are the library's: it makes them in a verbs context (device: name), in INIT as the events say.  From there on the daemon
 * moves them, with the messages of the CM; a request that fails may have moved it.
 */
#ifndef RDMAD_CMMSG_H
#define RDMAD_CMMSG_H

#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/abi.h>
#include <rdmad/msg.h>

enum cmm_op {
	CMM_BASE = 63,
#define CMM(name, row, needs, handler, call) CMM_##name,
#include <rdmad/cmmsg.def>
#undef CMM
	CMM_OPS
};

#define CMM_DATA 256u /* private data; messages have room for less, EINVAL above that (protocol 7.4) */

/* An address as sockets have it; sa.sa_family 0: none. */
union cmm_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Of one of IPv4 or IPv6. */
static inline socklen_t cmm_addr_len(const union cmm_addr *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

/* rdma_conn_param; the program's, or an event's. */
struct cmm_conn {
	uint32_t qp_num;
	uint32_t qkey; /* UD: 0 is RDMA_UDP_QKEY (or what a group joined before has) */
	uint8_t data_len;
	uint8_t srq;
	uint8_t responder_resources, initiator_depth; /* 255: as much as the device, or the event, has */
	uint8_t flow_control, retry_count, rnr_retry_count;
	uint8_t hasty;                    /* CONNECT: 1: no listener that comes later is waited for */
	uint32_t ece_vendor, ece_options; /* enhanced connection establishment; vendor 0: none.  24 bits of it */
	uint8_t data[CMM_DATA];
};

/* Of an id: route.addr, the device, the path.  Fields that are not known yet are 0. */
struct cmm_info {
	union cmm_addr src, dst;  /* ports included */
	char dev[RDMAD_NAME_LEN]; /* empty: bound to no device (a wildcard address) */
	uint64_t guid;
	uint8_t port; /* id->port_num */
	uint8_t gid_index;
	uint16_t pkey;              /* host order */
	uint8_t sgid[16], dgid[16]; /* rdma_ib_addr, path record */
	uint32_t paths;             /* route.num_paths: 1 once the route is resolved, or came with a request */
	/* The path record. */
	uint32_t flow_label;
	uint64_t service_id;
	uint8_t mtu;                               /* enum ibv_mtu */
	uint8_t hop_limit, tclass, sl, rate, life; /* life: packet life time */
	uint8_t rsv[2];
};

/* The program's QP, which the daemon moves with the request; qpn 0: there is none, or it is the program's business. */
struct cmm_qp {
	uint64_t key; /* msg_rep.open.key of its context: who knows it may */
	uint32_t qpn, rsv;
};

/* Attributes of a QP of the id for a state. */
struct cmm_attr {
	struct qp_attr attr;
	uint32_t mask; /* enum qp_attr_bit */
	uint32_t rsv;
};

/* The numbers of struct rdma_cm_event. */
struct cmm_event {
	uint64_t cookie; /* the id's; CONNECT_REQUEST: the listener's */
	uint32_t id;     /* CONNECT_REQUEST: the new id */
	uint32_t type;   /* enum rdma_cm_event_type */
	int32_t status;
	uint32_t group; /* MULTICAST_JOIN, _ERROR: rep.join.group */
	uint64_t group_cookie;
	/*
	 * UD (and multicast): qp_num, qkey, data and av are param.ud; else all but av is param.conn.
	 * data_len is that of the whole field of the message (protocol 7.11).
	 */
	uint32_t ud;   /* 1: param.ud */
	uint32_t left; /* more events wait */
	uint64_t arg;  /* of CMM_PUT_EVENT */
	struct av av;  /* sgid_index is that of info's device */
	struct cmm_conn conn;
	struct cmm_info info; /* as CMM_QUERY of id would have it now */
	struct cmm_attr init; /* for INIT; mask 0: it has to be asked for */
	/* CONNECT_RESPONSE: the QP of CMM_CONNECT is in RTS and the RTU on its way, or err; else it is for CMM_ESTABLISH. */
	struct {
		uint32_t tried;
		int32_t err;
	} qp;
};

/* clang-format off */
struct cmm_req {
	uint32_t op;			/* enum cmm_op */
	uint32_t seq;			/* echoed */
	uint32_t id;			/* what the request is about; OPEN, CREATE_ID, GET_EVENT: 0 */
	uint32_t rsv;
	union {
		uint8_t none[0]; /* no more than the id */
		struct { uint64_t cookie;
			 uint32_t ps /* enum rdma_port_space */, qp_type /* enum qp_type */; } create;
		struct { union cmm_addr addr; } bind;
		struct { union cmm_addr src, dst; uint32_t timeout_ms; } resolve;
		struct { uint32_t timeout_ms; } route;
		struct { uint32_t backlog; } listen;
		struct { uint64_t cookie; /* ACCEPT: the id's from now on; else ignored */
			 struct cmm_qp qp; /* ACCEPT: to RTS; CONNECT: when CONNECT_RESPONSE is fetched */
			 struct cmm_conn conn; } conn;	/* CONNECT, ACCEPT */
		struct cmm_qp own;	/* ESTABLISH: to RTS; DISCONNECT: to ERR */
		struct { uint8_t data_len, reason /* 0: 28, consumer defined; or 35, vendor option (ECE) */;
			 uint8_t rsv[2];
			 uint8_t data[CMM_DATA]; } reject;
		struct { uint32_t state; /* enum qp_state: INIT, RTR, RTS */ } qp;
		struct { uint32_t level, name, len /* of value */; uint8_t value[16]; } option;
		struct { uint32_t event; } notify;
		struct { uint64_t cookie; union cmm_addr addr;
			 uint32_t flags; /* enum rdma_cm_mc_join_flags */ } join;
		struct { uint32_t group; } leave;
		struct { uint64_t key; /* rep.open.key of the channel that it is on, as a proof */ } migrate;
		struct { uint64_t arg; uint32_t type; int32_t status; } put;
	};
};
/* clang-format on */

/* Bytes of a request of this op.  0: no such op. */
static inline size_t cmm_req_len(uint32_t op)
{
#define ROW(row) (offsetof(struct cmm_req, row) + sizeof(((struct cmm_req *)0)->row))
#define CMM(name, row, needs, handler, call) \
	if (op == CMM_##name)                \
		return ROW(row);
#include <rdmad/cmmsg.def>
#undef CMM
#undef ROW
	return 0;
}

/* clang-format off */
struct cmm_rep {
	uint32_t op, seq;
	int32_t err;			/* 0 or a positive errno; the rest is valid with 0 only */
	uint32_t fd_n;
	uint32_t over;			/* bytes to be taken from the channel's descriptor, also with an error; none: it is not readable for nothing */
	uint32_t rsv;
	union {
		struct { uint64_t key; /* of the channel: who knows it may take ids from it */ } open;
		struct { uint32_t id; } create;
		struct { uint32_t events; } gone;
		struct cmm_info info;
		struct cmm_attr qp;
		struct { int32_t qp_err; /* of its way to ERR; the rest is done all the same */ } end;
		struct { uint32_t group; } join;
		struct cmm_event event;
	};
};
/* clang-format on */

/*
 * Takes from the descriptor of a channel what a reply says is over, and so is there, unless the program has read it: then it is not
 * readable for events that are gone.
 */
static inline void cmm_over_take(int fd, const struct cmm_rep *rep)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint32_t left = rep->over;
	char tokens[64];
	ssize_t n;

	for (; left; left -= (uint32_t)n) {
		if (poll(&p, 1, 0) <= 0)
			break;
		n = read(fd, tokens, left < sizeof(tokens) ? left : sizeof(tokens));
		if (n <= 0)
			break;
	}
}

#endif
