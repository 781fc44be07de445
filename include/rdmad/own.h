/* SPDX-License-Identifier: MIT */
/* own.h - all that our libraries use of each other besides their public functions: the nodes RDMAD_1. */
#ifndef RDMAD_OWN_H
#define RDMAD_OWN_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ibv_context;
struct ibv_cq;

extern const uint32_t rdmad_verbs_abi; /* RDMAD_ABI when it was compiled */

/*
 * 0: a poll would find nothing, neither a completion nor that the daemon is gone.  Else when the first of the completions was made, in ns
 * of CLOCK_MONOTONIC, or a little more: no two of a shard have the same.
 */
int64_t rdmad_cq_since(struct ibv_cq *);

/* All that a poll which finds nothing does besides: now and then the core is given away, for up to 0.2 ms.  Hold no lock. */
void rdmad_cq_idle(struct ibv_cq *);

/*
 * The calling thread is about to sleep, beside a neighbour that computes: it goes to the daemon's core, if it may, and no other thread
 * of the program does the same.
 */
void rdmad_cq_join(struct ibv_cq *);

/* Looks whether the daemon is gone, which polls do now and then only. */
void rdmad_cq_look(struct ibv_cq *);

/*
 * A thread sleeps until a completion comes, or another thread rouses it, as nobody else is woken: cheaper than an event.  From
 * rdmad_cq_doze() on; what came before is to be looked for behind that.  rdmad_cq_sleep(): for so long, ns, below a second; 0, which
 * says nothing, EINTR or ETIMEDOUT.  Of a CQ that is neither resized nor moderated.
 */
void rdmad_cq_doze(struct ibv_cq *);
int rdmad_cq_sleep(struct ibv_cq *, int64_t ns);
void rdmad_cq_rouse(struct ibv_cq *);

/* Of librdmacm: it refuses a call of its own, and why; for `rdmactl why`.  Returns err. */
int rdmad_refused(struct ibv_context *, const char *call, int err, const char *text);

/*
 * ---- librdmacm.  As rpoll(); came has a number for each entry.  Of a stream it is another, higher one whenever there is something new to
 * read, data or an end; of two streams, what came later has the higher one.  POLLIN is told only if that is not the number any more.  -1: as ever.  Numbers of rsockets are set to what they are now.
 * masked: ppoll() is preloaded, and gives the thread another mask of signals where it sleeps: it is to sleep there.
 */
int rdmad_rpoll(struct pollfd *, nfds_t, int timeout, int64_t *came, bool masked);
/*
 * Likewise, instead of a thread that would sleep until a stream has one of the events: the descriptors (-1: none) that are readable when
 * it is to be looked at again.  Then, or before, rdmad_rs_awake().  -1: errno, EAGAIN: there is one.
 */
struct rdmad_rs_sleep {
	struct pollfd p[3];
	uint32_t gen;
};
int rdmad_rs_sleep(int fd, short events, int64_t came, struct rdmad_rs_sleep *);
void rdmad_rs_awake(int fd, struct rdmad_rs_sleep *);
/* Of librdmacm, for librspreload: how many bytes of a stream are there to be read.  -1: errno. */
int rdmad_rs_unread(int fd);
/* Likewise: how many were sent that may not have arrived yet. */
int rdmad_rs_unacked(int fd);
/*
 * Likewise: of a stream, as rsend() of so many bytes of a file, from there on, or of those that it has.  Its own offset stays.  With an
 * offset of -1, of a pipe, which has them.
 */
ssize_t rdmad_rs_sendfile(int fd, int file, off_t at, size_t len, int flags);
/*
 * Likewise: a socket of those that wait in a listener's queue, where no others come from then on; of requests none is taken.  -1: errno,
 * EAGAIN: there is none.
 */
int rdmad_rs_queued(int fd);
/* Likewise: what raccept() has given of that listener is the first in its queue again. */
void rdmad_rs_unaccept(int fd, int accepted);
/* A listener's clients need not wait for raccept() from now on; of those that are not beside a socket of TCP they never do.  -1: errno. */
int rdmad_rs_early(int fd);
/*
 * Whether a handler of the program's has run since the call that waits began, and what it makes of a call that may be restarted
 * (SA_RESTART): told by librspreload, which knows.  Calls that may not, as poll(), end with either.
 */
enum rdmad_signal { RDMAD_SIGNAL_NONE, RDMAD_SIGNAL_RESTARTS, RDMAD_SIGNAL_ENDS };
void rdmad_rs_signals(enum rdmad_signal (*ran)(void));
/* Of a stream that was accepted: whether its client, of this host, connected to ::1, which is another address here.  -1: errno. */
int rdmad_rs_local6(int fd);
/* In the type of rsocket(), by librspreload: it is beside a socket of TCP.  The program does not see it, and whom it refuses goes by TCP. */
enum { RDMAD_BESIDE_TCP = 1 << 28 };

#endif
