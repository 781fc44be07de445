/* SPDX-License-Identifier: MIT */
/* slice.h - how long a thread runs before others may. */
#ifndef DAEMON_SLICE_H
#define DAEMON_SLICE_H

/*
 * The calling thread is an ordinary one from now on and wants short time slices (before Linux 6.12 it gets none): so it is woken in
 * the middle of a neighbour's, and loses little when it gives its core away.
 */
void slice_short(void);

#endif
