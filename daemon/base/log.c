/* SPDX-License-Identifier: MIT */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool journal;
static int out = STDERR_FILENO;                /* without waiting */
static enum log_level level_max = LOG_LV_NOTE; /* atomic: a configuration read again changes it */

static const struct {
	const char *name;
	enum log_level level;
} level_names[] = {
	{ "error", LOG_LV_ERR }, { "warning", LOG_LV_WARN }, { "notice", LOG_LV_NOTE },
	{ "info", LOG_LV_INFO }, { "debug", LOG_LV_DEBUG },
};

/*
 * A terminal that has room may have it for a part of a line, and waits with the rest.  Not so by an open file of our own; of the one
 * that we were given the shell and others would not wait any more, either.
 */
static void terminal_open(void)
{
	int fd = isatty(STDERR_FILENO) ? open("/proc/self/fd/2", O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : -1;

	if (fd >= 0)
		out = fd;
}

/* systemd names device:inode of the journal's socket: a stderr that was sent elsewhere gets no <N>. */
void log_init(enum log_level max)
{
	const char *env = getenv("JOURNAL_STREAM");
	unsigned long dev, ino;
	struct stat st;

	journal = env && sscanf(env, "%lu:%lu", &dev, &ino) == 2 && !fstat(STDERR_FILENO, &st) && st.st_dev == dev &&
		  st.st_ino == ino;
	terminal_open();
	log_level_set(max);
}

void log_level_set(enum log_level max) { __atomic_store_n(&level_max, max, __ATOMIC_RELAXED); }

bool log_level_parse(const char *name, enum log_level *level)
{
	for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (!strcmp(name, level_names[i].name)) {
			*level = level_names[i].level;
			return true;
		}
	}
	return false;
}

bool log_wanted(enum log_level level) { return level <= __atomic_load_n(&level_max, __ATOMIC_RELAXED); }

/* May this call speak?  *held: how often it was held back before.  Counts may be off by a few between threads. */
static bool site_speaks(struct log_site *s, uint32_t *held)
{
	struct timespec ts;
	uint64_t now, period;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec / LOG_PERIOD_S + 1;
	period = __atomic_load_n(&s->period, __ATOMIC_RELAXED);
	*held = 0;
	if (period != now &&
	    __atomic_compare_exchange_n(&s->period, &period, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		__atomic_store_n(&s->said, 0, __ATOMIC_RELAXED);
		*held = __atomic_exchange_n(&s->held, 0, __ATOMIC_RELAXED);
	}
	if (__atomic_fetch_add(&s->said, 1, __ATOMIC_RELAXED) < LOG_BURST)
		return true;
	__atomic_fetch_add(&s->held, 1, __ATOMIC_RELAXED);
	return false;
}

/* Lines that stderr had no room for, and that no other has told of; atomic. */
static uint32_t lost;

/*
 * A pipe that nobody reads, a terminal that is held (^S), a journal that hangs: who waits for them serves nobody.  Where there is
 * room at all a pipe has it for a line.  A disk that is full says so when it is written to.
 */
static bool has_room(void)
{
	struct pollfd p = { .fd = out, .events = POLLOUT };

	return poll(&p, 1, 0) > 0;
}

static bool no_room(int err) { return err == EAGAIN || err == ENOSPC || err == EDQUOT; }

static bool is_written(const char *line, size_t len)
{
	ssize_t n = has_room() ? write(out, line, len) : 0;

	return n < 0 ? !no_room(errno) : (size_t)n == len; /* else there is nobody left to tell */
}

static void line_write(char *line, size_t len, size_t room)
{
	uint32_t before = __atomic_exchange_n(&lost, 0, __ATOMIC_RELAXED);

	if (before)
		len += (size_t)snprintf(line + len, room - len, " (%u lines were lost: there was no room)", before);
	line[len++] = '\n';
	if (log_wanted(LOG_LV_DEBUG)) {
		if (write(STDERR_FILENO, line, len) < 0) {
			/* There is nobody left to tell. */
		}
	} else if (!is_written(line, len)) {
		__atomic_fetch_add(&lost, before + 1, __ATOMIC_RELAXED);
	}
}

void log_print(struct log_site *s, enum log_level level, const char *fmt, ...)
{
	char line[1024];
	size_t len, room = sizeof(line) - 128;
	int err = errno, n;
	uint32_t held;
	va_list ap;

	/* A user who asked for everything gets everything. */
	if (log_wanted(LOG_LV_DEBUG))
		held = 0;
	else if (!site_speaks(s, &held))
		return;
	len = (size_t)(journal ? snprintf(line, room, "<%d>", level) : snprintf(line, room, "rdmad: "));
	va_start(ap, fmt);
	n = vsnprintf(line + len, room - len, fmt, ap);
	va_end(ap);
	if (n > 0)
		len += (size_t)n < room - len ? (size_t)n : room - len - 1;
	if (held)
		len += (size_t)snprintf(line + len, sizeof(line) - len, " (held back before: %u alike)", held);
	line_write(line, len, sizeof(line));
	errno = err;
}
