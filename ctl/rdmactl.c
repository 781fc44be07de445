/* SPDX-License-Identifier: MIT */
/*
 * rdmactl.c - looks into a running rdmad, and at what passed on wires: options, and the commands of
 * command.def.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "config.h"

static const struct {
	const char *name;
	char *full; /* for what getopt() says */
	int (*main)(int argc, char **argv, const struct ask *);
} commands[] = {
#define COMMAND(name, text) { #name, "rdmactl " #name, name##_main },
#include "command.def"
#undef COMMAND
};

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct ask ask = { 0 };
	int c;

	/* A + in front: what follows the command is the command's. */
	while ((c = getopt_long(argc, argv, "+s:jVh", longs, NULL)) >= 0) {
		switch (c) {
		case 's': ask.socket = optarg; break;
		case 'j': ask.json = true; break;
		case 'V': puts("rdmactl " PACKAGE_VERSION); return 0;
		case 'h': return rdmactl_usage();
		default: return rdmactl_wrong("rdmactl", NULL);
		}
	}
	argc -= optind;
	argv += optind;
	for (size_t i = 0; argc && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[0], commands[i].name)) {
			optind = 0;
			argv[0] = commands[i].full;
			return commands[i].main(argc, argv, &ask);
		}
	if (!argc)
		return rdmactl_wrong("rdmactl", "no command given");
	fprintf(stderr, "rdmactl: \"%s\" is no command; there are", argv[0]);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(stderr, "%s %s", i ? "," : "", commands[i].name);
	fputc('\n', stderr);
	return rdmactl_wrong("rdmactl", NULL);
}
