/* SPDX-License-Identifier: MIT */
/*
 * command.h - the commands of rdmactl: a row of command.def and a function each, in a file of its own.
 *
 * argv[0] is "rdmactl NAME" and optind is 0, so that getopt() begins anew.  A function returns the exit
 * status: 0; 1 there is no daemon, or it did not answer, or nothing could be written; 2 the command line was wrong; replay has those of rdmad-run.
 */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

#include <stdbool.h>

/* The options that stood before the command. */
struct ask {
	const char *socket; /* --socket; NULL: wherever programs look */
	bool json;
};

#define COMMAND(name, text) int name##_main(int argc, char **argv, const struct ask *);
#include "command.def"
#undef COMMAND

/*
 * What is wrong with the command line, and where help is; of: argv[0] of a function above, or "rdmactl"; fmt NULL: getopt() has
 * said it.  Returns 2.
 */
int rdmactl_wrong(const char *of, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints the usage text of rdmactl; returns 0. */
int rdmactl_usage(void);

#endif
