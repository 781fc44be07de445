/* SPDX-License-Identifier: MIT */
/* options.c - rdmad-run: the command line. */
#include "config.h"

#include "run.h"
#include "say.h"
#include "sweep.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid_text.h>
#include <rdmad/number.h>
#include <rdmad/seed.h>

static const char usage_text[] =
	"Usage: rdmad-run [OPTION]... PROGRAM [ARGUMENT]...\n"
	"       rdmad-run [--socket ADDRESS] [--rsockets] --env\n"
	"       rdmad-run --replay FILE [PROGRAM [ARGUMENT]...]\n"
	"       rdmad-run --lesson NAME [DIR]\n"
	"Run an RDMA program with rdmad's libibverbs. If no rdmad daemon answers, a private one is started,\n"
	"which ends with the program and its children.\n"
	"\n"
	"  -s, --socket ADDRESS    use the daemon at ADDRESS: a path, or @NAME for an abstract socket\n"
	"  -o, --own[=IP]          start a private daemon for this program alone: its device has that address\n"
	"                          only, or one of 127.0.0.0/8 (then it reaches this host only)\n"
	"  -a, --as PROFILE        the same with devices that look like others' and are limited like them:\n"
	"                          cx7, rxe, apple, ... (rdmad-profiles(7)); NAME:FILE for your own\n"
	"      --rails N[/NODES]   the same with N devices, each an adapter with an address of its own,\n"
	"                          over the NUMA nodes of the machine, or over so many that are made up\n"
	"      --hosts N           run the program N times, as on so many hosts: each with a daemon and rails\n"
	"                          of its own; the program finds its number in RDMAD_HOST\n"
	"      --users NAME,...    start it as root, for programs that become these users, too\n"
	"  -d, --daemon-arg ARG    give ARG to a private daemon (once for each, e.g. -d --io -d epoll)\n"
	"  -r, --rsockets          carry the program's TCP connections by RDMA if the peer does, too\n"
	"  -l, --log FILE          append a private daemon's messages to FILE\n"
	"  -S, --sysfs[=HOW]       show the devices in /sys/class/infiniband and /dev/infiniband to this\n"
	"                          program and its children; HOW: in a mount namespace, by preload (a\n"
	"                          library), or auto, which is the first of these that the machine allows\n"
	"  -t, --timeout SECONDS   end the program and its children after so long: SIGTERM, 5 s later SIGKILL\n"
	"  -g, --grace SECONDS     end processes that the program leaves behind, when they have lived on so\n"
	"                          long\n"
	"  -R, --report DIR        leave a report in DIR: how the program ended, the daemon's log, counters,\n"
	"                          leaks\n"
	"  -F, --fault FILE        disturb packets by these rules (rdmad-fault(5)) while the program runs\n"
	"      --seed N            use this seed instead of the one in that file\n"
	"  -C, --capture FILE      write the packets of the daemon's devices while the program runs: pcapng\n"
	"      --snaplen N         of it, keep N bytes of each packet (320 are enough for a diagram)\n"
	"      --file-size SIZE    begin another file after so many bytes (64K, 10M, 1G): FILE-00001,\n"
	"                          FILE-00002, ...\n"
	"      --files N           keep the last N of them\n"
	"      --record FILE       note each packet, and what the rules did to it, in FILE\n"
	"      --replay FILE       do the same to the same packets, and tell where this run departs from that\n"
	"                          one; without PROGRAM, the recorded one\n"
	"  -x, --explain           when the program has ended, say on standard error what went wrong for it,\n"
	"                          if anything did\n"
	"  -L, --leaks[=STATUS]    name the verbs objects that the program did not destroy; if there are any,\n"
	"                          the exit status is STATUS instead of 0\n"
	"      --check[=STATUS]    name mistakes in the use of verbs: buffers that change in flight, what is\n"
	"                          used after its end, and the like; if there are any, the exit status is\n"
	"                          STATUS instead of 0\n"
	"      --trace[=CALLS]     a line on standard error for each call of verbs and of the RDMA CM:\n"
	"                          arguments, result, time; CALLS: only these, e.g. post_*,poll_cq, or\n"
	"                          -poll_cq: without it\n"
	"      --trace-file FILE   the lines go to the end of FILE\n"
	"      --sweep FAULTS      disturb each packet of the program once, in a run of its own, and tell\n"
	"                          what breaks it; FAULTS: drop,delay,dup,nak,rnr, or all. With it,\n"
	"                          --timeout is for one run, --report says where the results go\n"
	"                          (./rdmad-sweep), and:\n"
	"        --jobs N          so many at once (all CPUs)\n"
	"        --sweep-limit N   so many runs at most (1000), and of these\n"
	"        --sweep-pairs N   so many with two faults (20), by --seed\n"
	"        --sweep-slow X    slow is X times as long as without faults (10)\n"
	"        --same-output     standard output is to be the same as without faults\n"
	"      --lesson NAME       explain and show what happens when a packet is lost, and the like; \"list\"\n"
	"                          names the lessons; results go to DIR (./lesson-NAME)\n"
	"  -e, --env               print the shell lines that set the environment; start nothing\n"
	"  -h, --help              print this text\n"
	"  -V, --version           print the version\n"
	"\n"
	"The exit status is the program's, 128+N if signal N killed it; 127: not found, 126: not executable,\n"
	"125: rdmad-run failed, 124: --timeout. --sweep: 1 if something was found, else 0.\n"
	"See rdmad-run(1).\n";

#define COUNT_MOST 1000000u
#define RAILS_MOST 32u /* devices of a daemon */
#define HOSTS_MOST 64u

enum { /* those without a letter */
       OPT_SEED = 256,
       OPT_LESSON,
       OPT_CHECK,
       OPT_TRACE,
       OPT_TRACE_FILE,
       OPT_SWEEP,
       OPT_JOBS,
       OPT_LIMIT,
       OPT_PAIRS,
       OPT_SLOW,
       OPT_SAME,
       OPT_SNAPLEN,
       OPT_FILE_SIZE,
       OPT_FILES,
       OPT_RECORD,
       OPT_REPLAY,
       OPT_RAILS,
       OPT_HOSTS,
       OPT_USERS,
};

static const struct option long_options[] = {
	{ "socket", required_argument, NULL, 's' },
	{ "own", optional_argument, NULL, 'o' },
	{ "as", required_argument, NULL, 'a' },
	{ "rails", required_argument, NULL, OPT_RAILS },
	{ "hosts", required_argument, NULL, OPT_HOSTS },
	{ "users", required_argument, NULL, OPT_USERS },
	{ "daemon-arg", required_argument, NULL, 'd' },
	{ "rsockets", no_argument, NULL, 'r' },
	{ "log", required_argument, NULL, 'l' },
	{ "sysfs", optional_argument, NULL, 'S' },
	{ "timeout", required_argument, NULL, 't' },
	{ "grace", required_argument, NULL, 'g' },
	{ "report", required_argument, NULL, 'R' },
	{ "fault", required_argument, NULL, 'F' },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "capture", required_argument, NULL, 'C' },
	{ "snaplen", required_argument, NULL, OPT_SNAPLEN },
	{ "file-size", required_argument, NULL, OPT_FILE_SIZE },
	{ "files", required_argument, NULL, OPT_FILES },
	{ "record", required_argument, NULL, OPT_RECORD },
	{ "replay", required_argument, NULL, OPT_REPLAY },
	{ "explain", no_argument, NULL, 'x' },
	{ "leaks", optional_argument, NULL, 'L' },
	{ "lesson", required_argument, NULL, OPT_LESSON },
	{ "check", optional_argument, NULL, OPT_CHECK },
	{ "trace", optional_argument, NULL, OPT_TRACE },
	{ "trace-file", required_argument, NULL, OPT_TRACE_FILE },
	{ "sweep", required_argument, NULL, OPT_SWEEP },
	{ "jobs", required_argument, NULL, OPT_JOBS },
	{ "sweep-limit", required_argument, NULL, OPT_LIMIT },
	{ "sweep-pairs", required_argument, NULL, OPT_PAIRS },
	{ "sweep-slow", required_argument, NULL, OPT_SLOW },
	{ "same-output", no_argument, NULL, OPT_SAME },
	{ "env", no_argument, NULL, 'e' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

__attribute__((noreturn)) static void fail_usage(void)
{
	fputs("Try: rdmad-run --help\n", stderr);
	exit(RUN_FAILED);
}

static void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void wrong(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_list(fmt, ap);
	va_end(ap);
	fail_usage();
}

bool is_watched(const struct options *opt)
{
	return opt->timeout_ms || opt->grace_ms >= 0 || opt->report || opt->leaks || opt->capture || opt->explain ||
	       opt->record || opt->replay || opt->check_status;
}

/* Seconds, as timeout(1) has them: with fractions, and with s, m, h or d after the number. */
static int64_t seconds_parse(const char *option, const char *text, bool may_be_none)
{
	static const char units[] = "smhd";
	static const double ms[] = { 1e3, 6e4, 3.6e6, 8.64e7 };
	char *end;
	double n = strtod(text, &end);
	const char *unit = *end ? strchr(units, *end) : units;

	if (end == text || !unit || (*end && end[1]) || !(n > 0 || (n == 0 && may_be_none)) ||
	    n * ms[unit - units] > 1e12)
		wrong("%s %s: give seconds, or a number with s, m, h or d", option, text);
	return (int64_t)(n * ms[unit - units]) + (n > 0);
}

const char *const sysfs_ways[] = {
	[SYSFS_AUTO] = "auto", [SYSFS_NAMESPACE] = "namespace", [SYSFS_PRELOAD] = "preload"
};

static enum sysfs sysfs_parse(const char *text)
{
	for (enum sysfs i = SYSFS_AUTO; i <= SYSFS_PRELOAD; i++)
		if (!text || !strcmp(text, sysfs_ways[i]))
			return i;
	wrong("--sysfs=%s: namespace, preload or auto", text);
}

static int status_parse(const char *option, const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < 0 || n > 255)
		wrong("%s=%s: an exit status is 0 to 255", option, text);
	return (int)n;
}

/* With these rdmad answers, and ends: as one does that found another one in its place, which is asked again. */
static char *daemon_arg_parse(char *text)
{
	static const char *const answers[] = { "-h", "--help", "-V", "--version" };

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
		if (!strcmp(text, answers[i]))
			wrong("--daemon-arg %s: no daemon runs with that; it is asked of rdmad itself", text);
	return text;
}

/* The rules of the first would silently not be there. */
static char *impair_parse(const struct options *opt, char *text)
{
	if (opt->impair)
		wrong("--fault %s: %s is there already; one file has all rules (rdmad-fault(5))", text, opt->impair);
	return text;
}

static uint64_t seed_parse(const char *text)
{
	uint64_t n;

	if (!number_read(text, &n))
		wrong("--seed %s: " SEED_WORDS, text);
	return n;
}

static unsigned count_parse(const char *option, const char *text, unsigned long least, unsigned long most)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || n < least || n > most)
		wrong("%s %s: a number from %lu to %lu", option, text, least, most);
	return (unsigned)n;
}

/* N, or N/NODES. */
static void rails_parse(struct options *opt, char *text)
{
	char *nodes = strchr(text, '/');

	if (nodes)
		*nodes++ = 0;
	opt->rails = count_parse("--rails", text, 1, RAILS_MOST);
	opt->nodes = nodes ? count_parse("--rails: NUMA nodes", nodes, 1, opt->rails) : 0;
}

static double factor_parse(const char *text)
{
	char *end;
	double x = strtod(text, &end);

	if (end == text || *end || !(x > 1) || x > 1e6)
		wrong("--sweep-slow %s: a number above 1", text);
	return x;
}

/* Those of --sweep; false: it is none of them. */
/* clang-format off */
static bool sweep_option(struct options *opt, int c)
{
	switch (c) {
	case OPT_SWEEP: opt->sweep.faults = optarg; return true;
	case OPT_JOBS: opt->sweep.jobs = count_parse("--jobs", optarg, 1, COUNT_MOST); break;
	case OPT_LIMIT: opt->sweep.limit = count_parse("--sweep-limit", optarg, 1, COUNT_MOST); break;
	case OPT_PAIRS: opt->sweep.pairs = count_parse("--sweep-pairs", optarg, 0, COUNT_MOST); break;
	case OPT_SLOW: opt->sweep.slow = factor_parse(optarg); break;
	case OPT_SAME: opt->sweep.same_output = true; break;
	default: return false;
	}
	for (const struct option *o = long_options; o->name; o++)
		if (o->val == c)
			opt->sweep.odd = o->name;
	return true;
}
/* clang-format on */

static void sweep_check(const struct options *opt)
{
	const struct sweep_fault *f[SWEEP_FAULTS];

	if (!opt->sweep.faults && opt->sweep.odd)
		wrong("--%s is for --sweep", opt->sweep.odd);
	if (!opt->sweep.faults)
		return;
	if (!sweep_faults(opt->sweep.faults, f))
		fail_usage();
	if (opt->socket || opt->own_addr || opt->rails || opt->users || opt->log || opt->impair || opt->capture ||
	    opt->grace_ms >= 0 || opt->leaks || opt->explain || opt->lesson || opt->check || opt->trace)
		wrong("--sweep runs the program many times, each with a daemon of its own (--own); it can be combined "
		      "with --as, --daemon-arg, --rsockets, --sysfs, --timeout, --report, --seed only");
}

/* Those of --capture, for rdmactl; false: it is none of them. */
static bool capture_option(struct options *opt, int c)
{
	const char *name = c == OPT_SNAPLEN     ? "--snaplen"
			   : c == OPT_FILE_SIZE ? "--file-size"
			   : c == OPT_FILES     ? "--files"
						: NULL;

	if (!name)
		return false;
	for (unsigned i = 0; i < opt->capture_arg_n; i += 2) {
		if (strcmp(opt->capture_args[i], name))
			continue;
		opt->capture_args[i + 1] = optarg; /* the last one counts */
		return true;
	}
	opt->capture_args[opt->capture_arg_n++] = name;
	opt->capture_args[opt->capture_arg_n++] = optarg;
	return true;
}

/* --record, --replay. */
static void tape_check(struct options *opt, bool env)
{
	const char *name = opt->record ? "--record" : "--replay";

	if (!opt->record && !opt->replay)
		return;
	if (env || opt->socket || opt->lesson || opt->sweep.faults || (opt->record && opt->replay))
		wrong("%s cannot be combined with --socket, --env, --sweep, --lesson or %s", name,
		      opt->record ? "--replay" : "--record");
	if (opt->replay && opt->impair)
		wrong("--replay has the rules of the recorded run; it cannot be combined with --fault");
	opt->own = true; /* packets of others would be noted, too */
}

/* --own, --as, --socket: which daemon, and with which device. */
static void own_check(struct options *opt, char *profile)
{
	uint8_t gid[16];

	if (profile && !own_profile(opt, profile))
		fail_usage();
	if (profile && opt->own_addr && opt->ports > 1)
		wrong("--as %s has %u ports, each with an address of its own: leave --own=%s out, or describe the "
		      "devices in a configuration (rdmad.conf(5))",
		      profile, opt->ports, opt->own_addr);
	if (opt->own_addr && (opt->rails > 1 || opt->hosts > 1))
		wrong("%s: each device has an address of its own: leave --own=%s out, or describe the devices in a "
		      "configuration (rdmad.conf(5))",
		      opt->rails > 1 ? "--rails" : "--hosts", opt->own_addr);
	if ((opt->rails || opt->hosts) && !opt->own_addr)
		own_rails(opt);
	if (opt->users && !own_users(opt))
		fail_usage();
	opt->own |= profile || opt->rails || opt->users;
	if (opt->own && opt->socket)
		wrong("%s starts a daemon on a socket of its own; it cannot be combined with --socket",
		      opt->hosts   ? "--hosts"
		      : opt->rails ? "--rails"
		      : profile    ? "--as"
		      : opt->users ? "--users"
				   : "--own");
	if (opt->own_addr && (!gid_read(opt->own_addr, gid) || gid_is_nobody(gid)))
		wrong("--own=%s: not an IPv4 or IPv6 address of a host", opt->own_addr);
}

/* The name of an option whose value may be left out, and is: what follows behind a blank is the program. */
static const char *bare_option(int c)
{
	for (const struct option *o = long_options; o->name && !optarg; o++)
		if (o->val == c && o->has_arg == optional_argument)
			return o->name;
	return NULL;
}

/* The one who captures has none: its /dev/stdout would be our standard error. */
static bool is_stdout(const char *file)
{
	static const char *const names[] = { "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1" };
	unsigned n = sizeof(names) / sizeof(*names);

	while (n && strcmp(file, names[n - 1]))
		n--;
	return n;
}

/* Options that do not go together. */
static void options_check(const struct options *opt, bool env, bool program, bool more)
{
	if (opt->seeded && !opt->impair && !opt->sweep.faults)
		wrong("--seed is for --fault and --sweep");
	if (opt->capture && is_stdout(opt->capture))
		wrong("--capture: standard output is the program's; for a pipe: rdmactl capture -w -");
	if (opt->capture_arg_n && !opt->capture)
		wrong("%s is for --capture", opt->capture_args[0]);
	if (env && (program || opt->sweep.faults || opt->own || opt->sysfs || opt->log || opt->impair ||
		    opt->daemon_arg_n || opt->check || opt->trace || is_watched(opt)))
		wrong("--env prints shell lines and starts nothing; it can be combined with --socket and --rsockets "
		      "only");
	if (opt->trace && !*opt->trace)
		wrong("--trace= has no calls: name some, or say --trace alone for all");
	if (opt->trace_file && !opt->trace)
		wrong("--trace-file is for --trace");
	if (opt->lesson && (env || more))
		wrong("--lesson NAME: the only other argument is a directory for the results, and there is no other "
		      "option; $RDMAD_LESSON_FAULTS names a file of faults");
	if (!env && !program && !opt->lesson && !opt->replay)
		wrong("no program given: name the program to run");
	sweep_check(opt);
}

/* clang-format off */
bool options_parse(struct options *opt, int argc, char **argv)
{
	char *profile = NULL;
	unsigned given = 0; /* options */
	bool env = false;
	int c;

	opt->daemon_args = calloc((size_t)argc + 1, sizeof(*opt->daemon_args));
	if (!opt->daemon_args)
		abort();
	while ((c = getopt_long(argc, argv, "+s:o::a:d:rl:St:g:R:C:F:L::xehV", long_options, NULL)) != -1) {
		given++;
		opt->bare = bare_option(c);
		switch (c) {
		case 'F': opt->impair = impair_parse(opt, optarg); break;
		case OPT_SEED: opt->seeded = true; opt->seed = seed_parse(optarg); break;
		case 's': opt->socket = hold_address(optarg); opt->socket_from = "--socket"; break;
		case 'o': opt->own = true; opt->own_addr = optarg; break;
		case 'a': profile = optarg; break;
		case 'd': opt->daemon_args[opt->daemon_arg_n++] = daemon_arg_parse(optarg); break;
		case 'r': opt->rsockets = true; break;
		case 'l': opt->log = optarg; break;
		case 'S': opt->sysfs = sysfs_parse(optarg); break;
		case 't': opt->timeout_ms = seconds_parse("--timeout", optarg, false); break;
		case 'g': opt->grace_ms = seconds_parse("--grace", optarg, true); break;
		case OPT_RECORD: opt->record = optarg; break;
		case OPT_REPLAY: opt->replay = optarg; break;
		case 'R': opt->report = optarg; break;
		case 'C': opt->capture = optarg; break;
		case 'x': opt->explain = true; break;
		case 'L': opt->leaks = true; opt->leak_status = optarg ? status_parse("--leaks", optarg) : 0; break;
		case OPT_CHECK: opt->check = true; opt->check_status = optarg ? status_parse("--check", optarg) : 0; break;
		case OPT_TRACE: opt->trace = optarg ? optarg : "*"; break;
		case OPT_TRACE_FILE: opt->trace_file = optarg; break;
		case OPT_LESSON: opt->lesson = optarg; break;
		case OPT_RAILS: rails_parse(opt, optarg); break;
		case OPT_USERS: opt->users = optarg; break;
		case OPT_HOSTS: opt->hosts = count_parse("--hosts", optarg, 1, HOSTS_MOST); break;
		case 'e': env = true; break;
		case 'h': fputs(usage_text, stdout); exit(0);
		case 'V': puts("rdmad-run " PACKAGE_VERSION); exit(0);
		default:
			if (!sweep_option(opt, c) && !capture_option(opt, c))
				fail_usage();
		}
	}
	tape_check(opt, env);
	own_check(opt, profile);
	options_check(opt, env, optind < argc, optind + 1 < argc || given > 1);
	return !env;
}
/* clang-format on */
