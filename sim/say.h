/* SPDX-License-Identifier: MIT */
/* say.h - how rdmad-sim ends when it cannot go on: with a sentence.  Status 1: something is wrong outside; 3: a bug here. */
#ifndef SIM_SAY_H
#define SIM_SAY_H

#include <stddef.h>

_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A rule of the simulation itself does not hold. */
_Noreturn void broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* n elements in the place of old, which may be NULL; ends the program if there is no memory. */
void *room_for(void *old, size_t n, size_t each);
/* The same anew, all zero. */
void *room_new(size_t n, size_t each);

#endif
