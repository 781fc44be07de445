/* SPDX-License-Identifier: MIT */
/* api_rsd.c - datagram rsockets: by UDP first, then by the QP; sizes, names, polling, ends. */
#include "fixture.h"

#include "../fds_left.h"

#include <poll.h>
#include <rdma/rsocket.h>
#include <unistd.h>

static int dgram_open(void)
{
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_msg(fd >= 0, "rsocket: %s", strerror(errno));
	return fd;
}

static struct sockaddr_in dgram_bind(int fd)
{
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);

	ok(rbind(fd, lo(0), sizeof(sin)));
	ok(rgetsockname(fd, (struct sockaddr *)&sin, &len));
	ck_assert_uint_eq(len, sizeof(sin));
	ck_assert_int_ne(sin.sin_port, 0);
	return sin;
}

static short polled(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	ck_assert_int_ge(rpoll(&p, 1, ms), 0);
	return p.revents;
}

static void send_to(int fd, const void *buf, size_t len, const struct sockaddr_in *to)
{
	ck_assert_msg(rsendto(fd, buf, len, 0, (const struct sockaddr *)to, sizeof(*to)) == (ssize_t)len, "rsendto: %s",
		      strerror(errno));
}

/* Receives a datagram: len bytes of the pattern, from that address. */
static struct sockaddr_in receive(int fd, const void *want, size_t len)
{
	struct sockaddr_in from = { 0 };
	socklen_t n = sizeof(from);
	char buf[4096];

	ck_assert_int_eq(polled(fd, POLLIN, PATIENCE_MS), POLLIN);
	ck_assert_int_eq(rrecvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &n), (ssize_t)len);
	ck_assert_mem_eq(buf, want, len);
	ck_assert_uint_eq(n, sizeof(from));
	return from;
}

static void addr_same(struct sockaddr_in a, struct sockaddr_in b)
{
	ck_assert_uint_eq(a.sin_addr.s_addr, b.sin_addr.s_addr);
	ck_assert_uint_eq(a.sin_port, b.sin_port);
}

START_TEST(rsd_echo)
{
	int a = dgram_open(), b = dgram_open();
	struct sockaddr_in at_a = dgram_bind(a), at_b = dgram_bind(b), from;
	unsigned char data[2000];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i % 251);
	/* The first go by UDP; in between each learns the other's QP. */
	for (size_t n = 0; n <= sizeof(data); n += 50) {
		send_to(a, data, n, &at_b);
		from = receive(b, data, n);
		addr_same(from, at_a);
		send_to(b, data, n, &from);
		addr_same(receive(a, data, n), at_b);
	}
	ok(rclose(a));
	ok(rclose(b));
}
END_TEST

START_TEST(rsd_connected)
{
	int a = dgram_open(), b = dgram_open(), c = dgram_open();
	struct sockaddr_in at_b = dgram_bind(b), at_a, peer;
	socklen_t len = sizeof(at_a);
	char buf[8];

	fails((int)rsend(a, "x", 1, 0), EDESTADDRREQ);
	ok(rconnect(a, (struct sockaddr *)&at_b, sizeof(at_b)));
	ok(rgetsockname(a, (struct sockaddr *)&at_a, &len));
	len = sizeof(peer);
	ok(rgetpeername(a, (struct sockaddr *)&peer, &len));
	addr_same(peer, at_b);
	for (int i = 0; i < 50; i++) {
		ck_assert_int_eq(rsend(a, &i, sizeof(i), 0), sizeof(i));
		addr_same(receive(b, &i, sizeof(i)), at_a);
		send_to(c, "no", 2, &at_a); /* is not its peer */
		send_to(b, &i, sizeof(i), &at_a);
		ck_assert_int_eq(polled(a, POLLIN, PATIENCE_MS), POLLIN);
		ck_assert_int_eq(rrecv(a, buf, sizeof(buf), 0), sizeof(i));
		ck_assert_mem_eq(buf, &i, sizeof(i));
	}
	fails((int)rrecv(a, buf, sizeof(buf), MSG_DONTWAIT), EAGAIN);
	ok(rclose(a));
	ok(rclose(b));
	ok(rclose(c));
}
END_TEST

START_TEST(rsd_shapes)
{
	int a = dgram_open(), b = dgram_open(), c = dgram_open(), kind = 0;
	struct sockaddr_in at_b = dgram_bind(b), from;
	struct iovec v[2] = { { (char[]){ 'a', 'b', 'c' }, 3 }, { (char[]){ 'd', 'e' }, 2 } };
	struct msghdr m = { .msg_name = &at_b, .msg_namelen = sizeof(at_b), .msg_iov = v, .msg_iovlen = 2 };
	char buf[4], big[3000] = "";
	struct iovec out = { buf, sizeof(buf) };
	struct msghdr in = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &out, .msg_iovlen = 1 };
	socklen_t len = sizeof(kind);

	ok(rgetsockopt(a, SOL_SOCKET, SO_TYPE, &kind, &len));
	ck_assert_int_eq(kind, SOCK_DGRAM);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(rsendmsg(a, &m, 0), 5);
		ck_assert_int_eq(polled(b, POLLIN, PATIENCE_MS), POLLIN);
		ck_assert_int_eq(rrecv(b, buf, 4, MSG_PEEK), 4);
		ck_assert_mem_eq(buf, "abcd", 4);
		ck_assert_int_eq(rrecvmsg(b, &in, 0), 4); /* the rest is lost, and that is said */
		ck_assert_mem_eq(buf, "abcd", 4);
		ck_assert_int_eq(in.msg_flags, MSG_TRUNC);
		ck_assert_int_eq(polled(b, POLLIN, 0), 0);
	}
	fails((int)rsendto(a, big, sizeof(big), 0, (struct sockaddr *)&at_b, sizeof(at_b)), EMSGSIZE);
	fails(rlisten(a, 1), EOPNOTSUPP);
	fails(raccept(a, NULL, NULL), EOPNOTSUPP);
	fails(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), EPROTONOSUPPORT);
	fails(rbind(c, (struct sockaddr *)&at_b, sizeof(at_b)), EADDRINUSE);
	ok(rclose(b));
	ok(rbind(c, (struct sockaddr *)&at_b, sizeof(at_b))); /* free at once */
	ok(rclose(c));
	ok(rclose(a));
	fails(rclose(a), EBADF);
}
END_TEST

/* More than the receiver's buffers: datagrams are lost, but it is none the worse for that. */
START_TEST(rsd_flood)
{
	int a = dgram_open(), b = dgram_open(), got = 0;
	struct sockaddr_in at_b = dgram_bind(b);
	char buf[64];

	ok(rconnect(a, (struct sockaddr *)&at_b, sizeof(at_b)));
	for (int i = 0; i < 2000; i++)
		ck_assert_int_eq(rsend(a, "flood", 5, 0), 5);
	while (polled(b, POLLIN, 200)) {
		ck_assert_int_eq(rrecv(b, buf, sizeof(buf), 0), 5);
		got++;
	}
	ck_assert_int_gt(got, 0);
	ck_assert_int_eq(polled(a, POLLOUT, PATIENCE_MS), POLLOUT);
	ck_assert_int_eq(rsend(a, "after", 5, 0), 5);
	ck_assert_int_eq(polled(b, POLLIN, PATIENCE_MS), POLLIN);
	ck_assert_int_eq(rrecv(b, buf, sizeof(buf), 0), 5);
	ck_assert_mem_eq(buf, "after", 5);
	ok(rclose(a));
	ok(rclose(b));
}
END_TEST

static void *sleeper_run(void *arg)
{
	char c;

	return (void *)(intptr_t)rrecv(*(int *)arg, &c, 1, 0);
}

/* A thread that sleeps in rrecv() wakes up by rshutdown(). */
START_TEST(rsd_shutdown)
{
	int a = dgram_open();
	pthread_t t;
	void *ret;

	dgram_bind(a);
	ck_assert_int_eq(pthread_create(&t, NULL, sleeper_run, &a), 0);
	ok(rshutdown(a, SHUT_RD));
	pthread_join(t, &ret);
	ck_assert_ptr_null(ret);
	ck_assert_int_eq(polled(a, POLLIN, 0), POLLIN);
	ok(rclose(a));
}
END_TEST

#define BLOCKS 256u

/* So that a pointer into freed memory leads nowhere. */
static void freed_spoil(void *taken[BLOCKS])
{
	for (size_t i = 0; i < BLOCKS; i++) {
		taken[i] = malloc(16 * (i + 1));
		ck_assert_ptr_nonnull(taken[i]);
		memset(taken[i], 0xa5, 16 * (i + 1));
	}
}

/* One that cannot be had, for want of descriptors, is nothing that the next one meets. */
START_TEST(rsd_full)
{
	void *taken[BLOCKS];
	struct rlimit old;
	int fd, n = 0;

	do {
		old = fds_left(n++);
		fd = rsocket(AF_INET, SOCK_DGRAM, 0);
		ck_assert(fd >= 0 || errno == EMFILE);
		ok(setrlimit(RLIMIT_NOFILE, &old));
		freed_spoil(taken);
		ok(rclose(dgram_open()));
		for (size_t i = 0; i < BLOCKS; i++)
			free(taken[i]);
	} while (fd < 0);
	ck_assert_int_gt(n, 4); /* the last of them is for the thread */
	ok(rclose(fd));
}
END_TEST

void api_rsd(Suite *s) { SUITE_ADD(s, rsd_echo, rsd_connected, rsd_shapes, rsd_flood, rsd_shutdown, rsd_full); }
