/* SPDX-License-Identifier: MIT */
/* alone.c - see alone.h. */
#include "alone.h"

#include <dlfcn.h>

static const char never;

const char *alone_flag = &never;

/* A glibc before 2.32 is without it, and this library runs with older ones. */
__attribute__((constructor)) static void flag_find(void)
{
	const char *flag = dlsym(RTLD_DEFAULT, "__libc_single_threaded");

	if (flag)
		alone_flag = flag;
}
