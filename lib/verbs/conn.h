/* SPDX-License-Identifier: MIT */
/*
 * conn.h - one control connection to the daemon: one request at a time, and its reply.
 *
 * Any thread may call; requests of several threads queue on the mutex.  A connection belongs to
 * the process that opened it: after fork() the child's calls fail with EIO and touch nothing,
 * since a request from there would be taken for one of the parent's.
 */
#ifndef VERBS_CONN_H
#define VERBS_CONN_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <rdmad/msg.h>

struct mail;

struct conn {
	int fd;
	uint32_t seq;
	pid_t owner;       /* the process that opened it */
	pid_t daemon;      /* of our own user, as this process sees it; 0: root's, or in another PID namespace */
	uint32_t calls;    /* so far; it counts no further than to those after which there is a mailbox */
	struct mail *mail; /* or NULL */
	pthread_mutex_t lock;
};

/* Finds the daemon (the rules are in msg.h), checks its uid, says hello.  0 or an errno; ENOSYS: there is no
 * daemon. */
int conn_open(struct conn *);
/* It was ENOSYS: once in a process that rdmad-run has given a daemon, what may be the reason.  The program seldom says it. */
void conn_tell(void);
void conn_close(struct conn *);

/* Is this the process that opened it? */
bool conn_mine(const struct conn *);

/* Has the daemon closed its end (it died, or closed this connection)?  Asks the kernel. */
bool conn_gone(const struct conn *);

/*
 * Sends req (op and row filled in) and waits for the reply.  A send_fd >= 0 is sent along.  Exactly fd_n
 * descriptors must come back with a success and are stored in fds (close-on-exec).  0 or a positive errno:
 * the daemon's, or EIO when it is gone.
 */
int conn_call(struct conn *, struct msg_req *req, struct msg_rep *rep, int send_fd, int *fds, unsigned fd_n);
/* The same where one descriptor or none comes back: *fd -1. */
int conn_call_may(struct conn *, struct msg_req *req, struct msg_rep *rep, int send_fd, int *fd);

/*
 * The same with messages of another header, which begin in the same way: op, seq; op, seq, err.  One descriptor comes back, or none
 * if fd is NULL.
 */
int conn_swap(struct conn *, void *req, size_t req_len, void *rep, size_t rep_len, int *fd);

#endif
