/* SPDX-License-Identifier: MIT */
/*
 * objects.h - what the library keeps behind each verbs object.
 *
 * The public struct is always the first member (for a context: the last), so a handle is
 * turned into ours by to_xx().
 *
 * Locks, in the order in which they may nest:
 *	qp->sq_lock, qp->rq_lock, srq->lock	posting
 *	cq->lock				polling, and which QPs the CQ serves
 *	ctx->map_lock				which objects there are (events), which MRs
 *	conn.lock				one control request at a time
 */
#ifndef VERBS_OBJECTS_H
#define VERBS_OBJECTS_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdmad/ring.h>

#include "conn.h"
#include "mem_map.h"

/* The public names are macros where the header has inlines in front of them. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

#define EXPORT __attribute__((visibility("default")))
#define ARRAY_N(a) (sizeof(a) / sizeof((a)[0]))

static inline void *err_null(int err)
{
	errno = err;
	return NULL;
}

/* ---- device --------------------------------------------------------------- */

struct rd_device {
	struct ibv_device dev;
	/*
	 * Vendor libraries read the word behind struct ibv_device (their ops pointer) to tell whether a
	 * device is one of theirs: it must be there, and NULL.
	 */
	void *vendor[8];
	uint64_t guid;
	uint32_t index;
	struct rd_device *next;
};

/* ---- numbered objects, for events ------------------------------------------- */

enum map_kind { MAP_CQ = 1, MAP_QP, MAP_SRQ };

/* An object that an event can name.  Events carry the cookie: it is never used twice, so a late one finds
 * nothing. */
struct map_node {
	struct map_node *next;
	uint64_t cookie;
	enum map_kind kind;
	uint32_t async_got;	/* async events given to the program */
	uint32_t comp_got;	/* completion events given to the program */
};

#define MAP_BUCKETS 256u

struct rd_mr;

struct rd_ctx {
	struct conn conn;
	struct bell *bell;
	size_t bell_len;
	int kick_fd;
	pid_t opener;		/* the process that opened it */
	long refused_s;		/* atomic: refuse.c's */
	uint32_t refused_n;
	ino_t socket;		/* of conn.fd; see bye.c */
	struct rd_ctx *next;	/* of all that are open */
	bool fatal_told;	/* the program has had IBV_EVENT_DEVICE_FATAL */
	struct msg_device_attr attr;

	pthread_mutex_t map_lock;
	uint64_t cookie_last;
	struct map_node *map[MAP_BUCKETS];
	struct rd_mr *mrs[MAP_BUCKETS];	/* by lkey */
	uint32_t mr_gen; /* atomic; counts deregistrations, so that a cached MR is known to be stale */

	void *newer_ops[16];		/* ops of later headers lie in front of ours: NULL */
	struct verbs_context v;
};

static inline struct rd_ctx *to_ctx(struct ibv_context *c)
{
	return (struct rd_ctx *)((char *)c - offsetof(struct rd_ctx, v.context));
}

/* ---- bye.c ---- */
void bye_add(struct rd_ctx *);	/* it is open: its end will be told */
void bye_del(struct rd_ctx *);	/* it is being closed */

/* Wakes the shard if it sleeps; q is the queue's bell number. */
void ctx_ring(struct rd_ctx *, uint32_t q);
static inline int ctx_call(struct rd_ctx *c, struct msg_req *req, struct msg_rep *rep)
{
	return conn_call(&c->conn, req, rep, -1, NULL, 0);
}
/*
 * For the ..._FREE and _DESTROY ops.  In a forked child, which owns nothing, and when the daemon is gone,
 * with which all objects went, they do nothing and succeed.
 */
int ctx_call_id(struct rd_ctx *, enum msg_op, uint32_t handle);
/*
 * The daemon goes once round: requests run between two turns of its loop, so when the second is answered a
 * whole turn lies behind us, in which what was posted before was taken, and what could be completed at once
 * was.  Whether the request makes sense does not matter.
 */
void ctx_turn(struct rd_ctx *);
/* refuse.c: tells the daemon what the library refuses itself.  qpn: or 0.  Returns err. */
int refuse(struct rd_ctx *, uint32_t qpn, const char *verb, int err, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
const char *state_str(enum ibv_qp_state);

/* A context from the reply to MSG_OPEN or MSG_IMPORT and its four descriptors; c->conn is open.  On an error they are closed. */
int ctx_begin(struct rd_ctx *, struct ibv_device *, const struct msg_rep *, const int *fds);
/* In a forked child: a connection of its own to the same family.  0 or an errno. */
int ctx_rejoin(struct rd_ctx *);
/* Maps a descriptor that came with a reply and closes it.  NULL: errno. */
void *ctx_map(int fd, size_t len);

uint64_t map_add(struct rd_ctx *, struct map_node *, enum map_kind);
/* No event finds the object from now on; its counts are final. */
void map_del(struct rd_ctx *, struct map_node *);

/* ---- pd, mr, ah ------------------------------------------------------------ */

struct rd_td {
	struct ibv_td td;
	uint32_t users;			/* atomic; parent domains */
};

/* A PD, or a parent domain, which names one and has the same handle. */
struct rd_pd {
	struct ibv_pd pd;
	uint32_t users;			/* atomic; parent domains of a PD; objects in memory of a parent domain's allocator */
	struct rd_pd *base;		/* a parent domain's PD; NULL: this is none */
	struct rd_td *td;		/* or NULL */
	void *(*alloc)(struct ibv_pd *, void *, size_t, size_t, uint64_t);
	void (*free)(struct ibv_pd *, void *, void *, uint64_t);
	void *context;
};

static inline struct rd_pd *to_pd(struct ibv_pd *p) { return (struct rd_pd *)p; }

/* What an allocator is told that its memory is for. */
enum res_type { RES_QP = 1, RES_CQ, RES_SRQ };

/*
 * Zeroed memory for the struct of an object; pd NULL or without an allocator: libc's.  *from: what pd_free() wants to
 * have again.  NULL: errno.
 */
void *pd_calloc(struct ibv_pd *pd, size_t len, enum res_type, struct rd_pd **from);
void pd_free(struct rd_pd *from, void *, enum res_type);
struct ibv_pd *parent_domain_alloc(struct ibv_context *, struct ibv_parent_domain_init_attr *);
struct ibv_td *td_alloc(struct ibv_context *, struct ibv_td_init_attr *);
int td_dealloc(struct ibv_td *);

struct rd_mr {
	struct ibv_mr mr;
	struct rd_mr *next;
	uint64_t iova;
	uint32_t access;
	uint32_t kind;			/* enum msg_mr_kind */
	bool listed;			/* in the table by lkey */
	struct map_range range;
};

/* Where the bytes of an MR come from. */
struct mr_src {
	enum msg_mr_kind kind;
	int fd;				/* MR_DMABUF */
	uint32_t dm;			/* MR_DM: its handle */
	uint64_t off;			/* in either */
};

/* Registers it: access has been checked.  NULL: errno. */
struct ibv_mr *mr_make(struct ibv_pd *, void *addr, size_t len, uint64_t iova, unsigned access, const struct mr_src *);
/* 0 or an errno. */
int mr_access_check(unsigned access);
/* The MR of this lkey, or NULL; with ctx->map_lock held. */
struct rd_mr *mr_find(struct rd_ctx *, uint32_t lkey);
int mr_advise(struct ibv_pd *, enum ibv_advise_mr_advice, uint32_t flags, struct ibv_sge *, uint32_t n);
struct ibv_mr *mr_null(struct ibv_pd *);

struct ibv_dm *dm_alloc(struct ibv_context *, struct ibv_alloc_dm_attr *);
int dm_free(struct ibv_dm *);
struct ibv_mr *dm_reg_mr(struct ibv_pd *, struct ibv_dm *, uint64_t off, size_t len, unsigned access);


/*
 * The bytes that an sge names, if the library may read them: the lkey is of an MR of this context and covers
 * them. NULL: let the daemon find out what is wrong.  *cache, *gen: the caller's, the MR it used last.
 */
struct mr_cache {
	uint32_t lkey, gen;
	uint64_t iova, len;
	const uint8_t *addr;
};
const void *mr_bytes(struct rd_ctx *, struct mr_cache *, const struct sge *);

struct rd_ah {
	struct ibv_ah ah;
	struct av av;
};

static inline struct rd_ah *to_ah(struct ibv_ah *a) { return (struct rd_ah *)a; }

/* 0 or an errno.  On RoCE there is no address without a GRH. */
int av_from_attr(struct av *, const struct ibv_ah_attr *);
void av_to_attr(const struct av *, uint8_t port, struct ibv_ah_attr *);

/* Row of the GID table as the daemon has it; 0 or an errno (EINVAL: no such row). */
int gid_get(struct rd_ctx *, uint32_t port, uint32_t index, struct msg_gid *);

/* ---- xrcd ---- */

struct rd_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t handle;
};

static inline struct rd_xrcd *to_xrcd(struct ibv_xrcd *x) { return (struct rd_xrcd *)x; }

struct ibv_xrcd *xrcd_open(struct ibv_context *, struct ibv_xrcd_init_attr *);
int xrcd_close(struct ibv_xrcd *);

/* ---- cq -------------------------------------------------------------------- */

struct rd_qp;

/* The queue memory of a CQ.  A resize adds one; the oldest is emptied first. */
struct cq_ring {
	struct cq_ring *next;	/* newer */
	struct ring ring;
	void *mem;
	size_t len;
};

struct rd_channel {
	struct ibv_comp_channel ch;
	uint32_t handle;
};

static inline struct rd_channel *to_channel(struct ibv_comp_channel *c) { return (struct rd_channel *)c; }

#define CQ_BUCKETS 64u

struct cq_user {		/* a QP that completes here; lives in the QP */
	struct cq_user *next;
	struct rd_qp *qp;
};

struct rd_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct rd_pd *mem;	/* pd_free */
	struct map_node node;
	pthread_mutex_t lock;
	bool single;		/* IBV_CREATE_CQ_ATTR_SINGLE_THREADED: no lock */
	struct cq_ring *cur, *last;	/* the oldest, to be polled; the newest, where the daemon writes */
	struct cq_user *users[CQ_BUCKETS];	/* by QPN */
	struct rd_qp *last_qp;	/* of the last completion */
	struct cqe *now;	/* start_poll ... end_poll: the current one */
	uint32_t empty_n;	/* polls in a row that found nothing */
	uint32_t idle_n;	/* times the core was given away since something was found */
	bool gone;		/* the daemon is: nothing will come any more */
	bool deep;		/* atomic; behind the last send that was done there is work for a while */
};

static inline struct rd_cq *to_cq(struct ibv_cq *c) { return (struct rd_cq *)c; }
static inline struct rd_cq *ex_to_cq(struct ibv_cq_ex *c) { return (struct rd_cq *)c; }

static inline void cq_lock(struct rd_cq *cq)
{
	if (!cq->single)
		pthread_mutex_lock(&cq->lock);
}

static inline void cq_unlock(struct rd_cq *cq)
{
	if (!cq->single)
		pthread_mutex_unlock(&cq->lock);
}

void cq_add_qp(struct rd_cq *, struct cq_user *, struct rd_qp *);
void cq_del_qp(struct rd_cq *, struct cq_user *, struct rd_qp *);
/* The QP was reset: its completions that lie in the ring are not shown any more. */
void cq_purge(struct rd_cq *, uint32_t qpn);
/* The same for an SRQ of XRC that is no more. */
void cq_purge_srq(struct rd_cq *, uint32_t srqn);

/*
 * The next completion to show, or NULL; it stays valid until cqe_done().  The QP's accounts are settled.
 * With the lock held.
 */
struct cqe *cqe_next(struct rd_cq *);
void cqe_done(struct rd_cq *);

int cq_poll(struct ibv_cq *, int n, struct ibv_wc *);
void cq_ex_ops(struct ibv_cq_ex *);	/* fills in start_poll ... read_* */

/* ---- srq, qp --------------------------------------------------------------- */

struct rd_srq {
	struct ibv_srq srq;
	struct rd_pd *mem_pd;	/* pd_free */
	struct map_node node;
	pthread_mutex_t lock;
	struct ring ring;
	void *mem;
	size_t len;
	uint32_t bell;
	uint32_t max_wr, max_sge;
	struct rd_cq *cq;	/* of XRC: where its receives complete; else NULL */
};

static inline struct rd_srq *to_srq(struct ibv_srq *s) { return (struct rd_srq *)s; }

/* A WR being built by ibv_wr_*; see wr_build.h. */
struct wr_draft {
	struct send_wr *slot;	/* NULL: none */
	uint32_t n;		/* finished since wr_start */
	int err;		/* the first error since wr_start */
};

struct rd_flow;

typedef void (*flush_fn)(struct ibv_qp_ex *, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
                         uint8_t level);

struct rd_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
		struct {	/* as rdma-core 45 and later have it: one pointer more */
			char ex_44[offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *)];
			flush_fn wr_flush;
		};
	};
	struct map_node node;
	struct rd_ctx *ctx;
	struct rd_pd *mem_pd;	/* pd_free */
	int raw_fd;		/* RAW_PACKET: the packet socket; else -1 */
	struct rd_flow *flows;	/* of it; by priority; under rq_lock */
	uint32_t bell;
	void *mem;
	size_t len;
	struct qp_cap cap;
	bool sq_sig_all;
	bool is_ex;
	struct cq_user send_user, recv_user;

	pthread_mutex_t sq_lock;
	struct ring sq;
	uint64_t done_ns;	/* when the last of them was done; of the poller, under the lock of the send CQ */
	uint32_t sq_done; /* atomic; WRs whose completion, or a later one, was polled; written under the send
	                     CQ's lock */
	struct mr_cache mr_cache;
	struct wr_draft draft;
	struct ibv_wq *wq;		/* it is the one behind this WQ; or NULL */
	struct rules *rules;		/* RAW_PACKET: those in force, shared with the daemon; or NULL */
	size_t rules_len;
	struct rd_table *table;		/* RSS; or NULL */
	uint32_t hash_fields;
	uint8_t hash_key[40];
	uint16_t max_tso_header;
	uint8_t tso_hdr[RD_TSO_HDR];	/* of the WR that is being built */

	pthread_mutex_t rq_lock;
	struct ring rq;
	uint32_t rq_done;	/* atomic; WRs completed; under the receive CQ's lock */
};

static inline struct rd_qp *to_qp(struct ibv_qp *q) { return (struct rd_qp *)q; }
static inline struct rd_qp *ex_to_qp(struct ibv_qp_ex *q) { return (struct rd_qp *)q; }

/* 0 or an errno; EPERM: the process may not open a packet socket. */
int raw_open(struct rd_qp *);
void raw_close(struct rd_qp *);
struct ibv_flow *flow_create(struct ibv_qp *, struct ibv_flow_attr *);
int flow_destroy(struct ibv_flow *);
struct ibv_counters *counters_create(struct ibv_context *, struct ibv_counters_init_attr *);
/* RSS */
#define RSS_FIELDS	0xffu		/* of enum ibv_rx_hash_fields */
struct ibv_wq *wq_create(struct ibv_context *, struct ibv_wq_init_attr *);
int wq_destroy(struct ibv_wq *);
struct rd_qp *wq_qp(struct ibv_wq *);		/* what it is to the daemon */
int wq_modify(struct ibv_wq *, struct ibv_wq_attr *);
struct ibv_rwq_ind_table *table_create(struct ibv_context *, struct ibv_rwq_ind_table_init_attr *);
int table_destroy(struct ibv_rwq_ind_table *);
struct ibv_qp *rss_create(struct ibv_context *, struct ibv_qp_init_attr_ex *);
void rss_end(struct rd_qp *);			/* it is no more */
int counters_destroy(struct ibv_counters *);
int counters_attach(struct ibv_counters *, struct ibv_counter_attach_attr *, struct ibv_flow *);
int counters_read(struct ibv_counters *, uint64_t *, uint32_t n, uint32_t flags);

struct ibv_cq_ex *cq_create_ex(struct ibv_context *, struct ibv_cq_init_attr_ex *);
/* wq: it is the QP behind this WQ.  NULL: errno. */
struct rd_qp *qp_make(struct ibv_context *, struct ibv_qp_init_attr_ex *, struct ibv_wq *wq);
struct ibv_qp *qp_create_ex(struct ibv_context *, struct ibv_qp_init_attr_ex *);
struct ibv_srq *srq_create_ex(struct ibv_context *, struct ibv_srq_init_attr_ex *);
struct ibv_qp *qp_open(struct ibv_context *, struct ibv_qp_open_attr *);
int srq_get_num(struct ibv_srq *, uint32_t *);
int cq_req_notify(struct ibv_cq *, int solicited_only);
int cq_modify(struct ibv_cq *, struct ibv_modify_cq_attr *);

struct ibv_mw *mw_alloc(struct ibv_pd *, enum ibv_mw_type);
int mw_dealloc(struct ibv_mw *);
int rate_modify(struct ibv_qp *, struct ibv_qp_rate_limit_attr *);
int mw_bind(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *);	/* type 1 */

int post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **bad);
void wr_ex_ops(struct rd_qp *);	/* fills in the wr_* pointers */

int device_query_ex(struct ibv_context *, const struct ibv_query_device_ex_input *,
                    struct ibv_device_attr_ex *, size_t len);
int port_query(struct ibv_context *, uint8_t port, struct ibv_port_attr *, size_t len);
int rt_values_query(struct ibv_context *, struct ibv_values_ex *);

#define VENDOR_ID	0xffffffu	/* software */

/* ---- device, stub ------------------------------------------------------------ */

/* The device of that name, made or brought up to date.  Devices live as long as the process: programs keep
 * pointers. */
struct rd_device *device_intern(const struct msg_device *);
/* Fills the slots of verbs_context for which there is nothing yet. */
void stub_ops(struct verbs_context *);

#endif
