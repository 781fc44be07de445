/* SPDX-License-Identifier: MIT */
/* io.c - picks the way to wait. */
#include "io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/log.h"

struct io {
	const struct io_way *way;
	void *state;
};

/* Refused by a seccomp profile, by kernel.io_uring_disabled, not built in, or one that lacks what is asked of it (gVisor's). */
static bool is_refused(int err)
{
	return err == EPERM || err == EACCES || err == ENOSYS || err == ENOMEM || err == EINVAL;
}

int io_new(struct io **out, enum io_kind kind)
{
	struct io *io = calloc(1, sizeof(*io));
	int err;

	if (!io)
		return ENOMEM;
	io->way = kind == IO_EPOLL ? &io_epoll_way : &io_uring_way;
	err = io->way->start(&io->state);
	if (err && kind == IO_AUTO && is_refused(err)) {
		log_note("io_uring is not available here (%s): waiting with epoll", strerror(err));
		io->way = &io_epoll_way;
		err = io->way->start(&io->state);
	}
	if (err) {
		free(io);
		return err;
	}
	*out = io;
	return 0;
}

void io_free(struct io *io)
{
	if (!io)
		return;
	io->way->stop(io->state);
	free(io);
}

const char *io_name(const struct io *io) { return io->way->name; }
int io_add(struct io *io, unsigned slot, int fd) { return io->way->add(io->state, slot, fd); }
void io_del(struct io *io, unsigned slot, int fd) { io->way->del(io->state, slot, fd); }

void io_want_write(struct io *io, unsigned slot, int fd, bool on) { io->way->want_write(io->state, slot, fd, on); }

unsigned io_word_add(struct io *io, uint32_t *word, uint32_t value)
{
	return io->way->word_add ? io->way->word_add(io->state, word, value) : 0;
}

void io_word_await(struct io *io, unsigned slot, bool on) { io->way->word_await(io->state, slot, on); }

void io_word_del(struct io *io, unsigned slot)
{
	if (slot)
		io->way->word_del(io->state, slot);
}

unsigned io_wait(struct io *io, uint64_t timeout_ns, unsigned *ready, unsigned max)
{
	return io->way->wait(io->state, timeout_ns, ready, max);
}

enum io_rung io_rung(const struct io *io) { return io->way->rung(io->state); }
unsigned io_look(struct io *io, unsigned *ready, unsigned max) { return io->way->look(io->state, ready, max); }
