/* SPDX-License-Identifier: MIT */
/* calls_fork.c - connections that another process has, too: a child by fork(), what it executes, and who is passed one. */
#include "calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

enum { BULK = 3000000, PART = 10000 };

/* In a child no assertion of Check's is heard of. */
#define must(what)                                                              \
	do {                                                                    \
		if (!(what)) {                                                  \
			fprintf(stderr, "child: %s, errno %d\n", #what, errno); \
			_exit(1);                                               \
		}                                                               \
	} while (0)

static void child_ended(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

static bool child_hears(int fd, const char *text)
{
	char buf[64] = "";
	size_t len = strlen(text), got = 0;
	ssize_t n = 1;

	while (got < len && (n = read(fd, buf + got, len - got)) > 0)
		got += (size_t)n;
	return n > 0 && !strcmp(buf, text);
}

/* Threads of the library that still close something would be leaks, to AddressSanitizer. */
static void finish(int fd, int listen)
{
	unsigned n = 2;

	close(fd);
	close(listen);
	for (int i = 0; n > 1 && i < PATIENCE_MS; i++) {
		DIR *d = opendir("/proc/self/task");

		for (n = 0; readdir(d); n++)
			;
		n -= 2; /* . and .. */
		closedir(d);
		usleep(1000);
	}
	ck_assert_uint_eq(n, 1);
}

static bool is_tcp(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	ok(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	return info.tcpi_state == TCP_ESTABLISHED;
}

static bool readable(int fd, int ms) { return poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, ms) == 1; }

static void hears_end(int fd)
{
	char b;

	ck_assert(readable(fd, PATIENCE_MS));
	ck_assert_int_eq(read(fd, &b, 1), 0);
}

static uint16_t port(int fd, int (*of)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_in a = { 0 };
	socklen_t len = sizeof(a);

	return !of(fd, (struct sockaddr *)&a, &len) && len == sizeof(a) && a.sin_addr.s_addr == htonl(INADDR_LOOPBACK)
		       ? a.sin_port
		       : 0;
}

/* As servers do that have a process for each client: the next client comes by TCP. */
START_TEST(fork_for_each_client)
{
	int l = listener(0), c, s, next;
	pid_t pid;

	pair_open(l, &c, &s);
	pid = fork();
	if (!pid) {
		close(l);
		must(dprintf(s, "hello %d", 1) == 7);
		must(child_hears(s, "hi"));
		must(port(s, getpeername) == port(c, getsockname) && port(s, getsockname) == addr.sin_port);
		must(is_tcp(s));
		_exit(0);
	}
	close(s);
	hear(c, "hello 1");
	say(c, "hi");
	child_ended(pid);
	hears_end(c);
	close(c);
	connector(&next);
	ck_assert(is_tcp(next));
	s = accept(l, NULL, NULL);
	say(s, "by tcp");
	hear(next, "by tcp");
	close(next);
	finish(s, l);
}
END_TEST

/* A child that does not ask leaves it to its parent, as that of a program that saves its memory. */
START_TEST(fork_and_go_on)
{
	int l = listener(0), c, s, go[2], d, e;
	pid_t pid;
	char b;

	pair_open(l, &c, &s);
	ok(pipe(go));
	pid = fork();
	if (!pid) {
		close(go[1]);
		must(fcntl(s, F_SETFD, FD_CLOEXEC) == 0);
		must(read(go[0], &b, 1) == 0);
		_exit(0);
	}
	close(go[0]);
	say(s, "one");
	hear(c, "one");
	say(c, "two");
	hear(s, "two");
	ck_assert(!is_tcp(s));
	pair_open(l, &d, &e); /* neither does the listener */
	/* The child has it, too: no end is heard before it has gone. */
	close(s);
	ck_assert(!readable(c, 50));
	close(go[1]);
	child_ended(pid);
	hears_end(c);
	close(c);
	close(d);
	finish(e, l);
}
END_TEST

START_TEST(fork_and_close)
{
	int l = listener(0), c, s, go[2];
	pid_t pid;
	char b;

	pair_open(l, &c, &s);
	ok(pipe(go));
	pid = fork();
	if (!pid) {
		close(go[1]);
		must(close(s) == 0);
		must(read(go[0], &b, 1) == 0);
		_exit(0);
	}
	close(s);
	hears_end(c); /* while it lives */
	close(go[0]);
	close(go[1]);
	child_ended(pid);
	finish(c, l);
}
END_TEST

static void *reads_one(void *fd)
{
	hear(*(int *)fd, "one");
	return NULL;
}

/* As programs that read in one process and write in the other; what a call waits for that began before the fork is its own. */
START_TEST(fork_for_each_way)
{
	int l = listener(0), c, s;
	pthread_t t;
	pid_t pid;

	pair_open(l, &c, &s);
	pthread_create(&t, NULL, reads_one, &s);
	pid = fork();
	if (!pid) {
		must(write(s, "from the child", 14) == 14);
		_exit(0);
	}
	hear(c, "from the child");
	say(c, "one");
	pthread_join(t, NULL);
	child_ended(pid);
	say(c, "two");
	hear(s, "two");
	ck_assert(is_tcp(s));
	say(s, "three");
	hear(c, "three");
	close(s);
	hears_end(c);
	finish(c, l);
}
END_TEST

static void *sends_bulk(void *fd)
{
	char part[PART];

	for (int at = 0; at < BULK; at += PART) {
		memset(part, at / PART, sizeof(part));
		ck_assert_int_eq(send(*(int *)fd, part, sizeof(part), 0), PART);
	}
	shutdown(*(int *)fd, SHUT_WR);
	return NULL;
}

static void echo(int fd)
{
	static char all[BULK];
	ssize_t n;
	int got = 0, at = 0;

	while (got < BULK && (n = read(fd, all + got, (size_t)(BULK - got))) > 0)
		got += (int)n;
	must(got == BULK && read(fd, all, 1) == 0);
	while (at < BULK && (n = write(fd, all + at, (size_t)(BULK - at))) > 0)
		at += (int)n;
	must(at == BULK);
	_exit(0);
}

/* All of it, in both ways; one of them ends before the other. */
START_TEST(fork_bulk)
{
	int l = listener(0), c, s;
	pthread_t t;
	pid_t pid;

	pair_open(l, &c, &s);
	pid = fork();
	if (!pid)
		echo(s);
	close(s);
	pthread_create(&t, NULL, sends_bulk, &c);
	for (int at = 0; at < BULK; at += PART) {
		char part[PART], want[PART];

		memset(want, at / PART, sizeof(want));
		ck_assert_int_eq(recv(c, part, sizeof(part), MSG_WAITALL), PART);
		ck_assert(!memcmp(part, want, PART));
	}
	pthread_join(t, NULL);
	child_ended(pid);
	hears_end(c);
	finish(c, l);
}
END_TEST

void executes(int fd, const char *program, const char *arg)
{
	must(dup2(fd, STDIN_FILENO) == STDIN_FILENO && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
	closefrom(STDERR_FILENO + 1);
	execlp(program, program, arg, (char *)NULL);
	_exit(1);
}

void echoes(int c, int l, pid_t pid)
{
	say(c, "echo");
	hear(c, "echo");
	ok(shutdown(c, SHUT_WR));
	hears_end(c);
	child_ended(pid);
	finish(c, l);
}

START_TEST(fork_and_exec)
{
	int l = listener(0), c, s;
	pid_t pid;

	pair_open(l, &c, &s);
	pid = fork();
	if (!pid)
		executes(s, "cat", NULL);
	close(s);
	echoes(c, l, pid);
}
END_TEST

/* A program that was executed asks whom it serves. */
int calls_ask(void)
{
	dprintf(STDOUT_FILENO, "client %u of %u.", (unsigned)port(STDIN_FILENO, getpeername),
		(unsigned)port(STDIN_FILENO, getsockname));
	return 0;
}

START_TEST(fork_and_ask)
{
	int l = listener(0), c, s;
	char want[64];
	pid_t pid;

	pair_open(l, &c, &s);
	pid = fork();
	if (!pid)
		executes(s, "/proc/self/exe", CALLS_ASK);
	close(s);
	snprintf(want, sizeof(want), "client %u of %u.", (unsigned)port(c, getsockname),
		 (unsigned)port(c, getpeername));
	hear(c, want);
	child_ended(pid);
	finish(c, l);
}
END_TEST

/* As who does not want to wait for its child: the one in the middle goes at once. */
START_TEST(fork_twice)
{
	int l = listener(0), c, s;
	pid_t pid;

	pair_open(l, &c, &s);
	pid = fork();
	if (!pid) {
		pid = fork();
		if (pid)
			_exit(pid < 0);
		must(child_hears(s, "hi"));
		must(write(s, "grandchild", 10) == 10);
		_exit(0);
	}
	child_ended(pid);
	close(s);
	say(c, "hi");
	hear(c, "grandchild");
	hears_end(c);
	finish(c, l);
}
END_TEST

/* A child that has a child itself, as a shell does, is none that uses a connection. */
START_TEST(fork_twice_in_vain)
{
	int l = listener(0), c, s;
	pid_t pid;

	pair_open(l, &c, &s);
	pid = fork();
	if (!pid) {
		pid = fork();
		must(pid >= 0);
		_exit(pid ? waitpid(pid, NULL, 0) != pid : 0);
	}
	child_ended(pid);
	say(c, "hi");
	hear(s, "hi");
	ck_assert(!is_tcp(c) && !is_tcp(s));
	close(s);
	finish(c, l);
}
END_TEST

/* A client's, which is no listener's. */
START_TEST(fork_of_client)
{
	int l = listener(0), c, s, d, e;
	pid_t pid;

	pair_open(l, &c, &s);
	pid = fork();
	if (!pid) {
		must(write(c, "client", 6) == 6);
		must(child_hears(c, "server"));
		_exit(0);
	}
	close(c);
	hear(s, "client");
	say(s, "server");
	child_ended(pid);
	hears_end(s);
	close(s);
	pair_open(l, &d, &e);
	close(d);
	finish(e, l);
}
END_TEST

/* A reset reaches the peer. */
START_TEST(fork_and_reset)
{
	struct linger hard = { 1, 0 };
	int l = listener(0), c, s;
	pid_t pid;
	char b;

	pair_open(l, &c, &s);
	pid = fork();
	if (!pid) {
		must(setsockopt(s, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)) == 0);
		must(write(s, "x", 1) == 1 && child_hears(s, "y"));
		_exit(0);
	}
	close(s);
	hear(c, "x");
	say(c, "y");
	child_ended(pid);
	ck_assert(readable(c, PATIENCE_MS));
	fails(read(c, &b, 1), ECONNRESET);
	finish(c, l);
}
END_TEST

/* A server that forks before it looks: its children accept by TCP, also those who are connected. */
START_TEST(fork_late)
{
	int l = listener(0), c, s;
	pid_t pid;

	connector(&c);
	ck_assert(!is_tcp(c));
	pid = fork();
	if (!pid) {
		s = accept(l, NULL, NULL);
		must(child_hears(s, "hi"));
		must(write(s, "child", 5) == 5);
		_exit(0);
	}
	say(c, "hi");
	hear(c, "child");
	child_ended(pid);
	hears_end(c);
	finish(c, l);
}
END_TEST

/* The C library's streams, and programs that have none of ours, read and write by these numbers. */
START_TEST(standard_stream)
{
	int l = listener(0), c, s, was = dup(STDIN_FILENO);
	char line[16];

	pair_open(l, &c, &s);
	ck_assert_int_eq(dup2(s, STDIN_FILENO), STDIN_FILENO);
	close(s);
	say(c, "line\n");
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), stdin));
	ck_assert_str_eq(line, "line\n");
	say(STDIN_FILENO, "back");
	hear(c, "back");
	ck_assert_int_eq(dup2(was, STDIN_FILENO), STDIN_FILENO);
	hears_end(c);
	close(c);
	finish(was, l);
}
END_TEST

static void pass(int sock, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} space = { 0 };
	char b = 0;
	struct iovec v = { &b, 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = space.buf, .msg_controllen = sizeof(space.buf)
	};

	*CMSG_FIRSTHDR(&m) = (struct cmsghdr){ CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof(fd));
	ck_assert_int_eq(sendmsg(sock, &m, 0), 1);
}

static int passed(int sock)
{
	char space[CMSG_SPACE(sizeof(int))], b;
	struct iovec v = { &b, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	int fd;

	must(recvmsg(sock, &m, 0) == 1 && CMSG_FIRSTHDR(&m));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* As those that give what they accept to workers which were there before. */
START_TEST(pass_on)
{
	int l = listener(0), c, s, pair[2], next;
	pid_t pid;

	pair_open(l, &c, &s);
	close(c);
	close(s); /* (it was awaited) */
	ok(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (!pid) {
		int fd = passed(pair[1]);

		must(write(fd, "worker", 6) == 6 && child_hears(fd, "client"));
		_exit(0);
	}
	pair_open(l, &c, &s);
	pass(pair[0], s);
	close(s);
	hear(c, "worker");
	say(c, "client");
	child_ended(pid);
	hears_end(c);
	close(c);
	connector(&next);
	ck_assert(is_tcp(next));
	close(next);
	close(pair[0]);
	finish(pair[1], l);
}
END_TEST

/* The clients are TCP's, and whoever gets the listener's TCP side has them. */
static void listener_passed(int l, int pair[2], pid_t pid)
{
	int c;

	connector(&c);
	ck_assert(is_tcp(c));
	hear(c, "worker");
	say(c, "client");
	child_ended(pid);
	close(pair[0]);
	close(pair[1]);
	finish(c, l);
}

static pid_t worker_start(int pair[2])
{
	pid_t pid;

	ok(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (!pid) {
		int l = passed(pair[1]), s;

		must(!listen(l, 1));
		s = accept(l, NULL, NULL);
		must(write(s, "worker", 6) == 6 && child_hears(s, "client"));
		_exit(0);
	}
	return pid;
}

/* A listener that is passed on is for who gets it, if nobody waits for it here. */
START_TEST(pass_on_listener)
{
	int pair[2], l;
	pid_t pid = worker_start(pair);

	l = listener(0);
	pass(pair[0], l);
	listener_passed(l, pair, pid);
}
END_TEST

/* So is one that does not listen yet: either process may. */
START_TEST(pass_on_bound)
{
	int pair[2], l = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);
	pid_t pid = worker_start(pair);

	addr = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	ok(bind(l, (struct sockaddr *)&addr, sizeof(addr)));
	ok(getsockname(l, (struct sockaddr *)&addr, &len));
	pass(pair[0], l);
	ok(listen(l, 1));
	listener_passed(l, pair, pid);
}
END_TEST

void calls_fork(Suite *s)
{
	SUITE_ADD(s, fork_for_each_client, fork_and_go_on, fork_and_close, fork_for_each_way, fork_bulk, fork_and_exec,
		  fork_and_ask, fork_twice, fork_twice_in_vain, fork_of_client, fork_and_reset, fork_late,
		  standard_stream, pass_on, pass_on_listener, pass_on_bound);
}
