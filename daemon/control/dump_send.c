/* SPDX-License-Identifier: MIT */
/* dump_send.c - dumps on their way. */
#include "dump.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "call.h"

#define SOCKET_ROOM 32768 /* the kernel takes twice that */

struct dump {
	struct ev_loop *loop;
	ev_io io;
	int in;  /* a socket; -1: all of it is in there */
	int out; /* tells how much is not read yet */
	char *text;
	size_t len, at;
	struct dump_source from;
	struct bill bill; /* with what the texts have taken at most */
};

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Nothing more is written: the reader sees the end. */
static void finish(struct dump *d)
{
	ev_io_stop(d->loop, &d->io);
	fd_close(&d->in);
	free(d->text);
	d->text = NULL;
	if (d->from.end)
		d->from.end(d->from.arg);
	d->from.end = NULL;
}

static void drop(struct dump *d)
{
	finish(d);
	fd_close(&d->out);
	bill_close(&d->bill);
	free(d);
}

/* The next piece, if the one before is out; 0, an errno, or ENODATA: there is no more. */
static int refill(struct dump *d)
{
	int err = 0;

	if (d->at < d->len)
		return 0;
	free(d->text);
	d->at = d->len = 0;
	d->text = d->from.next(d->from.arg, &err);
	if (!d->text)
		return err ? err : ENODATA;
	d->len = strlen(d->text);
	return bill_set(&d->bill, QUOTA_HEAP, sizeof(*d) + d->from.len + d->len);
}

/* One piece, or what there is room for.  0: more is to come, later. */
static int push(struct dump *d)
{
	int err = refill(d);
	ssize_t n;

	if (err)
		return err;
	n = send(d->in, d->text + d->at, d->len - d->at, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : errno;
	d->at += (size_t)n;
	return d->at < d->len ? 0 : refill(d);
}

static void writable(struct ev_loop *, ev_io *w, int)
{
	struct dump *d = w->data;

	if (push(d)) /* an end before the end of the text is an error to the reader */
		finish(d);
}

static int begin(struct dump *d, struct call *call, int *theirs)
{
	struct cost cost = { { [QUOTA_HEAP] = sizeof(*d) + d->from.len } };
	int fds[2], err = bill_open(&d->bill, call->s->uid, &cost);

	if (err)
		return err;
	/* No pipe: that is locked as long as its reader's memory makes it wait. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return errno;
	d->out = fds[0];
	d->in = fds[1];
	shutdown(d->in, SHUT_RD); /* no descriptors come to us (../shard/ctx.h) */
	setsockopt(d->in, SOL_SOCKET, SO_SNDBUF, &(int){ SOCKET_ROOM }, sizeof(int));
	*theirs = fcntl(d->out, F_DUPFD_CLOEXEC, 3);
	return *theirs < 0 ? errno : 0;
}

int dump_send(struct call *call, const struct dump_source *from)
{
	struct dump *d = calloc(1, sizeof(*d));
	int theirs = -1, err;

	if (!d) {
		from->end(from->arg);
		return ENOMEM;
	}
	d->loop = call->loop;
	d->in = d->out = -1;
	d->from = *from;
	ev_init(&d->io, writable);
	d->io.data = d;
	err = begin(d, call, &theirs);
	if (!err)
		err = push(d);
	if (err && err != ENODATA) {
		fd_close(&theirs);
		drop(d);
		return err;
	}
	if (err) {
		finish(d);
	} else {
		ev_io_set(&d->io, d->in, EV_WRITE);
		ev_io_start(d->loop, &d->io);
	}
	call->s->dump = d;
	call->fds[call->fd_n++] = theirs;
	return 0;
}

int dump_may(struct session *s)
{
	int left = 0;

	if (s->dump && (s->dump->in >= 0 || ioctl(s->dump->out, FIONREAD, &left) || left))
		return EBUSY;
	dump_end(s);
	return 0;
}

void dump_end(struct session *s)
{
	if (s->dump)
		drop(s->dump);
	s->dump = NULL;
}
