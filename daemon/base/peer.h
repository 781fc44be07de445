/* SPDX-License-Identifier: MIT */
/*
 * peer.h - the process whose memory a client registers, and the right to reach it.
 *
 * Normally the kernel judges each process_vm_readv and _writev.  It cannot when a daemon of root serves
 * somebody else: root may touch every process, and a client could register memory and then run a set-user-ID
 * program in its place.  For such a client /proc/PID/mem is opened once, with the client's own rights: that
 * stays with the memory of the program that asked, and is of no use after an exec.
 */
#ifndef DAEMON_PEER_H
#define DAEMON_PEER_H

#include <stdbool.h>
#include <sys/types.h>

struct peer {
	pid_t pid;
	int mem_fd;     /* -1: by pid */
	bool gone;      /* atomic: its context is closed, nobody watches the pid any more: ESRCH */
	unsigned users; /* peer_make */
};

/* 0 or a positive errno; EPERM: user uid with group gid may not trace that process. */
int peer_open(struct peer *, pid_t pid, uid_t uid, gid_t gid);
void peer_close(struct peer *);

/* The same, allocated, and shared by who takes it; control thread. */
int peer_make(struct peer **, pid_t pid, uid_t uid, gid_t gid);
struct peer *peer_take(struct peer *);
void peer_drop(struct peer *); /* NULL: nothing */

#endif
