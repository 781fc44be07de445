/* SPDX-License-Identifier: MIT */
/* scarce.h - the steps of a program: each makes something, and can undo it. */
#ifndef T_SCARCE_H
#define T_SCARCE_H

#include <errno.h>

struct step {
	const char *name;
	int (*up)(void); /* 0 or an errno; then nothing is left of it */
	int (*down)(void);
	void (*more)(void); /* when it stays up; may be NULL */
};

extern const struct step steps_verbs[], steps_cm[], steps_streams[]; /* the last of each has no name */

/* Of calls that return NULL, or -1, and an errno; those of verbs return the errno itself. */
#define MADE(call) (errno = 0, (call) ? 0 : errno ? errno : -1)
#define DONE(call) MADE(!(call))

#endif
