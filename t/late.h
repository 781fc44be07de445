/* SPDX-License-Identifier: MIT */
/*
 * late.h - a thread that goes late into ppoll(), or comes back from it late: the program's own stands before the C library's, also for
 * the libraries that call it.
 */
#ifndef T_LATE_H
#define T_LATE_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct late {
	nfds_t fds;             /* of calls with so many descriptors */
	bool in, out;           /* before, behind */
	atomic_uint calls;      /* of these */
	int64_t limit_ns;       /* the longest of theirs; INT64_MAX: one had none */
	atomic_bool came, back; /* it has come to the call; it has come back, and found: */
	short revents;          /* of the last descriptor */
	atomic_bool open;       /* it may go on */
};

extern _Thread_local struct late *late; /* of this thread, or NULL */

void late_wait(const atomic_bool *); /* until it is true */

/* Waits until a thread of ours sleeps in the system call nr; its tid may not be known yet. */
void sleeps_in(const pid_t *tid, long nr);
/* Or in other: which. */
long sleeps_in_either(const pid_t *tid, long nr, long other);
/* Until all others of the process do: a child that is forked while one allocates may find AddressSanitizer's allocator locked. */
void others_sleep_in(long nr);
/* The same of two threads: one of them in nr, the other one in other. */
void sleep_in(const pid_t *a, const pid_t *b, long nr, long other);

#endif
