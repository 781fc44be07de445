/* SPDX-License-Identifier: MIT */
/* say.c - messages of rdmad-run itself. */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void say(const char *fmt, ...)
{
	int was = errno;
	va_list ap;

	va_start(ap, fmt);
	fputs("rdmad-run: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	errno = was;
}
