/* SPDX-License-Identifier: MIT */
/*
 * heir.c - listeners that a child by fork() has from its parent: the TCP side of them.
 *
 * The parent, which waits for both sides, has set O_NONBLOCK of the open file that the two share.  It stays set; the
 * child's calls wait, and its flags say so, as the program has it.
 */
#include "pre.h"

#include <fcntl.h>

#include <rdmad/restart.h>

enum heir { HEIR_NONE, HEIR_BLOCKS, HEIR_NONBLOCK };

static uint8_t heirs[FD_MAX]; /* enum heir, atomic */

static enum heir heir(int fd)
{
	return fd < 0 || fd >= FD_MAX ? HEIR_NONE : __atomic_load_n(&heirs[fd], __ATOMIC_RELAXED);
}

static void heir_set(int fd, enum heir h)
{
	if (fd >= 0 && fd < FD_MAX && heir(fd) != h) /* pages that nothing is written to take no room */
		__atomic_store_n(&heirs[fd], (uint8_t)h, __ATOMIC_RELAXED);
}

void heir_note(int fd, const struct conn *c)
{
	if (conn_state(c) == CONN_LISTEN)
		heir_set(fd, c->nonblock ? HEIR_NONBLOCK : HEIR_BLOCKS);
}

void heir_forget(int fd) { heir_set(fd, HEIR_NONE); }

void heir_follow(int fd, int new) { heir_set(new, heir(fd)); }

/* A number that was closed behind our back may be another descriptor's by now. */
static bool listens(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return !real()->getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) && on;
}

bool heir_was(int fd) { return heir(fd) != HEIR_NONE; }

bool heir_is(int fd) { return heir_was(fd) && listens(fd); }

void heir_nonblock_set(int fd, bool on) { heir_set(fd, on ? HEIR_NONBLOCK : HEIR_BLOCKS); }

int heir_fcntl(int fd, int cmd, void *arg)
{
	int ret;

	if (cmd == F_SETFL) {
		heir_nonblock_set(fd, (intptr_t)arg & O_NONBLOCK);
		return real()->fcntl(fd, cmd, (intptr_t)arg | O_NONBLOCK);
	}
	ret = real()->fcntl(fd, cmd, arg);
	if (cmd == F_GETFL && ret >= 0 && heir(fd) == HEIR_BLOCKS)
		ret &= ~O_NONBLOCK;
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		heir_follow(fd, ret);
	return ret;
}

/* SO_RCVTIMEO; NULL: there is none. */
static const struct timespec *limit_of(int fd, struct timespec *t)
{
	struct timeval v = { 0 };
	socklen_t len = sizeof(v);

	if (real()->getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &v, &len) || (!v.tv_sec && !v.tv_usec))
		return NULL;
	*t = (struct timespec){ v.tv_sec, v.tv_usec * 1000 };
	return t;
}

int heir_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct pollfd p = { fd, POLLIN, 0 };
	struct timespec t;
	const struct timespec *limit = limit_of(fd, &t);
	int new, ready;

	for (;;) {
		new = real()->accept4(fd, addr, len, flags);
		if (new >= 0 || errno != EAGAIN || heir(fd) != HEIR_BLOCKS)
			return new;
		ready = real()->ppoll(&p, 1, limit, NULL);
		if (!ready)
			return fail(EAGAIN);
		if (ready < 0 && (errno != EINTR || limit || !restart_after_signal()))
			return -1;
	}
}
