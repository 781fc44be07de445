/* SPDX-License-Identifier: MIT */
/* say.c - messages of rdmad-run itself. */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* In one call, which is one write: those of --hosts say something at the same time. */
void say(const char *fmt, ...)
{
	int was = errno;
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	va_end(ap);
	fprintf(stderr, "rdmad-run: %s\n", text);
	free(text);
	errno = was;
}
