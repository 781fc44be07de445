/* SPDX-License-Identifier: MIT */
/*
 * rights.h - who the daemon is, and what it may: much at its start, nothing when it serves.
 *
 *	root, for all users	becomes a user of its own, without any capability
 *	for one user		stays that user, without any capability in effect
 *
 * Before there are threads; rights_owner() at any time, in any thread.
 */
#ifndef DAEMON_RIGHTS_H
#define DAEMON_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#define RIGHTS_KEEP ((uid_t)-1)

/* The user to become.  uid RIGHTS_KEEP: stay as it is. */
struct rights_user {
	uid_t uid;
	gid_t gid;
	bool asked; /* by the configuration: what cannot be is an error, not a line in the log */
	bool alone; /* no other service is this user: it may own files */
};

/* The user who started the daemon: may do to it what root may. */
uid_t rights_owner(void);
/* Root, and the daemon's own user, who can end it: they may make it wait. */
static inline bool rights_trusted(uid_t uid) { return uid == 0 || uid == rights_owner(); }

/* Chooses: the one that the configuration asks for, or for a daemon of root rdmad, or nobody. */
struct rights_user rights_choose(const struct rights_user *asked, bool own);

/*
 * Gives all up.  own: a daemon for one user; its capabilities remain permitted, as the kernel lets nobody reach a process that
 * has more there (process_vm_readv), but it can never use them again once the filter of system calls is there.
 * 0 or errno, and it has been told.
 */
int rights_drop(const struct rights_user *, bool own);

#endif
