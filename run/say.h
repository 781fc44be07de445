/* SPDX-License-Identifier: MIT */
/* say.h - messages of rdmad-run itself, for the one who started it. */
#ifndef RUN_SAY_H
#define RUN_SAY_H

/* Writes one line `rdmad-run: ...` to stderr, and leaves errno as it is; any thread. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
