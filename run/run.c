/* SPDX-License-Identifier: MIT */
/* run.c - rdmad-run: from its options to the program. */
#include "config.h"

#include "capture.h"
#include "report.h"
#include "run.h"
#include "say.h"
#include "sweep.h"
#include "sysfs.h"
#include "tape.h"
#include "watch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Where things are; false: said what is missing. */
static bool installed(struct install *in, const struct options *opt)
{
	return install_find(in) && (!opt->rsockets || preload_can("--rsockets", in->rs_lib, "librspreload.so"));
}

/* The number by which the daemon knows the program, in front of those of rdmad-runs around us: it belongs to them, too. */
static bool run_name(struct options *opt)
{
	const char *outer = getenv("RDMAD_RUN");
	char text[256];

	if (getrandom(&opt->run, sizeof(opt->run), 0) != sizeof(opt->run))
		abort();
	opt->run = (opt->run & INT64_MAX) | 1;
	snprintf(text, sizeof(text), "%" PRIx64 "%s%s", opt->run, outer && *outer ? "," : "", outer ? outer : "");
	return !setenv("RDMAD_RUN", text, 1);
}

/* Before a daemon is started: where its log goes, and the program's name to it. */
static bool watch_prepare(struct options *opt)
{
	if (!is_watched(opt))
		return true;
	if (opt->report && !report_place(opt))
		return false;
	if (opt->report && !opt->log)
		opt->log = report_file(opt, "daemon.log");
	return run_name(opt);
}

static int watch(const struct options *opt, const struct install *in, const char *addr, char **argv)
{
	struct report r;
	const struct watch w = {
		.limit_ms = opt->timeout_ms,
		.grace_ms = opt->grace_ms,
		.up = report_time_up,
		.outlived = report_outlived,
		.arg = &r,
	};
	struct outcome o;
	int capture = -1, status;

	if (!report_begin(&r, opt, addr, argv))
		return RUN_FAILED;
	if (opt->capture && (capture = capture_begin(in, addr, opt)) < 0)
		return RUN_FAILED;
	watch_program(argv, &w, &o);
	capture_end(capture, opt->capture);
	status = report_end(&r, &o);
	check_end(opt);
	return status;
}

/* No socket or file of ours, or of a library, may become somebody's standard input, output or error. */
static void standard_fds_fill(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < 3);
	if (fd >= 3)
		close(fd);
}

int main(int argc, char **argv)
{
	static struct options opt = { .grace_ms = -1, .sweep = { .limit = 1000, .pairs = 20, .slow = 10 } };
	struct install in;
	char addr[ADDR_LEN], **program;
	int status, hold;

	standard_fds_fill();
	if (!options_parse(&opt, argc, argv))
		return installed(&in, &opt) && env_print(&in, &opt) ? 0 : RUN_FAILED;
	if (opt.lesson)
		return install_find(&in) ? lesson_become(&in, opt.lesson, argv[optind]) : RUN_FAILED;
	if (!opt.socket && !opt.own) {
		opt.socket_from = "$RDMAD_SOCKET";
		opt.socket = getenv(opt.socket_from + 1);
		opt.socket = opt.socket && *opt.socket ? hold_address(opt.socket) : NULL;
	}
	program = argv + optind;
	status = *program ? prog_check(program[0], opt.bare) : 0;
	if (status)
		return status;
	if (opt.sweep.faults)
		return sweep_main(&opt, argv[0], program);
	prog_sizes();
	if (!installed(&in, &opt))
		return RUN_FAILED;
	if (opt.hosts)
		hosts_split(&opt);
	if ((opt.record || opt.replay) && !tape_prepare(&opt, &program))
		return RUN_FAILED;
	if (program != argv + optind && (status = prog_check(program[0], NULL)))
		return status;
	if (!watch_prepare(&opt) || !check_prepare(&in, &opt))
		return RUN_FAILED;
	/* From here on this process holds the daemon, and so does the program that it turns into. */
	hold = hold_get(&opt, &in, addr);
	if (hold < 0 || (opt.impair && !impair_file(hold, &opt)))
		return RUN_FAILED;
	if ((opt.record || opt.replay) && !tape_begin(hold, &opt))
		return RUN_FAILED;
	if (!opt.sysfs && sysfs_no_pci() && prog_pci(program[0])) {
		say("%s uses libpci, which wants a PCI bus; there is none here: it sees an empty one, as with --sysfs",
		    program[0]);
		opt.sysfs = SYSFS_AUTO;
	}
	if (opt.sysfs && !(opt.sysfs = sysfs_show(&in, opt.sysfs, addr)))
		return RUN_FAILED;
	env_set(&in, &opt, addr, program[0]);
	if (opt.addr && !hosts_env(&opt, addr))
		return RUN_FAILED;
	if (is_watched(&opt))
		return watch(&opt, &in, addr, program);
	return prog_become(program);
}
