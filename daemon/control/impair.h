/* SPDX-License-Identifier: MIT */
/*
 * impair.h - the daemon's rules (lab/rule.h): one set for all devices and shards, behind a lock.
 *
 * Packets are decided on in the shards, by way of tap.c.  Rules about a port, a device or a QP are carried out
 * by the control thread, which is woken.
 */
#ifndef DAEMON_IMPAIR_H
#define DAEMON_IMPAIR_H

#include "../../lab/rule.h"
#include "impair_spec.h"

struct ev_loop;

/*
 * Stages rules from the command line or the configuration - "loss=1%,dup=1%" or the name of a file - instead of those that were
 * staged.  NULL: they are good; else what is wrong with them.  seed: NULL if none was given; spec "": no rules.
 */
const char *impair_read(const char *spec, const uint64_t *seed);

/* The staged rules, for a process that reads for another one (reader.h).  text: of malloc(), or NULL. */
struct impair_text {
	char *text;
	bool seeded;
	uint64_t seed;
};
struct impair_text *impair_staged(void);

/* The shards are there: what is staged is in force.  loop, event_do: NULL where nothing happens but to packets. */
void impair_start(struct ev_loop *, void (*event_do)(const struct rule_event *, unsigned device));
void impair_stop(struct ev_loop *);
/*
 * The staged rules take the place of those that were staged before; rules of clients stay.  1: they do; 0: they are the same;
 * -1: they cannot, the log says why, and none of them are in force.
 */
int impair_again(void);

/* As rules_add() and rules_clear(). */
int impair_add(const char *text, size_t len, uint64_t owner, const uint64_t *seed, struct rule_error *);
unsigned impair_clear(unsigned id, uint64_t owner);

extern struct rules impair_rules; /* only under the lock, but for the names of devices */
struct rules *impair_lock(void);  /* to look at them; no shard decides on packets until impair_unlock() */
void impair_unlock(void);
/* The rule that has wedged the device, and since when; 0: none has. */
unsigned impair_wedged(unsigned device, mono_t *since);

#endif
