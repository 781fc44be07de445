/* SPDX-License-Identifier: MIT */
/*
 * bells.c - the futex if the way to wait has one left, else the context's own eventfd.
 *
 *	context 1    word in the bell page ------------.
 *	context 2    word in the bell page -----------. \
 *	context 1025 eventfd --.                        io_wait(), io_look()
 *	context 1026 eventfd ---- epoll (edges) ------/
 *
 * The eventfd's open file description is the program's, too: it may make it blocking, fill or empty it.  So the daemon never
 * reads or writes it.  Each kick is an edge, and whether a kick was needed the rings say.  However many contexts there are,
 * one that is silent costs a turn nothing; one that kicks though it was not asked to is not listened to until it is.
 */
#include "bells.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdmad/ring.h>

#include "../base/clock.h"
#include "idle.h"
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

/*
 * Mute is one event more at most.  No events at all would still leave EPOLLERR, which an eventfd has for ever once its count
 * has run over; EPOLLONESHOT takes that away, too.  And unlike EPOLL_CTL_ADD, to listen again cannot fail.
 */
static int bells_set(struct ctx *c, int op, bool mute)
{
	struct epoll_event ev = { .events = EPOLLIN | (mute ? EPOLLONESHOT : EPOLLET), .data.ptr = c };

	c->mute = mute;
	return epoll_ctl(c->shard->bells_fd, op, c->kick_fd, &ev) ? errno : 0;
}

int bells_add(struct ctx *c)
{
	c->bell_slot = io_word_add(c->shard->io, &c->bell->idle, BELL_FUTEX);
	if (!c->bell_slot)
		return bells_set(c, EPOLL_CTL_ADD, false);
	c->shard->bells[c->bell_slot - IO_FILES] = c;
	return 0;
}

/* An epoll forgets a file only when its last descriptor is closed, and the program has one. */
void bells_del(struct ctx *c)
{
	if (!c->bell_slot) {
		epoll_ctl(c->shard->bells_fd, EPOLL_CTL_DEL, c->kick_fd, NULL);
		return;
	}
	io_word_del(c->shard->io, c->bell_slot);
	c->shard->bells[c->bell_slot - IO_FILES] = NULL;
}

static enum bell_idle how(const struct ctx *c) { return c->bell_slot ? BELL_FUTEX : BELL_FD; }

void bells_sleep(struct ctx *c)
{
	bell_sleep(c->bell, how(c));
	if (c->bell_slot)
		io_word_await(c->shard->io, c->bell_slot, true);
	else if (c->mute)
		bells_set(c, EPOLL_CTL_MOD, false);
}

void bells_wake(struct ctx *c)
{
	bell_wake(c->bell);
	if (c->bell_slot)
		io_word_await(c->shard->io, c->bell_slot, false);
}

bool bells_touched(const struct ctx *c) { return !bell_sleeps(c->bell, how(c)); }

static void kicked(struct ctx *c, mono_t now)
{
	struct shard *s = c->shard;

	s->count.kicks++;
	if (c->idle || s->asleep)
		idle_stir(c, now);
	else if (!c->bell_slot && !c->mute)
		bells_set(c, EPOLL_CTL_MOD, true);
}

/* Those that had kicked before are first in line, each once: who goes on kicking waits for the next time. */
static void fds_read(struct shard *s, mono_t now)
{
	struct epoll_event ev[TAKE];
	unsigned rounds = s->ctx_n / TAKE + 1;
	int n = TAKE;

	for (; rounds && n == TAKE; rounds--) {
		n = epoll_wait(s->bells_fd, ev, TAKE, 0);
		for (int i = 0; i < n; i++)
			kicked(ev[i].data.ptr, now);
	}
}

void bells_ready(struct shard *s, unsigned slot)
{
	mono_t now = clock_now();

	if (slot < IO_FILES)
		fds_read(s, now);
	else if (s->bells[slot - IO_FILES])
		kicked(s->bells[slot - IO_FILES], now);
}
