/* SPDX-License-Identifier: MIT */
/*
 * log_full.c - a log that nobody reads, a pipe, terminal or disk that is full: the daemon goes on, and says later how much was lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "client.h"
#include "t/suite.h"

#define BYTE  '.'
#define ALIKE 3
#define READ  2048 /* of what is written to a terminal, at once: more than a program that reads takes in */
#define LINE  128
#define MOST  9 /* warnings alike, before they are held back */

static int out; /* what the daemon's stderr is read from */

/* Until there is no room at all, not even for a byte. */
static void fill(int fd)
{
	static const size_t sizes[] = { 4096, 1 };
	char bytes[4096];
	int flags = fcntl(fd, F_GETFL);

	memset(bytes, BYTE, sizeof(bytes));
	ck_assert_int_eq(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		while (write(fd, bytes, sizes[i]) > 0)
			;
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(fcntl(fd, F_SETFL, flags), 0);
}

/* A library of another version, of which the daemon warns. */
static void warned_of(void)
{
	struct msg_req req = { .op = MSG_HELLO, .hello = { .abi = RDMAD_ABI + 1, .prog = "another" } };
	struct msg_rep rep;
	int fd = dial();

	ck_assert_int_eq(call(fd, &req, &rep, NULL), 0);
	close(fd);
}

/* All that is there, without the filling. */
static void drain(char *text, size_t room)
{
	struct pollfd p = { .fd = out, .events = POLLIN };
	size_t len = 0;

	while (poll(&p, 1, 0) == 1) {
		char bytes[4096];
		ssize_t n = read(out, bytes, sizeof(bytes));

		ck_assert_int_gt(n, 0);
		for (ssize_t i = 0; i < n && len + 1 < room; i++)
			if (len || bytes[i] != BYTE)
				text[len++] = bytes[i];
	}
	text[len] = '\0';
}

static void start_with_log(int fd)
{
	int own = dup(STDERR_FILENO);

	own_network();
	ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	daemon_start_with("--log-level=warning");
	ck_assert_int_eq(dup2(own, STDERR_FILENO), STDERR_FILENO);
	close(own);
}

START_TEST(nobody_reads)
{
	int p[2];
	char text[4096];

	ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
	out = p[0];
	start_with_log(p[1]);
	drain(text, sizeof(text));
	fill(p[1]);
	for (unsigned i = 0; i < ALIKE; i++)
		warned_of();
	close(hail());
	drain(text, sizeof(text));
	ck_assert_str_eq(text, "");
	warned_of();
	drain(text, sizeof(text));
	ck_assert_msg(strstr(text, "another version") != NULL, "it says: %s", text);
	ck_assert_msg(strstr(text, "(3 lines were lost: there was no room)") != NULL, "it says: %s", text);
	warned_of();
	drain(text, sizeof(text));
	ck_assert_msg(strstr(text, "another version") != NULL, "it says: %s", text);
	ck_assert_msg(strstr(text, "lost") == NULL, "it says: %s", text);
	daemon_stop();
}
END_TEST

/*
 * Lines like the daemon's, up to most bytes; how many.  The kernel takes some out of its buffer for the one who reads, behind our
 * back: that is waited for, so that it is the same each time.
 */
static size_t lines(int fd, size_t most)
{
	int flags = fcntl(fd, F_GETFL), ready = 0;
	char line[LINE];
	size_t all = 0;
	ssize_t n;

	memset(line, BYTE, sizeof(line));
	ck_assert_int_eq(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
	while (all + LINE <= most && (n = write(fd, line, sizeof(line))) > 0) {
		all += (size_t)n;
		while (all <= READ && (size_t)ready < all)
			ck_assert_int_eq(ioctl(out, FIONREAD, &ready), 0);
	}
	ck_assert_int_eq(fcntl(fd, F_SETFL, flags), 0);
	return all;
}

/* It has room for a part of a line. */
START_TEST(terminal)
{
	char text[4096];
	size_t full;
	int fd;

	ck_assert_int_eq(openpty(&out, &fd, NULL, NULL, NULL), 0);
	full = lines(fd, SIZE_MAX);
	close(out);
	close(fd);
	ck_assert_int_eq(openpty(&out, &fd, NULL, NULL, NULL), 0);
	start_with_log(fd);
	drain(text, sizeof(text));
	lines(fd, full - 4 * LINE);
	for (unsigned i = 0; i < MOST; i++)
		warned_of();
	close(hail());
	drain(text, sizeof(text));
	warned_of();
	drain(text, sizeof(text));
	ck_assert_msg(strstr(text, "another version") != NULL, "it says: %s", text);
	ck_assert_msg(strstr(text, " lost: there was no room)") != NULL, "it says: %s", text);
	daemon_stop();
}
END_TEST

START_TEST(disk)
{
	static const char bytes[4096];
	char text[4096] = "";
	int fd;

	own_network();
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/mnt", "tmpfs", 0, "size=4k")) {
		printf("# no tmpfs of our own\n");
		return;
	}
	fd = open("/mnt/log", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	start_with_log(fd);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	for (unsigned i = 0; i < ALIKE; i++)
		warned_of();
	close(hail());
	ck_assert_int_eq(lseek(fd, 0, SEEK_END), sizeof(bytes));
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	warned_of();
	ck_assert_int_gt(pread(fd, text, sizeof(text) - 1, 0), 0);
	ck_assert_msg(strstr(text, "(3 lines were lost: there was no room)") != NULL, "it says: %s", text);
	daemon_stop();
}
END_TEST

TEST_MAIN("log_full", nobody_reads, terminal, disk)
