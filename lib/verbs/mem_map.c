/* SPDX-License-Identifier: MIT */
/*
 * mem_map.c - which registered ranges can be mapped by the daemon.
 *
 *	map_reg		inside a converted range?  use that one.  Shared already?  pass it.  Else convert, if
 *				- it is large enough; a small one is among the first
 *				- it overlaps no registered range (the daemon might be writing there)
 *				- nothing but threads can write there while it is copied (conv_suits)
 *	map_dereg	the last user of a converted range is gone: turn the pages back, if that can be done;
 *			but one that had been converted before is kept for the next time, up to MAP_KEEP bytes of them
 *
 * Only pages that lie wholly in the range are converted: they hold the program's data and nothing of
 * an allocator's.
 */
#include "mem_map_in.h"

#include <unistd.h>

#include "vma.h"

struct map_state maps = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool overlaps_range(uintptr_t start, uintptr_t end)
{
	for (const struct map_range *r = maps.ranges; r; r = r->next)
		if (r->start < end && start < r->end)
			return true;
	return false;
}

static struct conv *conv_find(uintptr_t start, uintptr_t end)
{
	struct conv *c;

	for (c = maps.convs; c && !(c->start < end && start < c->end); c = c->next)
		;
	return c;
}

static bool len_suits(size_t len)
{
	static unsigned small_n; /* under the lock */

	if (len < least_len())
		return false;
	return len >= MAP_SMALL || small_n++ < MAP_SMALL_TRIES;
}

/* ---- conversions that are kept --------------------------------------------------- */

/* Those that were turned back last: the program that registers such a one again will do so once more. */
static struct {
	uintptr_t start, end;
} past[MAP_PAST]; /* under the lock */

static bool was_before(uintptr_t start, uintptr_t end)
{
	for (unsigned i = 0; i < MAP_PAST; i++)
		if (past[i].start == start && past[i].end == end)
			return true;
	return false;
}

/* Those of which nothing is mapped any more. */
static void lost_free(void)
{
	struct conv *c;

	for (struct conv **p = &maps.lost; (c = *p);) {
		if (conv_remains(c)) {
			p = &c->next;
		} else {
			*p = c->next;
			conv_free(c);
		}
	}
}

static void conv_end(struct conv *c)
{
	static unsigned at; /* under the lock */
	struct conv **p;
	bool back, remains;

	if (!was_before(c->start, c->end)) {
		past[at % MAP_PAST].start = c->start;
		past[at++ % MAP_PAST].end = c->end;
	}
	lost_free();
	back = !overlaps_range(c->start, c->end) && conv_turns(c) && pages_back(c);
	remains = !back && conv_remains(c);
	for (p = &maps.convs; *p != c; p = &(*p)->next)
		;
	*p = c->next;
	maps.conv_n--;
	maps.left = maps.left || remains;
	if (remains) {
		c->lost = true;
		c->next = maps.lost;
		maps.lost = c;
	} else {
		conv_free(c);
	}
}

/* Ends kept ones, the oldest first, until there is room for one of len bytes. */
static void keep_room(size_t len)
{
	for (;;) {
		struct conv *old = NULL;
		size_t all = len;

		for (struct conv *c = maps.convs; c; c = c->next)
			if (!c->users) {
				all += c->end - c->start;
				if (!old || c->kept < old->kept)
					old = c;
			}
		if (!old || (all <= MAP_KEEP && maps.conv_n < MAP_CONVS))
			return;
		conv_end(old);
	}
}

static void conv_unused(struct conv *c)
{
	static uint64_t clock; /* under the lock */
	size_t len = c->end - c->start;

	if (!c->again || len > MAP_KEEP) {
		conv_end(c);
		return;
	}
	c->users = 1; /* not this one */
	keep_room(len);
	c->users = 0;
	c->kept = ++clock;
}

/* The one that r lies in, or else overlaps; kept ones that do not suit are ended. */
static struct conv *conv_of(const struct map_range *r)
{
	struct conv *c;

	while ((c = conv_find(r->start, r->end)) && !c->users &&
	       (r->start < c->first || r->end > c->last || !conv_intact(c, c->start, c->end)))
		conv_end(c);
	return c;
}

/* ---- the ranges ------------------------------------------------------------------- */

static struct conv *conv_new(const struct map_range *r)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (r->start + page - 1) & ~(page - 1), end = r->end & ~(page - 1);
	bool before;
	struct conv *c;

	if (start >= end || !len_suits(r->end - r->start) || !map_fork_ready())
		return NULL;
	keep_room(0);
	if (maps.conv_n >= MAP_CONVS)
		return NULL;
	if (overlaps_range(r->start, r->end) || !conv_suits(start, end))
		return NULL;
	before = was_before(start, end);
	lost_free();
	c = conv_make(start, end, before ? MAP_MOST_AGAIN : MAP_MOST);
	if (c) {
		c->first = r->start;
		c->last = r->end;
		c->again = c->end == end && before;
		c->next = maps.convs;
		maps.convs = c;
		maps.conv_n++;
	}
	return c;
}

/* The daemon finds out by itself what it cannot map. */
static struct shared_file *pass_shared(const struct map_range *r, struct map_pass *pass)
{
	return r->end - r->start >= least_shared() ? shared_pass(r->start, r->end, pass) : NULL;
}

struct guard {
	int cancel;
	sigset_t mask;
};

/*
 * All but those that do nothing, as in hold.c; one that is ignored explicitly is asked for by few, and may wait.  And but those that
 * this thread's own code brings about, as SIGSYS of a filter: blocked they end the program.
 */
void map_signals_block(sigset_t *old)
{
	static const int idle[] = { SIGCHLD, SIGCONT, SIGURG, SIGWINCH },
			 own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
	struct sigaction sa;
	sigset_t set;

	sigfillset(&set);
	for (unsigned i = 0; i < sizeof(idle) / sizeof(*idle); i++)
		if (!sigaction(idle[i], NULL, &sa) && (sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN))
			sigdelset(&set, idle[i]);
	for (unsigned i = 0; i < sizeof(own) / sizeof(*own); i++)
		sigdelset(&set, own[i]);
	pthread_sigmask(SIG_SETMASK, &set, old);
}

/*
 * The lock would stay held by a thread that is cancelled in a call, and a handler may fork(), which takes it.  Costs a microsecond.
 */
static void lock(struct guard *g)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &g->cancel);
	if (map_forking())
		return;
	map_signals_block(&g->mask);
	pthread_mutex_lock(&maps.lock);
}

static void unlock(const struct guard *g)
{
	if (!map_forking()) {
		pthread_mutex_unlock(&maps.lock);
		pthread_sigmask(SIG_SETMASK, &g->mask, NULL);
	}
	pthread_setcancelstate(g->cancel, NULL);
}

static void range_link(struct map_range *r)
{
	r->next = maps.ranges;
	r->prev = &maps.ranges;
	if (r->next)
		r->next->prev = &r->next;
	maps.ranges = r;
}

void map_reg_lazy(struct map_range *r, const void *addr, size_t len)
{
	struct guard g;

	r->start = (uintptr_t)addr;
	r->end = r->start + len;
	lock(&g);
	range_link(r);
	unlock(&g);
}

static void reg(struct map_range *r, struct map_pass *pass)
{
	struct conv *c = conv_of(r);
	uintptr_t from, to;

	r->shared = c ? NULL : pass_shared(r, pass);
	if (!c && !r->shared)
		c = conv_new(r);
	if (c) {
		from = r->start > c->start ? r->start : c->start;
		to = r->end < c->end ? r->end : c->end;
		/* The program may have unmapped the memory of an MR that it keeps, and mapped other there. */
		if (!conv_intact(c, from, to))
			c = NULL;
	}
	r->conv = c;
	if (c) {
		c->users++;
		*pass = (struct map_pass){ .fd = c->fd, .addr = from, .len = to - from, .off = from - c->start };
	}
	range_link(r);
}

enum vma_fit map_reg(struct map_range *r, const void *addr, size_t len, bool write, struct map_pass *pass)
{
	enum vma_fit fit;
	struct guard g;

	*pass = (struct map_pass){ .fd = -1 };
	r->start = (uintptr_t)addr;
	r->end = r->start + len;
	least_ask();
	lock(&g);
	fit = vma_fit(r->start, r->end, write);
	if (fit == VMA_FITS)
		reg(r, pass);
	unlock(&g);
	return fit;
}

void map_move(struct map_range *to, struct map_range *from)
{
	struct guard g;

	lock(&g);
	*to = *from;
	*to->prev = to;
	if (to->next)
		to->next->prev = &to->next;
	unlock(&g);
}

void map_forget(void)
{
	struct conv *c, *next;
	struct guard g;

	lock(&g);
	for (c = maps.ranges ? NULL : maps.convs; c; c = next) {
		next = c->next;
		conv_end(c);
	}
	map_fork_rest();
	unlock(&g);
}

void map_dereg(struct map_range *r)
{
	struct guard g;

	lock(&g);
	*r->prev = r->next;
	if (r->next)
		r->next->prev = r->prev;
	if (r->shared)
		shared_done(r->shared);
	if (r->conv && !--r->conv->users)
		conv_unused(r->conv);
	r->conv = NULL;
	unlock(&g);
}
