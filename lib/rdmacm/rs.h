/* SPDX-License-Identifier: MIT */
/*
 * rs.h - rsockets: the calls of sockets, over an RC connection.
 *
 * A socket's descriptor is that of its event channel; a table leads from it to the socket.  All that is in a
 * socket is under its lock, which is not held while a thread sleeps.  A thread is cancelled when it comes, or while it sleeps, and then
 * gives back what it holds.
 *
 *	rs_table.c	descriptors
 *	rs_link.c	buffers, QP, messages (rs_wire.h)
 *	rs_grow.c	buffers that become larger
 *	rs_wake.c	the threads that sleep on the same socket;  rs_wait.c: sleeping;  rs_spin.c: before it;  rs_signal.c
 *	rs_event.c	events of connections;  rs_conn.c: the calls that make and end them;  rs_exit.c: at exit()
 *	rs_accept.c	and those of a listener
 *	rs_io.c		data;  rs_iomap.c: data to where the peer says
 *	rs_poll.c	rpoll, rselect;  rs_epoll.c: repoll_wait
 *	rs_opt.c	options, flags, names;  rs_local.c: localhost
 *	rs_svc.c	the library's own thread, for work that no call of the program's does
 *	rs_ds.c		datagram sockets (rs_ds.h)
 */
#ifndef RDMACM_RS_H
#define RDMACM_RS_H

#include "cma.h"
#include "rs_wire.h"

#include <poll.h>
#include <rdma/rsocket.h>

#include <rdmad/loopback.h>
#include <rdmad/own.h>

enum rs_state {
	RS_NEW,
	RS_LISTEN,
	RS_ADDR,
	RS_ROUTE,
	RS_CONNECTING, /* of rconnect() */
	RS_ACCEPTING,  /* the REP is sent; neither RTU nor data has come */
	RS_CONNECTED,
	RS_CLOSED, /* no more from or to the peer; what has come can be read */
	RS_FAILED, /* never was connected */
};

/* A circular buffer: used bytes from tail.  It may grow (rs_grow.c) to most. */
struct rs_ring {
	uint8_t *mem;
	uint32_t size, used, tail, most;
	bool full; /* it was, since it last grew */
};

/* Options, by rsetsockopt() until the connection is made; values in bytes or pieces. */
struct rs_opts {
	uint32_t sq_size, rq_size, inline_max, iomap_n, rcvbuf, sndbuf;
	bool rcvbuf_set, sndbuf_set; /* by the program: they stay as they are */
	int reuse, v6only, nodelay, keepalive, oobinline, keep_idle, keep_intvl, keep_cnt;
	struct linger linger;
};

/* Memory of this side that riomap() opened to the peer. */
struct rs_iomap_mr {
	struct rs_iomap_mr *next;
	struct ibv_mr *mr;
	void *buf;
	size_t len;
	int64_t index; /* of the peer's iomap; -1: for local use only */
};

struct ds;

struct rsock;

/* For a listener whose program does not come; has it waited for that?  When it is to be called again, of rs_now_ms(). */
typedef int64_t rs_early(struct rsock *, bool waited);

/* Of rs_svc.c, under its lock. */
struct rs_svc {
	struct rsock *next;
	bool on;          /* in the list */
	bool connects;    /* atomic: events of its connection are taken */
	rs_early *early;  /* of a listener; atomic */
	int64_t early_at; /* when it is to be called again; 0: if something has come */
	int64_t due;      /* atomic; of rs_now_ms(): when to say that we are alive; INT64_MAX: never */
};

/* Sockets that were accepted before the program asked: of a listener the first one, of such one the next. */
struct rs_queue {
	union {
		struct rsock *first, *next;
	};
	uint32_t n, most;
};

struct rs_link {
	struct ibv_comp_channel *cc;
	struct ibv_cq *cq;
	bool armed;
	uint8_t *mem; /* all of it (rs_link.c) */
	size_t mem_len;
	struct ibv_mr *mr;

	/* to the peer */
	struct rs_peer peer;
	volatile struct rs_sge *sgl; /* RS_SGL_N, written by the peer: where the next data may go */
	struct rs_sge cur;           /* of these, the one in use */
	uint32_t sgl_next;
	uint16_t seq, seq_max; /* data messages sent; may be sent */
	struct rs_ring send;
	uint32_t sq_free, ctl_free, ctl_next;
	struct rs_iomap *ctl; /* RS_CTL_N: what is in flight of control messages */
	struct {
		uint32_t msgs, bytes;
	} quiet; /* data messages behind the last that has a completion */

	/* from the peer */
	struct rs_ring recv;
	uint32_t freed;     /* bytes that were read and not granted again */
	uint32_t give_at;   /* the half that is granted next */
	uint32_t peer_sge;  /* in which entry of the peer's */
	uint16_t got, told; /* data messages; how many had come at the last grant */
	int64_t since;      /* what is taken now was there; of rdmad_cq_since() */

	size_t grown; /* bytes, of both buffers */

	volatile struct rs_iomap *iomap; /* written by the peer; iomap_n */
	struct rs_iomap_mr *maps;        /* of this side; by entry of the peer's */
};

struct rsock {
	int fd;
	pid_t owner;
	uint32_t refs; /* atomic: the table, and calls */
	pthread_mutex_t lock;
	int cancel; /* of rs_lock(): the thread's cancelability when it came */
	enum rs_state state;
	int err; /* why it failed; shown once by SO_ERROR */
	bool nonblock;
	bool beside_tcp;       /* RDMAD_BESIDE_TCP */
	bool localhost;        /* the program's word for where it is bound, or connects to */
	bool to_local6;        /* it connects to ::1 */
	bool rd_shut, wr_shut; /* by rshutdown() */
	bool peer_shut;        /* the peer sends no more */
	bool spilt; /* CLOSED: what was sent is lost, or what came: it did not end, or something was sent behind that */
	int64_t came;     /* when there was something new to read, in ns, or later (rdmad_rpoll) */
	bool end_said;    /* at exit(): nothing is sent behind it */
	int64_t taken_ms; /* of the thread that is in exit(): since when another one has the lock; 0: it has not */
	int domain;
	struct rs_opts opts;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct rs_link link;
	bool linked;   /* there is a QP */
	bool held;     /* it is in SQD: the peer is not known to be ready for what is posted */
	struct ds *ds; /* of a datagram socket, which has neither ch nor id; of a stream NULL */
	struct rs_svc svc;
	struct rs_queue queue;
	bool awaited;     /* LISTEN: the program comes to it, sooner or later; atomic */
	int64_t leave_at; /* the thread's: what waits then is refused; 0: nothing does */

	int kick;                      /* eventfd: wakes the threads that sleep; -1 */
	uint32_t gen, sleepers, stale; /* sleepers since the last kick; those that have not seen it */
	uint32_t dozers;               /* threads in rs_doze() */
	uint32_t news;                 /* times that something has happened */
	int64_t looked_ms;             /* at the channel; of rs_io.c's clock */
};

enum { RS_CTL_N = 4, RS_CHUNK = 64 << 10, RS_FDS = 3, RS_RESOLVE_MS = 2000 };

/* ---- table */
struct rsock *rs_new(int domain, int type, bool beside_tcp); /* not in the table; NULL: errno */
int rs_add(struct rsock *);
struct rsock *rs_get(int fd);    /* held; NULL: EBADF; EIO: it is the parent's of a forked child */
struct rsock *rs_lock(int fd);   /* held and locked, by a thread that is not cancelled; NULL: as rs_get() */
bool rs_close_inherited(int fd); /* the descriptors of one that is the parent's; false: it is not */
static inline void rs_hold(struct rsock *rs) { __atomic_add_fetch(&rs->refs, 1, __ATOMIC_RELAXED); }
void rs_put(struct rsock *);
void rs_unlock_put(struct rsock *);
void rs_del(struct rsock *); /* not in the table any more */
/* For each in the table, which is locked; false: it is already. */
bool rs_each(void (*fn)(struct rsock *, void *), void *arg);

/* ---- link; 0 or an errno */
int rs_link_open(struct rsock *);
void rs_link_close(struct rsock *);
void rs_link_hello(const struct rsock *, struct rs_hello *);
int rs_link_peer(struct rsock *, const void *data, size_t len);
/* Takes what has completed: how many. */
int rs_progress(struct rsock *);
/* The same for who asks again and again, and never sleeps: now and then the core is given away. */
int rs_progress_busy(struct rsock *);
/* Grants what is free; rightly called at any time. */
void rs_grant(struct rsock *);
bool rs_can_send(struct rsock *);
bool rs_sent_all(const struct rsock *); /* that has a completion, as a control message for all before it */
/* One message of at most len bytes that are in iov from *skip; how many were taken, or -1, errno. */
ssize_t rs_push(struct rsock *, const struct iovec *iov, size_t skip, size_t len);
/* The same of a file's, from there on; 0: it ends there. */
ssize_t rs_push_file(struct rsock *, int file, off_t at, size_t len);
/* A write of len bytes to where the peer mapped them; without a message. */
ssize_t rs_push_to(struct rsock *, const void *buf, size_t len, uint64_t addr, uint32_t key);
int rs_push_ctl(struct rsock *, uint32_t msg, const void *data, size_t len, uint64_t addr, uint32_t key);
void rs_push_alive(struct rsock *); /* a write of nothing: an answer has to come */
void rs_break(struct rsock *, int err);
void rs_peer_ready(struct rsock *); /* of an accepted one: what is held goes out */
/* ---- growing: what a buffer of that size, by the program's word or not, may become; bytes */
uint32_t rs_grow_most(uint32_t size, bool set);
void rs_grow_send(struct rsock *); /* before it is looked at for room */
void rs_grow_recv(struct rsock *); /* a half of it is free */
void rs_grow_end(struct rsock *);  /* the buffers are gone */

/* ---- accepting: listens, and the thread does what the program does not come for */
void rs_accept_begin(struct rsock *, int backlog);
struct rsock *rs_accept_queued(struct rsock *); /* one that is accepted, or NULL */

/* ---- signals */
enum rdmad_signal rs_signal(void); /* as rdmad_rs_signals() has it */
/* ppoll() with the mask that is; EINTR also where such a handler has run before it sleeps. */
int rs_ppoll(struct pollfd *, nfds_t, const struct timespec *, enum rdmad_signal least);

/* ---- names */
/* Of a call for localhost: is it, beside TCP, an address of loopback here, too? */
bool rs_keeps_name(const struct rsock *, const struct sockaddr *here);

/* May a call with these flags wait? */
static inline bool rs_waits(const struct rsock *rs, int flags) { return !rs->nonblock && !(flags & MSG_DONTWAIT); }

/* ---- connections: events that wait are taken; how many */
int rs_events(struct rsock *);
static inline bool rs_connects(const struct rsock *rs) { return rs->state >= RS_ADDR && rs->state <= RS_CONNECTING; }
/* Whether what is sent goes to the peer, now or when it is ready. */
static inline bool rs_sends(const struct rsock *rs) { return rs->state == RS_CONNECTED || rs->state == RS_ACCEPTING; }
/*
 * Beside TCP a peer that has closed is one that sends no more, until something was sent to it: that is lost, and what comes behind it is
 * EPIPE.
 */
static inline bool rs_half(const struct rsock *rs)
{
	return rs->beside_tcp && rs->state == RS_CLOSED && !rs->wr_shut && !rs->spilt;
}
struct rdma_conn_param rs_conn_param(struct rs_hello *); /* for rdma_connect() and rdma_accept(); points to the hello */

/*
 * ---- waiting; after rs_lock().  0 or an errno (EINTR; ETIMEDOUT at until, of rs_now_ns()).  A thread that is cancelled there gives the
 * socket back by rs_unlock_put().
 */
int rs_wait(struct rsock *);
int rs_wait_until(struct rsock *, int64_t until);
/* Sleeps on several: how many descriptors were set in p (RS_FDS at most), 0 if there is news already. */
int rs_sleep_begin(struct rsock *, struct pollfd *p, uint32_t *gen);
void rs_sleep_end(struct rsock *, const struct pollfd *p, int n, uint32_t gen);
bool rs_sleep_channel(const struct pollfd *p); /* something has come for the channel */
int rs_doze(struct rsock *, int64_t until); /* sleeps first so: 0, and all is to be looked at again; ETIMEDOUT: else */
void rs_wake(struct rsock *);               /* something has happened that others may wait for */
uint32_t rs_sleeper_add(struct rsock *);    /* the generation, for rs_sleeper_gone() */
void rs_sleeper_gone(struct rsock *, uint32_t gen);

/*
 * Looking instead of sleeping.  rs_spin_again() returns when it is time for the next look; false: for sleeping.  Not locked; it is
 * done for this one, which is held and linked.
 */
struct rs_spin {
	int64_t start; /* ns */
	bool over;
};
void rs_spin_begin(struct rs_spin *);
bool rs_spin_again(struct rs_spin *, const struct rsock *);

/* ---- poll(): what is true now.  Locked */
short rs_ready(struct rsock *, short events);

/* ---- the thread: reads what comes by UDP (ds_udp_work), connects, says that we are alive at due.  0 or an errno */
int64_t rs_now_ns(void);
int64_t rs_now_ms(void);
int rs_svc_add(struct rsock *, int64_t due);
void rs_svc_del(struct rsock *);     /* not locked; the thread is done with it */
void rs_svc_connect(struct rsock *); /* until it is connected, or has failed; if no thread can be had, it is not */
void rs_svc_connected(struct rsock *);
void rs_svc_listen(struct rsock *, rs_early *); /* as long as it is open */
void rs_keep_update(struct rsock *);            /* options have changed */
void rs_keep_work(struct rsock *, int64_t now);

/* ---- datagrams: what each call does for such a socket.  Locked, but for ds_open, ds_free and ds_udp_work */
int ds_open(struct rsock *); /* 0 or an errno; rs->fd is made */
void ds_free(struct rsock *);
void ds_close_fds(const struct rsock *); /* nothing else of it */
void ds_close(struct rsock *);
int ds_connect(struct rsock *, const struct sockaddr *, socklen_t); /* 0 or an errno */
ssize_t ds_send(struct rsock *, const struct msghdr *, int flags);
ssize_t ds_recv(struct rsock *, struct msghdr *, int flags);
int ds_progress(struct rsock *);
short ds_ready(struct rsock *, short events);
bool ds_arm(struct rsock *); /* false: there was news */
void ds_event_take(struct rsock *);
int ds_sleep_fd(const struct rsock *);
bool ds_has_qp(const struct rsock *); /* sizes are fixed */
void ds_udp_work(struct rsock *);

#endif
