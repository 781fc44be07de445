/* SPDX-License-Identifier: MIT */
/* main.c - rdmad-sim: reads a topology, runs it, says what came out. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rdmad/clock.h>
#include <rdmad/number.h>
#include <rdmad/seed.h>

#include "config.h"

#include "fabric.h"
#include "pages.h"
#include "say.h"
#include "summary.h"

#define TEXT_MOST (1u << 20)
#define SEC       1000000000u

static _Noreturn void usage(int status)
{
	fputs("usage: rdmad-sim [-c] [-o DIR] [-s SEED] FILE\n"
	      "Runs the hosts, switches and links of FILE, a topology in YAML, in virtual time.\n"
	      "  -c, --check      only says whether the file is right\n"
	      "  -o, --out DIR    tables of what happened over time there, as CSV, and a script for gnuplot\n"
	      "  -s, --seed SEED  instead of the file's\n"
	      "  -h, --help       this text\n"
	      "  -V, --version\n"
	      "See rdmad-sim(1).\n",
	      status ? stderr : stdout);
	exit(status);
}

static uint64_t seed_of(const char *text)
{
	uint64_t v;

	if (!number_read(text, &v)) {
		fprintf(stderr, "rdmad-sim: --seed %s: " SEED_WORDS "\n", text);
		exit(2);
	}
	return v;
}

static char *text_of(const char *name, size_t *len)
{
	char *text = room_new(TEXT_MOST + 1, 1);
	FILE *file = strcmp(name, "-") ? fopen(name, "r") : stdin;

	if (file)
		*len = fread(text, 1, TEXT_MOST + 1, file);
	if (!file || ferror(file)) {
		fprintf(stderr, "rdmad-sim: cannot read %s: %s\n", name, strerror(errno));
		exit(2);
	}
	if (*len > TEXT_MOST) {
		fprintf(stderr, "rdmad-sim: %s: a topology has 1 MiB at most\n", name);
		exit(2);
	}
	fclose(file);
	return text;
}

static uint64_t cpu_ns(struct rusage *u)
{
	getrusage(RUSAGE_SELF, u);
	return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * SEC +
	       (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1000;
}

static int run(const struct topology *t, const char *dir)
{
	static struct fabric f;
	struct rusage use;
	struct summary_cost cost;
	bool failed;

	cost.set_up_ns = cpu_ns(&use);
	pages_begin();
	fabric_init(&f, t);
	pages_join();
	if (dir)
		csv_open(&f, dir);
	cost.real_ns = clock_ns(CLOCK_MONOTONIC);
	cost.run_ns = cpu_ns(&use);
	cost.set_up_ns = cost.run_ns - cost.set_up_ns;
	fabric_run(&f);
	cost.real_ns = clock_ns(CLOCK_MONOTONIC) - cost.real_ns;
	cost.run_ns = cpu_ns(&use) - cost.run_ns;
	cost.memory_len = (uint64_t)use.ru_maxrss << 10;
	summary_print(&f, &cost);
	csv_close(&f);
	failed = f.work.failed;
	fabric_fini(&f);
	return failed ? 4 : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "check", no_argument, NULL, 'c' },      { "out", required_argument, NULL, 'o' },
		{ "seed", required_argument, NULL, 's' }, { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },    { 0 },
	};
	const char *dir = NULL, *seed = NULL;
	bool check = false;
	struct topology t;
	char *text;
	bool good;
	size_t len;
	int o, status = 0;

	while ((o = getopt_long(argc, argv, "co:s:hV", options, NULL)) != -1)
		switch (o) {
		case 'c': check = true; break;
		case 'o': dir = optarg; break;
		case 's': seed = optarg; break;
		case 'h': usage(0);
		case 'V': puts("rdmad-sim " VERSION); return 0;
		default: usage(2);
		}
	if (optind + 1 != argc) {
		fputs(optind == argc ? "rdmad-sim: which topology? Name a file\n" : "rdmad-sim: one file, please\n",
		      stderr);
		usage(2);
	}
	text = text_of(argv[optind], &len);
	good = topology_read(&t, argv[optind], text, len);
	free(text);
	if (!good)
		return 2;
	if (seed)
		t.seed = seed_of(seed);
	if (check)
		printf("%s: %u hosts, %u switch%s, %u links: good\n", argv[optind], t.hosts, t.switches,
		       t.switches == 1 ? "" : "es", t.cable_n);
	else
		status = run(&t, dir);
	topology_free(&t);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "rdmad-sim: cannot write what came out: %s\n", strerror(errno));
		return 1;
	}
	return status;
}
