/* SPDX-License-Identifier: MIT */
/*
 * main.c - options, start, stop.
 *
 *	listen (nobody is let in yet)  ->  devices and shards  ->  GID tables  ->  serve  ->  the same backwards
 */
#include <ev.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rdmad/gid.h>
#include <rdmad/number.h>
#include <rdmad/seed.h>

#include "cma/cma.h"
#include "base/conf.h"
#include "config.h"
#include "control/ctl.h"
#include "control/impair_verb.h"
#include "control/gid.h"
#include "control/hooks.h"
#include "control/host.h"
#include "control/linger.h"
#include "control/reload.h"
#include "base/held.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/peer.h"
#include "base/rights.h"
#include "base/sandbox.h"
#include "shard/net.h"
#include "shard/peers.h"
#include "shard/spare.h"
#include "shard/thread.h"

static struct options {
	const char *config, *socket, *io, *shards, *impair, *seed, *level;
	bool private, check, no_sandbox;
} options;

static void usage(void)
{
	fputs("usage: rdmad [options]\n"
	      "  -c, --config FILE      read FILE instead of " SYSCONFDIR "/rdmad.conf (rdmad.conf(5))\n"
	      "  -s, --socket PATH      listen there; @NAME is an abstract socket\n"
	      "  -p, --private          serve this user only, at @rdmad.UID, and end when nobody uses it any more\n"
	      "  -f, --foreground       nothing: rdmad always stays in the foreground\n"
	      "      --io KIND          auto (default), uring or epoll\n"
	      "      --shards N         threads of the data path; 0 (default): chosen by the number of cores\n"
	      "      --fault RULES      disturb packets on purpose: a file (rdmad-fault(5)), or loss=1%, ...\n"
	      "      --fault-seed N     instead of the seed in that file\n"
	      "      --no-sandbox       keep all rights: for debugging only (rdmad(8))\n"
	      "  -l, --log-level LEVEL  error, warning, notice (default), info or debug\n"
	      "  -t, --check-config     read the configuration, say what is wrong with it, and end\n"
	      "  -V, --version          print the version\n"
	      "  -h, --help             print this\n",
	      stdout);
}

static int options_read(struct options *o, int argc, char **argv)
{
	enum { OPT_IO = 256, OPT_SHARDS, OPT_IMPAIR, OPT_SEED, OPT_NO_SANDBOX };
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "socket", required_argument, NULL, 's' },
		{ "private", no_argument, NULL, 'p' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "io", required_argument, NULL, OPT_IO },
		{ "shards", required_argument, NULL, OPT_SHARDS },
		{ "fault", required_argument, NULL, OPT_IMPAIR },
		{ "fault-seed", required_argument, NULL, OPT_SEED },
		{ "no-sandbox", no_argument, NULL, OPT_NO_SANDBOX },
		{ "log-level", required_argument, NULL, 'l' },
		{ "check-config", no_argument, NULL, 't' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "c:s:pfl:tVh", longs, NULL)) >= 0) {
		switch (c) {
		case 'c': o->config = optarg; break;
		case 's': o->socket = optarg; break;
		case 'p': o->private = true; break;
		case 'f': break;
		case OPT_IO: o->io = optarg; break;
		case OPT_SHARDS: o->shards = optarg; break;
		case OPT_IMPAIR: o->impair = optarg; break;
		case OPT_SEED: o->seed = optarg; break;
		case OPT_NO_SANDBOX: o->no_sandbox = true; break;
		case 'l': o->level = optarg; break;
		case 't': o->check = true; break;
		case 'V': puts("rdmad " PACKAGE_VERSION); exit(0);
		case 'h': usage(); exit(0);
		default: fputs("Try: rdmad --help\n", stderr); return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "rdmad: \"%s\" is no option; rdmad takes no arguments\nTry: rdmad --help\n",
			argv[optind]);
		return 2;
	}
	return 0;
}

static bool bad_option(const char *name, const char *value, const char *advice)
{
	char line[1024];

	snprintf(line, sizeof(line), "rdmad: --%s %s: %s", name, value, advice);
	conf_say(line);
	return false;
}

/* The status to end with, or -1: the rules are read. */
static int impair_apply(const struct options *o, const struct conf *conf)
{
	const char *rules = o->impair ? o->impair : conf->impair, *wrong;
	char line[sizeof(conf->impair) + 512];
	uint64_t seed = 0;

	if (o->seed && !number_read(o->seed, &seed)) {
		bad_option("fault-seed", o->seed, SEED_WORDS);
		return 2;
	}
	wrong = o->impair && !*o->impair ? "name a file of rules, or say what happens, as loss=1%"
					 : impair_read(rules, o->seed ? &seed : NULL);
	if (!wrong)
		return -1;
	if (o->impair) {
		bad_option("fault", o->impair, wrong);
		return 2;
	}
	snprintf(line, sizeof(line), "rdmad: the rules of the configuration, %s: %s", rules, wrong);
	conf_say(line);
	return 1;
}

/* The command line goes before the file. */
static bool options_apply(const struct options *o, struct conf *conf)
{
	if (o->socket) {
		if ((o->socket[0] != '/' && o->socket[0] != '@') || !o->socket[1] ||
		    strlen(o->socket) >= CONF_SOCKET_LEN)
			return bad_option("socket", o->socket,
					  "give an absolute path (at most 107 characters), or @NAME");
		snprintf(conf->socket, sizeof(conf->socket), "%s", o->socket);
	}
	if (o->io && !conf_io_parse(o->io, &conf->io))
		return bad_option("io", o->io, "give auto, uring or epoll");
	if (o->level && !log_level_parse(o->level, &conf->log_level))
		return bad_option("log-level", o->level, "give error, warning, notice, info or debug");
	if (o->shards) {
		uint64_t n;

		if (!number_read(o->shards, &n) || n > SHARDS_MAX)
			return bad_option("shards", o->shards, "give 1 to 16, or 0 to have it chosen");
		conf->shards = (unsigned)n;
	}
	return true;
}

/*
 * A private daemon needs no file, and that of the system is not meant for it.  A file that was there once is not forgotten:
 * without it the daemon would go on with the defaults, for everyone.  open(), as the sandbox refuses access().
 */
static const char *config_path(const struct options *o)
{
	static const char path[] = SYSCONFDIR "/rdmad.conf", *found;
	int fd;

	if (o->config)
		return o->config;
	if (o->private || found)
		return found;
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd >= 0 || (errno != ENOENT && errno != ENOTDIR))
		found = path;
	if (fd >= 0)
		close(fd);
	return found;
}

/* A shard is worth a core; programs want the others. */
static unsigned shards_chosen(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = cores < 8 ? 1 : (unsigned)cores / 4;

	return n > SHARDS_MAX ? SHARDS_MAX : n;
}

/* As far as they may be.  Memory that is shared with programs counts as files. */
static void limits_raise(void)
{
	struct rlimit fds, len;

	if (!getrlimit(RLIMIT_NOFILE, &fds)) {
		fds.rlim_cur = fds.rlim_max;
		setrlimit(RLIMIT_NOFILE, &fds);
	}
	signal(SIGXFSZ, SIG_IGN); /* who wants a piece that is too large gets EFBIG */
	if (getrlimit(RLIMIT_FSIZE, &len))
		return;
	len.rlim_cur = len.rlim_max;
	setrlimit(RLIMIT_FSIZE, &len);
	if (len.rlim_max != RLIM_INFINITY)
		log_warn("memory that is shared with programs may be pieces of %llu bytes at most: contexts and "
			 "queues that need more are refused (File too large); raise ulimit -f, LimitFSIZE (systemd)",
			 (unsigned long long)len.rlim_max);
}

/* Addresses that may come after the start, of each family, and groups, of which one takes a socket in each shard. */
#define LATER 16u

/* How many sockets an address takes in each shard: one that receives, and those that send, if there are enough descriptors. */
static unsigned sockets_each(unsigned addrs)
{
	struct rlimit lim = { 0 };

	getrlimit(RLIMIT_NOFILE, &lim);
	if (net_ports && (uint64_t)addrs * shards_n * (1 + net_ports) > lim.rlim_cur / NET_FDS_PART) {
		log_warn("of %llu descriptors too few are left for %u source ports of %u addresses: packets go from "
			 "port %u; raise LimitNOFILE (systemd) or ulimit -n",
			 (unsigned long long)lim.rlim_cur, net_ports, addrs, ROCE_PORT);
		net_ports = 0;
	}
	return 1 + net_ports;
}

static bool host_has(const struct host *host, const uint8_t *gid)
{
	for (unsigned i = 0; i < host->addr_n; i++)
		if (gid_same(host->addr[i].gid, gid))
			return true;
	return false;
}

/* Those of devices that the host does not list, as of 127.0.0.0/8. */
static void named_count(const struct host *host, unsigned *v4, unsigned *v6)
{
	for (unsigned i = 0; i < devices_n; i++) {
		for (unsigned k = 0; k < device_conf[i].addr_n; k++) {
			const uint8_t *gid = device_conf[i].addr[k].s6_addr;

			if (!host_has(host, gid))
				++*(gid_is_v4(gid) ? v4 : v6);
		}
	}
}

/* No device has what addresses the host has: none comes later. */
static bool all_named(void)
{
	unsigned i = 0;

	while (i < devices_n && device_conf[i].addr_n)
		i++;
	return i == devices_n;
}

static void spare_sockets(uid_t uid)
{
	static struct host host;
	unsigned v4 = 0, v6 = 0, groups = 0, n;

	if (all_named()) {
		groups = LATER * shards_n;
	} else {
		v4 = v6 = LATER;
		if (!host_read(&host))
			for (unsigned i = 0; i < host.addr_n; i++)
				(*(gid_is_v4(host.addr[i].gid) ? &v4 : &v6))++;
	}
	named_count(&host, &v4, &v6);
	n = shards_n * sockets_each(v4 + v6);
	spare_begin(v4 * n + groups, v6 * n + groups, uid, net_rcvbuf);
}

/* Everything that root is needed for; then it is given up. */
static bool rights_leave(const struct conf *conf, bool own)
{
	struct rights_user user = rights_choose(&conf->user, own);

	if (spare_may(net_rcvbuf))
		spare_sockets(user.uid == RIGHTS_KEEP ? geteuid() : user.uid);
	if (user.alone)
		ctl_give(user.uid);
	if (rights_drop(&user, own))
		return false;
	sandbox_files(own, ctl_dir());
	return true;
}

static const char *start_hint(int err)
{
	switch (err) {
	case EMFILE: return "; raise LimitNOFILE (systemd) or ulimit -n";
	case EAGAIN: return MSG_NO_TASK_HINT;
	}
	return "";
}

static bool shards_start(const struct conf *conf)
{
	sigset_t all, old;
	int err = 0;

	/* Signals are the control thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = net_start();
	if (!err)
		err = peers_start();
	if (err)
		log_err("cannot start the shards: %s", strerror(err));
	for (unsigned i = 0; i < shards_n && !err; i++) {
		err = shard_start(i, conf->io);
		if (err)
			log_err("cannot start shard %u: %s%s", i, strerror(err), start_hint(err));
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return !err;
}

/* The status to end with, or -1: it reads the configuration, and told why it is wrong. */
static int conf_status(struct conf *conf, bool first)
{
	conf_default(conf);
	if (!conf_read(conf, config_path(&options)))
		return 1;
	if (first)
		conf_devices(conf);
	return options_apply(&options, conf) ? impair_apply(&options, conf) : 2;
}

static bool conf_again(struct conf *conf) { return conf_status(conf, false) < 0; }

/*
 * From the first moment on: what comes before the control loop looks is not lost, and ends the daemon as later, or has it
 * read its configuration again.
 */
static void signals_set(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(how, &set, NULL);
}

static void signals_hold(void) { signals_set(SIG_BLOCK); }
static void signals_release(void) { signals_set(SIG_UNBLOCK); }

static void net_take(const struct conf *conf)
{
	if (conf->rcvbuf)
		net_rcvbuf = conf->rcvbuf;
	net_marks = conf->marks;
	net_ports = conf->ports;
}

/* Sandboxes may refuse it, and no program could be served without. */
static bool memfd_may(void)
{
	int fd = memfd_create("rdmad", MFD_CLOEXEC);
	bool may = fd >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS);

	if (!may)
		log_err("no memory can be shared with programs: memfd_create is refused here (%s), as by firejail "
			"--memory-deny-write-execute; a daemon outside of the sandbox serves programs within",
			strerror(errno));
	if (fd >= 0)
		close(fd);
	return may;
}

/* Before anybody is let in. */
static bool prepare(const struct conf *conf, bool own)
{
	int err = peer_begin(own);

	signal(SIGPIPE, SIG_IGN);
	if (err) {
		log_err("cannot give up the right to reach into any process: %s", strerror(err));
		return false;
	}
	if (!memfd_may())
		return false;
	held_begin();
	limits_raise();
	shards_n = conf->shards ? conf->shards : shards_chosen();
	quota_begin(conf->quota, shards_n * devices_n);
	control_hooks();
	return true;
}

/* Shards run, and devices have their addresses; until a signal comes, or the last program has gone.  The status to end with. */
static int serve(struct ev_loop *loop, struct conf *conf, bool own, bool sandbox)
{
	int err;

	log_note("version %s: %u device%s, %u shard%s", PACKAGE_VERSION, devices_n, devices_n == 1 ? "" : "s", shards_n,
		 shards_n == 1 ? "" : "s");
	why_start(loop);
	linger_begin();
	err = cma_start(loop);
	if (err) {
		log_err("cannot start the connection manager: %s", strerror(err));
		return 1;
	}
	impair_start(loop, impair_event_do);
	if (sandbox)
		sandbox_calls(own);
	reload_start(loop, conf, conf_again, shards_n * devices_n);
	ctl_run(loop, signals_release);
	reload_stop(loop);
	quota_end();
	impair_stop(loop);
	cma_stop(loop);
	why_stop(loop);
	return 0;
}

static int start(struct conf *conf, bool private, bool sandbox)
{
	bool own = !ctl_for_all(conf, private);
	int status = 1, err = own || !sandbox ? 0 : reader_begin(conf_again);
	struct ev_loop *loop = ev_default_loop(EVFLAG_NOENV);

	if (err)
		log_warn("no process that would read the configuration again at SIGHUP: %s", strerror(err));
	if (!loop) {
		log_err("cannot make an event loop: %s", strerror(errno));
		return 1;
	}
	if (!prepare(conf, own))
		goto out_loop;
	err = ctl_listen(loop, conf, private);
	if (err) {
		/* Two were started for the same user at once: the other one serves. */
		status = private && err == EADDRINUSE ? 0 : 1;
		goto out_loop;
	}
	notify_begin(private);
	net_take(conf);
	if ((sandbox && !rights_leave(conf, own)) || !shards_start(conf))
		goto out_shards;
	err = gid_start(loop, private);
	if (err) {
		status = err == EINTR ? 0 : 1;
		goto out_shards;
	}
	status = serve(loop, conf, own, sandbox);
	gid_stop(loop);
out_shards:
	shards_stop();
	spare_end();
	ctl_close();
out_loop:
	linger_stop(loop);
	ev_loop_destroy(loop);
	return status;
}

int main(int argc, char **argv)
{
	static struct conf conf;
	int status;

	signals_hold();
	status = options_read(&options, argc, argv);
	if (status)
		return status;
	status = conf_status(&conf, true);
	if (status >= 0)
		return status;
	if (options.check) {
		puts("rdmad: the configuration is fine");
		return 0;
	}
	log_init(conf.log_level);
	if (options.no_sandbox)
		log_warn(
			"--no-sandbox: a hole in this daemon is a way to all that its user may do; for debugging only");
	return start(&conf, options.private, !options.no_sandbox);
}
