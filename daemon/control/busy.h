/* SPDX-License-Identifier: MIT */
/* busy.h - which objects use one that cannot be destroyed. */
#ifndef DAEMON_BUSY_H
#define DAEMON_BUSY_H

#include "why_text.h"
#include "../shard/obj.h"

/*
 * "it is used by QP 0x12, MR 0x500 and more": those of its own context, the newest of each kind first, as far as a few looks
 * show them; nothing if none is found.  Shard thread.
 */
void busy_words(struct words *, const struct obj *);

#endif
