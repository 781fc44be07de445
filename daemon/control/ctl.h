/* SPDX-License-Identifier: MIT */
/*
 * ctl.h - the control thread: its socket, its loop, when it ends.
 */
#ifndef DAEMON_CTL_H
#define DAEMON_CTL_H

#include <stdbool.h>

#include "../base/conf.h"

struct ctx;
struct outlet;
struct ev_loop;

/*
 * Listens where conf says (private and nothing said: @rdmad.<uid>); not 0: an errno, and it has been told why not,
 * except that a private daemon that finds its socket taken (EADDRINUSE) is silent.
 */
int ctl_listen(struct ev_loop *, const struct conf *, bool private);
/*
 * Accepts clients and serves them until a signal, or the end of a private daemon's last use.  All sessions are closed then.
 * Signals may be held till signals_release(), which is called when they will be heard.
 */
void ctl_run(struct ev_loop *, void (*signals_release)(void));
void ctl_close(void);

/*
 * Root's daemon is for all users, and one at the system's socket, which only root can have given to it.  If it is private, only if its
 * configuration names users.  Else a daemon serves its own user, and root.
 */
bool ctl_for_all(const struct conf *, bool private);
/* The socket is this user's from now on, and its directory, if it was made for it: so that he can remove it at the end. */
void ctl_give(uid_t);
/* The directory that the socket is removed from at the end; NULL: it has no name in the file system. */
const char *ctl_dir(void);

/* why.c: from now on causes are taken from the shards, and no longer. */
void why_start(struct ev_loop *);
void why_stop(struct ev_loop *);

/* session.c: a session is gone (used: it was a hold or a context); a context is about to go. */
void ctl_session_ended(bool used);
void ctl_ctx_going(struct ctx *);
void ctl_outlet_going(struct ctx *, struct outlet *); /* a channel of it is */
void ctl_outlet_stuck(void);                          /* any thread: a hook (../shard/hooks.h) */

#endif
