/* SPDX-License-Identifier: MIT */
/* unseen.c - see unseen.h. */
#include "unseen.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "suite.h"

static void *wait_run(void *arg)
{
	struct unseen *u = arg;
	struct epoll_event e;

	for (;;) {
		ck_assert_int_eq(epoll_wait(u->ep, &e, 1, -1), 1);
		if (e.data.fd == u->stop)
			return NULL;
		u->heard++;
	}
}

void unseen_add(struct unseen *u, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	ck_assert_int_eq(epoll_ctl(u->ep, EPOLL_CTL_ADD, fd, &e), 0);
}

void unseen_begin(struct unseen *u)
{
	u->heard = 0;
	u->ep = epoll_create1(EPOLL_CLOEXEC);
	u->stop = eventfd(0, EFD_CLOEXEC);
	ck_assert(u->ep >= 0 && u->stop >= 0);
	unseen_add(u, u->stop);
	ck_assert_int_eq(pthread_create(&u->thread, NULL, wait_run, u), 0);
}

unsigned unseen_end(struct unseen *u)
{
	ck_assert_int_eq(eventfd_write(u->stop, 1), 0);
	ck_assert_int_eq(pthread_join(u->thread, NULL), 0);
	close(u->stop);
	close(u->ep);
	return u->heard;
}
