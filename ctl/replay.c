/* SPDX-License-Identifier: MIT */
/* replay.c - `rdmactl replay FILE`: hands over to rdmad-run --replay. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beside.h"
#include "command.h"

#define RUN_ERROR 125 /* of rdmad-run: it could not run the program */

static void usage(void)
{
	fputs("usage: rdmactl replay FILE [OPTION...] [PROGRAM...]\n"
	      "Do to the packets of a run what was done to them in the one that rdmad-run --record FILE has\n"
	      "written, and say where it departs from that: the same as\n"
	      "rdmad-run --replay FILE [OPTION...] [PROGRAM...].\n"
	      "  FILE               what rdmad-run --record wrote\n"
	      "  OPTION             of rdmad-run, but for --socket: --report DIR, --explain, --capture FILE, ...\n"
	      "  PROGRAM            if not given, the recorded one\n"
	      "options:\n"
	      "  -h, --help         print this\n",
	      stdout);
}

int replay_main(int argc, char **argv, const struct ask *ask)
{
	static const struct option longs[] = {
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	static char option[] = "--replay";
	char **run;
	int c;

	while ((c = getopt_long(argc, argv, "+h", longs, NULL)) >= 0) {
		if (c != 'h')
			return rdmactl_wrong(argv[0], NULL);
		usage();
		return 0;
	}
	if (ask->socket || ask->json)
		return rdmactl_wrong(argv[0], "%s: a replay has a daemon of its own, and prints text",
				     ask->socket ? "--socket" : "--json");
	if (optind == argc)
		return rdmactl_wrong(argv[0], "no file given: what rdmad-run --record wrote");
	run = calloc((size_t)(argc - optind) + 3, sizeof(*run));
	if (!run)
		abort();
	run[1] = option;
	memcpy(&run[2], &argv[optind], (size_t)(argc - optind) * sizeof(*run));
	beside_run(run);
	fprintf(stderr, "%s: cannot run the rdmad-run beside rdmactl: %s\n", argv[0], strerror(errno));
	free(run);
	return RUN_ERROR;
}
