/* SPDX-License-Identifier: MIT */
/* streams.c - see streams.h. */
#include "streams.h"

int rs_open(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	ck_assert_msg(fd >= 0, "rsocket: %s", strerror(errno));
	return fd;
}

uint16_t rs_port(int fd)
{
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);

	ok(rgetsockname(fd, (struct sockaddr *)&sin, &len));
	return ntohs(sin.sin_port);
}

void rs_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	ck_assert_int_eq(rpoll(&p, 1, PATIENCE_MS), 1);
	ck_assert_int_eq(p.revents & events, events);
}

static void streams_make(struct streams *s)
{
	s->listen = rs_open();
	s->client = rs_open();
}

static void streams_connect(struct streams *s)
{
	int err = -1;
	socklen_t len = sizeof(err);

	ok(rbind(s->listen, lo(0), sizeof(struct sockaddr_in)));
	ok(rlisten(s->listen, 4));
	ok(rfcntl(s->client, F_SETFL, O_NONBLOCK));
	fails(rconnect(s->client, lo(rs_port(s->listen)), sizeof(struct sockaddr_in)), EINPROGRESS);
	/* One thread: the request is sent by the events that polling takes. */
	for (int i = 0; i < 1000; i++) {
		struct pollfd p[2] = { { s->listen, POLLIN, 0 }, { s->client, POLLOUT, 0 } };

		ck_assert_int_ge(rpoll(p, 2, PATIENCE_MS), 1);
		if (p[0].revents)
			break;
	}
	s->server = raccept(s->listen, NULL, NULL);
	ck_assert_int_ge(s->server, 0);
	rs_ready(s->client, POLLOUT);
	ok(rgetsockopt(s->client, SOL_SOCKET, SO_ERROR, &err, &len));
	ck_assert_int_eq(err, 0);
	ok(rfcntl(s->client, F_SETFL, 0));
}

void streams_open_with(struct streams *s, int level, int name, int value)
{
	streams_make(s);
	ok(rsetsockopt(s->listen, level, name, &value, sizeof(value)));
	ok(rsetsockopt(s->client, level, name, &value, sizeof(value)));
	streams_connect(s);
}

void streams_open(struct streams *s, int iomaps)
{
	if (iomaps) {
		streams_open_with(s, SOL_RDMA, RDMA_IOMAPSIZE, iomaps);
	} else {
		streams_make(s);
		streams_connect(s);
	}
}

void streams_close(struct streams *s)
{
	if (s->client >= 0)
		ok(rclose(s->client));
	if (s->server >= 0)
		ok(rclose(s->server));
	ok(rclose(s->listen));
}
