/* SPDX-License-Identifier: MIT */
/* sessions.h - the list of the sessions there are.  Control thread. */
#ifndef DAEMON_SESSIONS_H
#define DAEMON_SESSIONS_H

#include "session.h"

extern struct session *sessions; /* through session->next */
extern unsigned sessions_n;
extern unsigned holds_n; /* of them, those that MSG_HOLD keeps a private daemon for */

/*
 * Those that are there only to be told that their user has too many; so many at most, further ones are just closed.
 */
#define SESSIONS_REFUSED 64u
extern unsigned sessions_refused;

void sessions_add(struct session *);
void sessions_del(struct session *);

#endif
