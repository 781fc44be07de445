/* SPDX-License-Identifier: MIT */
/*
 * stopped.c - who is stopped and continued (Ctrl-Z and fg, a debugger) while it waits for a daemon's answer gets it, or to be let in
 * is: where a socket has a limit of time the kernel ends the wait then, with EINTR.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmad/sock.h>

#include "t/proc_state.h"
#include "t/suite.h"

#define PATIENCE_S 60

static const char asked[] = "asked", said[] = "said";

static void state_await(pid_t pid, const char *states)
{
	char state;

	while (!strchr(states, state = proc_state(pid)))
		poll(NULL, 0, 1); /* the test has a limit of time */
}

/* 0 or an errno.  with: a descriptor goes along. */
static int ask(int fd, int with)
{
	char rep[16];
	ssize_t n = with ? sock_swap_fd(fd, asked, sizeof(asked), fd, rep, sizeof(rep))
			 : sock_swap(fd, asked, sizeof(asked), rep, sizeof(rep), NULL);

	return n == (ssize_t)sizeof(said) && !memcmp(rep, said, sizeof(said)) ? 0 : errno;
}

/* It waits meanwhile. */
static void stop_and_go(pid_t pid)
{
	state_await(pid, "S");
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	state_await(pid, "T");
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	state_await(pid, "SZ");
}

static void succeeds(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_msg(WEXITSTATUS(status) == 0, "it did not: %s", strerror(WEXITSTATUS(status)));
}

static void gets_its_answer(int with)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	int sv[2];
	char req[16];
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	ck_assert_int_eq(setsockopt(sv[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(ask(sv[0], with));
	}
	ck_assert_int_eq(recv(sv[1], req, sizeof(req), 0), sizeof(asked));
	stop_and_go(pid);
	ck_assert_int_eq(send(sv[1], said, sizeof(said), MSG_NOSIGNAL), sizeof(said));
	succeeds(pid);
}

START_TEST(plain) { gets_its_answer(0); }
END_TEST

START_TEST(with_descriptor) { gets_its_answer(1); }
END_TEST

/* The first one is where the second has to wait. */
START_TEST(comes_in)
{
	char name[32];
	struct sockaddr_un sa;
	struct ucred who;
	socklen_t len;
	pid_t pid;
	int door, fd;

	snprintf(name, sizeof(name), "@rdmad-stopped-%d", (int)getpid());
	len = sock_addr(name, &sa);
	door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(door, (struct sockaddr *)&sa, len), 0);
	ck_assert_int_eq(listen(door, 0), 0);
	ck_assert_int_ge(sock_connect(name, PATIENCE_S, &who), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = sock_connect(name, PATIENCE_S, &who);
		_exit(fd < 0 ? -fd : 0);
	}
	stop_and_go(pid);
	ck_assert_int_ge(accept(door, NULL, NULL), 0);
	succeeds(pid);
}
END_TEST

TEST_MAIN("stopped", plain, with_descriptor, comes_in)
