/* SPDX-License-Identifier: MIT */
/*
 * mem_fork.c - converted pages and fork().
 *
 *	parent			child
 *	prepare: lock
 *	  fork --------------->	each mapping of ours becomes a private copy
 *	wait <----------------- done (or dead)
 *	unlock			unlock
 *
 * The parent's thread waits, so that the child copies what it would have inherited; other threads, and the
 * daemon, go on, and what they write to a registered buffer meanwhile may reach the child.  The child finds
 * the mappings in /proc/self/maps: whatever the program moved or unmapped is seen as it is.
 */
#include "mem_map_in.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "vma.h"

#define WAIT_MS 10000 /* at most: a child stopped by a debugger must not stop its parent for ever */

static int done[2] = { -1, -1 }; /* pipe; under the lock */
static bool at_work;

static void fork_prepare(void)
{
	pthread_mutex_lock(&maps.lock);
	at_work = maps.convs || maps.left;
	if (at_work && pipe2(done, O_CLOEXEC))
		done[0] = done[1] = -1;
}

static void pipe_end(int i)
{
	if (done[i] >= 0)
		close(done[i]);
	done[i] = -1;
}

static void fork_parent(void)
{
	struct pollfd p = { .fd = done[0], .events = POLLIN };
	int err = errno, cancel;

	if (at_work) {
		pipe_end(1);
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		while (p.fd >= 0 && poll(&p, 1, WAIT_MS) < 0 && errno == EINTR)
			;
		pipe_end(0);
		pthread_setcancelstate(cancel, NULL);
	}
	pthread_mutex_unlock(&maps.lock);
	errno = err;
}

static void fork_child(void)
{
	struct vma_reader r;
	struct conv *c;
	struct vma v;
	int err = errno;

	if (at_work) {
		pipe_end(0);
		if (vma_open(&r)) {
			while (vma_next(&r, &v))
				if (v.perm[3] == 's' && !strcmp(v.name, CONV_VMA))
					pages_private(v.start, v.end);
			vma_close(&r);
		}
		pipe_end(1); /* the parent sees the end */
	}
	for (struct map_range *m = maps.ranges; m; m = m->next)
		m->conv = NULL;
	while ((c = maps.convs)) {
		maps.convs = c->next;
		conv_free(c);
	}
	maps.conv_n = 0;
	maps.left = false;
	pthread_mutex_init(&maps.lock, NULL);
	errno = err;
}

void map_fork_guard(void)
{
	static bool set; /* under the lock */

	if (!set && !pthread_atfork(fork_prepare, fork_parent, fork_child))
		set = true;
}
