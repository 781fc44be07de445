/* SPDX-License-Identifier: MIT */
/*
 * mail.h - the mailboxes of sessions (rdmad/mail.h): those that are looked at, which are few, while the control thread lingers
 * (linger.h).  Control thread only.
 */
#ifndef DAEMON_MAIL_H
#define DAEMON_MAIL_H

#include <ev.h>

#include "session.h"

/* One of its requests was served, and the thread lingers: the next one is looked for in its mailbox, if it has one. */
void mail_watch(struct session *);
/* Serves what is in the mailboxes that are looked at.  How many requests. */
unsigned mail_turn(struct ev_loop *);
/* From now on none is looked at.  false: something has come, and they are. */
bool mail_rest(void);

/* The reply to a request from there.  false: it goes by the socket. */
bool mail_reply(struct session *, const void *rep, size_t len);
void mail_end(struct session *);

#endif
