/* SPDX-License-Identifier: MIT */
/*
 * inbox.h - requests of other threads to a shard: calls from the control thread, datagrams that another shard received.
 *
 * Both are carried out between two turns.
 */
#ifndef DAEMON_INBOX_H
#define DAEMON_INBOX_H

#include <stddef.h>

#include "../../proto/burst.h"
#include "shard.h"

struct inbox;

/* Control thread: runs fn(s, arg) in the shard's thread between two turns and returns when it is done. */
void shard_call(struct shard *, void (*fn)(struct shard *, void *), void *arg);
/* Any thread: the shard makes a turn soon, behind what was written before. */
void inbox_wake(struct shard *);

/* Any shard's thread: hands a datagram (without ICRC) to another one.  Dropped if that one is too far behind. */
void inbox_put(struct shard *to, struct device *, const struct route *, const uint8_t *data, size_t len);

/* ---- the thread of the inbox, and who starts and stops it ------------------------------------ */

struct letter {
	struct letter *next;
	struct device *device;
	struct route route;
	size_t len;
	uint8_t data[];
};

struct inbox *inbox_new(void); /* NULL: no memory */
void inbox_free(struct inbox *);
/* The thread is to end. */
void inbox_stop(struct shard *);

bool inbox_wanted(const struct inbox *); /* there is something: inbox_open() */
/* Its thread is about to sleep: from now on it is kicked.  inbox_wanted() is asked after that, as it was not kicked before. */
void inbox_asleep(struct inbox *, bool);
/* Its thread begins to work, or to sleep: in between all that is the shard's is lent to who borrows it (guest.h). */
void inbox_take(struct inbox *);
void inbox_lend(struct inbox *);
bool inbox_borrow(struct inbox *); /* false: its thread has it.  The end: inbox_lend() */
/*
 * Carries out the calls that there are.  The letters are the caller's from now on, the first one came first; *stop: the
 * thread is to end.
 */
struct letter *inbox_open(struct shard *, bool *stop);

#endif
