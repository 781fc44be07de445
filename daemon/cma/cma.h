/* SPDX-License-Identifier: MIT */
/*
 * cma.h - the RDMA CM: ids with addresses and ports, for programs, on top of the CM agents of the devices.
 *
 *	program --cmmsg.h--> cma.c, cma_conn.c ... control thread: channels, ids, ports, services
 *				|  cma_agent.h: a lock		^  CM events, by a list and ev_async
 *				v					|
 *			cma_agent.c, proto/cm.c ... shard 0's turns: one struct cm per device
 *
 * All of this file belongs to the control thread.
 */
#ifndef DAEMON_CMA_H
#define DAEMON_CMA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <ev.h>

#include <rdmad/cmmsg.h>

#include "../../proto/cm.h"
#include "../../proto/link.h"
#include "../../proto/slots.h"
#include "../base/device.h"
#include "../base/quota.h"

struct session;

enum cma_state {
	CMA_IDLE,
	CMA_BOUND,
	CMA_ADDR_QUERY, /* the next hop is being asked for */
	CMA_ADDR_RESOLVED,
	CMA_ROUTE_RESOLVED,
	CMA_CONNECT,    /* from the REQ or SIDR_REQ on, sent or received, to the connection's end */
	CMA_DISCONNECT, /* DISCONNECTED was told */
	CMA_LISTEN,
};

/* clang-format off */
/* Numbers of enum rdma_cm_event_type, which is the library's header. */
enum cma_event_type {
	CMA_EV_ADDR_RESOLVED, CMA_EV_ADDR_ERROR, CMA_EV_ROUTE_RESOLVED, CMA_EV_ROUTE_ERROR,
	CMA_EV_CONNECT_REQUEST, CMA_EV_CONNECT_RESPONSE, CMA_EV_CONNECT_ERROR, CMA_EV_UNREACHABLE,
	CMA_EV_REJECTED, CMA_EV_ESTABLISHED, CMA_EV_DISCONNECTED, CMA_EV_DEVICE_REMOVAL,
	CMA_EV_MULTICAST_JOIN, CMA_EV_MULTICAST_ERROR, CMA_EV_ADDR_CHANGE, CMA_EV_TIMEWAIT_EXIT,
	CMA_EV_ADDRINFO_RESOLVED, CMA_EV_ADDRINFO_ERROR, CMA_EV_USER,	/* of the program's own */
};

#define CMA_OWN_EVENTS	1024u	/* of those, as many as may wait in a channel */

#define CMA_UDP_QKEY	0x01234567u	/* RDMA_UDP_QKEY */
#define CMA_LIFE	16u		/* packet life time, as newer kernels have it (protocol 7.5) */
#define CMA_HOPS	64u
/* clang-format on */

/* The owner of a channel.  The session itself is for cma_hooks: nothing here looks into it. */
struct cma_who {
	struct session *session;
	uid_t uid;
};

/* An event channel: one session. */
struct cma_channel {
	struct cma_who who;
	uint64_t key; /* cmm_rep.open.key */
	/*
	 * One end of a pipe, or of a socket: the other one is the program's, and readable while it has a token.  The library takes
	 * those that are over, as the reply says how many (cmm_rep.over).  It is not done here: who reads a socket into memory that
	 * does not answer keeps all others that read it waiting.
	 */
	int near;
	uint32_t tokens; /* one for each record, as far as there is room: each is an edge (EPOLLET) */
	uint32_t over;   /* those that no record stands behind, and no reply has told of */
	struct bill bill;
	struct link records; /* struct cma_record, in order */
	unsigned record_n;
	struct link ids;
};

struct cma_id {
	struct bill bill;
	uint32_t number;
	uint64_t cookie; /* 0: a request that was not accepted yet */
	struct cma_channel *ch;
	struct link in_channel;
	enum cma_state state;
	uint16_t ps; /* enum cm_port_space */
	uint8_t qp_type;
	bool passive;               /* made by a request */
	uint32_t told;              /* events fetched */
	struct link records;        /* of its events, in order */
	struct cma_record *request; /* that made it and was not fetched: it is nobody's, and who names it has guessed */

	union cmm_addr src, dst;
	struct device *dev; /* NULL: any */
	uint8_t sgid_index;
	uint8_t sgid[16], dgid[16]; /* with dev; dgid from ADDR_RESOLVED on */
	struct cma_port *port;
	struct link in_port;
	bool dst_here;   /* dst is an address of a device: it is reached without the host's routes */
	bool src_chosen; /* bound to any address: src and dev are what the routes say */
	bool from_here;  /* bound to localhost, which is an address that others reach: they are refused */
	bool reuse, afonly, afonly_set, timeout_set;
	uint8_t tos, timeout;

	/* CMA_ADDR_QUERY, of cma_ask.c: */
	ev_timer asking;
	ev_tstamp ask_until, ask_s;
	bool (*asked)(struct cma_id *, int err);
	struct lane *ask_lane; /* NULL: in no other state */
	struct link in_due;

	bool routed; /* the path is known: */
	uint32_t flow_label;
	uint8_t mtu, life;

	uint32_t backlog, waiting; /* listener: requests not fetched yet */
	bool full;                 /* as many as there may be: the agents refuse the next ones */
	uint32_t cm_id;            /* the agent's; 0: none */
	uint32_t sent;             /* how often its last message was, as the agent's last event says */
	struct link by_cm;
	uint32_t psn; /* own starting PSN */
	uint32_t qpn;
	struct cmm_qp qp;             /* of CMM_CONNECT */
	uint8_t resp_res, init_depth; /* what the request offered, seen from here */
	uint32_t qkey;                /* UD; 0: none yet */
	struct link groups;
};

/* An event that waits to be fetched. */
struct cma_record {
	struct link link; /* of the channel */
	struct link of_id;
	struct bill bill;
	struct cma_id *id;       /* which counts it: CONNECT_REQUEST: the listener */
	struct cma_id *fresh;    /* CONNECT_REQUEST: the new id; else NULL */
	struct cma_group *group; /* or NULL */
	struct cmm_event ev;
};

/* A multicast group that an id is in. */
struct cma_group {
	struct link link; /* of the id */
	struct bill bill;
	struct cma_id *id;
	struct cma_record *record; /* how the join went; NULL: fetched */
	uint32_t number;
	uint64_t cookie;
	uint32_t told;
	struct device *dev;
	uid_t uid;
	unsigned ifindex;
	uint8_t mgid[16];
	bool joined; /* a socket is in it for us */
};

/* ---- cma.c ----------------------------------------------------------------- */

/* After the shards and the devices' addresses are there.  0 or errno. */
int cma_start(struct ev_loop *);
/* All sessions have ended, the shards have not. */
void cma_stop(struct ev_loop *);
/*
 * A request of cmmsg.h, its length checked.  *ch: the session's channel, NULL before CMM_OPEN, which makes it.
 * *fd: goes with the reply; -1: none.  0 or errno.
 */
int cma_call(struct cma_channel **ch, const struct cma_who *, const struct cmm_req *, struct cmm_rep *, int *fd);
/* The session ends: its ids go, with DREQs and REJs as their states demand. */
void cma_channel_end(struct cma_channel *);

/* Called to tell the room above; they do nothing until control_hooks() has filled them in. */
struct cma_hooks {
	/* a request of the session failed; reason: or "" */
	void (*refused)(struct session *, unsigned op, int err, const char *reason);
	void (*event)(const struct cma_id *, unsigned type,
		      int status); /* enum cma_event_type; status as in struct cmm_event */
	/* as if the client of this session, which has a context, had made the request: 0 or errno */
	int (*verb)(struct session *, const struct msg_req *);
};
extern struct cma_hooks cma_hooks;
/* How many there are; for stats. */
extern struct cma_count {
	unsigned channels, ids, listeners, ports, groups, events;
} cma_count;

/* ---- cma_id.c -------------------------------------------------------------- */

/* NULL: no memory, or its user has as many as he may. */
struct cma_id *cma_id_new(struct cma_channel *, uint16_t ps, uint8_t qp_type);
void cma_id_destroy(struct cma_id *);
struct cma_id *cma_id_get(uint32_t number); /* NULL: no such id */
/* Tells all ids that are bound to it. */
void cma_device_gone(const struct device *);
void cma_id_info(const struct cma_id *, struct cmm_info *);
void cma_id_move(struct cma_id *, struct cma_channel *);
/* This is now the id for the agent's events of cm_id. */
void cma_id_tie(struct cma_id *, uint32_t cm_id);
/*
 * Ids that an agent has, from *at on, which begins with 0: how many of v[0..max).  *at UINT_MAX: there are no more.  Between two
 * calls ids may come and go.
 */
unsigned cma_ids_tied(unsigned *at, struct cma_id **v, unsigned max);
struct cma_id *cma_id_by_cm(const struct device *, uint32_t cm_id);

/* ---- cma_event.c ------------------------------------------------------------- */

/* Queues a record; NULL (no memory, or an id that has no events yet): nothing happens. */
struct cma_record *cma_event_put(struct cma_id *, enum cma_event_type, int status);
int cma_event_get(struct cma_channel *, struct cmm_event *); /* EAGAIN: none */
void cma_event_drop(struct cma_record *);
void cma_events_drop_id(struct cma_id *);
void cma_channel_light(struct cma_channel *);     /* its descriptor follows its list */
bool cma_channel_say(const struct cma_channel *); /* it is readable once more */
/* Takes an event of a device's agent. */
void cma_event_from_agent(struct device *, const struct cm_event *);

/* ---- cma_port.c ------------------------------------------------------------------ */

/*
 * By src: takes that port, or with 0 an ephemeral one (then written to src).  EADDRINUSE, EADDRNOTAVAIL,
 * EACCES.
 */
int cma_port_bind(struct cma_id *);
void cma_port_leave(struct cma_id *);
/* May it listen besides the others of its port? */
int cma_port_listen(struct cma_id *);
void cma_port_listens(struct cma_id *, bool); /* it does, or no longer */
/* The listener for this address on that port; NULL: none. */
struct cma_id *cma_port_find(uint16_t ps, uint16_t port, const uint8_t *gid, int family);

/* ---- cma_addr.c -------------------------------------------------------------------- */

static inline int cma_family(const union cmm_addr *a) { return a->sa.sa_family; }
uint16_t cma_addr_port(const union cmm_addr *);
void cma_addr_port_set(union cmm_addr *, uint16_t);
bool cma_addr_any(const union cmm_addr *);
bool cma_addr_ok(const union cmm_addr *); /* an IPv4 or IPv6 address */
void cma_addr_gid(const union cmm_addr *, uint8_t *gid);
void cma_addr_of_gid(union cmm_addr *, int family, const uint8_t *gid, uint16_t port, unsigned scope);
int cma_bind(struct cma_id *, const union cmm_addr *);
int cma_resolve_addr(struct cma_id *, const union cmm_addr *src, const union cmm_addr *dst, uint32_t timeout_ms);
int cma_resolve_route(struct cma_id *);
/* Row of the device's table, or -1: it has none, or is unplugged. */
int cma_row(const struct device *, const uint8_t *gid);
bool cma_gid_here(const uint8_t *gid); /* has a device of this daemon it? */

/* ---- cma_ask.c --------------------------------------------------------------------- */

void cma_ask_start(struct ev_loop *);
void cma_ask_end(void); /* no id asks any more */
/*
 * As kernels do: an address whose next hop does not answer is not resolved.  asked() is called now or later; false: it had no
 * memory.  0 or errno: ENETUNREACH, EHOSTUNREACH: there is no route.
 */
int cma_ask(struct cma_id *, uint32_t timeout_ms, bool (*asked)(struct cma_id *, int err));
void cma_ask_stop(struct cma_id *);

/* ---- cma_conn.c ---------------------------------------------------------------------- */

int cma_listen(struct cma_id *, uint32_t backlog);
void cma_unlisten(struct cma_id *);
/* The listener has room for one more request, or none. */
void cma_listen_full(struct cma_id *, bool full);
int cma_connect(struct cma_id *, const struct cmm_conn *);
int cma_accept(struct cma_id *, const struct cmm_conn *);
int cma_establish(struct cma_id *, const struct cmm_qp *);
int cma_reject(struct cma_id *, uint16_t reason, const uint8_t *data, size_t len);
int cma_disconnect(struct cma_id *);
int cma_notify(struct cma_id *, uint32_t event);
void cma_path_av(const struct cma_id *, struct av *);

/* ---- cma_qp.c -------------------------------------------------------------------------- */

int cma_qp_attrs(struct cma_id *, const uint8_t *states, unsigned n, struct cmm_attr *);
/* To RTS; with the depths of conn, if any.  0 or errno: then it has come as far as it could. */
int cma_qp_connect(struct cma_id *, const struct cmm_qp *, const struct cmm_conn *);
int cma_qp_end(const struct cma_id *, const struct cmm_qp *); /* to ERR */

/* ---- cma_mcast.c ----------------------------------------------------------------------- */

int cma_join(struct cma_id *, const union cmm_addr *, uint32_t flags, uint64_t cookie, uint32_t *group);
int cma_leave(struct cma_id *, uint32_t group, uint32_t *told);
void cma_leave_all(struct cma_id *);

#endif
