/* SPDX-License-Identifier: MIT */
/*
 * no_fd.c - a daemon that has no descriptor left for one more client: programs, rdmactl and rdmad-run are told so, and what to do; and
 * whom it has let in hears the same of what needs one.
 */
#include "client.h"
#include "t/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rdmad/sock.h>

#define SESSIONS 256u /* more than there are gaps between its descriptors */
#define ROOM     3u   /* for so many there is one, at least */
#define AGAIN    20u

static int session[SESSIONS];
static unsigned session_n;
static struct rlimit before;

/* The highest of the daemon's descriptors. */
static int highest_fd(void)
{
	char path[64];
	int highest = 0;

	for (int fd = 0; fd < 4096; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)daemon_process(), fd);
		if (!faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW))
			highest = fd;
	}
	return highest;
}

/* Says hello and keeps the connection: the errno of the answer; -1: there is none. */
static int enter(int fd, struct msg_rep *rep)
{
	struct msg_req req = { .op = MSG_HELLO, .hello = { .abi = RDMAD_ABI, .prog = "one more" } };

	session[session_n++] = fd;
	return sock_swap(fd, &req, msg_req_len(req.op), rep, sizeof(*rep), NULL) == (ssize_t)sizeof(*rep) ? rep->err
													  : -1;
}

/* A daemon of our own user, whose limit may be set; it has a descriptor to turn clients away with, and none besides. */
static void begin(void)
{
	struct msg_req req = { .op = MSG_HOLD };
	struct rlimit few;
	struct msg_rep rep;
	int err;

	own_network();
	daemon_start_with("--private");
	session[session_n++] = hail();
	ck_assert_int_eq(call(session[0], &req, &rep, NULL), 0);
	setenv("RDMAD_SOCKET", daemon_socket(), 1);
	ck_assert_int_eq(prlimit(daemon_process(), RLIMIT_NOFILE, NULL, &before), 0);
	few = (struct rlimit){ (rlim_t)highest_fd() + 1 + ROOM, before.rlim_max };
	ck_assert_int_eq(prlimit(daemon_process(), RLIMIT_NOFILE, &few, NULL), 0);
	do {
		ck_assert_uint_lt(session_n, SESSIONS);
		err = enter(dial(), &rep);
	} while (!err);
	ck_assert_int_eq(err, ENFILE);
	ck_assert_uint_eq(rep.op, MSG_NONE);
}

static void end(void)
{
	ck_assert_int_eq(prlimit(daemon_process(), RLIMIT_NOFILE, &before, NULL), 0);
	close(hail());
	daemon_stop();
	while (session_n)
		close(session[--session_n]);
}

static void says(const char *command, const char *text)
{
	char line[512], said[4096] = "";
	FILE *f;

	snprintf(line, sizeof(line), "%s 2>&1", command);
	f = popen(line, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		strncat(said, line, sizeof(said) - strlen(said) - 1);
	ck_assert_int_ne(pclose(f), 0);
	ck_assert_msg(strstr(said, text) != NULL, "%s: %s", command, said);
}

/* Whether the daemon looks before they say hello, or behind it. */
START_TEST(outside)
{
	struct msg_rep rep;
	int n, fd;

	begin();
	for (unsigned i = 0; i < AGAIN; i++) {
		ck_assert(!ibv_get_device_list(&n) && !n);
		ck_assert_msg(errno == ENFILE, "%s", strerror(errno));
	}
	kill(daemon_process(), SIGSTOP);
	fd = dial();
	ck_assert(say(fd, "", 1, NULL, 0, 0));
	kill(daemon_process(), SIGCONT);
	ck_assert_int_eq(enter(fd, &rep), ENFILE);
	says("./rdmactl devices", "no descriptor left: " MSG_NO_FD_HINT);
	says("./rdmad-run true", "no descriptor left: " MSG_NO_FD_HINT);
	end();
}
END_TEST

/* There are two for connections, and no more. */
START_TEST(inside)
{
	struct ibv_device **list;
	struct ibv_context *ctx;

	begin();
	for (unsigned i = 0; i < 3; i++) /* the last one has been turned away */
		close(session[--session_n]);
	while (!(list = ibv_get_device_list(NULL)) && errno == ENFILE) /* until the daemon has seen their ends */
		usleep(1000000 / AGAIN);
	ck_assert_msg(list && *list, "%s", strerror(errno));
	ck_assert(!ibv_open_device(*list));
	ck_assert_msg(errno == ENFILE, "%s", strerror(errno));
	ck_assert_int_eq(prlimit(daemon_process(), RLIMIT_NOFILE, &before, NULL), 0);
	ck_assert(reported(session[0], "ibv_open_device refused: Too many open files in system"));
	ctx = ibv_open_device(*list);
	ck_assert_ptr_nonnull(ctx);
	ck_assert_int_eq(ibv_close_device(ctx), 0);
	ibv_free_device_list(list);
	end();
}
END_TEST

/* There is one for a connection, and none for the descriptor with which it opens a device. */
START_TEST(last)
{
	struct ibv_device **list;

	begin();
	for (unsigned i = 0; i < 2; i++) /* as above */
		close(session[--session_n]);
	while (!(list = ibv_get_device_list(NULL)) && errno == ENFILE)
		usleep(1000000 / AGAIN);
	ck_assert_msg(list && *list, "%s", strerror(errno));
	for (unsigned i = 0; i < AGAIN; i++) { /* the daemon may not have seen the end of the one before */
		ck_assert(!ibv_open_device(*list));
		ck_assert_msg(errno == ENFILE, "%s", strerror(errno));
		usleep(1000000 / AGAIN / AGAIN);
	}
	ck_assert_int_eq(prlimit(daemon_process(), RLIMIT_NOFILE, &before, NULL), 0);
	ck_assert(reported(session[0], "ibv_open_device refused: Too many open files in system"));
	ibv_free_device_list(list);
	end();
}
END_TEST

/* It is rdmactl that has none. */
START_TEST(asking)
{
	own_network();
	daemon_start();
	setenv("RDMAD_SOCKET", daemon_socket(), 1);
	says("sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 4; exec ./rdmactl why'",
	     "no descriptor is left");
	daemon_stop();
}
END_TEST

TEST_MAIN("no descriptor left", outside, inside, last, asking)
