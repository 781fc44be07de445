/* SPDX-License-Identifier: MIT */
/*
 * tape.h - --record and --replay: the packets of a run, what rules did to them, and the same again in another run.
 *
 *	run --list of decisions--> FILE (JSON) --replay_rules()--> another run --list of decisions--> replay_compare()
 *
 * The daemon's list of decisions tells of each packet: rules of our own, behind those of the user, note what these let
 * through.
 */
#ifndef RUN_TAPE_H
#define RUN_TAPE_H

#include "packet.h"
#include "run.h"
#include "watch.h"

#define TAPE_NAME "rdmad-run, to know all packets" /* of our own rules */

struct taped {
	struct packet p;
	const char *redo; /* what was done to it, as files of rules have it; empty: nothing */
	json_t *deeds;    /* the same, a text for each rule that did something */
	bool lost;
};

struct tape {
	json_t *json; /* holds the texts */
	struct taped *v;
	unsigned n;
	unsigned disturbed;    /* of them */
	size_t deeds;          /* by so many rules */
	unsigned long long of; /* so many packets there were: n of them are known */
};

/*
 * --record, --replay: the file is looked at, and *argv is the recorded program if none was named.  Then the daemon gets the
 * rules.  At the end the file is written, or compared.  False: said why.
 */
bool tape_prepare(const struct options *, char ***argv);
bool tape_begin(int hold, const struct options *);
void tape_end(const struct options *, char **argv, const json_t *dump, int status);

/* ---- replay.c ---- */
#define REPLAY_MOST 240u /* deeds that can be done again, a rule each: the daemon has room for 256 */
/* Rules that do again what was done. */
void replay_rules(FILE *, const struct tape *);
/* Where the new run departs from the old one.  True: nowhere. */
bool replay_compare(FILE *, const struct tape *old, const struct tape *now);

#endif
