/* SPDX-License-Identifier: MIT */
/* accept.c - accept(): clients of both kinds. */
#include "pre.h"

#include <fcntl.h>

#include <rdmad/own.h>

static int accept_tcp(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	const socklen_t room = addr && len ? *len : 0;
	int new = heir_is(fd) ? heir_accept(fd, addr, len, flags) : real()->accept4(fd, addr, len, flags);
	struct names n;

	conn_forget(new);
	if (new >= 0 && names_of(new, &n) && addr && len) {
		*len = room;
		name_give(n.domain, &n.peer, addr, len);
	}
	return new;
}

static int accept_rdma(struct conn *listen, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sockaddr_storage from = { 0 };
	socklen_t n = sizeof(from);
	int rfd = raccept(conn_rfd(listen), (struct sockaddr *)&from, &n), fd;
	struct conn *c;

	if (rfd < 0)
		return -1;
	fd = real()->socket(listen->domain, SOCK_STREAM | flags, 0);
	if (fd < 0) { /* no descriptor: it waits for the next call */
		int err = errno;

		rdmad_rs_unaccept(conn_rfd(listen), rfd);
		return fail(err);
	}
	if (flags & SOCK_NONBLOCK)
		rfcntl(rfd, F_SETFL, O_NONBLOCK);
	c = conn_add(fd, rfd, listen->domain, CONN_RDMA);
	if (!c) {
		rclose(rfd);
		real()->close(fd);
		return fail(ENOMEM);
	}
	c->accepted = true;
	c->nonblock = flags & SOCK_NONBLOCK;
	c->local6 = listen->local6 || rdmad_rs_local6(rfd) > 0;
	opts_inherit(fd, c, listen);
	name_local6(c, &from);
	name_give(c->domain, &from, addr, len);
	conn_standard(fd);
	return fd;
}

/* Of raccept(): it is not that nobody is there, or that there is no room.  The daemon has gone, or the rsocket's descriptors. */
static bool is_over(int err)
{
	return err != EAGAIN && err != EINTR && err != EMFILE && err != ENFILE && err != ENOMEM && err != ENOBUFS;
}

static int accept_wait(int fd, struct conn *c, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct pollfd p[2];
	int new, ready;

	for (;;) {
		new = accept_rdma(c, addr, len, flags);
		if (new < 0 && is_over(errno))
			listener_broken(fd, c);
		if (new < 0 && (errno == EAGAIN || conn_state(c) != CONN_LISTEN))
			new = accept_tcp(fd, addr, len, flags);
		if (new >= 0 || errno != EAGAIN || c->nonblock)
			return new;
		p[0] = (struct pollfd){ conn_rfd(c), POLLIN, 0 };
		p[1] = (struct pollfd){ fd, POLLIN, 0 };
		ready = rs_poll(p, 2, c->recv_ms ? c->recv_ms : -1, NULL);
		if (!ready)
			return fail(EAGAIN);
		if (ready < 0 && !heed_goes_on(c->recv_ms))
			return -1;
	}
}

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct conn *c = conn_get(fd);
	struct heed before;
	int new;

	if (c)
		listener_await(c);
	if (!c || conn_state(c) != CONN_LISTEN) {
		if (c)
			conn_put(c);
		return accept_tcp(fd, addr, len, flags);
	}
	before = heed_begin();
	pthread_cleanup_push(conn_cancelled, c);
	new = accept_wait(fd, c, addr, len, flags);
	pthread_cleanup_pop(0);
	heed_end(&before);
	reg_seen(c, EPOLLIN);
	conn_put(c);
	return new;
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len) { return accept4(fd, addr, len, 0); }
