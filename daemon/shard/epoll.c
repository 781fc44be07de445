/* SPDX-License-Identifier: MIT */
/* epoll.c - waiting with epoll: for systems where io_uring is not allowed. */
#include "io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64

struct epoll {
	int fd;
};

static int epoll_start(void **state)
{
	struct epoll *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return ENOMEM;
	e->fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->fd < 0) {
		err = errno;
		free(e);
		return err;
	}
	*state = e;
	return 0;
}

static void epoll_stop(void *state)
{
	struct epoll *e = state;

	close(e->fd);
	free(e);
}

static int epoll_set(struct epoll *e, int op, unsigned slot, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u32 = slot };

	return epoll_ctl(e->fd, op, fd, &ev) < 0 ? errno : 0;
}

static int epoll_add(void *state, unsigned slot, int fd) { return epoll_set(state, EPOLL_CTL_ADD, slot, fd, EPOLLIN); }

static void epoll_del(void *state, unsigned slot, int fd) { epoll_set(state, EPOLL_CTL_DEL, slot, fd, 0); }

static void epoll_want_write(void *state, unsigned slot, int fd, bool on)
{
	epoll_set(state, EPOLL_CTL_MOD, slot, fd, on ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* epoll_pwait2 came with Linux 5.11; before it, milliseconds must do. */
static int wait_ns(int fd, struct epoll_event *ev, int max, uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	int n = epoll_pwait2(fd, ev, max, ns == UINT64_MAX ? NULL : &ts, NULL);

	if (n < 0 && errno == ENOSYS)
		n = epoll_wait(fd, ev, max,
			       ns == UINT64_MAX ? -1 : (int)(ns / 1000000 % 86400000 + (ns % 1000000 != 0)));
	return n;
}

static unsigned epoll_way_wait(void *state, uint64_t timeout_ns, unsigned *ready, unsigned max)
{
	struct epoll *e = state;
	struct epoll_event ev[BATCH];
	int n = wait_ns(e->fd, ev, max < BATCH ? (int)max : BATCH, timeout_ns);

	for (int i = 0; i < n; i++)
		ready[i] = ev[i].data.u32;
	return n < 0 ? 0 : (unsigned)n;
}

static enum io_rung epoll_rung(const void *) { return IO_UNKNOWN; }

static unsigned epoll_look(void *state, unsigned *ready, unsigned max) { return epoll_way_wait(state, 0, ready, max); }

const struct io_way io_epoll_way = {
	.name = "epoll",
	.start = epoll_start,
	.stop = epoll_stop,
	.add = epoll_add,
	.del = epoll_del,
	.want_write = epoll_want_write,
	.rung = epoll_rung,
	.look = epoll_look,
	.wait = epoll_way_wait,
};
