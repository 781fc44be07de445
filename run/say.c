/* SPDX-License-Identifier: MIT */
/* say.c - messages of rdmad-run itself. */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* In one call, which is one write: those of --hosts say something at the same time. */
void say_list(const char *fmt, va_list ap)
{
	int was = errno;
	char *text;

	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	fprintf(stderr, "rdmad-run: %s\n", text);
	free(text);
	errno = was;
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_list(fmt, ap);
	va_end(ap);
}

static bool lost;

void say_lost(const char *fmt, ...)
{
	va_list ap;

	lost = true;
	va_start(ap, fmt);
	say_list(fmt, ap);
	va_end(ap);
}

bool said_lost(void) { return lost; }
