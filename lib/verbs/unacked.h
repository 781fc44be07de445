/* SPDX-License-Identifier: MIT */
/*
 * unacked.h - an object goes when its program has acknowledged the events that it got of it, and so may never go: who waits
 * for longer tells the daemon, for `rdmactl why`.
 */
#ifndef VERBS_UNACKED_H
#define VERBS_UNACKED_H

#include "conn.h"

struct unacked {
	struct conn *conn;
	const char *verb; /* that waits */
	uint32_t handle;  /* of what it ends; 0: it has none */
	const char *by;   /* acknowledges them */
	bool told;
};

/* Waits on cond, with the lock held, for anything; it is to be called again as long as n is not 0.  n: events got and not acknowledged. */
void unacked_wait(struct unacked *, pthread_cond_t *, pthread_mutex_t *, uint32_t n);
/* They are; without the lock. */
void unacked_end(struct unacked *);

#endif
