/* SPDX-License-Identifier: MIT */
/*
 * quota.h - what each user has of the daemon, and how much of it he may have.
 *
 *	verb_qp_create() ... --bill_open()--> user 1001: 12 of 16384 QPs ... --bill_close()--> 11
 *
 * Whoever makes something for a client opens a bill for it first, keeps the bill beside it, and closes it when it is gone: a bill
 * knows what was charged and to whom.  Root and the daemon's own user are counted, but not limited, and for them an eighth of
 * what there is is kept free of all others.  Control thread, or another one while it waits.
 */
#ifndef DAEMON_QUOTA_H
#define DAEMON_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum quota {
#define QUOTA(name, unit, most, key, err, text) QUOTA_##name,
#include "quota.def"
#undef QUOTA
	QUOTAS
};

/* The value of rdmad.conf, in units of the table; QUOTA_UNSET: it has none, 0: no limit but what there is. */
#define QUOTA_UNSET UINT64_MAX

/* How much of each something takes, in ones and bytes. */
struct cost {
	uint64_t n[QUOTAS];
};

struct quota_user;

/* All zero: nothing is charged. */
struct bill {
	struct quota_user *user;
	struct cost cost;
};

/* hcas: how many there are, each with a table of its own for objects. */
void quota_begin(const uint64_t conf[QUOTAS], unsigned hcas);
/* At the end of the daemon, when all sessions are gone: says so if something is still charged. */
void quota_end(void);

/* Charges a cost to the user.  0, or the errno of the table: nothing is charged then. */
int bill_open(struct bill *, uid_t, const struct cost *);
/* From now on this much of one; less always can be. */
int bill_set(struct bill *, enum quota, uint64_t n);
/* So much of one, which is on the bill, goes to a bill of its own. */
void bill_split(struct bill *part, struct bill *, enum quota, uint64_t n);
void bill_close(struct bill *);
/*
 * One of most things that the user may do in a turn of the control loop, which has this number; false: he has done as many, or what
 * he has done took 2 ms.
 */
bool bill_turn(const struct bill *, unsigned turn, unsigned most);
/* So long took what he may. */
void bill_took(const struct bill *, uint64_t ns);

/* Of heap that a malloc of this length has a mapping of its own for: 1, else 0. */
unsigned quota_maps_of(size_t heap);

/* The most that this user could have if nobody else had any. */
uint64_t quota_most(uid_t, enum quota);

/* Why the last charge was refused, in words, once; false: none was since. */
bool quota_refused(char *text, size_t len);
/* The errno of a call for its program: EMFILE for which no quota is the reason is a limit of the daemon's, ENFILE. */
int quota_errno(int err);

struct quota_use {
	uid_t uid;
	bool limited;
	struct cost used, limit; /* UINT64_MAX: none */
};
void quota_each(void (*each)(const struct quota_use *, void *), void *arg);
/* Of all users that are limited, together. */
void quota_all(struct quota_use *);
const char *quota_key(enum quota);
/* In units of the table; what is used rounded up, so that 0 is nothing.  UINT64_MAX stays. */
uint64_t quota_units(enum quota, uint64_t n, bool up);

#endif
