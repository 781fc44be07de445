/* SPDX-License-Identifier: MIT */
/*
 * rdmactl.c - looks into a running rdmad: one MSG_DUMP, shown as a table or as it came.
 *
 * Exit status: 0; 1 there is no daemon, or it did not answer; 2 the command line.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/msg.h>
#include <rdmad/sock.h>

#include "../ctl/check.h"
#include "../ctl/daemon.h"
#include "../ctl/doctor.h"
#include "config.h"

static void usage(FILE *f)
{
	fputs("usage: rdmactl [options] COMMAND\n"
	      "  devices   the devices and their GID tables\n"
	      "  qps       the queue pairs: who owns them, their state and peer\n"
	      "  stats     the counters, and what the daemon holds\n"
	      "  check     captures of RoCE traffic against the rules of the transport (rdmactl check --help)\n"
	      "  doctor    the path to a peer, step by step (rdmactl doctor --help)\n"
	      "options:\n"
	      "  -s, --socket PATH  the daemon's socket; @NAME is an abstract one (default: $RDMAD_SOCKET,\n"
	      "                     then " RDMAD_SYSTEM_SOCKET ", then your private daemon)\n"
	      "  -j, --json         print JSON\n"
	      "  -V, --version      print the version\n"
	      "  -h, --help         print this\n", f);
}

/* ---- the daemon ------------------------------------------------------------------ */

/* A connected socket of a daemon that may be trusted, or -errno. */
static int daemon_at(const char *name)
{
	struct ucred who;

	return sock_connect(name, 0, &who);
}

static int daemon_named(const char *name, const char *where)
{
	int fd = daemon_at(name);

	if (fd == -EPERM)
		fprintf(stderr, "rdmactl: %s (%s) belongs to another user; rdmactl talks to daemons of root and your own\n",
			name, where);
	else if (fd < 0)
		fprintf(stderr, "rdmactl: no rdmad answers at %s (%s): %s; start it, or name its socket with --socket\n", name,
			where, strerror(-fd));
	return fd;
}

int daemon_find(const char *name, bool quiet)
{
	const char *env = getenv("RDMAD_SOCKET");
	char own[64];
	int fd, sys;

	if (name)
		return daemon_named(name, "--socket");
	if (env && *env)
		return daemon_named(env, "$RDMAD_SOCKET");
	sys = daemon_at(RDMAD_SYSTEM_SOCKET);
	if (sys >= 0)
		return sys;
	snprintf(own, sizeof(own), RDMAD_PRIVATE_SOCKET, (unsigned)geteuid());
	fd = daemon_at(own);
	if (fd >= 0)
		return fd;
	if (quiet)
		return -1;
	fprintf(stderr, "rdmactl: no rdmad answers: %s: %s; %s (a private one of yours): %s\n"
		"rdmactl: start one (systemctl start rdmad, or rdmad --private), or run this inside rdmad-run\n",
		RDMAD_SYSTEM_SOCKET, strerror(-sys), own, strerror(-fd));
	return -1;
}

static bool request(int fd, struct msg_req *req, struct msg_rep *rep, int *fd_back)
{
	ssize_t n = sock_swap(fd, req, msg_req_len(req->op), rep, sizeof(*rep), fd_back);

	if (n != (ssize_t)sizeof(*rep)) {
		fprintf(stderr, "rdmactl: the daemon closed the connection%s%s; its log says why\n", n < 0 ? ": " : "",
			n < 0 ? strerror(errno) : "");
		return false;
	}
	if (rep->err)
		fprintf(stderr, "rdmactl: the daemon answered: %s\n", strerror(rep->err));
	return !rep->err;
}

bool daemon_hello(int fd)
{
	struct msg_req req = { .op = MSG_HELLO, .hello = { .abi = RDMAD_ABI, .pid = (uint32_t)getpid(), .prog = "rdmactl" } };
	struct msg_rep rep;

	if (!request(fd, &req, &rep, NULL))
		return false;
	if (rep.hello.abi == RDMAD_ABI)
		return true;
	rep.hello.version[sizeof(rep.hello.version) - 1] = 0;
	fprintf(stderr, "rdmactl: the daemon is of version %s, this is %s; restart it after the update\n", rep.hello.version,
		PACKAGE_VERSION);
	return false;
}

json_t *daemon_dump(int fd, uint32_t what)
{
	struct msg_req req = { .op = MSG_DUMP, .dump.what = what };
	struct msg_rep rep;
	json_error_t err;
	int mem = -1;
	char *text;
	json_t *j;

	if (!request(fd, &req, &rep, &mem) || mem < 0)
		return NULL;
	text = mmap(NULL, rep.dump.len, PROT_READ, MAP_PRIVATE, mem, 0);
	close(mem);
	if (text == MAP_FAILED) {
		fprintf(stderr, "rdmactl: cannot map the answer: %s\n", strerror(errno));
		return NULL;
	}
	j = json_loadb(text, rep.dump.len, 0, &err);
	if (!j)
		fprintf(stderr, "rdmactl: the answer is no JSON: %s\n", err.text);
	munmap(text, rep.dump.len);
	return j;
}

/* ---- tables ---------------------------------------------------------------------------- */

static const char *str(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

static long long num(const json_t *j, const char *key)
{
	return (long long)json_integer_value(json_object_get(j, key));
}

static void show_devices(const json_t *j)
{
	size_t i, k;
	json_t *dev, *gid;

	json_array_foreach(json_object_get(j, "devices"), i, dev) {
		printf("%s%s: GUID %s, %s, MTU %lld, %lld Mb/s\n", i ? "\n" : "", str(dev, "name"), str(dev, "guid"),
		       str(dev, "state"), num(dev, "mtu"), num(dev, "link_mbps"));
		printf("  %3s  %-39s  %-15s  %s\n", "GID", "ADDRESS", "INTERFACE", "REACH");
		json_array_foreach(json_object_get(dev, "gids"), k, gid)
			printf("  %3lld  %-39s  %-15s  %s\n", num(gid, "index"), str(gid, "address"), str(gid, "interface"),
			       json_is_true(json_object_get(gid, "wire")) ? "network" : "this daemon only");
	}
}

static void show_qps(const json_t *j)
{
	size_t i;
	json_t *q;

	printf("%-12s %8s %-4s %-5s %7s %-16s %6s %6s %12s %12s %7s  %s\n", "DEVICE", "QPN", "TYPE", "STATE", "PID",
	       "PROGRAM", "SENDS", "RECVS", "TX_BYTES", "RX_BYTES", "RETRANS", "PEER");
	json_array_foreach(json_object_get(j, "qps"), i, q) {
		printf("%-12s %#8llx %-4s %-5s %7lld %-16.16s %6lld %6lld %12lld %12lld %7lld  ", str(q, "device"),
		       num(q, "qpn"), str(q, "type"), str(q, "state"), num(q, "pid"), str(q, "program"), num(q, "sq_len"),
		       num(q, "rq_len"), num(q, "tx_bytes"), num(q, "rx_bytes"), num(q, "retrans"));
		if (*str(q, "peer"))
			printf("%s %#llx\n", str(q, "peer"), num(q, "dest_qpn"));
		else
			puts("-");
	}
}

static void show_object(const json_t *j)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)j, key, v) {
		if (json_is_string(v))
			printf("  %-24s %s\n", key, json_string_value(v));
		else if (json_is_integer(v))
			printf("  %-24s %lld\n", key, (long long)json_integer_value(v));
	}
}

static void show_stats(const json_t *j)
{
	size_t i;
	json_t *o;

	json_array_foreach(json_object_get(j, "devices"), i, o) {
		printf("%s\n", str(o, "name"));
		show_object(json_object_get(o, "counters"));
		show_object(json_object_get(o, "objects"));
	}
	json_array_foreach(json_object_get(j, "shards"), i, o) {
		printf("shard %zu\n", i);
		show_object(o);
	}
	puts("daemon");
	show_object(json_object_get(j, "daemon"));
	puts("connection manager");
	show_object(json_object_get(json_object_get(j, "daemon"), "cm"));
}

static const struct command {
	const char *name;
	uint32_t what;
	void (*show)(const json_t *);
} commands[] = {
	{ "devices", DUMP_DEVICES, show_devices },
	{ "qps", DUMP_QPS, show_qps },
	{ "stats", DUMP_STATS, show_stats },
};

static int run(const struct command *cmd, const char *socket, bool as_json)
{
	int fd = daemon_find(socket, false), status = 1;
	json_t *j;

	if (fd < 0)
		return 1;
	j = daemon_hello(fd) ? daemon_dump(fd, cmd->what) : NULL;
	close(fd);
	if (!j)
		return 1;
	if (!as_json)
		cmd->show(j);
	else if (!json_dumpf(j, stdout, JSON_INDENT(1)))
		putchar('\n');
	status = fflush(stdout) || ferror(stdout);
	if (status)
		fprintf(stderr, "rdmactl: cannot write: %s\n", strerror(errno));
	json_decref(j);
	return status;
}

static const struct command *command_named(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(name, commands[i].name))
			return &commands[i];
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "socket", required_argument, NULL, 's' }, { "json", no_argument, NULL, 'j' },
		{ "version", no_argument, NULL, 'V' }, { "help", no_argument, NULL, 'h' }, { 0 },
	};
	const struct command *cmd = NULL;
	const char *socket = NULL;
	bool as_json = false;
	int c;

	/* A - in front: words that are no options come as 1, in their place. */
	while ((c = getopt_long(argc, argv, "-s:jVh", longs, NULL)) >= 0) {
		switch (c) {
		case 1:
			if (!cmd && !strcmp(optarg, "check"))
				return check_main(argc - optind + 1, argv + optind - 1, as_json);
			if (!cmd && !strcmp(optarg, "doctor"))
				return doctor_main(argc - optind + 1, argv + optind - 1, socket, as_json);
			if (!cmd && (cmd = command_named(optarg)))
				break;
			usage(stderr);
			return 2;
		case 's': socket = optarg; break;
		case 'j': as_json = true; break;
		case 'V':
			puts("rdmactl " PACKAGE_VERSION);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (cmd && optind == argc)
		return run(cmd, socket, as_json);
	usage(stderr);
	return 2;
}
