/* SPDX-License-Identifier: MIT */
/*
 * sweep.h - rdmad-run --sweep: each packet of a program disturbed once, and what becomes of the program.
 *
 *	clean run --> packets (sweep_plan.c) --> cases, a file of rules each --> runs of rdmad-run --own (sweep_case.c)
 *	                                              ^                               |
 *	                                              '------- sweep.c: the pool <----'--> results (sweep_report.c)
 *
 * A case is the command that repeats it: rdmad-run --own --fault FILE PROGRAM, and nothing else.  DIR (--report) has a
 * directory for each case that is a finding, and for the clean run: rules.yaml, stdout, stderr, and the files of report.h.
 */
#ifndef RUN_SWEEP_H
#define RUN_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "packet.h"
#include "run.h"

/* A way to disturb a packet. */
struct sweep_fault {
	const char *word; /* of --sweep */
	const char *says; /* "is lost" */
	const char *act;  /* "do" of a rule */
	bool (*fits)(const struct packet *);
};

enum sweep_result {
	SWEEP_WAITS, /* it has not run */
	SWEEP_OK,
	SWEEP_MISSED, /* the packet did not come in that run */
	SWEEP_FAILED,
	SWEEP_HUNG,
	SWEEP_SLOW,
	SWEEP_CORRUPT,
	SWEEP_UNSTEADY, /* a finding once, and not when it was repeated */
	SWEEP_ERROR,    /* rdmad-run itself failed */
	SWEEP_RESULTS
};

#define SWEEP_PARTS 2u /* of a pair */

struct sweep_case {
	unsigned id; /* 1, 2, ...; 0: the clean run */
	unsigned n;
	struct {
		const struct sweep_fault *fault;
		const struct packet *pkt;
	} part[SWEEP_PARTS];
	enum sweep_result result;
	char detail[96]; /* "exit status 1" */
	char why[240];   /* the daemon's first sentence on what went wrong, or empty */
	double seconds;
	pid_t pid; /* while it runs */
};

struct sweep {
	const struct options *opt;
	const char *name; /* rdmad-run, as it was called */
	const char *dir;
	char **argv;
	char self[PATH_MAX];
	bool apart;         /* each case has a network namespace */
	unsigned jobs;      /* at once */
	double clean_s;     /* the clean run took so long */
	double limit_s;     /* a case that takes so long hangs */
	double slow_s;      /* and one that takes so long is slow */
	struct packet *pkt; /* packets of the clean run that are known */
	unsigned pkt_n;
	unsigned long long sent_n; /* all of them */
	struct sweep_case *c;
	unsigned n;
	unsigned single_n, pair_n;       /* cases; the first single_n of c have one fault */
	unsigned single_left, pair_left; /* left out because of --sweep-limit */
	unsigned result_n[SWEEP_RESULTS];
	int stopped; /* by this signal; 0: no */
	int broken;  /* a case could not be started: errno; 0: no */
};

/* All of --sweep; the exit status of rdmad-run.  name: argv[0]. */
int sweep_main(const struct options *, const char *name, char **argv);

/* ---- sweep_plan.c ---- */
#define SWEEP_MARK "# rdmad-run --sweep: " /* so each rules.yaml begins: what lies beside it may be removed */
/* The faults of --sweep's list, to *v (room for all), or 0: said what is wrong. */
unsigned sweep_faults(const char *list, const struct sweep_fault *v[]);
#define SWEEP_FAULTS 5u
/* Rules that note all packets, and the packets that they noted (rules.json).  False: said why. */
bool plan_note(const char *path);
bool plan_read(struct sweep *, const char *path);
/* Cases with one fault each; with two, of packets that bore one. */
void plan_singles(struct sweep *);
void plan_pairs(struct sweep *);
bool plan_rules(const struct sweep_case *, const char *path);
/* "drop RC_SEND_ONLY PSN +3 of QP 1" */
void plan_name(const struct sweep_case *, char *text, size_t len);
/* "RC_SEND_ONLY PSN +3 of QP 1 is lost" */
void plan_tell(const struct sweep_case *, char *text, size_t len);

/* ---- sweep_case.c ---- */
/* Starts the case, in its directory or in one below it.  False: said why, and broken is set. */
bool case_start(struct sweep *, struct sweep_case *, const char *below);
/* It has ended, so: result, detail, why and seconds are filled in. */
void case_judge(const struct sweep *, struct sweep_case *, const char *below, int status);
/* DIR/0007/name; below and name may be empty.  The caller frees it. */
char *case_file(const struct sweep *, const struct sweep_case *, const char *below, const char *name);
/* The directory goes, if a sweep made it. */
void case_remove(const struct sweep *, const struct sweep_case *, const char *below);
/* The command that repeats it; the caller frees it. */
char *case_command(const struct sweep *, const struct sweep_case *);
/* The directory DIR/name is one that a sweep made. */
bool case_is_ours(const struct sweep *, const char *name);
bool case_same_output(const struct sweep *, const struct sweep_case *, const char *below);
static inline bool case_is_finding(const struct sweep_case *c)
{
	return c->result >= SWEEP_FAILED && c->result <= SWEEP_UNSTEADY;
}

/* ---- sweep_report.c ---- */
void sweep_report(const struct sweep *);
/* Those of an earlier sweep.  False: said why not. */
bool sweep_report_remove(const struct sweep *);

#endif
