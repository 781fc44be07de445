/* SPDX-License-Identifier: MIT */
/*
 * ladder_live.c - `rdmactl ladder live`: a child captures (`rdmactl capture`) into a pipe; meanwhile the daemon is asked for the
 * states of its queue pairs, a few times a second.
 */
#include "ladder_live.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdmad/clock.h>

#include "daemon.h"
#include "show.h"

#define ASK_MS 50

struct seen {
	uint8_t gid[16];
	uint32_t qpn;
	char state[8];
};

struct live {
	struct ladder *l;
	int fd; /* the daemon */
	json_t *devices;
	struct seen *v;
	size_t n;
	uint64_t asked; /* when, ms */
};

static volatile sig_atomic_t stopped;

static void on_signal(int sig) { stopped = sig; }

/* ---- the child ------------------------------------------------------------------- */

static pid_t child(const struct ask *ask, const char *count, const char *seconds, int *out)
{
	char *argv[12] = { (char *)"rdmactl capture", (char *)"-w", (char *)"-", (char *)"-Q" };
	struct ask quiet = { .socket = ask->socket };
	int argc = 4, p[2];
	pid_t pid;

	if (count) {
		argv[argc++] = (char *)"-c";
		argv[argc++] = (char *)count;
	}
	if (seconds) {
		argv[argc++] = (char *)"-T";
		argv[argc++] = (char *)seconds;
	}
	if (pipe2(p, O_CLOEXEC))
		return -1;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		dup2(p[1], STDOUT_FILENO);
		close(p[0]);
		close(p[1]);
		optind = 0;
		exit(capture_main(argc, argv, &quiet));
	}
	close(p[1]);
	if (pid < 0)
		close(p[0]);
	*out = p[0];
	return pid;
}

/* ---- states -------------------------------------------------------------------------- */

static bool gid_of(const json_t *devices, const char *device, long long index, uint8_t gid[16])
{
	json_t *d, *g;
	size_t i, k;

	json_array_foreach(json_object_get(devices, "devices"), i, d)
	{
		if (strcmp(show_str(d, "name"), device))
			continue;
		json_array_foreach(json_object_get(d, "gids"), k, g)
		{
			const char *a = show_str(g, "address");

			if (show_num(g, "index") != index)
				continue;
			memset(gid, 0, 10);
			memset(gid + 10, 0xff, 2);
			return inet_pton(AF_INET, a, gid + 12) == 1 || inet_pton(AF_INET6, a, gid) == 1;
		}
	}
	return false;
}

/* The names of states outlive the dump. */
static const char *name_of(const char *state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], state))
			return names[i];
	return NULL;
}

static void state(struct live *v, uint64_t ns, const uint8_t *gid, uint32_t qpn, const char *name)
{
	struct seen *s = v->v;

	while (s < v->v + v->n && (s->qpn != qpn || !gid_same(s->gid, gid)))
		s++;
	if (s == v->v + v->n) {
		s = realloc(v->v, (v->n + 1) * sizeof(*s));
		if (!s)
			return;
		v->v = s;
		s += v->n++;
		*s = (struct seen){ .qpn = qpn };
		memcpy(s->gid, gid, 16);
	}
	if (!strcmp(s->state, name))
		return;
	snprintf(s->state, sizeof(s->state), "%s", name);
	ladder_band(v->l, ns, gid, qpn, name, "the daemon says so");
}

static void states(struct live *v)
{
	json_t *j = v->fd < 0 ? NULL : daemon_dump(v->fd, DUMP_QPS), *q;
	uint8_t gid[16];
	uint64_t now;
	size_t i;

	now = clock_ns(CLOCK_REALTIME);
	json_array_foreach(json_object_get(j, "qps"), i, q)
	{
		const char *name = name_of(show_str(q, "state"));

		if (name && gid_of(v->devices, show_str(q, "device"), show_num(q, "sgid_index"), gid))
			state(v, now, gid, (uint32_t)show_num(q, "qpn"), name);
	}
	if (!j && v->fd >= 0) {
		close(v->fd);
		v->fd = -1;
	}
	json_decref(j);
}

/* ---- both --------------------------------------------------------------------------------- */

static uint64_t now_ms(void) { return clock_ns(CLOCK_MONOTONIC) / 1000000; }

/* Waits for bytes, and asks for states meanwhile. */
static void wait_for(struct live *v, const struct source *s, pid_t pid)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	do {
		if (now_ms() - v->asked >= ASK_MS) {
			states(v);
			v->asked = now_ms();
		}
	} while (!stopped && !poll(&p, 1, ASK_MS));
	if (stopped)
		kill(pid, SIGINT);
	stopped = 0;
}

int ladder_live(struct ladder *l, const struct ask *ask, const char *count, const char *seconds,
		void (*take)(void *, const struct source *, const struct pcapng_item *, uint64_t), void *arg)
{
	struct live v = { .l = l, .fd = daemon_open(ask->socket) };
	struct sigaction act = { .sa_handler = on_signal };
	struct source s = { .fd = -1 };
	struct pcapng_item it;
	uint64_t no = 0;
	enum source_what w = SOURCE_END;
	int out = -1, status = 0;
	pid_t pid = -1;

	if (v.fd < 0)
		return 1;
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	v.devices = daemon_dump(v.fd, DUMP_DEVICES);
	states(&v);
	pid = child(ask, count, seconds, &out);
	if (pid < 0) {
		fprintf(stderr, "rdmactl: cannot capture: %s\n", strerror(errno));
		status = 1;
	} else {
		source_use(&s, "live", out);
		do {
			if (s.at == s.end || w == SOURCE_WAIT || no % 1024 == 0)
				wait_for(&v, &s, pid);
			w = source_next(&s, &it);
			if (w == SOURCE_PACKET)
				take(arg, &s, &it, ++no);
		} while (w == SOURCE_PACKET || w == SOURCE_WAIT);
		if (w == SOURCE_ERROR && no)
			fprintf(stderr, "rdmactl: live: %s\n", s.error);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		l->drops = s.drops;
	}
	states(&v);
	source_close(&s);
	if (v.fd >= 0)
		close(v.fd);
	json_decref(v.devices);
	free(v.v);
	return no ? 0 : status;
}
