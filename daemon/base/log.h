/* SPDX-License-Identifier: MIT */
/*
 * log.h - lines to stderr: "rdmad: text", or "<N>text" when the journal reads them.
 *
 * Any thread may log; a line is one write().  The same call says the same thing at most LOG_BURST times in
 * LOG_PERIOD_S seconds, so that a client or a peer cannot fill the disk; lines held back are counted, and
 * their number comes with the next line of that call.  A line that stderr has no room for is lost, and counted likewise: the
 * daemon does not wait for who reads its log.  Only with LOG_LV_DEBUG every line is written, and waited for.
 */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_BURST    10u
#define LOG_PERIOD_S 10u

enum log_level {
	LOG_LV_ERR = 3,
	LOG_LV_WARN = 4,
	LOG_LV_NOTE = 5,
	LOG_LV_INFO = 6,
	LOG_LV_DEBUG = 7
}; /* those of syslog(3) */

struct log_site { /* one per call; zero at first */
	uint64_t period;
	uint32_t said, held;
};

void log_init(enum log_level max);      /* lines above max are left out; LOG_LV_NOTE without this call */
void log_level_set(enum log_level max); /* later; any thread */
bool log_level_parse(const char *name, enum log_level *); /* "error" ... "debug" */
bool log_wanted(enum log_level);
void log_print(struct log_site *, enum log_level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define LOG_AT(level, ...)                                           \
	do {                                                         \
		static struct log_site log_site_;                    \
		if (log_wanted(level))                               \
			log_print(&log_site_, (level), __VA_ARGS__); \
	} while (0)

#define log_err(...)   LOG_AT(LOG_LV_ERR, __VA_ARGS__)   /* the daemon cannot do what it is for */
#define log_warn(...)  LOG_AT(LOG_LV_WARN, __VA_ARGS__)  /* somebody should do something */
#define log_note(...)  LOG_AT(LOG_LV_NOTE, __VA_ARGS__)  /* start, stop, changes of an address: the default level */
#define log_info(...)  LOG_AT(LOG_LV_INFO, __VA_ARGS__)  /* clients coming and going, hostile ones */
#define log_debug(...) LOG_AT(LOG_LV_DEBUG, __VA_ARGS__) /* every control message */

#endif
