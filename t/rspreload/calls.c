/* SPDX-License-Identifier: MIT */
/*
 * calls.c - an ordinary program of TCP, run under rdmad-run --rsockets (calls.test): its calls do what they do without.
 *
 * Client and server are threads.  A peer that has no rsockets is one whose calls go to the kernel past the C library.
 */
#include "calls.h"

#include <netinet/tcp.h>
#include <sys/ioctl.h>

struct sockaddr_in addr;

int listener(int flags) { return listener_for(flags, 8); }

int listener_for(int flags, int backlog)
{
	int fd = socket(AF_INET, SOCK_STREAM | flags, 0), on = 1;
	socklen_t len = sizeof(addr);

	ck_assert_int_ge(fd, 0);
	addr = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	ok(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	ok(bind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	ok(listen(fd, backlog));
	ok(getsockname(fd, (struct sockaddr *)&addr, &len));
	return fd;
}

void *connector(void *arg)
{
	int *fd = arg;

	*fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(*fd, (struct sockaddr *)&addr, sizeof(addr)))
		*fd = -errno;
	return NULL;
}

void pair_open(int listen, int *client, int *server)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);
	pthread_t t;

	pthread_create(&t, NULL, connector, client);
	*server = accept(listen, NULL, NULL);
	pthread_join(t, NULL);
	ck_assert_int_ge(*client, 0);
	ck_assert_int_ge(*server, 0);
	ok(getsockopt(*client, IPPROTO_TCP, TCP_INFO, &info, &len));
	ck_assert_int_ne(info.tcpi_state, TCP_ESTABLISHED);
}

void pair_close(int listen, int client, int server)
{
	ok(close(client));
	ok(close(server));
	ok(close(listen));
}

void say(int fd, const char *text) { ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text)); }

void say_there(int from, int to)
{
	int n = 0;

	say(from, "x");
	for (int i = 0; i < PATIENCE_MS && !n; i++) {
		ok(ioctl(to, FIONREAD, &n));
		usleep(n ? 0 : 1000);
	}
	ck_assert_int_eq(n, 1);
}

void hear(int fd, const char *text)
{
	char buf[256] = "";
	size_t want = strlen(text), got = 0;

	while (got < want) {
		ssize_t n = read(fd, buf + got, want - got);

		ck_assert_msg(n > 0, "read: %zd, %s", n, strerror(errno));
		got += (size_t)n;
	}
	ck_assert_str_eq(buf, text);
}

int main(int argc, char **argv)
{
	Suite *s;

	if (argc == 2 && !strcmp(argv[1], CALLS_ASK))
		return calls_ask();
	if (argc == 3 && !strcmp(argv[1], CALLS_FLUSH))
		return calls_flush(argv[2]);
	if (argc == 3 && !strcmp(argv[1], CALLS_CAT))
		return calls_cat(argv[2]);
	s = suite_create("rspreload");
	calls_cancel(s);
	calls_close(s);
	calls_connect(s);
	calls_data(s);
	calls_epoll(s);
	calls_file(s);
	calls_fork(s);
	calls_idle(s);
	calls_listen(s);
	calls_reset(s);
	calls_signal(s);
	calls_spawn(s);
	return suite_run(s);
}
