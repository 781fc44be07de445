/* SPDX-License-Identifier: MIT */
/*
 * trace.c - `rdmactl trace [-f] [-p] [QP]`: the flight recorder, a line a record.
 *
 * One connection: the daemon remembers how far it was read, and records each burst as long as it is there.
 */
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "command.h"
#include "daemon.h"
#include "show.h"

#define LOOK_MS 50

static void usage(void)
{
	fputs("usage: rdmactl trace [options] [QP]\n"
	      "Print what happened to the queue pairs: changes of state, first packets, timeouts,\n"
	      "retransmissions, NAKs, errors.\n"
	      "  QP                 show this queue pair only (0x12 or 18)\n"
	      "options:\n"
	      "  -f, --follow       go on until the daemon ends or ^C\n"
	      "  -p, --packets      with -f: record each burst of packets, too\n"
	      "  -s, --socket PATH  the daemon's socket\n"
	      "  -j, --json         print JSON, one record in each line\n"
	      "  -h, --help         print this\n",
	      stdout);
}

static int print(const json_t *j, bool as_json)
{
	long long lost = show_num(j, "lost");
	size_t i;
	json_t *r;

	if (lost && !as_json)
		printf("... %lld records were overwritten before they were read\n", lost);
	json_array_foreach(json_object_get(j, "records"), i, r)
	{
		if (as_json) {
			json_dumpf(r, stdout, JSON_COMPACT);
			putchar('\n');
		} else {
			puts(show_str(r, "line"));
		}
	}
	return show_end();
}

static int follow(int fd, uint32_t qpn, bool on, bool packets, bool as_json)
{
	struct pollfd reader = { .fd = STDOUT_FILENO };
	int status;

	for (bool first = true;; first = false) {
		json_t *j = daemon_dump_of(fd, DUMP_TRACE, qpn, packets ? DUMP_BURSTS : 0);
		size_t n = json_array_size(json_object_get(j, "records"));

		if (!j)
			return 1;
		status = print(j, as_json);
		json_decref(j);
		if (status || (!on && !n))
			return status;
		if ((!n || first) && poll(&reader, 1, LOOK_MS) > 0)
			return 0; /* it has gone */
	}
}

int trace_main(int argc, char **argv, const struct ask *ask)
{
	static const struct option longs[] = {
		{ "follow", no_argument, NULL, 'f' },       { "packets", no_argument, NULL, 'p' },
		{ "socket", required_argument, NULL, 's' }, { "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },         { 0 },
	};
	struct ask a = *ask;
	bool on = false, packets = false;
	uint32_t qpn = 0;
	int c, fd, status;

	while ((c = getopt_long(argc, argv, "fps:jh", longs, NULL)) >= 0) {
		switch (c) {
		case 'f': on = true; break;
		case 'p': packets = true; break;
		case 's': a.socket = optarg; break;
		case 'j': a.json = true; break;
		case 'h': usage(); return 0;
		default: return rdmactl_wrong(argv[0], NULL);
		}
	}
	if (!show_qpn(argc, argv, &qpn))
		return 2;
	if (packets && !on)
		return rdmactl_wrong(argv[0], "--packets goes with --follow");
	fd = daemon_open(a.socket);
	if (fd < 0)
		return 1;
	status = follow(fd, qpn, on, packets, a.json);
	close(fd);
	return status;
}
