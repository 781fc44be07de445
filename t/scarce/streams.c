/* SPDX-License-Identifier: MIT */
/* streams.c - ids of librdmacm, a stream and a datagram of rsockets. */
#include "scarce.h"

#include "t/suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <string.h>

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id, *listener;
static int listen_fd, client = -1, server = -1, from = -1, to = -1;

static struct sockaddr *lo(in_port_t port)
{
	static struct sockaddr_in sin = { .sin_family = AF_INET };

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sin.sin_port = port;
	return (struct sockaddr *)&sin;
}

/* ---- ids --------------------------------------------------------------------------------- */

static int channel_up(void) { return MADE(channel = rdma_create_event_channel()); }
static int channel_down(void)
{
	rdma_destroy_event_channel(channel);
	return 0;
}

static void channel_more(void) /* as that of a context (verbs.c) */
{
	for (unsigned i = 0; i < 40; i++) {
		ck_assert_int_eq(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
		ck_assert_int_eq(rdma_bind_addr(id, lo(0)), 0);
		ck_assert_int_eq(rdma_destroy_id(id), 0);
	}
}

static int bound(struct rdma_cm_id **out)
{
	int err = DONE(rdma_create_id(channel, out, NULL, RDMA_PS_TCP));

	if (err)
		return err;
	err = DONE(rdma_bind_addr(*out, lo(0)));
	if (err)
		rdma_destroy_id(*out);
	return err;
}

static int id_up(void) { return bound(&id); }
static int id_down(void) { return DONE(rdma_destroy_id(id)); }

static void id_more(void)
{
	union ibv_gid gid;

	for (unsigned i = 0; i < 40; i++)
		ck_assert_int_eq(ibv_query_gid(id->verbs, 1, 0, &gid), 0);
}

static int qp_up(void)
{
	struct ibv_qp_init_attr at = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 } };

	return DONE(rdma_create_qp(id, NULL, &at));
}

static int qp_down(void)
{
	rdma_destroy_qp(id);
	return 0;
}

static int listener_up(void)
{
	int err = bound(&listener);

	if (!err && (err = DONE(rdma_listen(listener, 4))))
		rdma_destroy_id(listener);
	return err;
}

static int listener_down(void) { return DONE(rdma_destroy_id(listener)); }

const struct step steps_cm[] = {
	{ "rdma_create_event_channel", channel_up, channel_down, channel_more },
	{ "rdma_bind_addr", id_up, id_down, id_more },
	{ "rdma_create_qp", qp_up, qp_down, NULL },
	{ "rdma_listen", listener_up, listener_down, NULL },
	{ 0 },
};

/* ---- streams ------------------------------------------------------------------------------ */

static in_port_t port_of(int fd)
{
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);

	ck_assert_int_eq(rgetsockname(fd, (struct sockaddr *)&sin, &len), 0);
	return sin.sin_port;
}

/* Bound, if there is one. */
static int socket_new(int type, int *fd)
{
	int err = MADE((*fd = rsocket(AF_INET, type, 0)) >= 0);

	if (err)
		return err;
	rfcntl(*fd, F_SETFL, O_NONBLOCK);
	err = DONE(rbind(*fd, lo(0), sizeof(struct sockaddr_in)));
	if (!err && type == SOCK_STREAM)
		err = DONE(rlisten(*fd, 4));
	if (err)
		rclose(*fd);
	return err;
}

static int listen_up(void) { return socket_new(SOCK_STREAM, &listen_fd); }
static int listen_down(void) { return DONE(rclose(listen_fd)); }

static bool came(int fd, short what)
{
	struct pollfd p = { .fd = fd, .events = what };

	return rpoll(&p, 1, 100) == 1;
}

static int stream_down(void)
{
	if (client >= 0)
		rclose(client);
	if (server >= 0)
		rclose(server);
	client = server = -1;
	return 0;
}

/* Both ends are there, or one of them is told that it cannot be: a client that it is refused. */
static int both_wait(void)
{
	int err = EINPROGRESS, end = PATIENCE_MS / 100;
	socklen_t len = sizeof(err);

	for (; end && (server < 0 || err); end--) {
		if (server < 0 && came(listen_fd, POLLIN)) {
			server = raccept(listen_fd, NULL, NULL);
			if (server < 0 && errno != EAGAIN)
				return errno;
		}
		if (err && came(client, POLLOUT)) {
			ck_assert_int_eq(rgetsockopt(client, SOL_SOCKET, SO_ERROR, &err, &len), 0);
			if (err)
				return err == ECONNREFUSED ? EAGAIN : err;
		}
	}
	return end ? 0 : ETIMEDOUT;
}

static int stream_up(void)
{
	int err = MADE((client = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	char c = 0;

	if (err)
		return err;
	rfcntl(client, F_SETFL, O_NONBLOCK);
	err = DONE(rconnect(client, lo(port_of(listen_fd)), sizeof(struct sockaddr_in)));
	if (!err || err == EINPROGRESS)
		err = both_wait();
	if (!err) {
		ck_assert_int_eq(rsend(client, "x", 1, 0), 1);
		while (!came(server, POLLIN))
			;
		ck_assert(rrecv(server, &c, 1, 0) == 1 && c == 'x');
		return 0;
	}
	stream_down();
	while (came(listen_fd, POLLIN) && (server = raccept(listen_fd, NULL, NULL)) >= 0)
		stream_down(); /* whose client is gone */
	return err;
}

/* ---- datagrams ----------------------------------------------------------------------------- */

/* Datagrams may be lost: for want of memory, too. */
static int one_received(void)
{
	const struct sockaddr *sa = lo(port_of(to));
	int err = 0;
	char c;

	for (unsigned i = 0; i < PATIENCE_MS / 200; i++) {
		if (rsendto(from, "x", 1, 0, sa, sizeof(struct sockaddr_in)) != 1)
			err = errno;
		else if (came(to, POLLIN))
			return rrecv(to, &c, 1, 0) == 1 ? 0 : errno;
	}
	return err ? err : ETIMEDOUT;
}

static int datagram_down(void) { return DONE(rclose(from) | rclose(to)); }

static int datagram_up(void)
{
	int err = socket_new(SOCK_DGRAM, &to);

	if (err)
		return err;
	err = socket_new(SOCK_DGRAM, &from);
	if (err) {
		rclose(to);
		return err;
	}
	err = one_received();
	if (err)
		datagram_down();
	return err;
}

const struct step steps_streams[] = {
	{ "rlisten", listen_up, listen_down, NULL },
	{ "rconnect", stream_up, stream_down, NULL },
	{ "a datagram", datagram_up, datagram_down, NULL },
	{ 0 },
};
