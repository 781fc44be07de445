/* SPDX-License-Identifier: MIT */
/* held.c - the mappings by address, and the handler that looks for one. */
#include "held.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

/* Nobody touches a client's memory with the lock held, so a handler that waits for it is never the one who has it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned all_n;
static void *all; /* tsearch(3): a client may have thousands of them, and tear them all at once */

_Thread_local unsigned held_tears;

/* Two that overlap are the same. */
static int held_cmp(const void *va, const void *vb)
{
	const struct held *a = va, *b = vb;

	if (a->base + a->len <= b->base)
		return -1;
	return b->base + b->len <= a->base;
}

static struct held *held_find(uint8_t *at)
{
	struct held **h = tfind(&(struct held){ .base = at, .len = 1 }, &all, held_cmp);

	return h ? *h : NULL;
}

static bool zeros(uint8_t *from, const uint8_t *end)
{
	int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

	return mmap(from, (size_t)(end - from), PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
}

/* Up to the end: so there are two mappings at most; or all of it, if the process can have no other one. */
static bool tear(struct held *h, const uint8_t *at)
{
	uint8_t *from;

	if (!h)
		return false;
	from = h->base + (size_t)(at - h->base) / h->page * h->page;
	if (!h->torn || from < h->torn) { /* else another thread was here first */
		if (!zeros(from, h->base + h->len)) {
			from = h->base;
			if (!zeros(from, h->base + h->len))
				return false;
		}
		__atomic_store_n(&h->torn, from, __ATOMIC_RELEASE);
	}
	held_tears++;
	return true;
}

static void on_bus(int, siginfo_t *info, void *)
{
	int err = errno;
	bool torn;

	pthread_mutex_lock(&lock);
	torn = tear(held_find(info->si_addr), info->si_addr);
	pthread_mutex_unlock(&lock);
	if (!torn) /* not a client's: the access is tried again, and ends the daemon */
		signal(SIGBUS, SIG_DFL);
	errno = err;
}

void held_begin(void)
{
	struct sigaction sa = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };

	sigaction(SIGBUS, &sa, NULL);
}

size_t held_page(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC ? (size_t)fs.f_bsize
								     : (size_t)sysconf(_SC_PAGESIZE);
}

static int put(struct held *h)
{
	bool done;

	pthread_mutex_lock(&lock);
	done = tsearch(h, &all, held_cmp);
	all_n += done;
	pthread_mutex_unlock(&lock);
	return done ? 0 : ENOMEM;
}

int held_map(struct held **out, int fd, uint64_t off, size_t len, int flags)
{
	size_t page = held_page(fd);
	struct held *h;

	if (len > SIZE_MAX - page)
		return EINVAL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return ENOMEM;
	h->page = page;
	h->len = (len + page - 1) & ~(page - 1);
	h->base = mmap(NULL, h->len, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, (off_t)off);
	if (h->base == MAP_FAILED) {
		free(h);
		return errno;
	}
	if (put(h)) {
		munmap(h->base, h->len);
		free(h);
		return ENOMEM;
	}
	*out = h;
	return 0;
}

#ifndef MADV_COLD
#define MADV_COLD 20 /* Linux 5.4 */
#endif

/* Where the mapping that begins there ends; 0: there is none. */
static size_t mapping_len(const void *start)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from, to, len = 0;
	char *line = NULL;
	size_t room = 0;

	while (f && !len && getline(&line, &room, f) > 0)
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from == (uintptr_t)start)
			len = to - from;
	free(line);
	if (f)
		fclose(f);
	return len;
}

/* Huge pages cannot become cold, and a segment does not say of itself that it has such, or of what size. */
static bool seg_measure(struct held *h, size_t size)
{
	h->page = (size_t)sysconf(_SC_PAGESIZE);
	h->len = (size + h->page - 1) & ~(h->page - 1);
	if (!madvise(h->base, h->page, MADV_COLD))
		return true;
	h->page = h->len = mapping_len(h->base);
	return h->len >= size;
}

int held_attach(struct held **out, int shmid, size_t size)
{
	struct held *h = calloc(1, sizeof(*h));
	struct shmid_ds ds;
	int err;

	if (!h)
		return ENOMEM;
	h->base = shmat(shmid, NULL, 0);
	if (h->base == (void *)-1) {
		err = errno;
		free(h);
		return err;
	}
	err = shmctl(shmid, IPC_STAT, &ds) || ds.shm_segsz != size || !seg_measure(h, size) ? EINVAL : put(h);
	if (err) {
		shmdt(h->base);
		free(h);
		return err;
	}
	*out = h;
	return 0;
}

void held_unmap(struct held *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&lock);
	tdelete(h, &all, held_cmp);
	all_n--;
	pthread_mutex_unlock(&lock);
	munmap(h->base, h->len);
	free(h);
}

unsigned held_count(void)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = all_n;
	pthread_mutex_unlock(&lock);
	return n;
}
