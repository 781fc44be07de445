/* SPDX-License-Identifier: MIT */
/* closing.h - what follows when descriptors of clients are closed (../base/foreign.h).  Control thread only. */
#ifndef DAEMON_CLOSING_H
#define DAEMON_CLOSING_H

struct ev_loop;

void closing_start(struct ev_loop *);
/* Something cannot be closed now: soon it is tried again. */
void closing_later(void);
/* When all sessions are gone. */
void closing_stop(void);

#endif
