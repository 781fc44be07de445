/* SPDX-License-Identifier: MIT */
/* real.c - the C library's own calls, behind ours. */
#include "pre.h"

#include <dlfcn.h>

struct real real_calls;

static const struct {
	const char *name;
	size_t at;
} calls[] = {
#define NAME(name) { #name, offsetof(struct real, name) },
#include "names.def"
#undef NAME
};

/* Also called by whoever is earlier than the constructor. */
__attribute__((constructor)) void real_find(void)
{
	int err = errno;

	for (size_t i = 0; i < ARRAY_N(calls); i++) {
		void **at = (void **)(void *)((char *)&real_calls + calls[i].at);
		void *call = dlsym(RTLD_NEXT, calls[i].name);

		if (!call) {
			fprintf(stderr, "librdmad-tree: the C library has no %s\n", calls[i].name);
			abort();
		}
		__atomic_store_n(at, call, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&real_calls.found, true, __ATOMIC_RELEASE);
	errno = err;
}
