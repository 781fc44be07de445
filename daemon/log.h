/* SPDX-License-Identifier: MIT */
/*
 * log.h - lines for people on stderr; with a <priority> in front where the journal reads them.
 *
 * Any thread.  A line is one write(), so that lines of threads do not mix.  No newline at the end of fmt.
 */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

enum log_level { LOG_LV_ERR = 3, LOG_LV_WARN = 4, LOG_LV_NOTE = 5, LOG_LV_INFO = 6, LOG_LV_DEBUG = 7 };	/* as syslog(3) */

void log_init(enum log_level max);	/* lines above max are left out; LOG_LV_INFO without this call */
void log_line(enum log_level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_err(...)	log_line(LOG_LV_ERR, __VA_ARGS__)
#define log_warn(...)	log_line(LOG_LV_WARN, __VA_ARGS__)
#define log_note(...)	log_line(LOG_LV_NOTE, __VA_ARGS__)
#define log_info(...)	log_line(LOG_LV_INFO, __VA_ARGS__)
#define log_debug(...)	log_line(LOG_LV_DEBUG, __VA_ARGS__)

#endif
