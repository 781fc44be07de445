/* SPDX-License-Identifier: MIT */
/*
 * bells.c - the futex if the way to wait has one left, else the context's own eventfd.
 *
 *	context 1    word in the bell page ------------.
 *	context 2    word in the bell page -----------. \
 *	context 1025 eventfd --.                        io_wait()
 *	context 1026 eventfd ---- epoll (edges) ------/
 *
 * The eventfd's open file description is the program's, too: it may make it blocking, fill or empty it.  So the daemon never
 * reads or writes it.  Each kick is an edge, and whether a kick was needed the rings say.  However many contexts there are,
 * one that is silent costs a turn nothing.
 */
#include "bells.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdmad/ring.h>

#include "io.h"

#define TAKE 64

int bells_begin(struct shard *s)
{
	s->bells_fd = epoll_create1(EPOLL_CLOEXEC);
	return s->bells_fd < 0 ? errno : io_add(s->io, BELLS_SLOT, s->bells_fd);
}

void bells_end(struct shard *s)
{
	if (s->bells_fd >= 0)
		close(s->bells_fd);
	s->bells_fd = -1;
}

int bells_add(struct ctx *c)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

	c->bell_slot = io_word_add(c->shard->io, &c->bell->idle, BELL_FUTEX);
	if (c->bell_slot)
		return 0;
	return epoll_ctl(c->shard->bells_fd, EPOLL_CTL_ADD, c->kick_fd, &ev) ? errno : 0;
}

/* An epoll forgets a file only when its last descriptor is closed, and the program has one. */
void bells_del(struct ctx *c)
{
	if (c->bell_slot)
		io_word_del(c->shard->io, c->bell_slot);
	else
		epoll_ctl(c->shard->bells_fd, EPOLL_CTL_DEL, c->kick_fd, NULL);
}

void bells_ready(struct shard *s)
{
	struct epoll_event ev[TAKE];
	int n = epoll_wait(s->bells_fd, ev, TAKE, 0);

	if (n > 0)
		s->count.kicks += (unsigned)n;
}
