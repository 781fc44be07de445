/* SPDX-License-Identifier: MIT */
/* run.c - rdmad-run: the command line. */
#include "config.h"

#include "run.h"
#include "sysfs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_text[] =
	"Usage: rdmad-run [OPTION]... PROGRAM [ARGUMENT]...\n"
	"       rdmad-run [--socket ADDRESS] [--rsockets] --env\n"
	"Runs an RDMA program with rdmad's libibverbs. If no rdmad daemon answers, starts a private\n"
	"one that is gone when the program and its children are.\n"
	"\n"
	"  -s, --socket ADDRESS    use the daemon there: a path, or @NAME for an abstract socket\n"
	"  -o, --own[=IP]          a private daemon of this program's own: a device with that address\n"
	"                          only, or with one of 127.0.0.0/8 (then it reaches this host only)\n"
	"  -d, --daemon-arg ARG    give ARG to a private daemon (once for each, e.g. -d --io -d epoll)\n"
	"  -r, --rsockets          the program's TCP connections go by RDMA where the peer's do, too\n"
	"  -l, --log FILE          append a private daemon's messages to FILE\n"
	"  -S, --sysfs             the devices in /sys/class/infiniband and /dev/infiniband, for this\n"
	"                          program and its children (a mount namespace)\n"
	"  -e, --env               print the shell lines that set the environment; starts nothing\n"
	"  -h, --help              this text\n"
	"  -V, --version           the version\n"
	"\n"
	"The exit status is the program's; 127: not found, 126: not executable, 125: rdmad-run failed.\n"
	"See rdmad-run(1).\n";

static const struct option long_options[] = {
	{"socket", required_argument, NULL, 's'},
	{"own", optional_argument, NULL, 'o'},
	{"daemon-arg", required_argument, NULL, 'd'},
	{"rsockets", no_argument, NULL, 'r'},
	{"log", required_argument, NULL, 'l'},
	{"sysfs", no_argument, NULL, 'S'},
	{"env", no_argument, NULL, 'e'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("rdmad-run: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}

static void fail_usage(void)
{
	fputs("Try: rdmad-run --help\n", stderr);
	exit(RUN_FAILED);
}

static bool is_address(const char *text)
{
	struct in6_addr a;

	return inet_pton(AF_INET, text, &a) == 1 || inet_pton(AF_INET6, text, &a) == 1;
}

/* False for --env. */
static bool options_parse(struct options *opt, int argc, char **argv)
{
	bool env = false;
	int c;

	opt->daemon_args = calloc((size_t)argc + 1, sizeof(*opt->daemon_args));
	if (!opt->daemon_args)
		abort();
	while ((c = getopt_long(argc, argv, "+s:o::d:rl:SehV", long_options, NULL)) != -1) {
		switch (c) {
		case 's': opt->socket = optarg; opt->socket_from = "--socket"; break;
		case 'o': opt->own = true; opt->own_addr = optarg; break;
		case 'd': opt->daemon_args[opt->daemon_arg_n++] = optarg; break;
		case 'r': opt->rsockets = true; break;
		case 'l': opt->log = optarg; break;
		case 'S': opt->sysfs = true; break;
		case 'e': env = true; break;
		case 'h': fputs(usage_text, stdout); exit(0);
		case 'V': puts("rdmad-run " PACKAGE_VERSION); exit(0);
		default: fail_usage();
		}
	}
	if (opt->own && opt->socket) {
		say("--own starts a daemon on a socket of its own; it does not go together with --socket");
		fail_usage();
	}
	if (opt->own_addr && !is_address(opt->own_addr)) {
		say("--own=%s: not an IPv4 or IPv6 address", opt->own_addr);
		fail_usage();
	}
	if (env && (optind < argc || opt->own || opt->sysfs || opt->log || opt->daemon_arg_n)) {
		say("--env prints shell lines and starts nothing; it goes together with --socket and --rsockets "
		    "only");
		fail_usage();
	}
	if (!env && optind == argc) {
		say("which program?");
		fail_usage();
	}
	return !env;
}

static bool rsockets_there(const struct places *p)
{
	if (!*p->rs_lib)
		say("--rsockets: there is no librspreload.so beside libibverbs.so.1: make it, or install all of rdmad");
	return *p->rs_lib;
}

int main(int argc, char **argv)
{
	struct options opt = {0};
	struct places places;
	char addr[ADDR_LEN];
	int status;

	if (!options_parse(&opt, argc, argv)) {
		if (!places_find(&places))
			return RUN_FAILED;
		if (opt.rsockets && !rsockets_there(&places))
			return RUN_FAILED;
		env_print(&places, &opt);
		return 0;
	}
	if (!opt.socket && !opt.own) {
		opt.socket = getenv("RDMAD_SOCKET");
		opt.socket_from = "$RDMAD_SOCKET";
		if (opt.socket && !*opt.socket)
			opt.socket = NULL;
	}
	status = prog_check(argv[optind]);
	if (status)
		return status;
	if (!places_find(&places))
		return RUN_FAILED;
	if (opt.rsockets && !rsockets_there(&places))
		return RUN_FAILED;
	/* From here on this process holds the daemon, and so does the program that it turns into. */
	if (hold_get(&opt, &places, addr) < 0)
		return RUN_FAILED;
	if (opt.sysfs && !sysfs_enter(&places, addr))
		return RUN_FAILED;
	env_set(&places, &opt, addr);
	execvp(argv[optind], argv + optind);
	say("cannot run %s: %s", argv[optind], strerror(errno));
	return errno == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}
