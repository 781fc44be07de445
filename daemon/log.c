/* SPDX-License-Identifier: MIT */
/* log.c - one line, one write(). */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum log_level level = LOG_LV_INFO;
static bool journal;

/* JOURNAL_STREAM is "device:inode" of the journal's socket; stderr may have been sent elsewhere since. */
static bool stderr_is_journal(void)
{
	const char *env = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return env && sscanf(env, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
	       st.st_dev == dev && st.st_ino == ino;
}

void log_init(enum log_level max)
{
	level = max;
	journal = stderr_is_journal();
}

void log_line(enum log_level lv, const char *fmt, ...)
{
	int saved = errno, n;
	char buf[1024];
	va_list ap;

	if (lv > level)
		return;
	n = journal ? snprintf(buf, sizeof(buf), "<%d>", lv) : snprintf(buf, sizeof(buf), "rdmad: ");
	va_start(ap, fmt);
	vsnprintf(buf + n, sizeof(buf) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	strcat(buf, "\n");
	if (write(STDERR_FILENO, buf, strlen(buf)) < 0)
		; /* nowhere left to complain */
	errno = saved;
}
