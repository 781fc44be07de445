/* SPDX-License-Identifier: MIT */
/*
 * hosts.c - rdmad-run --hosts: the program several times, each with a daemon of its own, as if these were hosts.
 *
 *	rdmad-run --fork--> rdmad-run of host 0 --> its daemon, the program
 *	          --fork--> rdmad-run of host 1 --> its daemon, the program
 */
#include "run.h"
#include "say.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmad/msg.h>

/* A terminal sends its own to the children, too; SIGCHLD is for us. */
static void awaited(sigset_t *set)
{
	static const int v[] = { SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2 };

	sigemptyset(set);
	for (unsigned i = 0; i < sizeof(v) / sizeof(*v); i++)
		sigaddset(set, v[i]);
}

/* Where two would write to one file or directory each has its own. */
static void file_own(const char **path, unsigned host)
{
	char *own;

	if (!*path)
		return;
	if (asprintf(&own, "%s.%u", *path, host) < 0)
		abort();
	*path = own;
}

static int status_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/* The end of each; the first status but 0 by the number of the host. */
static int hosts_wait(pid_t *pid, unsigned n, const sigset_t *set)
{
	unsigned left = n, worst = n;
	int status, result = 0;
	siginfo_t si;

	while (left) {
		if (sigwaitinfo(set, &si) < 0)
			continue;
		if (si.si_signo != SIGCHLD) {
			for (unsigned i = 0; i < n && si.si_code <= 0; i++)
				if (pid[i])
					kill(pid[i], si.si_signo);
			continue;
		}
		for (pid_t p; (p = waitpid(-1, &status, WNOHANG)) > 0;) {
			for (unsigned i = 0; i < n; i++) {
				if (pid[i] != p)
					continue;
				left--;
				pid[i] = 0; /* from now on it may be a stranger's */
				if (status && i < worst) {
					worst = i;
					result = status_of(status);
				}
			}
		}
	}
	return result;
}

void hosts_split(struct options *opt)
{
	pid_t *pid = calloc(opt->hosts, sizeof(*pid));
	sigset_t set, was;

	if (!pid)
		abort();
	awaited(&set);
	signal(SIGCHLD, SIG_DFL); /* who starts us may ignore it, and then there is none */
	sigprocmask(SIG_BLOCK, &set, &was);
	for (unsigned i = 0; i < opt->hosts; i++) {
		pid[i] = fork();
		if (pid[i] < 0) {
			say("--hosts: %s", strerror(errno));
			while (i--)
				kill(pid[i], SIGTERM);
			exit(RUN_FAILED);
		}
		if (pid[i])
			continue;
		free(pid);
		sigprocmask(SIG_SETMASK, &was, NULL);
		opt->host = i;
		file_own(&opt->report, i);
		file_own(&opt->capture, i);
		file_own(&opt->log, i);
		file_own(&opt->record, i);
		file_own(&opt->replay, i);
		return;
	}
	exit(hosts_wait(pid, opt->hosts, &set));
}

/* The number of devices of a host, spare ones included; all hosts have as many.  0: said why that is not known. */
static unsigned devices_n(const struct options *opt, const char *addr)
{
	json_t *j;
	size_t n;
	int fd;

	if (!opt->spare)
		return opt->rails;
	fd = hold_look(addr);
	if (fd < 0)
		return 0;
	j = hold_dump(fd, DUMP_DEVICES);
	n = json_array_size(json_object_get(j, "devices"));
	json_decref(j);
	close(fd);
	if (!n)
		say("--hosts: the daemon at %s does not tell its devices", addr);
	return n < opt->rails ? (unsigned)n : opt->rails;
}

bool hosts_env(const struct options *opt, const char *addr)
{
	const unsigned hosts = opt->hosts ? opt->hosts : 1, n = devices_n(opt, addr);
	char name[32], text[32 * 16];

	if (!n)
		return false;
	snprintf(text, sizeof(text), "%u", opt->host);
	setenv("RDMAD_HOST", text, 1);
	for (unsigned h = 0; h < hosts; h++) {
		size_t at = 0;

		for (unsigned r = 0; r < n; r++) {
			const uint32_t a = opt->addr[h * opt->rails + r];

			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u.%u.%u.%u", r ? " " : "", a >> 24,
					       a >> 16 & 255, a >> 8 & 255, a & 255);
		}
		snprintf(name, sizeof(name), "RDMAD_RAILS_%u", h);
		setenv(name, text, 1);
	}
	return true;
}
