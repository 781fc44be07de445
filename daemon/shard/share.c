/* SPDX-License-Identifier: MIT */
/* share.c - the users of a shard, and how many contexts each has there. */
#include "share.h"

#include <errno.h>
#include <stdlib.h>

#include "ctx.h"

#define LEAST 8u /* a context gets on, however many there are */

struct share {
	struct share *next;
	uid_t uid;
	unsigned n; /* contexts */
};

static struct share **find(struct shard *s, uid_t uid)
{
	struct share **p = &s->shares;

	while (*p && (*p)->uid != uid)
		p = &(*p)->next;
	return p;
}

int share_join(struct ctx *c)
{
	struct share **p = find(c->shard, c->uid);

	if (!*p) {
		*p = calloc(1, sizeof(**p));
		if (!*p)
			return ENOMEM;
		(*p)->uid = c->uid;
	}
	(*p)->n++;
	c->share = *p;
	return 0;
}

void share_leave(struct ctx *c)
{
	struct share **p, *gone = c->share;

	c->share = NULL;
	if (!gone || --gone->n)
		return;
	p = find(c->shard, gone->uid);
	*p = gone->next;
	free(gone);
}

uint32_t share_of(const struct ctx *c, uint32_t most)
{
	const struct share *s = c->share;
	uint32_t part;

	if (!s || (c->shard->shares == s && !s->next))
		return most;
	part = most / s->n;
	return part < LEAST ? LEAST : part;
}
