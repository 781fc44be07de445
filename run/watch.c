/* SPDX-License-Identifier: MIT */
/*
 * watch.c - one program, watched.
 *
 * It stays in our process group, so the terminal's signals reach it as if we were not there; others that are sent to us
 * are passed on.  We are the reaper of what it leaves behind, so all of its descendants can be found below us.
 */
#include "config.h"

#include "say.h"
#include "sysfs.h"
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmad/clock.h>

#define GRACE_MS 5000 /* between SIGTERM and SIGKILL */
#define KILL_MS  5000 /* until all that was killed is gone; only a process stuck in the kernel takes longer */

static const int passed_on[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH };

static int64_t now_ms(void) { return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000); }

/* ---- descendants -------------------------------------------------------------- */

struct proc {
	pid_t pid, parent;
	bool below;
};

/* The parent of a running process; 0: there is no such process. */
static pid_t parent_of(const char *pid)
{
	char path[64], text[512], *p;
	int parent = 0;
	size_t n;
	char state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f); /* its name may have a newline */
	fclose(f);
	text[n] = '\0';
	p = strrchr(text, ')');
	return p && sscanf(p + 1, " %c %d", &state, &parent) == 2 && state != 'Z' ? parent : 0;
}

/* /proc may be that of another PID namespace, whose numbers mean other processes here. */
static bool proc_is_ours(void)
{
	char self[32] = "";

	return readlink("/proc/self", self, sizeof(self) - 1) > 0 && atoi(self) == getpid();
}

/* All processes; *n of them. */
static struct proc *procs(size_t *n)
{
	DIR *dir = proc_is_ours() ? opendir("/proc") : NULL;
	struct proc *all = NULL;
	struct dirent *e;
	size_t room = 0;

	*n = 0;
	while (dir && (e = readdir(dir))) {
		pid_t parent = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? parent_of(e->d_name) : 0;

		if (!parent)
			continue;
		if (*n == room) {
			room = room ? 2 * room : 256;
			all = realloc(all, room * sizeof(*all));
			if (!all)
				abort();
		}
		all[(*n)++] = (struct proc){ .pid = atoi(e->d_name), .parent = parent };
	}
	if (dir)
		closedir(dir);
	return all;
}

/* One pass down the tree; false: it brought nothing new. */
static bool mark_below(struct proc *all, size_t n)
{
	const pid_t us = getpid();
	bool more = false;

	for (size_t i = 0; i < n; i++) {
		bool below = all[i].parent == us;

		for (size_t k = 0; k < n && !below; k++)
			below = all[k].below && all[k].pid == all[i].parent;
		more |= below && !all[i].below;
		all[i].below |= below;
	}
	return more;
}

void watch_left(void (*each)(pid_t, void *), void *arg)
{
	size_t n;
	struct proc *all = procs(&n);

	while (mark_below(all, n))
		;
	for (size_t i = 0; i < n; i++)
		if (all[i].below)
			each(all[i].pid, arg);
	free(all);
}

void watch_name(pid_t pid, char name[32])
{
	char path[64];
	FILE *f;

	strcpy(name, "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(name, 32, f))
		name[strcspn(name, "\n")] = '\0';
	fclose(f);
}

bool watch_is_helper(const char *name) { return !strcmp(name, "rdmad") || !strcmp(name, SYSFS_HELPER); }

struct blow {
	int sig;
	bool spare; /* helpers: they end by themselves, or serve others, too */
	unsigned n;
};

static void strike(pid_t pid, void *arg)
{
	struct blow *b = arg;
	char name[32];

	if (b->spare) {
		watch_name(pid, name);
		if (watch_is_helper(name))
			return;
	}
	b->n += kill(pid, b->sig) == 0;
	if (b->sig == SIGTERM)
		kill(pid, SIGCONT); /* a stopped process would not act on it */
}

/* How many processes the signal went to; 0: none runs any more. */
static unsigned strike_all(int sig, const struct outcome *o, bool ended, bool spare)
{
	struct blow b = { .sig = sig, .spare = spare };

	watch_left(strike, &b);
	if (!b.n && !ended)
		strike(o->pid, &b);
	return b.n;
}

/* ---- the program --------------------------------------------------------------- */

static void reap(struct outcome *o, bool *ended)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != o->pid)
			continue;
		o->status = status;
		*ended = true;
	}
}

/* Any signal that came.  The program may have it already: the terminal's go to all of the process group. */
static void signals_take(int fd, struct outcome *o, bool *ended)
{
	struct signalfd_siginfo si;

	while (read(fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			reap(o, ended);
		else if (*ended && si.ssi_signo != SIGWINCH)
			o->hurry = true;
		else if (si.ssi_code <= 0 && !*ended && (pid_t)si.ssi_pid != o->pid)
			kill(o->pid, (int)si.ssi_signo);
	}
}

/* Waits until that time (0: for ever), or until the program has ended. */
static void wait_until(int fd, int64_t end, struct outcome *o, bool *ended)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (!*ended) {
		int64_t left = end ? end - now_ms() : -1;

		if (end && left <= 0)
			return;
		poll(&p, 1, left > 1000000 ? 1000000 : (int)left);
		signals_take(fd, o, ended);
	}
}

/* Waits until all of them are gone; false: some are left at that time.  Signal 0 is none. */
static bool all_gone(int fd, int sig, int64_t patience_ms, struct outcome *o, bool *ended)
{
	const bool spare = *ended && !o->timed_out;
	const int64_t end = now_ms() + patience_ms;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	strike_all(sig, o, *ended, spare);
	do {
		poll(&p, 1, 20);
		signals_take(fd, o, ended);
		if (*ended && !strike_all(sig == SIGKILL ? SIGKILL : 0, o, true, spare)) {
			reap(o, ended);
			return true;
		}
	} while (now_ms() < end && !(sig == 0 && o->hurry));
	return false;
}

static void finish(int fd, struct outcome *o, bool *ended)
{
	if (!all_gone(fd, SIGTERM, GRACE_MS, o, ended) && !all_gone(fd, SIGKILL, KILL_MS, o, ended))
		say("some processes are stuck in the kernel: not even SIGKILL ends them");
}

static void one_outlived(pid_t pid, void *arg)
{
	const struct watch *w = arg;
	char name[32];

	watch_name(pid, name);
	if (!watch_is_helper(name))
		w->outlived(pid, name, w->arg);
}

/* The program has ended; what it left may end by itself for a while. */
static void grace(int fd, const struct watch *w, struct outcome *o)
{
	bool ended = true;

	if (all_gone(fd, 0, w->grace_ms, o, &ended))
		return;
	watch_left(one_outlived, (void *)w);
	finish(fd, o, &ended);
}

static void become(char **argv, const sigset_t *mask)
{
	sigprocmask(SIG_SETMASK, mask, NULL);
	_exit(prog_become(argv));
}

void watch_program(char **argv, const struct watch *w, struct outcome *o)
{
	const int64_t start = now_ms();
	bool ended = false;
	sigset_t mask, old;
	int fd;

	*o = (struct outcome){ .status = RUN_FAILED << 8 };
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(&mask, passed_on[i]);
	signal(SIGCHLD, SIG_DFL); /* if the one who started us ignored it, there would be no status to wait for */
	sigprocmask(SIG_BLOCK, &mask, &old);
	fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) || (o->pid = fork()) < 0) {
		say("cannot start %s: %s", argv[0], strerror(errno));
		return;
	}
	if (o->pid == 0)
		become(argv, &old);
	signal(SIGPIPE, SIG_IGN); /* who reads standard error may have gone: there is more to do than to speak */
	wait_until(fd, w->limit_ms ? start + w->limit_ms : 0, o, &ended);
	if (!ended) {
		w->up(w->arg);
		o->timed_out = true;
		finish(fd, o, &ended);
	}
	o->took_ms = now_ms() - start;
	if (!o->timed_out && w->grace_ms >= 0)
		grace(fd, w, o);
	close(fd);
}

int outcome_status(const struct outcome *o)
{
	if (o->timed_out)
		return RUN_TIMED_OUT;
	return WIFSIGNALED(o->status) ? 128 + WTERMSIG(o->status) : WEXITSTATUS(o->status);
}
