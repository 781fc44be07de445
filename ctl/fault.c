/* SPDX-License-Identifier: MIT */
/* fault.c - `rdmactl fault add|list|clear|check`: rules for packets, in a daemon that runs. */
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdmad/number.h>
#include <rdmad/seed.h>
#include <rdmad/sock.h>

#include "command.h"
#include "daemon.h"
#include "show.h"

#include "../lab/rule.h"

struct options {
	bool log;
	bool seeded;
	uint64_t seed;
};

static void usage(void)
{
	fputs("usage: rdmactl fault add [--seed N] FILE   put the rules of FILE (rdmad-fault(5)) into force; -:\n"
	      "                                           standard input\n"
	      "       rdmactl fault list [--log]          list the rules, and how often each matched and acted;\n"
	      "                                           --log: the decisions, packet by packet\n"
	      "       rdmactl fault clear [ID]            remove one rule, or all\n"
	      "       rdmactl fault check FILE            say whether FILE is correct; needs no daemon\n",
	      stdout);
}

static char *text_read(const char *path, size_t *len)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char *text = malloc(RULES_TEXT_MOST + 2);

	if (f && text) {
		*len = fread(text, 1, RULES_TEXT_MOST + 1, f);
		if (*len > RULES_TEXT_MOST)
			errno = EFBIG;
		else if (!ferror(f)) {
			if (f != stdin)
				fclose(f);
			return text;
		}
	}
	fprintf(stderr, "rdmactl: %s: %s\n", path, strerror(errno));
	if (f && f != stdin)
		fclose(f);
	free(text);
	return NULL;
}

/* A file is one that rules are read from if rules can be read from it. */
static int check(const char *path)
{
	struct rules rules = { 0 };
	struct rule_error err;
	size_t len;
	char *text = text_read(path, &len);
	int n;

	if (!text)
		return 1;
	n = rules_add(&rules, text, len, &(struct rule_host){ 0 }, &err);
	rules_fini(&rules);
	free(text);
	if (n < 0)
		fprintf(stderr, "%s:%u: %s\n", path, err.line, err.text);
	else
		printf("%s: %d rule%s\n", path, n, n == 1 ? "" : "s");
	return n < 0 || show_end();
}

static bool swap(int fd, const struct msg_req *req, int with, struct msg_rep *rep)
{
	if (sock_swap_fd(fd, req, msg_req_len(req->op), with, rep, sizeof(*rep)) != (ssize_t)sizeof(*rep)) {
		fprintf(stderr, "rdmactl: the daemon closed the connection; its log says why\n");
		return false;
	}
	if (rep->err == EPERM)
		fprintf(stderr, "rdmactl: only root and the user that the daemon runs as may change rules\n");
	else if (rep->err == EOPNOTSUPP)
		fprintf(stderr, "rdmactl: this daemon was built without faults (--disable-lab)\n");
	else if (rep->err == ENOENT)
		fprintf(stderr, "rdmactl: there is no such rule; rdmactl fault list shows them\n");
	else if (rep->err)
		fprintf(stderr, "rdmactl: the daemon answered: %s\n", strerror(rep->err));
	return !rep->err;
}

static int add(const struct ask *ask, const char *path, const struct options *opt)
{
	struct msg_req req = { .op = MSG_IMPAIR,
			       .impair = { .what = IMPAIR_ADD, .keep = 1, .seeded = opt->seeded, .seed = opt->seed } };
	struct msg_rep rep;
	size_t len;
	char *text = text_read(path, &len);
	int fd, mem, status = 1;

	if (!text)
		return 1;
	fd = daemon_open(ask->socket);
	mem = memfd_create("rules", MFD_CLOEXEC);
	if (fd >= 0 && (mem < 0 || write(mem, text, len) != (ssize_t)len)) {
		fprintf(stderr, "rdmactl: %s\n", strerror(errno));
	} else if (fd >= 0 && swap(fd, &req, mem, &rep)) {
		status = rep.impair.wrong != 0;
		rep.impair.text[sizeof(rep.impair.text) - 1] = '\0';
		if (status)
			fprintf(stderr, "%s:%u: %s\n", path, rep.impair.line, rep.impair.text);
		else
			printf("%u rule%s added\n", rep.impair.n, rep.impair.n == 1 ? "" : "s");
	}
	if (mem >= 0)
		close(mem);
	if (fd >= 0)
		close(fd);
	free(text);
	return status || show_end();
}

static int clear(const struct ask *ask, const char *id)
{
	struct msg_req req = { .op = MSG_IMPAIR, .impair = { .what = IMPAIR_CLEAR } };
	struct msg_rep rep;
	bool ok;
	int fd;

	if (id && (!show_number(id, &req.impair.id) || !req.impair.id)) {
		fprintf(stderr, "rdmactl: \"%s\" is not the number of a rule; rdmactl fault list shows them\n", id);
		return 2;
	}
	fd = daemon_open(ask->socket);
	if (fd < 0)
		return 1;
	ok = swap(fd, &req, -1, &rep);
	close(fd);
	if (ok)
		printf("%u rule%s gone\n", rep.impair.n, rep.impair.n == 1 ? "" : "s");
	return !ok || show_end();
}

static void show_rules(const json_t *j)
{
	json_t *r;
	size_t i;

	printf("%4s %10s %10s  %-32s %s\n", "ID", "MATCHES", "HITS", "DOES", "NAME");
	json_array_foreach(json_object_get(j, "rules"), i, r)
		printf("%4lld %10lld %10lld  %-32s %s\n", show_num(r, "id"), show_num(r, "matches"),
		       show_num(r, "hits"), show_str(r, "do"), show_str(r, "name"));
}

static int list(const struct ask *ask, bool log)
{
	int fd = daemon_open(ask->socket);
	json_t *j, *n;
	size_t i;

	if (fd < 0)
		return 1;
	j = daemon_dump(fd, DUMP_IMPAIR);
	close(fd);
	if (!j)
		return 1;
	if (ask->json)
		return show_json(j);
	if (!log)
		show_rules(j);
	else
		json_array_foreach(json_object_get(j, "log"), i, n) printf("%s\n", show_str(n, "text"));
	json_decref(j);
	return show_end();
}

static bool options_read(int argc, char **argv, struct options *opt, int *status)
{
	static const struct option longs[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "log", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "s:lh", longs, NULL)) >= 0) {
		switch (c) {
		case 's':
			opt->seeded = true;
			if (number_read(optarg, &opt->seed))
				break;
			fprintf(stderr, "rdmactl: --seed %s: " SEED_WORDS "\n", optarg);
			*status = 2;
			return false;
		case 'l': opt->log = true; break;
		case 'h':
			usage();
			*status = 0;
			return false;
		default: *status = rdmactl_wrong(argv[0], NULL); return false;
		}
	}
	return true;
}

int fault_main(int argc, char **argv, const struct ask *ask)
{
	struct options opt = { 0 };
	int status = 0, n;
	const char *what, *arg;

	if (!options_read(argc, argv, &opt, &status))
		return status;
	n = argc - optind;
	what = n > 0 ? argv[optind] : "";
	arg = n > 1 ? argv[optind + 1] : NULL;
	if (opt.seeded && strcmp(what, "add") != 0)
		return rdmactl_wrong(argv[0], "--seed is for add");
	if (opt.log && strcmp(what, "list") != 0)
		return rdmactl_wrong(argv[0], "--log is for list");
	if (ask->json && *what && strcmp(what, "list") != 0)
		return rdmactl_wrong(argv[0], "--json is for list");
	if (!strcmp(what, "add") && n == 2)
		return add(ask, arg, &opt);
	if (!strcmp(what, "check") && n == 2)
		return check(arg);
	if (!strcmp(what, "list") && n == 1)
		return list(ask, opt.log);
	if (!strcmp(what, "clear") && n <= 2)
		return clear(ask, arg);
	if (strcmp(what, "add") != 0 && strcmp(what, "list") != 0 && strcmp(what, "clear") != 0 &&
	    strcmp(what, "check") != 0)
		return rdmactl_wrong(argv[0], "say add, list, clear or check%s%s", *what ? ", not " : "", what);
	if (n == 1)
		return rdmactl_wrong(argv[0], "%s: name a file of rules", what);
	return rdmactl_wrong(argv[0], "%s: \"%s\" is too many", what, argv[optind + n - 1]);
}
