/* SPDX-License-Identifier: MIT */
/*
 * net_send.c - datagrams that their socket has no room for, or the kernel does not take.  On an interface of its own, where
 * most addresses answer no ARP: the kernel keeps what is sent to them.
 */
#include "daemon/shard/net_send.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "daemon/base/clock.h"
#include "daemon/shard/net_late.h"
#include "program.h"
#include "t/nap.h"
#include "t/suite.h"

#define DEAD     64u /* addresses */
#define LEN      1400u
#define SENDS    20000u /* no socket has room for so many */
#define FRIEND   200u
#define STRANGER 201u

static struct net *net;
static struct io *io;
static struct net_sock *sock;
static int seen; /* what the interface has sent */

static bool link_make(void)
{
	return own_network() &&
	       !system("exec 2>/dev/null; ip link add v0 type veth peer name v1 &&"
		       " for i in v0 v1; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; ip link set $i up; done;"
		       " ip addr add 10.9.0.1/16 dev v0 &&"
		       " for i in 200 201; do ip neigh add 10.9.255.$i lladdr 02:00:00:00:00:01 dev v0; done");
}

static void gid_of(unsigned host, uint8_t gid[16])
{
	const uint8_t v4[16] = { [10] = 0xff, 0xff, 10, 9, (uint8_t)(host >> 8), (uint8_t)host };

	memcpy(gid, v4, 16);
}

static void set_up(void)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP) };
	uint8_t gid[16];

	if (!link_make()) {
		printf("skipped: no interfaces of one's own here\n");
		_exit(0);
	}
	shard_begin();
	ck_assert_int_eq(io_new(&io, IO_EPOLL), 0);
	ck_assert_int_eq(net_new(&net, &shard, io), 0);
	devices[0].gid[1] = (struct gid_row){ .ifindex = if_nametoindex("v0"), .wire = true };
	gid_of(1, devices[0].gid[1].gid);
	ck_assert_int_eq(net_row_set(net, &devices[0], 1), 0);
	sock = net->by_slot[1];
	gid_of(0xff00 | FRIEND, gid);
	net_hear(net, gid);
	at.sll_ifindex = (int)if_nametoindex("v1");
	seen = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP));
	ck_assert_int_eq(bind(seen, (struct sockaddr *)&at, sizeof(at)), 0);
}

static void tear_down(void)
{
	close(seen);
	net_free(net);
	io_free(io);
	shard_end();
}

static struct batch batch_to(unsigned out, unsigned host)
{
	struct batch b = { .sock = sock, .out = &sock->out[out], .hca = shard.hca[0], .to_len = sizeof(b.to.in) };

	memcpy(b.route.sgid, sock->gid, 16);
	gid_of(host, b.route.dgid);
	b.to.in.sin_family = AF_INET;
	b.to.in.sin_port = htons(ROCE_PORT);
	memcpy(&b.to.in.sin_addr, b.route.dgid + 12, 4);
	return b;
}

static void pkt_add(struct batch *b, size_t len)
{
	b->pkt_len[b->n++] = (uint16_t)len;
	b->len += len;
}

static void send_one(unsigned out, unsigned host, size_t len)
{
	static uint8_t data[65536];
	struct batch b = batch_to(out, host);

	pkt_add(&b, len);
	net_send(net, &b, data);
}

/* Has a datagram of so many bytes left?  Those before it are passed over. */
static bool has_left(size_t len)
{
	struct pollfd p = { .fd = seen, .events = POLLIN };
	uint8_t frame[2048];

	while (poll(&p, 1, 1000) > 0)
		if (recv(seen, frame, sizeof(frame), 0) == (ssize_t)(ETH_HLEN + 20 + 8 + len))
			return true;
	return false;
}

static void flood(unsigned out)
{
	for (unsigned i = 0; i < SENDS && !sock->out[out].late; i++)
		send_one(out, 0x100 + i % DEAD, LEN);
	ck_assert_msg(sock->out[out].late != NULL, "the socket took %u datagrams", SENDS);
}

static mono_t much_later(void) { return mono_add(clock_now(), 10000000000u); }

/* However much goes to those that are not there: peers that are do not wait for it. */
START_TEST(dead_neighbours)
{
	uint64_t lost;

	set_up();
	flood(0);
	for (unsigned i = 0; i < 10; i++) {
		send_one(0, 0xff00 | FRIEND, 100 + i);
		ck_assert_msg(has_left(100 + i), "a peer waits for those that are not there");
		send_one(0, 0x100 + i, LEN);
	}
	send_one(1, 0xff00 | STRANGER, 200);
	ck_assert_msg(has_left(200), "another socket waits, too");
	lost = hca_stat(shard.hca[0], HCA_STAT_SEND_ERR);
	net_send_retry(net, much_later());
	ck_assert_ptr_null(sock->out[0].late);
	ck_assert_ptr_null(net->full);
	ck_assert_uint_eq(net->late_len, 0);
	ck_assert(mono_is_never(net_send_deadline(net)));
	ck_assert_uint_ge(hca_stat(shard.hca[0], HCA_STAT_SEND_ERR), lost + 11);
	tear_down();
}
END_TEST

/* More than it has room for, to a peer that was heard. */
static void fill(unsigned out)
{
	for (unsigned i = 0; i < SENDS && !sock->out[out].late; i++)
		send_one(out, 0xff00 | FRIEND, LEN);
	ck_assert_msg(sock->out[out].late != NULL, "the socket took %u datagrams", SENDS);
}

/* On a slow device one socket waits until it has sent what another one gave it before: nothing is lost meanwhile. */
START_TEST(slow_device)
{
	unsigned waited = 0;
	uint64_t lost;

	set_up();
	if (system("tc qdisc add dev v0 root tbf rate 100mbit burst 100k limit 100m 2>/dev/null")) {
		printf("skipped: no device can be made slow here\n");
		_exit(0);
	}
	fill(0);
	fill(1);
	lost = hca_stat(shard.hca[0], HCA_STAT_SEND_ERR);
	while (net->full) {
		net_send_retry(net, clock_now());
		nap(&waited);
	}
	ck_assert_uint_eq(hca_stat(shard.hca[0], HCA_STAT_SEND_ERR), lost);
	tear_down();
}
END_TEST

/* No more than so much waits. */
START_TEST(bounded)
{
	set_up();
	flood(0);
	for (unsigned i = 0; i < SENDS; i++)
		send_one(0, 0x100 + i % DEAD, LEN);
	ck_assert_uint_le(net->late_len, 64 * LEN);
	ck_assert_uint_ge(hca_stat(shard.hca[0], HCA_STAT_SEND_ERR), SENDS - 64);
	tear_down();
}
END_TEST

/* A queue pair that gives what must wait gives no more, until that is gone. */
START_TEST(held)
{
	struct send_wr wr = { .op = WR_SEND };
	struct program p = { 0 };
	struct burst burst;
	struct batch b;

	set_up();
	program_begin(&p);
	flood(0);
	b = batch_to(0, 0xff00 | FRIEND);
	late_hold(net, shard.hca[0], p.qp.obj.number, &b); /* it does not wait: it is not held */
	ck_assert_ptr_null(b.out->held);
	b = batch_to(0, 0x100);
	late_hold(net, shard.hca[0], p.qp.obj.number, &b);
	ck_assert_int_eq(hca_post_send(shard.hca[0], p.qp.obj.number, &wr, clock_now()), 0);
	ck_assert(!hca_tx(shard.hca[0], &burst, clock_now()));
	net_send_retry(net, much_later());
	ck_assert(hca_tx(shard.hca[0], &burst, clock_now()));
	program_end(&p);
	tear_down();
}
END_TEST

/* Those that are too long for the way are lost, and no others; in a train, too. */
START_TEST(too_long)
{
	static uint8_t data[65536];
	uint64_t lost;
	struct batch b;

	set_up();
	for (unsigned gso = 0; gso < 2; gso++) {
		b = batch_to(0, 0xff00 | FRIEND);
		b.gso = gso;
		pkt_add(&b, 3000);
		pkt_add(&b, 3000);
		pkt_add(&b, 20 + gso);
		lost = hca_stat(shard.hca[0], HCA_STAT_SEND_ERR);
		net_send(net, &b, data);
		ck_assert_msg(has_left(20 + gso), "it goes with those before it");
		ck_assert_uint_eq(hca_stat(shard.hca[0], HCA_STAT_SEND_ERR), lost + 2);
	}
	tear_down();
}
END_TEST

TEST_MAIN("net_send", slow_device, too_long, dead_neighbours, bounded, held)
