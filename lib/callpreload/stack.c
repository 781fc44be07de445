/* SPDX-License-Identifier: MIT */
/*
 * stack.c - the callers of a verb.
 *
 * Functions that an object does not export have no name here, but their place: addr2line -fe OBJECT ADDRESS tells the line.
 */
#include "stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <string.h>

#define STACK_NEAR 16 /* our frames and those around them, where nothing is inlined */

/* Of this library, by the linker: its first byte, and the one behind its last. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_own(const void *pc) { return (const char *)pc >= __ehdr_start && (const char *)pc < _end; }

void stack_ready(void)
{
	struct stack s;

	stack_take(&s);
}

void stack_take(struct stack *s)
{
	void *all[STACK_MAX + STACK_NEAR];
	int n = backtrace(all, STACK_MAX + STACK_NEAR), i = 0;

	/* The outermost call of ours: below it are the libraries' own, and those of sanitizers. */
	for (int k = 0; k < n && k < STACK_NEAR; k++)
		if (is_own(all[k]))
			i = k + 1;
	s->n = n - i < STACK_MAX ? n - i : STACK_MAX;
	memcpy(s->pc, all + i, (size_t)s->n * sizeof(s->pc[0]));
}

void stack_put(FILE *f, const struct stack *s)
{
	for (int i = 0; i < s->n; i++) {
		const char *at = (const char *)s->pc[i] - 1; /* the call, not what follows it */
		Dl_info in;

		if (!dladdr(at, &in) || !in.dli_fname)
			fprintf(f, "      %p\n", (const void *)at);
		else if (in.dli_sname)
			fprintf(f, "      %s+0x%zx (%s 0x%zx)\n", in.dli_sname,
				(size_t)(at - (const char *)in.dli_saddr), in.dli_fname,
				(size_t)(at - (const char *)in.dli_fbase));
		else
			fprintf(f, "      %s 0x%zx\n", in.dli_fname, (size_t)(at - (const char *)in.dli_fbase));
	}
}
