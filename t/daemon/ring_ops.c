/* SPDX-License-Identifier: MIT */
/* ring_ops.c - what the io_uring of a shard does for one who can write into it: it waits, and nothing else. */
#include "t/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/shard/uring.c"

#define SKIPPED 77

/* The result of an operation on an ordinary file. */
static int done(struct io_uring *ring, unsigned op)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	static char byte;
	int res;

	io_uring_prep_rw((int)op, sqe, AT_FDCWD, &byte, 0, 0);
	sqe->user_data = op;
	ck_assert_int_ge(io_uring_submit(ring), 0);
	ck_assert_int_eq(io_uring_wait_cqe(ring, &cqe), 0);
	ck_assert_uint_eq(cqe->user_data, op);
	res = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return res;
}

START_TEST(waits_only)
{
	static const unsigned ops[] = { IORING_OP_NOP,     IORING_OP_OPENAT, IORING_OP_READ,   IORING_OP_WRITE,
					IORING_OP_SENDMSG, IORING_OP_SOCKET, IORING_OP_CONNECT };
	int event = eventfd(0, EFD_CLOEXEC);
	struct uring *u;
	void *state;

	ck_assert_int_eq(uring_start(&state), 0);
	u = state;
	for (unsigned i = 0; i < sizeof(ops) / sizeof(*ops); i++)
		ck_assert_msg(done(&u->ring, ops[i]) == -EACCES, "operation %u is done", ops[i]);
	ck_assert_int_eq(ring_register(&u->ring, IORING_REGISTER_EVENTFD, &event, 1), EACCES);
	uring_stop(state);
	close(event);
}
END_TEST

/* The file of a slot, once it is closed, is gone: its port is free. */
START_TEST(closed)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	unsigned ready[4];
	void *state;
	int fd;

	ck_assert_int_eq(uring_start(&state), 0);
	for (unsigned i = 0; i < 10; i++) {
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		ck_assert_msg(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "the port: %s", strerror(errno));
		ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
		uring_add(state, 1, fd);
		ck_assert_uint_eq(uring_wait(state, 0, ready, 4), 0);
		uring_del(state, 1, fd);
		close(fd);
	}
	uring_stop(state);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ring operations");
	void *state;
	int err = uring_start(&state);

	if (err) {
		printf("skipped: no io_uring here: %s\n", strerror(err));
		return SKIPPED;
	}
	uring_stop(state);
	SUITE_ADD(suite, waits_only, closed);
	return suite_run(suite);
}
