/* SPDX-License-Identifier: MIT */
/* api_stream.c - rsockets do without help what sockets of TCP do. */
#include "streams.h"

#include <sys/resource.h>
#include <unistd.h>

enum { FILES = 1024 };

/* As many descriptors as a process may have, and one of them a stream, which is three while the thread sleeps. */
START_TEST(rs_poll_many)
{
	static struct pollfd f[FILES - 2];
	struct rlimit old, few;
	struct streams s;
	int p[2];

	ok(getrlimit(RLIMIT_NOFILE, &old));
	few = old;
	few.rlim_cur = FILES;
	streams_open(&s, 0);
	ok(pipe(p));
	ok(setrlimit(RLIMIT_NOFILE, &few));
	for (int i = 0; i < FILES - 2; i++)
		f[i] = (struct pollfd){ i % 8 ? p[0] : -1, POLLIN, POLLIN };
	f[FILES / 2].fd = s.server;
	ck_assert_int_eq(rpoll(f, FILES - 2, 1), 0);
	for (int i = 0; i < FILES - 2; i++)
		ck_assert_int_eq(f[i].revents, 0);
	ck_assert_int_eq(rsend(s.client, "x", 1, 0), 1);
	ck_assert_int_eq(rpoll(f, FILES - 2, PATIENCE_MS), 1);
	ck_assert_int_eq(f[FILES / 2].revents, POLLIN);
	ok(setrlimit(RLIMIT_NOFILE, &old));
	close(p[0]);
	close(p[1]);
	streams_close(&s);
}
END_TEST

void api_stream(Suite *s) { SUITE_ADD(s, rs_poll_many); }
