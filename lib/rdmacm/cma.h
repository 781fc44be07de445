/* SPDX-License-Identifier: MIT */
/*
 * cma.h - what the library keeps behind the objects of rdma_cma.h.
 *
 * The public struct is the first member of each.  The daemon is the connection manager (rdmad/cmmsg.h);
 * here are the program's QPs, which are moved as its answers say, and the events, which are counted.
 *
 * Locks, in the order in which they may nest:
 *	ids_lock	which ids there are, by cookie
 *	id->lock	its events' counts, its groups
 *	devs_lock	which devices are open
 *	conn.lock	one request at a time on a channel
 *
 * Functions of the program return 0, or -1 and errno; those inside return 0 or an errno.
 */
#ifndef RDMACM_CMA_H
#define RDMACM_CMA_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdmad/cmmsg.h>

#include "../verbs/conn.h"

#define EXPORT     __attribute__((visibility("default")))
#define ARRAY_N(a) (sizeof(a) / sizeof((a)[0]))

#ifndef AF_IB
#define AF_IB 27
#endif

static inline int fail(int err)
{
	errno = err;
	return -1;
}

/* The result of an inner function, as the program sees it. */
static inline int result(int err) { return err ? fail(err) : 0; }

/* ---- channels --------------------------------------------------------------- */

struct chan {
	struct rdma_event_channel ch;
	struct conn conn;
	uint64_t key;   /* cmm_rep.open.key */
	uint32_t users; /* atomic; the program, and its threads that wait for events */
	bool destroyed; /* atomic */
	bool more;      /* atomic; the last event said that there is another one */
};

static inline struct chan *to_chan(struct rdma_event_channel *c) { return (struct chan *)c; }
static inline void chan_hold(struct chan *c) { __atomic_add_fetch(&c->users, 1, __ATOMIC_RELAXED); }
void chan_drop(struct chan *);

/* ---- devices ---------------------------------------------------------------- */

/* An open device; all ids on it share the context and the default PD. */
struct dev {
	struct dev *next;
	char name[RDMAD_NAME_LEN];
	pid_t owner; /* the process that opened it: after fork() the child opens its own */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;      /* of ids of XRC whose programs name none; NULL: not yet asked for */
	uint32_t refs;              /* ids on it */
	uint8_t max_resp, max_init; /* RDMA_MAX_... means these */
	bool unplugged;             /* what was opened anew since is another one, even by that name */
};

/* NULL: errno.  The name is the daemon's. */
struct dev *dev_get(const char *name);
void dev_put(struct dev *);
struct ibv_xrcd *dev_xrcd(struct dev *); /* NULL: errno */

/* ---- ids ---------------------------------------------------------------------- */

struct cma_id;

/* A multicast group that an id has joined, or is joining. */
struct group {
	struct group *next;
	uint64_t cookie;
	uint32_t handle; /* the daemon's */
	void *context;   /* the program's */
	struct sockaddr_storage addr;
	bool send_only;
	bool attached; /* the QP, to mgid */
	union ibv_gid mgid;
	uint32_t got, acked; /* events, as in struct cma_id */
};

struct cma_id {
	struct rdma_cm_id id;
	struct cma_id *next;       /* of its bucket */
	uint64_t cookie;           /* never used twice: an event after the id's end finds nothing */
	uint32_t handle;           /* the daemon's */
	bool sync;                 /* every call waits; the channel is the id's own */
	bool hasty;                /* it does not wait for a listener that comes later */
	bool removed;              /* its DEVICE_REMOVAL was given */
	bool broken;               /* its QP could not be connected: later events of that connection are not shown */
	struct dev *dev;           /* NULL: bound to none */
	uint8_t resp, init;        /* what the peer's request allows at most */
	struct cmm_attr init_attr; /* of its QP in INIT, as an event has told, or mask 0; under the lock */
	struct group *groups;
	void *connect; /* private data of rdma_getaddrinfo(), or NULL */
	size_t connect_len;
	struct ibv_qp_init_attr *qp_attr; /* of a passive endpoint: for the ids of its requests; or NULL */
	struct ibv_ece ece, remote_ece;   /* the program's, for REQ or REP; the peer's */
	struct rdma_addrinfo *resolved;   /* by rdma_resolve_addrinfo(), until it is asked for; or NULL */
	bool resolving;

	pthread_mutex_t lock;
	pthread_cond_t cond;
	uint32_t got, acked; /* events given to the program, and given back */
};

static inline struct cma_id *to_id(struct rdma_cm_id *id) { return (struct cma_id *)id; }

/* In the map of ids, not yet known to the daemon.  NULL: errno. */
struct cma_id *id_new(struct rdma_event_channel *, void *context, enum rdma_port_space, enum ibv_qp_type);
/* rdma_create_id() with a QP type. */
int id_create(struct rdma_event_channel *, struct rdma_cm_id **, void *context, enum rdma_port_space, enum ibv_qp_type);
/* The id is not in the map any more, and all its events were given back: frees the library's part of it. */
void id_free(struct cma_id *);
/* Destroys an id of the daemon for which the library has no struct. */
void handle_drop(struct chan *, uint32_t handle);
/* Takes over the daemon's information about the id.  May open the device. */
int id_update(struct cma_id *, const struct cmm_info *);

/* One request about the id, on its channel.  rep may be NULL. */
int id_call(struct cma_id *, struct cmm_req *, struct cmm_rep *rep);
int id_call_op(struct cma_id *, enum cmm_op);
int chan_call(struct chan *, struct cmm_req *, struct cmm_rep *);

/* ---- events --------------------------------------------------------------------- */

struct cma_event {
	struct rdma_cm_event event;
	struct cma_id *owner; /* whose counts it is in: the id's, for a request the listener's */
	struct group *group;  /* ... or the group's of the owner */
	uint8_t data[CMM_DATA];
};

/* Finds the id, and counts an event as given.  NULL: it is gone. */
struct cma_id *id_find_got(uint64_t cookie, uint64_t group_cookie, struct group **);
/* The same for an id of the channel that has not been told yet that its device is gone. */
struct cma_id *id_find_removed(const struct rdma_event_channel *);
/* The counts of an event that was given back. */
void id_acked(struct cma_id *, struct group *);
/* Takes the id out of the map and waits until all its events were given back. */
void id_retire(struct cma_id *);

/* A synchronous id: waits for the event that answers the call, keeps it in id->event.  0 or -1, errno. */
int id_wait(struct cma_id *);
/* Gives back the event of the last synchronous call. */
void id_event_drop(struct cma_id *);

/* ---- qps, groups ------------------------------------------------------------------- */

/* An event has told of its QP in INIT; NULL: what one has told does not hold any more. */
void init_learn(struct cma_id *, const struct cmm_attr *);
/* The id's QP, for the daemon to move it with a request. */
struct cmm_qp qp_name(const struct cma_id *);
/* It has, to that state; or an errno. */
void qp_moved(struct cma_id *, enum ibv_qp_state, int err);
void qp_to_err(struct cma_id *);

/* MULTICAST_JOIN came: attaches the id's QP.  0 or an errno. */
int group_joined(struct cma_id *, struct group *, const uint8_t *mgid);
/* All of them; the id is going. */
void groups_leave(struct cma_id *);
void groups_detach(struct cma_id *);

#endif
