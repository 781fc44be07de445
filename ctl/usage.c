/* SPDX-License-Identifier: MIT */
/* usage.c - the usage text of rdmactl: the commands of command.def, the options in front of them. */
#include <stdio.h>

#include <rdmad/msg.h>

#include "command.h"

static void usage(FILE *f)
{
	fputs("usage: rdmactl [options] COMMAND\n", f);
#define COMMAND(name, text) fprintf(f, "  %-9s %s\n", #name, text);
#include "command.def"
#undef COMMAND
	fputs("options:\n"
	      "  -s, --socket PATH  the daemon's socket; @NAME is an abstract one (default: $RDMAD_SOCKET,\n"
	      "                     then " RDMAD_SYSTEM_SOCKET ", then your private daemon)\n"
	      "  -j, --json         print JSON\n"
	      "  -V, --version      print the version\n"
	      "  -h, --help         print this\n",
	      f);
}

int rdmactl_usage(int status)
{
	usage(status ? stderr : stdout);
	return status;
}
