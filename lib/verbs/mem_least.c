/* SPDX-License-Identifier: MIT */
/* mem_least.c - the smallest region that is worth it, by the environment and the program's allocator. */
#include "mem_map_in.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

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

static size_t least; /* atomic; 0: not asked yet */

void least_ask(void)
{
	const char *env;
	size_t n;

	if (__atomic_load_n(&least, __ATOMIC_RELAXED))
		return;
	env = secure_getenv("RDMAD_MAP");
	if (env && *env)
		n = strtoul(env, NULL, 0);
	else
		n = libc_malloc() ? MAP_LEAST : 0;
	if (!n)
		n = SIZE_MAX;
	else if (n < 2)
		n = 2;
	__atomic_store_n(&least, n, __ATOMIC_RELAXED);
}

size_t least_len(void) { return __atomic_load_n(&least, __ATOMIC_RELAXED); }
