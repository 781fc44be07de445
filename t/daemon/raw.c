/* SPDX-License-Identifier: MIT */
/* raw.c - a frame that becomes thousands of segments: a turn sends some of them, and all come in the end. */
#include "daemon/shard/raw.h"

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
#include "program.h"
#include "proto/bytes.h"
#include "t/suite.h"

#define HDR  54u /* Ethernet, IPv4, TCP */
#define DATA 5000u
#define TURN 64u

static struct program program;
static int seen;

static int on(const char *name)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP));

	at.sll_ifindex = (int)if_nametoindex(name);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static bool link_make(void)
{
	return own_network() && !system("exec 2>/dev/null; ip link add v0 type veth peer name v1 && ip link set v0 up "
					"&& ip link set v1 up");
}

/* That have come; waits so long for the first one. */
static unsigned frames(int patience)
{
	struct pollfd p = { .fd = seen, .events = POLLIN };
	uint8_t frame[256];
	unsigned n = 0;

	while (poll(&p, 1, n ? 0 : patience) > 0 && recv(seen, frame, sizeof(frame), 0) == HDR + 1)
		n++;
	return n;
}

static bool sends_more(void)
{
	struct send_wr wr = { .op = WR_SEND };
	struct burst b;

	ck_assert_int_eq(hca_post_send(shard.hca[0], program.qp.obj.number, &wr, clock_now()), 0);
	return hca_tx(shard.hca[0], &b, clock_now());
}

START_TEST(segments)
{
	static uint8_t data[HDR + DATA];
	struct span from = { NULL, (uintptr_t)data, sizeof(data) };
	struct burst b = { .raw = true, .raw_hdr = HDR, .raw_mss = 1, .payload_len = sizeof(data) };
	unsigned sum = 0, turns, n;
	mono_t now;

	if (!link_make()) {
		printf("skipped: no interfaces of one's own here\n");
		_exit(0);
	}
	shard_begin();
	ck_assert_int_eq(io_new(&shard.io, IO_EPOLL), 0);
	program_begin(&program);
	seen = on("v1");
	ck_assert_int_eq(raw_new(&program.qp.raw, on("v0"), 0), 0);
	ck_assert_int_eq(raw_begin(&program.qp), 0);
	be16_put(data + 12, ETH_P_IP);
	data[14] = 0x45;
	data[14 + 9] = IPPROTO_TCP;
	data[34 + 12] = 0x50;
	b.span = &from;
	b.span_n = 1;
	b.sqpn = program.qp.obj.number;
	now = clock_now();
	ck_assert_uint_ge(raw_cost(&b), TURN);
	raw_tx(&shard, shard.hca[0], 0, &b, now);
	ck_assert_msg(!mono_is_never(raw_deadline(&shard)), "all of it goes at once");
	for (turns = 1; raw_again(&shard, now); turns++) {
		sum += frames(0);
		ck_assert_uint_le(sum, (turns + 1) * TURN);
		ck_assert_msg(mono_is_never(raw_deadline(&shard)) || !sends_more(),
			      "the next frame goes before the end of this one");
	}
	while (sum < DATA && (n = frames(PATIENCE_MS)))
		sum += n;
	ck_assert_uint_eq(sum, DATA);
	ck_assert(sends_more());
	raw_end(&program.qp);
	raw_free(program.qp.raw);
	program.qp.raw = NULL;
	program_end(&program);
	io_free(shard.io);
	close(seen);
	shard_end();
}
END_TEST

TEST_MAIN("raw", segments)
