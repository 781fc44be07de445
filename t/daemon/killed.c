/* SPDX-License-Identifier: MIT */
/*
 * killed.c - clients that die by SIGKILL at any moment.  All they had is gone, a neighbour is unharmed.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "t/suite.h"
#include "t/xorshift.h"

#define VICTIMS 100u

static uint64_t dice = 0x9e3779b97f4a7c15u;

static unsigned draw(unsigned n) { return (unsigned)(xorshift(&dice) >> 33) % n; }

/*
 * Every ck_assert writes to a file without a name that the runner reads: a kill in the middle of one leaves half a message
 * there, and the runner ends with status 2.
 */
static void runner_leave(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct stat st;

	for (int fd = 3; null >= 0 && fd < 256; fd++)
		if (fd != null && !fstat(fd, &st) && S_ISREG(st.st_mode) && !st.st_nlink)
			dup2(null, fd);
}

/* Opens, connects to itself, and moves data for ever; also makes and destroys objects. */
static void victim(void)
{
	struct cx c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	runner_leave();
	cx_open(&c);
	cx_connect(&c, &c);
	for (unsigned i = 0;; i++) {
		struct msg_req req = { .op = MSG_CQ_CREATE, .cq.cqe = 1000 };
		struct msg_rep rep;
		struct cqe e;

		cx_recv(&c, i, 0, 16384);
		cx_send(&c, i, 16384, 16384);
		cx_poll(&c, &e);
		cx_poll(&c, &e);
		if (i % 4 == 0) {
			call(c.fd, &req, &rep, NULL);
			req = (struct msg_req){ .op = MSG_CQ_DESTROY, .id.handle = rep.cq.handle };
			call(c.fd, &req, &rep, NULL);
		}
	}
}

START_TEST(random_moments)
{
	struct cx good;

	daemon_start();
	cx_open(&good);
	cx_connect(&good, &good);
	for (unsigned i = 0; i < VICTIMS; i++) {
		struct timespec life = { .tv_nsec = draw(8000000) };
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (!pid) {
			victim();
			_exit(1);
		}
		nanosleep(&life, NULL); /* how long it lives is the die's, and nothing depends on it */
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		cx_ping(&good);
	}
	cx_close(&good);
	daemon_clean();
	daemon_stop();
}
END_TEST

/* A child that holds the connection open does not keep the dead parent's context. */
START_TEST(child_survives)
{
	pid_t pid, child;
	int pipe_fd[2];

	daemon_start();
	ck_assert_int_eq(pipe(pipe_fd), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct cx c;

		cx_open(&c);
		child = fork();
		if (!child)
			for (;;)
				pause();
		if (write(pipe_fd[1], &child, sizeof(child)) != sizeof(child))
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(pipe_fd[0], &child, sizeof(child)), sizeof(child));
	ck_assert_int_eq(daemon_counts().contexts, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	daemon_clean();
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	daemon_stop();
}
END_TEST

/* Two contexts connected; one dies in the middle of a transfer.  The other's sends end in an error of their own. */
START_TEST(peer_dies)
{
	struct cx good, other;
	struct msg_rep rep;
	uint32_t numbers[1];
	int to_child[2], to_us[2];
	struct cqe e;
	pid_t pid;

	daemon_start();
	cx_open(&good);
	cx_open(&other);
	cx_connect(&other, &other);
	ck_assert_int_eq(pipe(to_child), 0);
	ck_assert_int_eq(pipe(to_us), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct cx c, peer = { .qpn = good.qpn };

		runner_leave();
		cx_open(&c);
		cx_connect(&c, &peer);
		numbers[0] = c.qpn;
		if (write(to_us[1], numbers, sizeof(numbers)) != sizeof(numbers))
			_exit(1);
		for (unsigned i = 0; i < 64; i++)
			cx_recv(&c, i, 0, 4096);
		for (;;)
			cx_poll(&c, &e);
	}
	ck_assert_int_eq(read(to_us[0], numbers, sizeof(numbers)), sizeof(numbers));
	cx_connect(&good, &(struct cx){ .qpn = numbers[0] });
	/* Quick retries: 4.096 us * 2^8, seven times. */
	struct msg_req quick = { .op = MSG_QP_MODIFY,
				 .qp_mod = { .qpn = good.qpn, .mask = QPA_STATE, .attr.state = QPS_RTS } };

	ck_assert_int_eq(call(good.fd, &quick, &rep, NULL), 0);
	for (unsigned i = 0; i < 32; i++)
		cx_send(&good, i, 0, 4096);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	for (unsigned i = 0; i < 30; i++)
		cx_send(&good, 100 + i, 0, 4096);
	/* In order: some that arrived, one whose retries ran out, the rest flushed. */
	unsigned ok = 0, failed = 0, flushed = 0;

	for (unsigned i = 0; i < 62; i++) {
		ck_assert_msg(cx_poll(&good, &e), "%u completions and no more", i);
		ck_assert_uint_eq(e.wr_id, i < 32 ? i : 100 + i - 32);
		if (e.status == WC_SUCCESS && !failed)
			ok++;
		else if (e.status == WC_RETRY_EXC_ERR && !failed)
			failed++;
		else if (e.status == WC_WR_FLUSH_ERR && failed)
			flushed++;
		else
			ck_abort_msg("completion %u: status %u after %u %u %u", i, e.status, ok, failed, flushed);
	}
	ck_assert_uint_eq(failed, 1);
	cx_ping(&other);
	cx_close(&good);
	cx_close(&other);
	daemon_clean();
	daemon_stop();
}
END_TEST

TEST_MAIN("ctl: killed clients", random_moments, child_survives, peer_dies)
