/* SPDX-License-Identifier: MIT */
/* foreign.c - connections that are hung up while something else of their user takes long to be closed; and what is large. */
#include "daemon/base/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/held.h"
#include "daemon/base/peer.h"
#include "daemon/base/quota.h"
#include "daemon/base/region.h"
#include "t/suite.h"

#define USER     1002u
#define MAY_HAVE 8u
#define WAIT_MAX 32u /* of those that nobody is charged with */
#define LARGE    (96u << 20)

static int reader; /* the end of it is the end of what takes long */

/* A TCP socket: to close it takes till somebody reads what it has sent, or nobody can. */
static int lingering(void)
{
	static const char data[65536];
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger how = { .l_onoff = 1, .l_linger = 50 };
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(sa);

	ck_assert(!bind(door, (struct sockaddr *)&sa, len) && !listen(door, 1) &&
		  !getsockname(door, (struct sockaddr *)&sa, &len));
	ck_assert(!connect(fd, (struct sockaddr *)&sa, len));
	reader = accept4(door, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(reader, 0);
	close(door);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof(how)), 0);
	while (send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	return fd;
}

static void begin(void)
{
	uint64_t conf[QUOTAS];

	for (unsigned q = 0; q < QUOTAS; q++)
		conf[q] = QUOTA_UNSET;
	conf[QUOTA_FDS] = MAY_HAVE;
	quota_begin(conf, 1);
	foreign_begin(NULL);
}

static void set_up(void)
{
	begin();
	foreign_close(lingering(), USER);
}

static void used_add(const struct quota_use *use, void *arg)
{
	struct cost *all = arg;

	for (unsigned q = 0; q < QUOTAS; q++)
		all->n[q] += use->used.n[q];
}

static uint64_t charged_with(enum quota q)
{
	struct cost all = { 0 };

	quota_each(used_add, &all);
	return all.n[q];
}

static uint64_t charged(void) { return charged_with(QUOTA_FDS); }

/* Its client has sent so much, the last message with a descriptor, and gone. */
static int connection(unsigned messages, bool descriptor)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl = { 0 };
	struct iovec iov = { "x", 1 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fd[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd), 0);
	for (unsigned i = 0; i < messages; i++)
		ck_assert_int_eq(send(fd[0], "x", i % 2, 0), i % 2); /* empty ones are messages, too */
	if (descriptor) {
		mh.msg_control = ctl.buf;
		mh.msg_controllen = sizeof(ctl.buf);
		*CMSG_FIRSTHDR(&mh) = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
							.cmsg_type = SCM_RIGHTS,
							.cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&mh)), &fd[0], sizeof(int));
		ck_assert_int_eq(sendmsg(fd[0], &mh, 0), 1);
	}
	ck_assert_int_eq(send(fd[1], "reply", 5, 0), 5); /* that nobody reads */
	close(fd[0]);
	return fd[1];
}

static bool settled(void)
{
	return !charged() && !charged_with(QUOTA_MAPS) && !foreign_stuck(USER) && foreign_room(USER);
}

static void wait_settled(void)
{
	for (unsigned i = 0; i < PATIENCE_MS && !settled(); i++) {
		foreign_settle();
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	ck_assert_uint_eq(charged(), 0);
	ck_assert_uint_eq(charged_with(QUOTA_MAPS), 0);
	ck_assert(foreign_room(USER));
}

/* All is closed some time after nothing takes long any more. */
static void wait_closed(void)
{
	close(reader);
	wait_settled();
}

/* They wait for nothing. */
START_TEST(without)
{
	set_up();
	for (unsigned i = 0; i < 3 * WAIT_MAX; i++) {
		int fd = connection(i, false);

		ck_assert(foreign_hang_up(fd, USER, NULL));
		ck_assert_msg(fcntl(fd, F_GETFD) < 0 && errno == EBADF, "it is not closed");
		ck_assert_uint_eq(charged(), 0);
	}
	wait_closed();
}
END_TEST

/* They wait, and count; and there is an end of it. */
START_TEST(with)
{
	unsigned n = 0;
	int fd;

	set_up();
	while (foreign_hang_up(fd = connection(n, true), USER, NULL)) {
		n++;
		ck_assert_uint_eq(charged(), n < MAY_HAVE ? n : MAY_HAVE);
		ck_assert_uint_le(n, MAY_HAVE + WAIT_MAX);
	}
	ck_assert_uint_ge(n, MAY_HAVE);
	ck_assert(foreign_hang_up(connection(1, true), USER + 1, NULL)); /* another user's */
	wait_closed();
	ck_assert(foreign_hang_up(fd, USER, NULL));
}
END_TEST

/* ---- memory that ends with its last descriptor, or with its last mapping -------------------- */

static int large(void)
{
	int fd = memfd_create("large", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fallocate(fd, 0, 0, LARGE), 0);
	return fd;
}

static struct held *large_map(void)
{
	int fd = large();
	struct held *h;

	ck_assert_int_eq(held_map(&h, fd, 0, LARGE, MAP_POPULATE), 0);
	close(fd);
	return h;
}

/* Done by another thread: so its bill is open until this one has heard of it.  What is small is done here, at once. */
START_TEST(pages)
{
	const struct cost cost = { { [QUOTA_FDS] = 1 } };
	int small = memfd_create("small", MFD_CLOEXEC);
	struct bill bill;

	begin();
	ck_assert_int_eq(bill_open(&bill, USER, &cost), 0);
	foreign_close_billed(small, USER, &bill);
	ck_assert_uint_eq(charged(), 0);
	ck_assert_int_eq(bill_open(&bill, USER, &cost), 0);
	foreign_close_billed(large(), USER, &bill);
	ck_assert_uint_eq(charged(), 1);
	ck_assert_int_eq(bill_open(&bill, USER, &cost), 0);
	foreign_unmap(large_map(), USER, &bill);
	ck_assert_ptr_null(bill.user);
	ck_assert_uint_eq(charged(), 2);
	wait_settled();
}
END_TEST

/* That of a region, of which its client says that it is a SysV segment's. */
START_TEST(said_segment)
{
	struct peer client = { .mem_fd = -1, .uid = USER };
	const uint64_t at = 1u << 30;
	struct region *r;
	int fd = large();

	begin();
	ck_assert_int_eq(
		region_new_segment(&r, &client, at, LARGE, fd, 0, &(struct map_part){ .addr = at, .len = LARGE }), 0);
	close(fd);
	region_free(r);
	ck_assert_uint_gt(charged_with(QUOTA_MAPS), 0);
	wait_settled();
}
END_TEST

/* A small file of a tmpfs, of whose mount it could be the last. */
START_TEST(of_a_mount)
{
	const struct cost cost = { { [QUOTA_FDS] = 1 } };
	struct peer client = { .mem_fd = -1, .uid = USER };
	const uint64_t at = 1u << 30;
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct region *r;
	struct bill bill;

	if (fd < 0 || fcntl(fd, F_GET_SEALS) < 0) {
		printf("# skipped: of_a_mount: /dev/shm is no tmpfs\n");
		return;
	}
	ck_assert_int_eq(ftruncate(fd, 4096), 0);
	begin();
	ck_assert_int_eq(region_new(&r, &client, at, 4096, fd, &(struct map_part){ .addr = at, .len = 4096 }), 0);
	region_free(r);
	ck_assert_uint_gt(charged_with(QUOTA_MAPS), 0);
	ck_assert_int_eq(bill_open(&bill, USER, &cost), 0);
	foreign_close_billed(fd, USER, &bill);
	ck_assert_uint_eq(charged(), 1);
	wait_settled();
}
END_TEST

TEST_MAIN("foreign", without, with, pages, said_segment, of_a_mount)
