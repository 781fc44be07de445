/* SPDX-License-Identifier: MIT */
/* mem_least.c - the smallest region that is worth it, by the environment and the program's allocator. */
#include "mem_map_in.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * An allocator other than libc's may count on MADV_DONTNEED to clear its pages, which it does not do to
 * pages of a file.  Some live beside libc's, by names of their own.
 */
static bool libc_malloc(void)
{
	static const char *const others[] = { "je_malloc", "_rjem_malloc", "mi_malloc", "tc_malloc",
					      "scalable_malloc" };
	Dl_info a, b;

	for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (dlsym(RTLD_DEFAULT, others[i]))
			return false;
	return dladdr((void *)(uintptr_t)malloc, &a) && dladdr((void *)(uintptr_t)fflush, &b) &&
	       a.dli_fbase == b.dli_fbase;
}

/* A number of bytes, or one with K, M or G behind it. */
static bool size_read(const char *text, size_t *size)
{
	static const char units[] = "KMG";
	unsigned shift = 0;
	const char *unit;
	char *end;
	size_t n;

	errno = 0;
	n = strtoul(text, &end, 0);
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
	}
	if (errno || *text < '0' || *text > '9' || *end || n > SIZE_MAX >> shift)
		return false;
	*size = n << shift;
	return true;
}

static size_t usable(size_t n) { return !n ? SIZE_MAX : n < 2 ? 2 : n; }

static size_t least, shared; /* least is atomic, and is set behind shared; 0: not asked yet */

void least_ask(void)
{
	const char *env;
	size_t n = MAP_LEAST;
	bool set;

	if (least_len())
		return;
	env = secure_getenv("RDMAD_MAP");
	set = env && *env;
	if (set && !size_read(env, &n)) {
		fprintf(stderr,
			"libibverbs (rdmad): RDMAD_MAP=%s is no size, and is ignored; give bytes, or a number with K, "
			"M or G\n",
			env);
		set = false;
	}
	shared = usable(n);
	__atomic_store_n(&least, set || libc_malloc() ? usable(n) : SIZE_MAX, __ATOMIC_RELEASE);
}

size_t least_len(void) { return __atomic_load_n(&least, __ATOMIC_ACQUIRE); }

size_t least_shared(void) { return shared; }
