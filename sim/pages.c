/* SPDX-License-Identifier: MIT */
/* pages.c - see pages.h. */
#include "pages.h"

#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define HUGE  (2u << 20)
#define TABLE 16384 /* bytes: what is as large lies apart */

static char *heap; /* where it began */

static void huge(const void *v, const void *end, int how)
{
	uintptr_t at = ((uintptr_t)v + HUGE - 1) & ~(uintptr_t)(HUGE - 1);

	if (at + HUGE <= (uintptr_t)end)
		(void)madvise((void *)at, ((uintptr_t)end - at) & ~(uintptr_t)(HUGE - 1), how);
}

void pages_begin(void)
{
	/* Nothing in reserve: calloc() clears that, and fresh memory is zero untouched; and a table would be cut from it. */
	mallopt(M_TOP_PAD, 0);
	mallopt(M_MMAP_THRESHOLD, TABLE);
	mallopt(M_MMAP_MAX, INT_MAX);
	heap = sbrk(0);
}

void pages_join(void)
{
	/* Where the kernel cannot, pages remain what they are. */
	huge(heap, sbrk(0), MADV_HUGEPAGE);
	huge(heap, sbrk(0), MADV_COLLAPSE);
}

void *pages_new(size_t n, size_t each)
{
	size_t len;
	char *v;

	if (__builtin_mul_overflow(n, each, &len) || len > SIZE_MAX - HUGE)
		return NULL;
	if (len < HUGE)
		return calloc(n, each);
	v = aligned_alloc(HUGE, (len + HUGE - 1) & ~(size_t)(HUGE - 1));
	if (!v)
		return NULL;
	huge(v, v + len + HUGE - 1, MADV_HUGEPAGE);
	return memset(v, 0, len);
}
