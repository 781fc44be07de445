/* SPDX-License-Identifier: MIT */
/*
 * mem_fork.c - converted pages and fork().
 *
 *	parent			child
 *	prepare: block signals, lock; its own stack is made private (mem_stack.c)
 *	  fork --------------->	each mapping of ours becomes a private copy
 *	wait <----------------- done (or dead)
 *	unlock			unlock
 *
 * The parent's thread waits, so that the child copies what it would have inherited; other threads, and the
 * daemon, go on, and what they write to a registered buffer meanwhile may reach the child.  The child finds
 * the mappings in /proc/self/maps: whatever the program moved or unmapped is seen as it is.
 *
 * The lock is inner to all others: handlers that are younger than ours, so the program's and those of libraries that load this
 * one, have locked theirs before, and whoever holds the lock takes none of them (direct.h).  Handlers that are older run in
 * between, and may register and deregister: the thread that forks passes through the lock, and what the parent turns back then is
 * left in its file, for the child.
 *
 * It copies all that is there, at once, as the kernel does with pages that an adapter has pinned.  A child that cannot do so would
 * write into its parent's buffers: it ends.
 */
#include "mem_map_in.h"

#include "direct.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "vma.h"

static _Thread_local bool forking; /* this thread has the lock */

bool map_forking(void) { return forking; }

/* All under the lock. */
static int err_before; /* fork() sets errno if it fails */
static int cancel_before;
static sigset_t mask_before;

static bool at_work(void) { return maps.convs || maps.left; }

/* Two processes on the same stack would destroy each other's. */
static void stack_check(bool ok)
{
	if (ok)
		return;
	fprintf(stderr,
		"libibverbs (rdmad): fork: no memory to keep the stack, which is registered, apart from the child's, "
		"or no /proc\n");
	abort();
}

static void fork_prepare(void)
{
	int err = errno, cancel;
	struct range ends;
	sigset_t mask;

	/* Nothing that waits for a child or a helper may end the thread: it has the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	ends = stack_ends();
	map_signals_block(&mask);
	forking = true; /* which may allocate */
	pthread_mutex_lock(&maps.lock);
	mask_before = mask;
	cancel_before = cancel;
	if (maps.left && !maps.convs)
		maps.left = conv_remains(NULL);
	if (at_work()) {
		vma_keep();
		tell_open();
		conv_ask();
		stack_check(stack_apart(&ends));
	}
	err_before = err;
	errno = 0;
}

static void fork_done(void)
{
	const sigset_t mask = mask_before;
	const int cancel = cancel_before;

	forking = false;
	pthread_mutex_unlock(&maps.lock);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	pthread_setcancelstate(cancel, NULL);
}

static void fork_parent(void)
{
	int err = errno;

	stack_check(stack_back());
	if ((at_work() || tell_is_open()) && !tell_wait(err))
		maps.late = true;
	errno = err ? err : err_before;
	fork_done();
}

/* The descriptor of its file, if we have it. */
static int file_of(const struct vma *v)
{
	const struct conv *c = conv_with(v->ino);

	return c ? c->fd : -1;
}

/* Where the program has used them up, one of a file is closed: its pages are copied without. */
static bool open_own(struct vma_reader *r)
{
	struct rlimit most;

	if (vma_open(r))
		return true;
	if (errno != EMFILE || getrlimit(RLIMIT_NOFILE, &most))
		return false;
	for (struct conv *c = NULL; (c = conv_next(c));) {
		if (!conv_has_file(c) || (rlim_t)c->fd >= most.rlim_cur)
			continue;
		direct_close(c->fd);
		c->fd = -1;
		if (vma_open(r))
			return true;
	}
	return false;
}

/* Those of the parent are the same, but for what its other threads are changing. */
static bool open_maps(struct vma_reader *r) { return open_own(r) || vma_open_kept(r); }

static bool all_private(void)
{
	static struct vma_reader r; /* under the lock; too large for small stacks */
	bool all = true;
	struct vma v;

	if (!open_maps(&r))
		return false;
	while (vma_next(&r, &v))
		if (v.perm[3] == 's' && !strcmp(v.name, CONV_VMA))
			all &= pages_private(&v, file_of(&v));
	vma_close(&r);
	return all;
}

static void convs_free(struct conv **list)
{
	struct conv *c;

	while ((c = *list)) {
		*list = c->next;
		conv_free(c);
	}
}

static void fork_child(void)
{
	tell_begin();
	stack_child();
	if (at_work() && !all_private()) {
		fprintf(stderr, "libibverbs (rdmad): fork: no memory or descriptor for the child's copy of "
				"registered memory, or no /proc\n");
		abort();
	}
	tell_end();
	for (struct map_range *m = maps.ranges; m; m = m->next)
		m->conv = NULL;
	convs_free(&maps.convs);
	convs_free(&maps.lost);
	vma_drop();
	maps.conv_n = 0;
	maps.left = maps.late = false;
	errno = err_before;
	fork_done();
}

static bool guarded;

/* As early as can be, so that the lock comes behind those of the program. */
__attribute__((constructor)) static void guard(void)
{
	guarded = !pthread_atfork(fork_prepare, fork_parent, fork_child);
}

bool map_fork_ready(void) { return guarded && vma_keep(); }

void map_fork_rest(void)
{
	if (!at_work())
		vma_drop();
}
