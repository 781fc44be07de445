/* SPDX-License-Identifier: MIT */
/*
 * uring.c - waiting with io_uring.
 *
 * Each file has one single-shot poll.  It is armed, together with all others that fired since, by
 * the very system call that waits; so while the shard is busy and does not come here, a file costs
 * at most one wake-up, however many datagrams arrive.  Arming looks at the file first: what came in
 * between is not missed.
 */
#include "io.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES		256u
#define NO_SLOT		UINT64_MAX	/* user data of what nobody waits for */

struct file {
	int fd;			/* -1: unused */
	bool armed, write;
	bool listed;		/* in idle */
	uint32_t life;		/* tells answers to an earlier poll of this slot */
};

struct uring {
	struct io_uring ring;
	struct file file[IO_FILES];
	unsigned idle_n;
	unsigned idle[IO_FILES];	/* slots to be armed; one that is not used any more may be among them */
};

/* Newer kernels first: work is then done when this thread asks for it, not by interrupting it. */
static int ring_init(struct io_uring *ring)
{
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_COOP_TASKRUN, 0
	};
	struct io_uring_params p;
	int ret = -EINVAL;

	for (unsigned i = 0; i < sizeof(flags) / sizeof(*flags) && ret == -EINVAL; i++) {
		memset(&p, 0, sizeof(p));
		p.flags = flags[i] | IORING_SETUP_CQSIZE;
		p.cq_entries = 2 * IO_FILES;
		ret = io_uring_queue_init_params(ENTRIES, ring, &p);
	}
	if (ret == 0 && !(p.features & IORING_FEAT_EXT_ARG)) {	/* waiting with a timeout: Linux 5.11 */
		io_uring_queue_exit(ring);
		return ENOSYS;
	}
	return -ret;
}

static int uring_start(void **state)
{
	struct uring *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return ENOMEM;
	err = ring_init(&u->ring);
	if (err) {
		free(u);
		return err;
	}
	for (unsigned i = 0; i < IO_FILES; i++)
		u->file[i].fd = -1;
	*state = u;
	return 0;
}

static void uring_stop(void *state)
{
	struct uring *u = state;

	io_uring_queue_exit(&u->ring);
	free(u);
}

static struct io_uring_sqe *sqe_get(struct uring *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	if (sqe)
		return sqe;
	io_uring_submit(&u->ring);
	return io_uring_get_sqe(&u->ring);
}

static uint64_t poll_name(const struct uring *u, unsigned slot)
{
	return (uint64_t)u->file[slot].life << 32 | slot;
}

static void idle_put(struct uring *u, unsigned slot)
{
	u->file[slot].armed = false;
	if (!u->file[slot].listed)
		u->idle[u->idle_n++] = slot;
	u->file[slot].listed = true;
}

static void file_disarm(struct uring *u, unsigned slot)
{
	struct io_uring_sqe *sqe;

	if (u->file[slot].armed) {
		sqe = sqe_get(u);
		if (sqe) {
			io_uring_prep_poll_remove(sqe, poll_name(u, slot));
			sqe->user_data = NO_SLOT;
		}
	}
	idle_put(u, slot);
	u->file[slot].life++;
}

static int uring_add(void *state, unsigned slot, int fd)
{
	struct uring *u = state;

	u->file[slot].fd = fd;
	u->file[slot].write = false;
	u->file[slot].life++;
	idle_put(u, slot);
	return 0;
}

static void uring_del(void *state, unsigned slot, int fd)
{
	struct uring *u = state;

	file_disarm(u, slot);
	io_uring_submit(&u->ring);	/* a poll that is still armed would keep the closed file alive */
	u->file[slot].fd = -1;
}

static void uring_want_write(void *state, unsigned slot, int fd, bool on)
{
	struct uring *u = state;

	if (u->file[slot].write == on)
		return;
	file_disarm(u, slot);
	u->file[slot].write = on;
}

static void files_arm(struct uring *u)
{
	struct io_uring_sqe *sqe;
	struct file *f;
	unsigned slot;

	while (u->idle_n) {
		slot = u->idle[u->idle_n - 1];
		f = &u->file[slot];
		sqe = f->fd < 0 ? NULL : sqe_get(u);
		if (f->fd >= 0 && !sqe)
			return;
		u->idle_n--;
		f->listed = false;
		if (!sqe)
			continue;
		io_uring_prep_poll_add(sqe, f->fd, f->write ? POLLIN | POLLOUT : POLLIN);
		sqe->user_data = poll_name(u, slot);
		f->armed = true;
	}
}

static unsigned ready_take(struct uring *u, unsigned *ready, unsigned max)
{
	struct io_uring_cqe *cqe;
	unsigned n = 0, slot;

	while (n < max && io_uring_peek_cqe(&u->ring, &cqe) == 0) {
		slot = (unsigned)(cqe->user_data & UINT32_MAX);
		if (cqe->user_data != NO_SLOT && slot < IO_FILES && poll_name(u, slot) == cqe->user_data) {
			idle_put(u, slot);
			ready[n++] = slot;
		}
		io_uring_cqe_seen(&u->ring, cqe);
	}
	return n;
}

static unsigned uring_wait(void *state, uint64_t timeout_ns, unsigned *ready, unsigned max)
{
	struct uring *u = state;
	struct __kernel_timespec ts = { (int64_t)(timeout_ns / 1000000000), (int64_t)(timeout_ns % 1000000000) };
	struct io_uring_cqe *cqe;

	files_arm(u);
	if (timeout_ns == 0)
		io_uring_submit_and_get_events(&u->ring);
	else
		io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, timeout_ns == UINT64_MAX ? NULL : &ts, NULL);
	return ready_take(u, ready, max);
}

const struct io_way io_uring_way = {
	.name = "io_uring",
	.start = uring_start,
	.stop = uring_stop,
	.add = uring_add,
	.del = uring_del,
	.want_write = uring_want_write,
	.wait = uring_wait,
};
