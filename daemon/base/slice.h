/* SPDX-License-Identifier: MIT */
/* slice.h - how long a thread runs before others may. */
#ifndef DAEMON_SLICE_H
#define DAEMON_SLICE_H

/*
 * The calling thread, and those that it makes from now on, want short time slices, if they are ordinary ones (before Linux 6.12
 * they get none): so they are woken in the middle of a neighbour's, and lose little when they give their core away.
 */
void slice_short(void);

#endif
