/* SPDX-License-Identifier: MIT */
/* say.h - messages of rdmad-run itself, for the one who started it. */
#ifndef RUN_SAY_H
#define RUN_SAY_H

#include <stdarg.h>
#include <stdbool.h>

/* Writes one line `rdmad-run: ...` to stderr, and leaves errno as it is; any thread. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_list(const char *fmt, va_list) __attribute__((format(printf, 1, 0)));

/* The same, of something that was asked for and is not there, or not whole, when the program has ended; main thread. */
void say_lost(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool said_lost(void);

#endif
