/* SPDX-License-Identifier: MIT */
/*
 * mem_tell.c - a forked child tells its parent how far it is.
 *
 * By a pipe, whose end says that the child has ended, or that there is none.  (A child that another thread makes without
 * our handlers has it open, too.)  Where the program has used up its descriptors, by a page that both have: then waitid()
 * says so, and leaves it to the program.
 */
#include "mem_map_in.h"

#include "direct.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <rdmad/high.h>

#define ALL      'a'        /* the child's last word; each piece is a 0 */
#define PAGE_ALL (1u << 31) /* in the page, where pieces are counted */
#define WAIT_MS  10000 /* for the next piece, at most: a child stopped by a debugger must not stop its parent for ever */
#define LOOK_MS  100

struct page {
	uint32_t said;
	pid_t child;
};

/* Both under the lock. */
static int done[2] = { -1, -1 };
static struct page *page;

static void pipe_end(int i)
{
	if (done[i] >= 0)
		direct_close(done[i]);
	done[i] = -1;
}

void tell_open(void)
{
	long p;

	if (!syscall(SYS_pipe2, done, O_CLOEXEC | O_NONBLOCK)) {
		done[0] = fd_high(done[0]);
		done[1] = fd_high(done[1]);
		if (done[0] >= 0 && done[1] >= 0)
			return;
	}
	pipe_end(0);
	pipe_end(1);
	p = syscall(SYS_mmap, NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0L);
	page = p == -1 ? NULL : (struct page *)p;
}

bool tell_is_open(void) { return done[0] >= 0 || page; }

static void page_end(void)
{
	if (page)
		syscall(SYS_munmap, page, sizeof(*page));
	page = NULL;
}

/* ---- the child ---------------------------------------------------------------------- */

static void page_say(uint32_t what)
{
	__atomic_fetch_add(&page->said, what, __ATOMIC_RELEASE);
	syscall(SYS_futex, &page->said, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void tell_begin(void)
{
	pipe_end(0);
	if (!page)
		return;
	page->child = getpid();
	page_say(1);
}

void tell_piece(void)
{
	if (done[1] >= 0)
		syscall(SYS_write, done[1], "", 1);
	if (page)
		page_say(1);
}

void tell_end(void)
{
	if (done[1] >= 0)
		syscall(SYS_write, done[1], &(char){ ALL }, 1);
	pipe_end(1); /* the parent sees the end */
	if (page)
		page_say(PAGE_ALL);
	page_end();
}

/* ---- the parent --------------------------------------------------------------------- */

static long poll_direct(struct pollfd *p)
{
	struct timespec wait = { .tv_sec = WAIT_MS / 1000 };

	return syscall(SYS_ppoll, p, 1, &wait, NULL, 0);
}

static bool pipe_wait(bool failed)
{
	struct pollfd p = { .fd = done[0], .events = POLLIN };
	char some[512];
	long got, n;

	for (;;) {
		n = poll_direct(&p);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		got = n > 0 ? direct_read(p.fd, some, sizeof(some)) : 1;
		if (got == 0)
			return failed;
		if (n > 0 && got > 0 && some[got - 1] == ALL)
			return true;
	}
}

/* If it is in another PID namespace it is not found, and taken to live. */
static bool is_over(pid_t child)
{
	siginfo_t info = { 0 };

	return !syscall(SYS_waitid, P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT, NULL) && info.si_pid == child;
}

static bool page_wait(bool failed)
{
	struct timespec look = { .tv_nsec = LOOK_MS * 1000000L };
	uint32_t said, before = 0;

	for (unsigned idle = 0; idle < WAIT_MS / LOOK_MS; before = said) {
		bool over = before && is_over(page->child);

		said = __atomic_load_n(&page->said, __ATOMIC_ACQUIRE);
		if (said & PAGE_ALL || (!said && failed))
			return true;
		if (over)
			return false;
		if (said != before)
			idle = 0;
		if (syscall(SYS_futex, &page->said, FUTEX_WAIT, said, &look, NULL, 0) && errno == ETIMEDOUT)
			idle++;
	}
	return false;
}

static bool no_fork(int err) { return err == EAGAIN || err == ENOMEM || err == ENOSYS || err == EPERM; }

bool tell_wait(int err)
{
	bool all = false;

	pipe_end(1);
	if (page)
		all = page_wait(no_fork(err));
	else if (done[0] >= 0)
		all = pipe_wait(err);
	pipe_end(0);
	page_end();
	return all;
}
