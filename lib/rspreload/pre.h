/* SPDX-License-Identifier: MIT */
/*
 * pre.h - the calls of TCP sockets, over rsockets: a library to be preloaded (rdmad-run --rsockets).
 *
 * Each stream socket of the program stays what it is, a TCP socket with the program's descriptor and options; beside it
 * there is an rsocket.  A listener listens on both.  A connection is an rsocket's if the peer has one there, and then
 * the TCP socket is only the descriptor's holder; else the rsocket is dropped, and the descriptor is one as any other.
 * Descriptors that are not in the table go straight to the C library, also the calls of the RDMA libraries below.
 *
 *	real.c		the C library's calls
 *	table.c		which descriptors have an rsocket; close, dup, fork;  held.c: by whom it is held
 *	heir.c		what a child has of its parent's listeners;  will.c: and connections;  spawn.c: without fork()
 *	bridge.c	a connection that another process has, too;  names.c: its addresses
 *	conn.c		socket ... shutdown, names;  accept.c;  peers.c: whom a client does not ask
 *	opt.c		options, flags
 *	io.c		data;  file.c: sendfile, splice, fdopen, dprintf
 *	signals.c	handlers that run while a call waits
 *	poll.c		poll, select;  epoll.c, epoll_reg.c, epoll_wait.c, epoll_idle.c (epoll.h)
 */
#ifndef RSPRELOAD_PRE_H
#define RSPRELOAD_PRE_H

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include <rdmad/clock.h>

#define EXPORT     __attribute__((visibility("default")))
#define ARRAY_N(a) (sizeof(a) / sizeof((a)[0]))

static inline int fail(int err)
{
	errno = err;
	return -1;
}

/* ---- the C library's */
struct real {
	int (*socket)(int, int, int);
	int (*bind)(int, const struct sockaddr *, socklen_t);
	int (*listen)(int, int);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	int (*shutdown)(int, int);
	int (*getsockname)(int, struct sockaddr *, socklen_t *);
	int (*getpeername)(int, struct sockaddr *, socklen_t *);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*sigaction)(int, const struct sigaction *, struct sigaction *);
	int (*fcntl)(int, int, ...);
	int (*ioctl)(int, unsigned long, ...);
	long (*syscall)(long, ...);
	pid_t (*fork)(void);
	pid_t (*vfork)(void);
	int (*posix_spawn_file_actions_adddup2)(posix_spawn_file_actions_t *, int, int);
	int (*close)(int);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
	ssize_t (*sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	int (*recvmmsg)(int, struct mmsghdr *, unsigned, int, struct timespec *);
	int (*sendmmsg)(int, struct mmsghdr *, unsigned, int);
	ssize_t (*preadv2)(int, const struct iovec *, int, off_t, int);
	ssize_t (*pwritev2)(int, const struct iovec *, int, off_t, int);
	ssize_t (*sendfile)(int, int, off_t *, size_t);
	ssize_t (*splice)(int, off64_t *, int, off64_t *, size_t, unsigned);
	FILE *(*fdopen)(int, const char *);
	int (*vdprintf)(int, const char *, va_list);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	int (*pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *);
	int (*epoll_ctl)(int, int, int, struct epoll_event *);
	int (*epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
};
extern struct real real_calls;
void real_find(void);
static inline const struct real *real(void)
{
	if (!__atomic_load_n(&real_calls.epoll_pwait, __ATOMIC_ACQUIRE)) /* the last one to be looked up */
		real_find();
	return &real_calls;
}

/* ---- signals: between these two a handler ends what waits.  A handler that waits itself is between two of its own. */
struct heed {
	unsigned all, ending; /* how many have run; of those, of such as have no SA_RESTART */
	bool on;
};
struct heed heed_begin(void);
void heed_end(const struct heed *before);
bool heed_ended(void);    /* one has run */
bool heed_restarts(void); /* a call that may be restarted goes on, behind EINTR */
/* The same of a call that may have a limit, which has none; errno. */
static inline bool heed_goes_on(int limit_ms) { return errno == EINTR && !limit_ms && heed_restarts(); }

static inline int64_t now_ns(void) { return (int64_t)clock_ns(CLOCK_MONOTONIC); }
static inline int64_t now_ms(void) { return now_ns() / 1000000; }

enum { FD_MAX = 1 << 16 }; /* descriptors from here on are the C library's alone */

/* ---- a socket of the program's that has an rsocket */

enum conn_state {
	CONN_OPEN,
	CONN_LISTEN,
	CONN_CONNECTING,
	CONN_RDMA,
	CONN_FAILED, /* it failed by RDMA and by TCP; err says why */
	CONN_TCP,    /* no rsocket any more */
};

struct reg;

/* Options that the program has set before there is an rsocket. */
enum { OPTS = 12, OPT_LEN = 16 };

struct opt {
	int level, name;
	socklen_t len;
	char val[OPT_LEN];
};

struct conn {
	uint32_t refs;    /* atomic: descriptors, calls */
	uint32_t fds;     /* descriptors; under table_lock */
	uint32_t wills;   /* children that may want it (will.c); under table_lock */
	struct reg *regs; /* where it is registered (epoll.h) */
	int end;          /* what is at its descriptors, if there is a bridge (bridge.c); else -1 */
	int rfd;          /* atomic; -1: none yet, or any more */
	int domain;
	bool accepted;
	bool local6;                /* it is at ::1, which may be another address by RDMA (rdmad-run --own) */
	pthread_mutex_t lock;       /* of what follows */
	enum conn_state state;      /* atomic */
	int err;                    /* FAILED: for SO_ERROR, once */
	bool nonblock;              /* as the program has it */
	bool told;                  /* RDMA: the program's connect() has made it; atomic */
	bool awaited;               /* LISTEN: this process has waited for it, or accepted from it; atomic */
	int recv_ms, send_ms;       /* SO_RCVTIMEO, SO_SNDTIMEO; 0: for ever */
	int64_t deadline;           /* of CONNECTING: then by TCP */
	uint32_t sends;             /* calls that sent something; atomic */
	int64_t asked_ns, there_ns; /* of a client: when it was asked for, and there; now_ns() */
	struct sockaddr_storage peer;
	socklen_t peer_len;
	struct opt opts[OPTS];
	unsigned opts_n;
};

/* Held; NULL: the descriptor is none of ours, or its rsocket was dropped. */
struct conn *conn_get(int fd);
/* The same of those that are this process' already: what is its parent's stays that. */
struct conn *conn_own(int fd);
void conn_put(struct conn *);
void conn_cancelled(void *conn);                             /* the same, of a thread that is cancelled */
struct conn *conn_new(int rfd, int domain, enum conn_state); /* held; NULL: the rsocket is the caller's */
/* The descriptor of a TCP socket gets an rsocket, which is the conn's from then on.  NULL: it has none, and that is the caller's. */
struct conn *conn_add(int fd, int rfd, int domain, enum conn_state);
static inline enum conn_state conn_state(const struct conn *c) { return __atomic_load_n(&c->state, __ATOMIC_ACQUIRE); }
static inline int conn_rfd(const struct conn *c) { return __atomic_load_n(&c->rfd, __ATOMIC_ACQUIRE); }
/* The descriptor to wait for: until there is an rsocket, the TCP socket does, which is not connected either. */
static inline int conn_look(const struct conn *c, int fd) { return conn_rfd(c) >= 0 ? conn_rfd(c) : fd; }
/* The number is closed, or is another file by now, as of one that was closed past us. */
void conn_forget(int fd);
void opts_inherit(int fd, struct conn *, struct conn *listen);
/* From now on it is one of TCP, where it is registered, too. */
void conn_drop(struct conn *);
/* Not held: whether there is one. */
struct conn *conn_at(int fd);
int conn_top(void); /* numbers from here on have none */
/* A child may want it: held, or NULL if no data go by it; no longer. */
struct conn *conn_will(int fd);
void conn_unwill(struct conn *);
void conn_hold(struct conn *);
/* The descriptors are another file from now on, which is the conn's; the rsocket is the bridge's. */
void conn_bridged(struct conn *, int end);
/* No call has it any more that began before that. */
bool conn_alone(struct conn *);
/* If the number is that of a standard stream, it is one of TCP from now on, over a bridge. */
void conn_standard(int fd);
/* CONNECTING: has it come to an end?  By TCP if it failed, or its time is up.  The thread is not cancelled meanwhile. */
void conn_progress(int fd, struct conn *);
/*
 * The same for data: 0: they go by the rsocket, or by TCP.  -1, errno: the connection has failed, or is not there yet.  The conn
 * is put if the thread is cancelled.
 */
int conn_settle(int fd, struct conn *, bool wait);
int conn_err_take(struct conn *);
/* The program waits for it: it is not left from now on.  Its state is looked at behind this. */
void listener_await(struct conn *);
/* Another process will have it, too, and may listen: what does not yet is one of TCP. */
void conn_share(int fd, struct conn *);
void conn_pass(int fd); /* to another process, whatever it is */
/* Another process will have it, too: a listener that is not awaited becomes one of TCP. */
void listener_leave(int fd, struct conn *);
/* From now on it is one of TCP. */
void listener_broken(int fd, struct conn *);
/* Those at the port of that address become listeners of TCP. */
void listeners_end(const struct sockaddr_storage *);

/* ---- peers of clients: who is connected to by TCP; locks of its own */
bool peer_by_tcp(const struct sockaddr *);
/* The host did not answer; or it did, late, that nobody comes to the listener. */
void peer_silent(const struct sockaddr *, bool left);
/* A client has sent so often, with this time. */
void peer_sent(const struct sockaddr_storage *, uint32_t sends);
/* A connection has ended: how long it took to be made, how long it lived, how often was something sent. */
void peer_lived(const struct sockaddr_storage *, int64_t made_ns, int64_t lived_ns, uint32_t sends);
struct in6_addr peer_host(const struct sockaddr *);

/* ---- bridges: calls of TCP are the connection's from then on, in all processes that have the descriptor.  0, or errno */
int bridge_open(struct conn *);
/* Of an rsocket that nobody has accepted: it comes to the listener at fd. */
void bridge_to(int fd, int rfd, int domain);
void bridges_forget(void); /* in a child */

/* ---- addresses of what goes over a bridge, by its ends */
struct names {
	int domain; /* of the socket */
	struct sockaddr_storage self, peer;
};
struct known;
struct known *names_add(int end, const struct names *); /* NULL: it will be the kernel's */
/* Of the end that a listener will accept, whose other end is bound and not connected yet. */
struct known *names_expect(const struct sockaddr_storage *listener, int inner, const struct names *);
void names_forget(struct known *);                /* or NULL */
void names_export(int end, const struct names *); /* in the environment */
bool names_of(int fd, struct names *);            /* false: it is none */
void names_child(void);
/* Of a conn that is at ::1 it is that. */
void name_local6(const struct conn *, struct sockaddr_storage *);
bool port_any(const struct sockaddr *);
/* To a program that has asked for the name of a socket of that domain. */
void name_give(int domain, const struct sockaddr_storage *from, struct sockaddr *addr, socklen_t *len);
in_port_t port_of(const struct sockaddr_storage *); /* (at the same place in both families) */

/* ---- data of a file, from there on, or, at -1, of a pipe that has them; false: the socket is one of TCP */
bool send_file(int out, int in, off_t at, size_t len, ssize_t *n);

/* ---- numbers that are more than they look like, mostly by fork() */
enum heir {
	HEIR_NONE,
	HEIR_BLOCKS,   /* a listener of the parent */
	HEIR_NONBLOCK, /* the same, which the program has made so */
	HEIR_STREAM,   /* a connection of the parent, that nothing was done with yet */
	HEIR_WILL,     /* by which it is asked for */
	HEIR_OURS,     /* of this library, for this process */
};

enum heir heir_kind(int fd);
int heir_top(void); /* numbers from here on are none */
void heir_mark(int fd, enum heir);
void heir_note(int fd, const struct conn *); /* it was one, of the parent */
int heir_keep(int fd);                       /* the same number, OURS */
void heir_close(int fd);                     /* such one */
void heir_child(void);
void heir_forget(int fd);
void heir_follow(int fd, int new);

/* ---- the connections that a child has */
pid_t will_fork(void);    /* fork(); listeners are not its */
void will_child(void);    /* a handler of that, while the table is the parent's */
void will_take(int fd);   /* something is done with it: now it is a TCP socket that is connected */
void will_leave(int fd);  /* it is closed */
void will_closed(int fd); /* WILL is */

/* ---- listeners of the parent, in a child by fork(): to what the C library's calls do there these are added */
bool heir_is(int fd); /* one */
int heir_fcntl(int fd, int cmd, void *arg);
void heir_nonblock_set(int fd, bool on);
int heir_accept(int fd, struct sockaddr *, socklen_t *, int flags);

/* ---- epoll: what happens to a descriptor that is registered there */
void reg_close(struct conn *);    /* its last descriptor is closed */
bool reg_is_ep(int fd);           /* not locked */
void reg_close_ep(int fd);        /* a descriptor is closed: it may be an epoll's */
void reg_follow(int fd, int new); /* dup(): so it may be here */
void reg_dropped(struct conn *);  /* its TCP socket takes its place; a listener's is watched, too */
/* Edge-triggered: these may be told again. */
void reg_seen(struct conn *, uint32_t events);

/* rpoll(), and of one: for ms (-1: ever).  mask: the signals that are blocked meanwhile, as of ppoll(); NULL: as before. */
int rs_poll(struct pollfd *, nfds_t, int ms, const sigset_t *mask);
int rs_poll_came(struct pollfd *, nfds_t, int ms, const sigset_t *mask, int64_t *came); /* of rdmad_rpoll() */
int rs_wait_for(int rfd, short events, int ms);
/* At the end of a wait in vain: -1, EINTR, if there are signals that mask lets through; else 0. */
int signals_take(const sigset_t *mask);
bool time_ok(const struct timespec *); /* one that a kernel takes; NULL is */

#endif
