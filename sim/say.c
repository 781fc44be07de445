/* SPDX-License-Identifier: MIT */
/* say.c - see say.h. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "pages.h"

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("rdmad-sim: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

void broken(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("rdmad-sim: this is a bug of rdmad-sim, please report it: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(3);
}

void *room_for(void *old, size_t n, size_t each)
{
	void *v = reallocarray(old, n ? n : 1, each);

	if (!v)
		die("out of memory: %zu bytes more; fewer hosts need less", n * each);
	return v;
}

void *room_new(size_t n, size_t each)
{
	void *v = pages_new(n ? n : 1, each);

	if (!v)
		die("out of memory: %zu bytes more; fewer hosts need less", n * each);
	return v;
}
