/* SPDX-License-Identifier: MIT */
/*
 * share.h - how much of a turn is a context's.
 *
 * A turn takes so much from each context, and a user may have thousands of them: so where a shard serves more than one user,
 * what one context could post in a turn is divided among all of a user's.  Shard thread.
 */
#ifndef DAEMON_SHARE_H
#define DAEMON_SHARE_H

#include <stdint.h>

struct ctx;
struct shard;

int share_join(struct ctx *); /* c->shard's, by c->uid; 0 or ENOMEM */
void share_leave(struct ctx *);
/* Of most, what one context would get if it was its user's only one. */
uint32_t share_of(const struct ctx *, uint32_t most);

#endif
