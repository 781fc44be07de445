/* SPDX-License-Identifier: MIT */
/* replay.c - replays one run of the simulator, or a range of them. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runs.h"
#include "sim.h"

static _Noreturn void usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: replay [--kind swarm|masks|cases] [--seed N] [--count N] [--trace] [--cover] [--pcap FILE]\n"
		"  --seed N   the run, as a failed test names it (default 1)\n"
		"  --count N  so many runs, from the seed on (default 1)\n"
		"  --pcap FILE  the packets as pcapng, in virtual time\n"
		"  --trace    what happens, line by line\n"
		"  --cover    how often each rule, counter and state change was reached\n");
	exit(status);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno || end == text || *end) {
		fprintf(stderr, "replay: not a number: %s\n", text);
		exit(2);
	}
	return v;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "kind", required_argument, NULL, 'k' },  { "seed", required_argument, NULL, 's' },
		{ "count", required_argument, NULL, 'n' }, { "trace", no_argument, NULL, 't' },
		{ "cover", no_argument, NULL, 'c' },       { "pcap", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },        { 0 },
	};
	uint64_t (*run)(uint64_t, bool) = swarm_run, seed = 1, count = 1, hash = 0;
	bool trace = false, cover = false;
	int o;

	while ((o = getopt_long(argc, argv, "k:s:n:tp:ch", options, NULL)) != -1) {
		switch (o) {
		case 'k':
			if (strcmp(optarg, "swarm") && strcmp(optarg, "masks") && strcmp(optarg, "cases"))
				usage(2);
			run = *optarg == 's' ? swarm_run : *optarg == 'm' ? masks_run : cases_run;
			break;
		case 's': seed = number(optarg); break;
		case 'n': count = number(optarg); break;
		case 't': trace = true; break;
		case 'c': cover = true; break;
		case 'p':
			capture_file = fopen(optarg, "wb");
			if (!capture_file) {
				fprintf(stderr, "replay: cannot write %s: %s\n", optarg, strerror(errno));
				return 2;
			}
			break;
		case 'h': usage(0);
		default: usage(2);
		}
	}
	if (optind < argc)
		usage(2);
	if (trace)
		setvbuf(stdout, NULL, _IOLBF, 0);
	cover_share();
	sim_catch();
	for (uint64_t i = 0; i < count; i++)
		hash = run(seed + i, trace);
	if (cover)
		cover_report(stdout, true);
	printf("%llu run%s, the last one's hash %016llx\n", (unsigned long long)count, count == 1 ? "" : "s",
	       (unsigned long long)hash);
	if (capture_file && fclose(capture_file)) {
		fprintf(stderr, "replay: the capture is not whole: %s\n", strerror(errno));
		return 1;
	}
	return 0;
}
