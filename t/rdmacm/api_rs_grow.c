/* SPDX-License-Identifier: MIT */
/* api_rs_grow.c - buffers of rsockets that grow while a stream goes through them, and those that the program has set. */
#include "streams.h"

enum { PIECE = 99999 };

static unsigned char byte_of(size_t i) { return (unsigned char)(i % 253); }

static int size_of(int fd, int option)
{
	socklen_t len = sizeof(int);
	int v;

	ok(rgetsockopt(fd, SOL_SOCKET, option, &v, &len));
	return v;
}

/* As much as goes, from byte at of the stream of total bytes on; how much. */
static size_t fill(int fd, size_t at, size_t total)
{
	static unsigned char piece[PIECE];
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	size_t sent = 0, n;
	ssize_t part;

	/* Until nothing is under way any more, most probably: then the peer has all that it granted. */
	while (at + sent < total && rpoll(&p, 1, 20) > 0) {
		n = total - at - sent < sizeof(piece) ? total - at - sent : sizeof(piece);
		for (size_t i = 0; i < n; i++)
			piece[i] = byte_of(at + sent + i);
		part = rsend(fd, piece, n, 0);
		ck_assert(part > 0 || errno == EAGAIN);
		sent += part > 0 ? (size_t)part : 0;
	}
	return sent;
}

/* So many bytes are there, from byte at of the stream on. */
static void drain(int fd, size_t at, size_t len)
{
	static unsigned char piece[PIECE * 2 + 1];
	size_t wrong = 0, got = 0;
	ssize_t n;

	while (got < len) {
		n = rrecv(fd, piece, sizeof(piece), 0);
		ck_assert_int_gt(n, 0);
		for (size_t i = 0; i < (size_t)n; i++)
			wrong += piece[i] != byte_of(at + got + i);
		got += (size_t)n;
	}
	ck_assert_uint_eq(got, len);
	ck_assert_uint_eq(wrong, 0);
}

static void through(const struct streams *s, size_t total)
{
	size_t at = 0, n;

	ok(rfcntl(s->client, F_SETFL, O_NONBLOCK));
	while (at < total) {
		/* That there is room again takes a message. */
		ck_assert_int_eq(rpoll(&(struct pollfd){ .fd = s->client, .events = POLLOUT }, 1, PATIENCE_MS), 1);
		n = fill(s->client, at, total);
		drain(s->server, at, n);
		at += n;
	}
}

START_TEST(rs_grows)
{
	struct streams s;
	int before;

	streams_open(&s, 0);
	before = size_of(s.server, SO_RCVBUF);
	through(&s, 32 << 20);
	ck_assert_int_eq(size_of(s.server, SO_RCVBUF), 1 << 20);
	ck_assert_int_eq(size_of(s.client, SO_RCVBUF), before);
	streams_close(&s);
}
END_TEST

START_TEST(rs_set_stays)
{
	struct streams s;
	int snd = 64 << 10, rcv = 100 << 10;

	streams_open_with(&s, SOL_SOCKET, SO_SNDBUF, snd);
	through(&s, 4 << 20);
	ck_assert_int_eq(size_of(s.client, SO_SNDBUF), snd);
	streams_close(&s);
	streams_open_with(&s, SOL_SOCKET, SO_RCVBUF, rcv);
	through(&s, 4 << 20);
	ck_assert_int_eq(size_of(s.server, SO_RCVBUF), rcv);
	streams_close(&s);
}
END_TEST

void api_rs_grow(Suite *s) { SUITE_ADD(s, rs_grows, rs_set_stays); }
