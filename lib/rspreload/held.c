/* SPDX-License-Identifier: MIT */
/* held.c - a conn, as long as somebody has it. */
#include "pre.h"

struct conn *conn_new(int rfd, int domain, enum conn_state state)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->refs = 1;
	c->rfd = rfd;
	c->end = -1;
	c->domain = domain;
	c->state = state;
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void conn_hold(struct conn *c) { __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED); }

void conn_put(struct conn *c)
{
	int err = errno;

	if (!__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL)) {
		if (conn_rfd(c) >= 0)
			rclose(conn_rfd(c));
		pthread_mutex_destroy(&c->lock);
		free(c);
	}
	errno = err;
}

void conn_cancelled(void *conn) { conn_put(conn); }

/* As a kernel's: an accepted socket has what its listener has. */
void opts_inherit(int fd, struct conn *c, struct conn *listen)
{
	pthread_mutex_lock(&listen->lock);
	for (unsigned i = 0; i < listen->opts_n; i++) {
		const struct opt *o = &listen->opts[i];

		if (o->level != SOL_SOCKET || (o->name != SO_REUSEADDR && o->name != SO_REUSEPORT))
			real()->setsockopt(fd, o->level, o->name, o->val, o->len);
	}
	c->recv_ms = listen->recv_ms;
	c->send_ms = listen->send_ms;
	pthread_mutex_unlock(&listen->lock);
}
