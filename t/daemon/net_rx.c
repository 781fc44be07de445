/* SPDX-License-Identifier: MIT */
/*
 * net_rx.c - how many datagrams are read by one system call, and of one socket in one turn.  They come over loopback and are no
 * packets: each is counted as one with a wrong ICRC.
 */
#include "daemon/shard/net_rx.h"

#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/shard/net_priv.h"
#include "program.h"
#include "t/suite.h"

#define LEN 64u

static struct net net;
static struct net_sock sock;
static int from;
static const mono_t now = { 1 };

static void set_up(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int on = 1;

	shard_begin();
	sock = (struct net_sock){ .dev = &devices[0], .hot_until = mono_add(now, NET_HOT_NS) };
	sock.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert(sock.fd >= 0 && from >= 0);
	ck_assert_int_eq(setsockopt(sock.fd, SOL_UDP, UDP_GRO, &on, sizeof(on)), 0);
	ck_assert_int_eq(bind(sock.fd, (struct sockaddr *)&a, sizeof(a)), 0);
	ck_assert_int_eq(getsockname(sock.fd, (struct sockaddr *)&a, &len), 0);
	ck_assert_int_eq(connect(from, (struct sockaddr *)&a, sizeof(a)), 0);
	net.shard = &shard;
	net.sock[0] = &sock;
	net.sock_n = 1;
	icrc_rx_init(&net.icrc);
	ck_assert_int_eq(net_rx_init(&net), 0);
}

static void tear_down(void)
{
	net_rx_free(&net);
	close(from);
	close(sock.fd);
	shard_end();
}

/* So many datagrams of pkts packets each. */
static void put(unsigned n, unsigned pkts)
{
	static const uint8_t data[8 * LEN];
	int seg = pkts > 1 ? (int)LEN : 0;

	ck_assert_int_eq(setsockopt(from, SOL_UDP, UDP_SEGMENT, &seg, sizeof(seg)), 0);
	while (n--)
		ck_assert_int_eq(send(from, data, pkts * LEN, 0), pkts * LEN);
}

static uint64_t packets(void) { return hca_stat(shard.hca[0], HCA_STAT_ICRC_ERR); }

/* A turn, and what each of its system calls read, as "1 2 4"; the sum. */
static unsigned turn(char text[256])
{
	unsigned sum = 0;
	size_t at = 0;

	text[0] = 0;
	net_rx_begin(&net);
	while (net_read(&net, now)) {
		at += (size_t)snprintf(text + at, 256 - at, at ? " %u" : "%u", net.run.n);
		sum += net.run.n;
		net_give(&net, now);
	}
	return sum;
}

static void turn_is(const char *expected)
{
	char text[256];

	turn(text);
	ck_assert_str_eq(text, expected);
}

/* The more packets have come alone, the more are read at once; but a turn has an end, and all of them come. */
START_TEST(alone)
{
	set_up();
	put(150, 1);
	turn_is("1"); /* it may be the only one */
	turn_is("1 2 4 8 16 32 1");
	turn_is("32 32");
	turn_is("21");
	turn_is("");
	ck_assert_uint_eq(packets(), 150);
	put(1, 1);
	turn_is("1");
	tear_down();
}
END_TEST

/* However full a socket is, the next one gets its turn. */
START_TEST(two_sockets)
{
	static struct net_sock second;
	char text[256];

	set_up();
	second = sock;
	net.sock[net.sock_n++] = &second; /* the same queue, read twice in a turn */
	put(200, 1);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_uint_le(turn(text), 2 * RUNS_TURN);
	ck_assert_msg(sock.flows && second.flows, "the second socket was not read");
	tear_down();
}
END_TEST

/* Two packets alone do not show that more will follow. */
START_TEST(trains)
{
	set_up();
	put(2, 1);
	put(20, 8);
	turn_is("1");
	turn_is("1 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1");
	turn_is("1 1 1 1");
	ck_assert_uint_eq(packets(), 2 + 20 * 8);
	tear_down();
}
END_TEST

/* A train among them, and the evidence is gone. */
START_TEST(train_between)
{
	set_up();
	put(16, 1);
	put(1, 8);
	turn_is("1");
	turn_is("1 2 4 8 1");
	put(20, 1);
	turn_is("1 1 2 4 8 4");
	ck_assert_uint_eq(packets(), 16 + 8 + 20);
	tear_down();
}
END_TEST

TEST_MAIN("net_rx", alone, two_sockets, trains, train_between)
