/* SPDX-License-Identifier: MIT */
/*
 * report.h - what is told after the program's end: --report DIR, --leaks.
 *
 *	DIR/report.txt		for people: how it ended, what it left, counters that changed
 *	DIR/report.json		the same for programs, with all of it
 *	DIR/daemon.log		of the private daemon, if we started it
 *	DIR/why.txt, why.json	what went wrong, if anything did, as --explain tells it
 *	DIR/check.txt		with --check: what was found
 *	DIR/junit.xml		the program as a test case, for what shows results of tests
 *	DIR/replay.txt		with --replay: where the run departs from the recorded one
 *	DIR/rules.txt		the rules that disturbed packets, their seed and what they decided, if there were any
 *	DIR/rules.json		the rules, their seed and what they decided, if there are any
 *	DIR/stats-before.json, stats-after.json, qps.json	as rdmactl --json has them
 *
 * Other files of rdmad-run add theirs: report_file() names a file there.
 */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include <stdio.h>

#include "run.h"
#include "watch.h"

struct json_t;

struct report {
	const struct options *opt;
	const char *addr; /* the daemon's */
	char **argv;
	int daemon;            /* hold_look() */
	int pidfd;             /* of the daemon; -1: it is in another PID namespace */
	bool alive;            /* at the program's end it is the same process still */
	bool misuse;           /* --check has found some */
	long long lost;        /* contexts that left something, and that the daemon has forgotten */
	struct json_t *before; /* stats */
	struct json_t *ended;  /* processes that outlived the program and their grace, or NULL */
	struct json_t *waits;  /* for what the program waited when time was up, or NULL */
};

/* Before the program starts: the directory is made, the old report in it removed.  False: said why. */
bool report_place(const struct options *);
/* DIR/name, for opt->report; the caller frees it. */
char *report_file(const struct options *, const char *name);

/* explain.c: is there an error among the causes (DUMP_WHY)?  And all of them, if there is one. */
bool explain_wrong(const struct json_t *causes);
void explain_put(FILE *, const struct json_t *causes, const struct json_t *waits, const struct outcome *);

/* The rows of a list of the daemon's that belong to this run. */
struct json_t *report_ours(const struct report *, const struct json_t *list);

/*
 * leaks.c: the contexts that ended and left something (DUMP_ENDS), and how many more there were, of which the daemon has
 * no row any more; for people, with the QPs at their end.
 */
struct json_t *leaks_of(const struct report *, const struct json_t *ends);
long long leaks_lost(const struct report *, const struct json_t *ends);
void leak_show(FILE *, const struct json_t *ctx, const struct json_t *qps);
void leaks_lost_show(FILE *, long long n);

/* rules.c: the rules that are in force (DUMP_IMPAIR), and what they decided; nothing if they met no packet. */
void rules_put(FILE *, const struct json_t *rules);
/* The same, as a file of the report.  False: there are no rules. */
bool rules_write(const struct options *, const struct json_t *rules);

bool report_begin(struct report *, const struct options *, const char *addr, char **argv);
/* junit.c: report_json() of report.c, and what went wrong, or nothing. */
void junit_put(FILE *, const struct json_t *report, const char *why);

/* A process has outlived the program, and is ended now: a struct report. */
void report_outlived(pid_t, const char *name, void *);
/* Time is up, and the program is still there: a struct report. */
void report_time_up(void *);
/* The program has ended.  The exit status of rdmad-run. */
int report_end(struct report *, const struct outcome *);

#endif
