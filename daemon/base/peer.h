/* SPDX-License-Identifier: MIT */
/*
 * peer.h - the memory of the program that a client is.
 *
 * A client opens its own /proc/self/mem and sends the descriptor when it opens a context.  So its memory is reached with
 * the client's rights, whatever those of the daemon are: the descriptor stands for the memory of the program that
 * asked, in whatever namespace, not for a pid; and it is of no use once that program ended or another one (set-user-ID
 * perhaps) runs in its place.
 *
 * process_vm_readv and _writev, which name a process by its pid, copy once where a descriptor copies twice.  They are for a
 * daemon that serves its own user, and for programs that may do all that the daemon may.
 */
#ifndef DAEMON_PEER_H
#define DAEMON_PEER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct copier;
struct cost;

struct peer {
	pid_t pid;      /* > 0: by pid, as long as the kernel lets us */
	pid_t own;      /* its pid, if it is a program of our own user, whom this daemon is for; else 0 */
	int mem_fd;     /* otherwise; -1: it cannot be reached (EPERM) */
	bool gone;      /* atomic: its context is closed, nobody watches the pid any more: ESRCH */
	unsigned users; /* peer_make */
	uid_t uid;
	gid_t gid;
	unsigned seg;          /* what segment_prove() waits for */
	struct copier *copier; /* who has mem_fd then */
};

/*
 * Gives up the right to trace other users' processes; before there are threads.  own: this daemon is for one user.
 * 0 or errno.
 */
int peer_begin(bool own);

/*
 * mem_fd: what a client sent, which is taken over if 0 is returned, or -1: what is not mapped stays out of reach.  EINVAL: it is not the
 * memory of a process, open for reading and writing.  EPERM: whether it is cannot be found out, as the client is in a
 * PID namespace that cannot be seen from here.
 */
int peer_open(struct peer *, const struct ucred *who, int mem_fd);
void peer_close(struct peer *);
/* Before its memory is reached: another user's gets a copier.  0 or errno; EAGAIN: too many of them (copier.h). */
int peer_ready(struct peer *);

/* Adds what its copier takes, if it may get one. */
void peer_cost(const struct peer *, struct cost *);

/* The same, allocated, and shared by who takes it; control thread. */
int peer_make(struct peer **, const struct ucred *who, int mem_fd);
struct peer *peer_take(struct peer *);
void peer_drop(struct peer *); /* NULL: nothing */

#endif
