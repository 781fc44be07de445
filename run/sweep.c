/* SPDX-License-Identifier: MIT */
/* sweep.c - the sweep from the clean run to the exit status; as many cases at once as there are CPUs. */
#include "config.h"

#include "say.h"
#include "sweep.h"
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/clock.h>

#include "space.h"

#define LIMIT_S  20.0 /* a case that takes so long hangs, and so long as this and this many clean runs */
#define LIMIT_X  10.0
#define SLOW_S   2.0 /* a slow one takes at least so much longer */
#define GRACE_MS 5000
#define TELL_S   10 /* between lines of progress where no terminal is */

static double now_s(void) { return (double)clock_ns(CLOCK_MONOTONIC) / 1e9; }

/* ---- progress ----------------------------------------------------------------------- */

struct progress {
	const char *of;
	unsigned n, done, bad;
	double begun, told;
	bool terminal;
};

static void progress_tell(struct progress *p, bool now)
{
	double t = now_s(), left = p->done ? (t - p->begun) / p->done * (p->n - p->done) : 0;
	char text[64] = "";

	if (!now && t - p->told < (p->terminal ? 0.5 : TELL_S))
		return;
	p->told = t;
	if (p->done && p->done < p->n && left > 90)
		snprintf(text, sizeof(text), ", about %.0f min left", left / 60);
	else if (p->done && p->done < p->n)
		snprintf(text, sizeof(text), ", about %.0f s left", left);
	fprintf(stderr, "%srdmad-run: --sweep: %s: %u of %u, %u to look at%s%s", p->terminal ? "\r\033[K" : "", p->of,
		p->done, p->n, p->bad, text, p->terminal && !now ? "" : "\n");
}

/* ---- signals ---------------------------------------------------------------------------- */

static const int stops[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static sigset_t signals(void)
{
	struct sigaction hup;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(stops) / sizeof(*stops); i++)
		sigaddset(&set, stops[i]);
	if (!sigaction(SIGHUP, NULL, &hup) && hup.sa_handler == SIG_IGN) /* nohup(1) */
		sigdelset(&set, SIGHUP);
	return set;
}

/* Waits for a child's end, a signal that stops us, or some time. */
static void signals_wait(struct sweep *s, int ms)
{
	const struct timespec patience = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	const sigset_t set = signals();
	int sig = sigtimedwait(&set, NULL, &patience);

	if (sig > 0 && sig != SIGCHLD && !s->stopped)
		s->stopped = sig;
}

/* ---- children ----------------------------------------------------------------------------- */

static void finish(pid_t pid, void *) { kill(pid, SIGKILL); }

/* A child that has ended, and what it left in its process group is ended, too.  0: none has. */
static pid_t child_take(int *status)
{
	siginfo_t si = { 0 };

	if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) || !si.si_pid)
		return 0;
	kill(-si.si_pid, SIGKILL); /* its number is its own as long as it is not waited for */
	return waitpid(si.si_pid, status, 0);
}

/* Cases from *next on that are started and not judged yet. */
struct pool {
	struct sweep *s;
	struct sweep_case **v; /* which cases */
	unsigned next, running;
	const char *below;
	bool ends; /* what ends from now on is ended by us */
	struct progress progress;
};

static void pool_take(struct pool *p)
{
	int status;
	pid_t pid;

	while ((pid = child_take(&status)) > 0) {
		for (unsigned i = 0; i < p->next; i++) {
			if (p->v[i]->pid != pid)
				continue;
			p->running--;
			if (p->s->stopped || p->ends) {
				p->v[i]->pid = 0;
				p->v[i]->result = SWEEP_WAITS;
				continue;
			}
			case_judge(p->s, p->v[i], p->below, status);
			p->progress.done++;
			p->progress.bad += p->v[i]->result >= SWEEP_FAILED;
			if (!*p->below && p->v[i]->id && p->v[i]->result < SWEEP_FAILED)
				case_remove(p->s, p->v[i], "");
		}
	}
}

static void pool_signal(const struct pool *p, int sig)
{
	for (unsigned i = 0; i < p->next; i++)
		if (p->v[i]->pid > 0)
			kill(-p->v[i]->pid, sig);
}

static void pool_stop(struct pool *p)
{
	double end = now_s() + GRACE_MS / 1e3;

	p->ends = true;
	pool_signal(p, SIGTERM);
	while (p->running && now_s() < end) {
		signals_wait(p->s, 100);
		pool_take(p);
	}
	while (p->running) {
		watch_left(finish, NULL); /* finds nothing where /proc is that of another PID namespace */
		pool_signal(p, SIGKILL);
		signals_wait(p->s, 100);
		pool_take(p);
	}
}

/* Runs these cases, jobs of them at once.  False: stopped, or a case could not be started. */
static bool pool_run(struct sweep *s, struct sweep_case **v, unsigned n, unsigned jobs, const char *below,
		     const char *of)
{
	struct pool p = { .s = s, .v = v, .below = below };
	bool good = true;

	p.progress = (struct progress){ .of = of, .n = n, .begun = now_s(), .told = now_s(), .terminal = isatty(2) };
	while (good && !s->stopped && (p.running || p.next < n)) {
		while (good && p.running < jobs && p.next < n) {
			good = case_start(s, v[p.next], below);
			p.running += good;
			p.next += good;
		}
		if (p.running)
			signals_wait(s, 500);
		pool_take(&p);
		if (*of)
			progress_tell(&p.progress, false);
	}
	pool_stop(&p);
	if (*of && n)
		progress_tell(&p.progress, true);
	return good && !s->stopped;
}

/* ---- stages ------------------------------------------------------------------------------ */

/* The case that has a directory of this name; 0: the clean run.  False: none has. */
static bool case_of(const char *name, unsigned *id)
{
	char same[16];

	*id = 0;
	if (!strcmp(name, "clean"))
		return true;
	if (strspn(name, "0123456789") != strlen(name) || strlen(name) > 9)
		return false;
	*id = (unsigned)strtoul(name, NULL, 10);
	snprintf(same, sizeof(same), "%04u", *id);
	return *id && !strcmp(name, same);
}

/* Is DIR empty, or an earlier sweep's?  False: said why not. */
static bool may_have(const struct sweep *s, DIR *d)
{
	bool empty = true, ours = false;
	struct dirent *e;
	unsigned id;

	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		empty = false;
		if (!case_of(e->d_name, &id))
			continue;
		if (!case_is_ours(s, e->d_name)) {
			say("--report %s: %s in it is not of a sweep: move it away, or name another directory", s->dir,
			    e->d_name);
			return false;
		}
		ours = true;
	}
	if (!empty && !ours)
		say("--report %s: neither empty nor of an earlier sweep: name another directory", s->dir);
	return empty || ours;
}

/* Directories and files of an earlier sweep. */
static bool old_remove(const struct sweep *s)
{
	DIR *d = opendir(s->dir);
	struct sweep_case c = { 0 };
	struct dirent *e;
	bool good;

	if (!d) {
		say("--report %s: %s", s->dir, strerror(errno));
		return false;
	}
	good = may_have(s, d);
	rewinddir(d);
	while (good && (e = readdir(d)))
		if (case_of(e->d_name, &c.id) && c.id)
			case_remove(s, &c, "");
	closedir(d);
	return good && sweep_report_remove(s);
}

static bool can_be_apart(void)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(space_new(CLONE_NEWNET) || space_loopback());
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static bool clean_run(struct sweep *s)
{
	struct sweep_case c[2] = { { 0 }, { 0 } };
	static const char *const below[] = { "", "again" };
	char *path;
	bool good;

	for (unsigned i = 0; i < 2; i++) {
		struct sweep_case *v[] = { &c[i] };

		if (!pool_run(s, v, 1, 1, below[i], ""))
			return false;
		if (c[i].result != SWEEP_OK) {
			say("--sweep: nothing to compare with: without any fault %s%s %s (see %s/clean/%s%sstderr)",
			    s->argv[0], c[i].result == SWEEP_ERROR ? " was not run:" : " has", c[i].detail, s->dir,
			    below[i], i ? "/" : "");
			return false;
		}
		s->clean_s = c[i].seconds > s->clean_s ? c[i].seconds : s->clean_s;
	}
	if (s->opt->sweep.same_output && !case_same_output(s, &c[1], below[1])) {
		say("--same-output: the output of two runs without any fault differs (%s/clean); let a filter take out "
		    "what does, e.g. sh -c 'PROGRAM | sed ...'",
		    s->dir);
		return false;
	}
	path = case_file(s, &c[0], "", "rules.json");
	good = plan_read(s, path);
	if (!good)
		say("--sweep: %s sends no packets", s->argv[0]);
	free(path);
	return good;
}

/* Once more, and alone: a busy machine makes programs slow, too. */
static void case_confirm(struct sweep *s, struct sweep_case *c)
{
	struct sweep_case again = *c, *v[] = { &again };
	bool late = c->result == SWEEP_SLOW || c->result == SWEEP_HUNG;

	if (!pool_run(s, v, 1, 1, "again", ""))
		return;
	if (again.result == c->result || (late && (again.result == SWEEP_SLOW || again.result == SWEEP_HUNG)) ||
	    c->result == SWEEP_ERROR) {
		*c = again;
	} else if (late && (again.result == SWEEP_OK || again.result == SWEEP_MISSED)) {
		*c = again;
	} else {
		snprintf(c->detail + strlen(c->detail), sizeof(c->detail) - strlen(c->detail), ", but not twice");
		c->result = SWEEP_UNSTEADY;
	}
}

/* The cases from this one on run, and those that are found are repeated. */
static void stage(struct sweep *s, unsigned from, const char *of)
{
	unsigned n = s->n - from;
	struct sweep_case **v = calloc(n + 1, sizeof(*v));

	if (!v)
		abort();
	for (unsigned i = 0; i < n; i++)
		v[i] = &s->c[from + i];
	pool_run(s, v, n, s->jobs, "", of);
	for (unsigned i = 0; i < n && !s->stopped && !s->broken; i++)
		if (v[i]->result >= SWEEP_FAILED)
			case_confirm(s, v[i]);
	for (unsigned i = 0; i < n; i++) {
		s->result_n[v[i]->result]++;
		if (v[i]->result < SWEEP_FAILED)
			case_remove(s, v[i], "");
	}
	free(v);
}

static unsigned cpus(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);

	return n > 0 ? (unsigned)n : 1;
}

static bool begin(struct sweep *s)
{
	const sigset_t set = signals();

	if (readlink("/proc/self/exe", s->self, sizeof(s->self) - 1) < 0) {
		say("cannot read /proc/self/exe: %s. Is /proc mounted?", strerror(errno));
		return false;
	}
	if (mkdir(s->dir, 0777) && errno != EEXIST) {
		say("--report %s: %s", s->dir, strerror(errno));
		return false;
	}
	if (!old_remove(s))
		return false;
	s->apart = can_be_apart();
	s->jobs = s->opt->sweep.jobs ? s->opt->sweep.jobs : cpus();
	if (!s->apart && s->jobs > 1) {
		say("--sweep: one case at a time: programs that run at once would take each other's ports, and network "
		    "namespaces are refused here");
		s->jobs = 1;
	}
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return true;
}

int sweep_main(const struct options *opt, const char *name, char **argv)
{
	struct sweep s = { .opt = opt, .name = name, .argv = argv, .dir = opt->report ? opt->report : "rdmad-sweep" };
	int status = RUN_FAILED;

	if (!begin(&s))
		return RUN_FAILED;
	s.limit_s = opt->timeout_ms ? (double)(opt->timeout_ms - 1) / 1e3 : 300;
	if (clean_run(&s)) {
		if (!opt->timeout_ms)
			s.limit_s = LIMIT_S > LIMIT_X * s.clean_s ? LIMIT_S : LIMIT_X * s.clean_s;
		s.slow_s = opt->sweep.slow * s.clean_s;
		if (s.slow_s < s.clean_s + SLOW_S)
			s.slow_s = s.clean_s + SLOW_S;
		plan_singles(&s);
		stage(&s, 0, "single faults");
		plan_pairs(&s);
		if (!s.stopped && !s.broken && s.pair_n)
			stage(&s, s.single_n, "pairs");
		sweep_report(&s);
		status = s.result_n[SWEEP_ERROR] ? RUN_FAILED : 0;
		for (unsigned i = 0; i < s.n; i++)
			if (case_is_finding(&s.c[i]))
				status = 1;
		if (s.broken)
			status = RUN_FAILED;
	}
	watch_left(finish, NULL); /* those that made a session of their own */
	free(s.pkt);
	free(s.c);
	return s.stopped ? 128 + s.stopped : status;
}
