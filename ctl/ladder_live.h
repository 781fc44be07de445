/* SPDX-License-Identifier: MIT */
/* ladder_live.h - packets from the daemon instead of a file. */
#ifndef CTL_LADDER_LIVE_H
#define CTL_LADDER_LIVE_H

#include "ladder.h"
#include "source.h"

/*
 * Captures until SIGINT, or as many packets or seconds as count and seconds say (words of the command line, or NULL), and gives each
 * to take.  0; else a status, and why has been said.
 */
int ladder_live(struct ladder *, const struct ask *, const char *count, const char *seconds,
		void (*take)(void *, const struct source *, const struct pcapng_item *, uint64_t no), void *arg);

#endif
