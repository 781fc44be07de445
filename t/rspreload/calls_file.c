/* SPDX-License-Identifier: MIT */
/* calls_file.c - sockets and files. */
#include "calls.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

enum { FILE_LEN = 4 << 20, FROM = 7 }; /* more than there is room for on the way */

static char data[FILE_LEN], got[FILE_LEN];

static int file_open(void)
{
	int file = memfd_create("file", 0);

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i % 251);
	ck_assert_int_eq(write(file, data, sizeof(data)), sizeof(data));
	return file;
}

/* Reads to the end. */
static void *reader(void *fd)
{
	size_t at = 0;
	ssize_t n;

	while ((n = read(*(int *)fd, got + at, sizeof(got) - at)) > 0)
		at += (size_t)n;
	return (void *)at;
}

static void got_all(pthread_t t, int c, size_t from)
{
	void *n;

	ok(shutdown(c, SHUT_WR));
	ok(pthread_join(t, &n));
	ck_assert_uint_eq((size_t)n, sizeof(data) - from);
	ck_assert_mem_eq(got, data + from, sizeof(data) - from);
}

/* All of it, in one call; from where the program says, or where the file is. */
START_TEST(sendfile_all)
{
	int l = listener(0), c, s, file = file_open();
	off_t from = FROM;
	pthread_t t;

	for (int here = 0; here < 2; here++) {
		pair_open(l, &c, &s);
		pthread_create(&t, NULL, reader, &s);
		lseek(file, here ? FROM : 1, SEEK_SET);
		ck_assert_int_eq(sendfile(c, file, here ? NULL : &from, FILE_LEN), FILE_LEN - FROM);
		ck_assert_int_eq(from, FILE_LEN);
		ck_assert_int_eq(lseek(file, 0, SEEK_CUR), here ? FILE_LEN : 1);
		ck_assert_int_eq(sendfile(c, file, &from, FILE_LEN), 0);
		got_all(t, c, FROM);
		close(c);
		close(s);
	}
	close(file);
	close(l);
}
END_TEST

/* After a short count an edge comes. */
START_TEST(sendfile_edge)
{
	int l = listener(0), c, s, file = file_open(), ep = epoll_create1(0);
	struct epoll_event e = { .events = EPOLLOUT | EPOLLET };
	off_t from = 0;
	pthread_t t;

	pair_open(l, &c, &s);
	ok(fcntl(c, F_SETFL, O_NONBLOCK));
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, c, &e));
	pthread_create(&t, NULL, reader, &s);
	while (from < FILE_LEN) {
		ck_assert_int_eq(epoll_wait(ep, &e, 1, PATIENCE_MS), 1);
		if (sendfile(c, file, &from, (size_t)(FILE_LEN - from)) < 0)
			ck_assert_int_eq(errno, EAGAIN);
	}
	got_all(t, c, 0);
	close(ep);
	close(file);
	close(c);
	close(s);
	close(l);
}
END_TEST

/* Of a pipe nothing is read, as by TCP: it could not be put back. */
START_TEST(sendfile_pipe)
{
	int l = listener(0), c, s, p[2];
	off_t from = 0;

	pair_open(l, &c, &s);
	ok(pipe(p));
	say(p[1], "kept");
	fails((int)sendfile(c, p[0], NULL, 4), EINVAL);
	fails((int)sendfile(c, p[0], &from, 4), ESPIPE);
	hear(p[0], "kept");
	fails((int)sendfile(c, 999, NULL, 4), EBADF);
	close(p[0]);
	close(p[1]);
	close(c);
	close(s);
	close(l);
}
END_TEST

/* The stream's number is the socket's, and its end the socket's end. */
START_TEST(stream)
{
	int l = listener(0), c, s, on = 1;
	char line[16];
	struct pollfd p;
	FILE *f;

	pair_open(l, &c, &s);
	f = fdopen(c, "r+");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fileno(f), c);
	ok(setsockopt(fileno(f), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	say(s, "line\n");
	p = (struct pollfd){ fileno(f), POLLIN, 0 };
	ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	ck_assert_str_eq(line, "line\n");
	fputs("last", f);
	ok(fclose(f));
	fails(close(c), EBADF);
	hear(s, "last");
	ck_assert_int_eq(read(s, line, 1), 0);
	close(s);
	close(l);
}
END_TEST

int calls_flush(const char *port)
{
	int fd;

	addr = (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				     .sin_port = htons((uint16_t)atoi(port)) };
	connector(&fd);
	return fprintf(fdopen(fd, "w"), "not flushed") < 0;
}

/* All that a stream still has at exit() is written. */
START_TEST(stream_at_exit)
{
	int l = listener(0), s, status;
	char port[16], byte;
	char *const argv[] = { (char *)"calls", (char *)CALLS_FLUSH, port, NULL };
	pid_t pid;

	snprintf(port, sizeof(port), "%d", ntohs(addr.sin_port));
	ck_assert_int_eq(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
	s = accept(l, NULL, NULL);
	ck_assert_int_ge(s, 0);
	hear(s, "not flushed");
	ck_assert_int_eq(read(s, &byte, 1), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ok(close(s));
	ok(close(l));
}
END_TEST

/* As HAProxy and other proxies do: a pipe is between two sockets. */
START_TEST(splices)
{
	enum { PART = 50000, MUCH = 10 * PART };
	int l = listener(0), file = file_open(), c, s, p[2];
	off64_t at = 0;
	ssize_t n;

	pair_open(l, &c, &s);
	ok(pipe(p));
	fails(splice(p[0], NULL, c, NULL, 10, SPLICE_F_NONBLOCK), EAGAIN);
	ck_assert_int_eq(write(p[1], "hello", 5), 5);
	fails(splice(p[0], &at, c, NULL, 10, 0), ESPIPE);
	fails(splice(s, NULL, c, NULL, 10, 0), EINVAL);
	ck_assert_int_eq(splice(p[0], NULL, c, NULL, 4, 0), 4);
	ck_assert_int_eq(splice(s, NULL, p[1], NULL, 100, 0), 4);
	hear(p[0], "ohell");
	ok(fcntl(s, F_SETFL, O_NONBLOCK));
	fails(splice(s, NULL, p[1], NULL, 10, 0), EAGAIN);
	/* The rest stays in the pipe, if there is no room for all. */
	ok(fcntl(c, F_SETFL, O_NONBLOCK));
	for (size_t put = 0, in = 0, out = 0; out < MUCH;) {
		if (in == put && put < MUCH) {
			ck_assert_int_eq(write(p[1], data + put, PART), PART);
			put += PART;
		}
		n = in < put ? splice(p[0], NULL, c, NULL, put - in, SPLICE_F_NONBLOCK) : 0;
		ck_assert(n >= 0 || errno == EAGAIN);
		in += n > 0 ? (size_t)n : 0;
		n = n > 0 && put < MUCH ? 0 : read(s, got + out, MUCH - out);
		ck_assert(n >= 0 || errno == EAGAIN);
		out += n > 0 ? (size_t)n : 0;
	}
	ck_assert(!memcmp(data, got, MUCH));
	close(p[1]);
	ok(splice(p[0], NULL, c, NULL, 10, 0));
	close(p[0]);
	ok(pipe(p));
	close(c);
	ck_assert_int_eq(poll(&(struct pollfd){ s, POLLIN, 0 }, 1, PATIENCE_MS), 1);
	ok(splice(s, NULL, p[1], NULL, 10, 0));
	for (int i = 0; i < 5; i++)
		close((int[]){ p[0], p[1], s, l, file }[i]);
}
END_TEST

/* A pipe that is full takes no more than it has room for. */
START_TEST(splices_some)
{
	static char much[100000], buf[sizeof(much)];
	int l = listener(0), c, s, p[2], size;
	ssize_t n, more;

	pair_open(l, &c, &s);
	ok(pipe(p));
	size = fcntl(p[1], F_SETPIPE_SZ, 4096);
	ck_assert_int_gt(size, 0);
	ck_assert_int_eq(write(c, much, sizeof(much)), sizeof(much));
	n = splice(s, NULL, p[1], NULL, sizeof(much), 0);
	ck_assert(n > 0 && n <= size);
	while ((more = splice(s, NULL, p[1], NULL, sizeof(much), SPLICE_F_NONBLOCK)) > 0)
		n += more;
	ck_assert(more < 0 && errno == EAGAIN && n <= size);
	ck_assert_int_eq(read(p[0], buf, sizeof(buf)), n);
	ck_assert_int_eq(recv(s, buf, sizeof(buf) - (size_t)n, MSG_WAITALL), (ssize_t)sizeof(much) - n);
	for (int i = 0; i < 5; i++)
		close((int[]){ p[0], p[1], s, c, l }[i]);
}
END_TEST

void calls_file(Suite *s)
{
	SUITE_ADD(s, sendfile_all, sendfile_edge, sendfile_pipe, stream, stream_at_exit, splices, splices_some);
}
