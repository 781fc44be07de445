/* SPDX-License-Identifier: MIT */
/* unseen.h - a thread that waits for descriptors by epoll(7), and counts what it hears of them. */
#ifndef T_UNSEEN_H
#define T_UNSEEN_H

#include <pthread.h>

struct unseen {
	pthread_t thread;
	int ep, stop;
	unsigned heard;
};

void unseen_begin(struct unseen *);
void unseen_add(struct unseen *, int fd);
unsigned unseen_end(struct unseen *); /* how often it heard of one */

#endif
