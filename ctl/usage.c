/* SPDX-License-Identifier: MIT */
/* usage.c - the usage text of rdmactl: the commands of command.def, the options in front of them. */
#include <stdarg.h>
#include <stdio.h>

#include <rdmad/msg.h>

#include "command.h"

int rdmactl_usage(void)
{
	puts("usage: rdmactl [options] COMMAND");
#define COMMAND(name, text) printf("  %-9s %s\n", #name, text);
#include "command.def"
#undef COMMAND
	fputs("options:\n"
	      "  -s, --socket PATH  the daemon's socket; @NAME is an abstract one (default: $RDMAD_SOCKET,\n"
	      "                     then " RDMAD_SYSTEM_SOCKET ", then your private daemon)\n"
	      "  -j, --json         print JSON\n"
	      "  -V, --version      print the version\n"
	      "  -h, --help         print this\n",
	      stdout);
	return 0;
}

int rdmactl_wrong(const char *of, const char *fmt, ...)
{
	va_list ap;

	if (fmt) {
		fprintf(stderr, "%s: ", of);
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
		fputc('\n', stderr);
	}
	fprintf(stderr, "Try: %s --help\n", of);
	return 2;
}
