/* SPDX-License-Identifier: MIT */
/*
 * stage.h - a daemon of root with users who do not trust each other, each a process with a uid of its own.
 *
 * The bystander (uid 1001) sends and receives messages, checks their bytes, and every now and then opens and closes a
 * context of its own.  The test is what the others do; it asserts that this does not keep him from his work.
 */
#ifndef T_HOSTILE_STAGE_H
#define T_HOSTILE_STAGE_H

#include "t/daemon/client.h"

#define UID_BYSTANDER 1001
#define UID_ATTACKER  1002
#define UID_VICTIM    1003

/* Exits with 77 and a reason unless run as root. */
void stage_needs_root(void);

/* A network namespace of its own, with nothing but loopback, and the note. */
void stage_network(void);
/* The same, ./rdmad with one more option (NULL: none), and the bystander at work. */
void stage_open(const char *option);
/*
 * The bystander does rounds more of his within 30 s, and none takes longer than 5 s, without stage_queued() and the seconds for
 * which the machine stood still: of a machine's own time, see stage_late().  Of one that takes long stderr has what the kernel says
 * of the daemon's threads.
 */
void stage_goes_on(unsigned rounds);
/* He ends, and the daemon has nothing left of anybody; he begins again. */
void stage_rest(void);
void stage_resume(void);
/* As stage_rest(), and the daemon ends on SIGTERM. */
void stage_close(void);

/* A process of that user runs play(arg) and then exits; dies with the test. */
pid_t part_begin(uid_t, void (*play)(void *), void *arg);
void part_kill(pid_t);
/* Waits for its end, which must be orderly and within 30 s. */
void part_end(pid_t);

/* Asks about each thread that the process has now, or 0 for none; the sum of the answers. */
double threads_ask(pid_t, double (*ask)(pid_t pid, pid_t tid));

/* Of the first device, by its name in `rdmactl stats`. */
long stage_counter(const char *name);
/* To stderr, the causes that the daemon has for its queue pair. */
void stage_explain(struct cx *);
/* As cx_poll(), for as long as the machine takes: see stage_late(). */
bool stage_poll(struct cx *, struct cqe *);

/* Shared by the parts: zeros at stage_open(). */
struct note {
	uint32_t n[8];
	char text[256];
};
extern struct note *note;
/* Waits up to 20 s, see stage_late(), until note->n[i] is at least value, or a part of this process has failed. */
void note_wait(unsigned i, uint32_t value);
void note_set(unsigned i, uint32_t value);

/*
 * The host's huge pages, until the process ends.  alone: nobody else's, which is waited for; else others may use them, too.
 * false: there are none, or another test has them for itself.
 */
bool stage_huge_pages(bool alone);

double stage_seconds(void);
/*
 * More than limit seconds since then?  On a machine where ten processes wait for each core a new thread of the daemon's may
 * wait seconds for its first turn: so many times longer may all take there.
 */
bool stage_late(double since, double limit);
/* Seconds for which threads of this process and of the daemon could have run so far and had no processor. */
double stage_queued(void);
/* A number of the command line, or else of the environment; without either *n stays as it is. */
void stage_number(uint64_t *n, const char *arg, const char *name);

/* Runs the tests of the one test case; the exit status of the program. */
#define STAGE_MAIN(name, ...) \
	int main(void) { return stage_main(name, (const TTest *const[]){ __VA_ARGS__, NULL }); }
int stage_main(const char *name, const struct TTest *const *);
/* Each test so many times, with _i. */
int stage_main_for(const char *name, const struct TTest *const *, double limit_s, int times);
/* A run of so many seconds in parts that one test may take: how many, and the seconds of one. */
int stage_parts(double *seconds);

#endif
