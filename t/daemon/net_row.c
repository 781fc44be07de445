/* SPDX-License-Identifier: MIT */
/* net_row.c - rows of a GID table come and go: until then what has such a GID is local, also if it could have no socket. */
#include "daemon/shard/net.h"
#include "daemon/shard/spare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "program.h"
#include "proto/hca_in.h"
#include "t/suite.h"

static const uint8_t gid[16] = { [10] = 0xff, 0xff, 127, 9, 8, 7 };
static struct net *net;
static struct io *io;

static void set_up(void)
{
	shard_begin();
	ck_assert_int_eq(io_new(&io, IO_EPOLL), 0);
	ck_assert_int_eq(net_new(&net, &shard, io), 0);
}

static void tear_down(void)
{
	net_free(net);
	io_free(io);
	shard_end();
}

/* gid NULL: the row is empty. */
static int row(unsigned i, const uint8_t *to, bool wire)
{
	devices[0].gid[i] = (struct gid_row){ .ifindex = if_nametoindex("lo"), .wire = wire };
	if (to)
		memcpy(devices[0].gid[i].gid, to, 16);
	return net_row_set(net, &devices[0], i);
}

static bool is_local(void) { return path_is_local(shard.hca[0], gid); }

/* As the port is somebody else's. */
START_TEST(without_socket)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&a.sin_addr, gid + 12, 4);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	set_up();
	ck_assert_int_eq(row(1, gid, true), EADDRINUSE);
	ck_assert_int_eq(row(1, gid, false), 0);
	ck_assert(is_local());
	ck_assert_int_eq(row(1, NULL, false), 0);
	ck_assert(!is_local());
	close(fd);
	tear_down();
}
END_TEST

/* A socket with a large buffer that was not for a link-local address is for any other one, on any interface. */
START_TEST(spare_again)
{
	static const uint8_t other[16] = { 0xfe, 0x80, [8] = 0x72, 0x64, [15] = 9 };
	socklen_t len = sizeof(int);
	int fd, tied = -1;

	spare_begin(0, 1, geteuid(), 65536);
	set_up();
	ck_assert_int_eq(row(1, other, true), EADDRNOTAVAIL);
	ck_assert_uint_eq(spare_n(), 1);
	fd = spare_take(true, true);
	ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &tied, &len), 0);
	ck_assert_int_eq(tied, 0);
	close(fd);
	tear_down();
	spare_end();
}
END_TEST

/* It is local as long as one row has it. */
START_TEST(two_rows)
{
	static const uint8_t other[16] = { 0xfe, 0x80, [15] = 1 };

	set_up();
	ck_assert_int_eq(row(1, gid, false), 0);
	ck_assert_int_eq(row(2, gid, false), 0);
	ck_assert_int_eq(row(1, other, false), 0);
	ck_assert(is_local());
	ck_assert_int_eq(row(2, other, false), 0);
	ck_assert(!is_local());
	tear_down();
}
END_TEST

TEST_MAIN("net_row", without_socket, spare_again, two_rows)
