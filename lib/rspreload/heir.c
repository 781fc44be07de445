/* SPDX-License-Identifier: MIT */
/*
 * heir.c - what a descriptor is by fork() that it does not look like.
 *
 * Of listeners a child has the TCP side.  The parent, which waits for both sides, has set O_NONBLOCK of the open file that the two
 * share.  It stays set; the child's calls wait, and its flags say so, as the program has it.
 */
#include "pre.h"

#include <fcntl.h>

#include <rdmad/restart.h>

static uint8_t heirs[FD_MAX]; /* enum heir, atomic */
static int top;               /* atomic: from here on there never was one */

int heir_top(void) { return __atomic_load_n(&top, __ATOMIC_RELAXED); }

static bool is_listener(enum heir h) { return h == HEIR_BLOCKS || h == HEIR_NONBLOCK; }

enum heir heir_kind(int fd)
{
	return fd < 0 || fd >= FD_MAX ? HEIR_NONE : __atomic_load_n(&heirs[fd], __ATOMIC_RELAXED);
}

void heir_mark(int fd, enum heir h)
{
	int was = heir_top();

	if (fd < 0 || fd >= FD_MAX || heir_kind(fd) == h) /* pages that nothing is written to take no room */
		return;
	while (fd >= was && !__atomic_compare_exchange_n(&top, &was, fd + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	__atomic_store_n(&heirs[fd], (uint8_t)h, __ATOMIC_RELAXED);
}

void heir_note(int fd, const struct conn *c)
{
	if (conn_state(c) == CONN_LISTEN)
		heir_mark(fd, c->nonblock ? HEIR_NONBLOCK : HEIR_BLOCKS);
}

/* ---- descriptors of ours, which a child has no use for --------------------------------------------------- */

int heir_keep(int fd)
{
	heir_mark(fd, HEIR_OURS);
	return fd;
}

void heir_close(int fd)
{
	heir_mark(fd, HEIR_NONE);
	real()->close(fd);
}

void heir_child(void)
{
	for (int fd = 0; fd < heir_top(); fd++)
		if (heir_kind(fd) == HEIR_OURS)
			heir_close(fd);
}

/* ---- what becomes of it ------------------------------------------------------------------------------------- */

void heir_forget(int fd)
{
	enum heir was = heir_kind(fd);

	heir_mark(fd, HEIR_NONE);
	switch (was) {
	case HEIR_STREAM: will_leave(fd); break;
	case HEIR_WILL: will_closed(fd); break;
	default: break;
	}
}

void heir_follow(int fd, int new)
{
	if (is_listener(heir_kind(fd)))
		heir_mark(new, heir_kind(fd));
}

/* ---- listeners ---------------------------------------------------------------------------------------------- */

/* A number that was closed behind our back may be another descriptor's by now. */
static bool listens(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return !real()->getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) && on;
}

bool heir_is(int fd) { return is_listener(heir_kind(fd)) && listens(fd); }

void heir_nonblock_set(int fd, bool on) { heir_mark(fd, on ? HEIR_NONBLOCK : HEIR_BLOCKS); }

int heir_fcntl(int fd, int cmd, void *arg)
{
	int ret;

	if (cmd == F_SETFL) {
		heir_nonblock_set(fd, (intptr_t)arg & O_NONBLOCK);
		return real()->fcntl(fd, cmd, (intptr_t)arg | O_NONBLOCK);
	}
	ret = real()->fcntl(fd, cmd, arg);
	if (cmd == F_GETFL && ret >= 0 && heir_kind(fd) == HEIR_BLOCKS)
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
		if (new >= 0 || errno != EAGAIN || heir_kind(fd) != HEIR_BLOCKS)
			return new;
		ready = real()->ppoll(&p, 1, limit, NULL);
		if (!ready)
			return fail(EAGAIN);
		if (ready < 0 && (errno != EINTR || limit || !restart_after_signal()))
			return -1;
	}
}
