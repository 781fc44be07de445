/* SPDX-License-Identifier: MIT */
/*
 * capture.c - `rdmactl capture`: asks the daemon for a spool (lab/spool.h), dresses what comes in it up as frames, and
 * writes pcapng.
 *
 * It sleeps in ppoll() on the eventfd that says that the spool is not empty, on the daemon's connection, whose end is the
 * end, and for signals.  Packets that the daemon had put into the spool are written even if it is gone.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/clock.h>

#include "../lab/dress.h"
#include "../lab/spool.h"
#include "capfile.h"
#include "command.h"
#include "daemon.h"
#include "show.h"

#define BATCH        2048u   /* packets between two looks at signals and time */
#define REST_NS      1000000 /* before it sleeps: so it is woken no more than a thousand times a second */
#define SETTLE_NS    5000000u
#define ROOM_DEFAULT (16u << 20)
#define SNAP_LEAST   12u /* a BTH */

struct options {
	const char *devices;
	uint64_t room, count;
	uint32_t snaplen;
	double seconds;
	int ready; /* descriptor to say on that it has begun, and that all is written; -1: none */
	uint32_t qpn[MSG_CAPTURE_QPS];
	unsigned qpn_n;
	bool quiet, json;
};

struct cap {
	struct options o;
	struct capfile file;
	int fd, event;
	uint8_t *mem;
	size_t len;
	unsigned strands;
	struct spool spool[SPOOL_STRANDS];
	uint8_t iface[SPOOL_DEVICES];   /* by device index */
	uint8_t device[CAPFILE_IFACES]; /* the reverse */
	uint64_t packets;
	uint64_t epoch; /* 1970 on the monotonic clock, negated: packets are stamped so, whatever is set since */
	struct spool_count upto[CAPFILE_IFACES]; /* the last packet that was written */
	uint8_t frame[DRESS_MAX + 65536];
};

static volatile sig_atomic_t stopped;

static void on_signal(int sig) { stopped = sig; }

static uint64_t stamp_now(const struct cap *c) { return c->epoch + clock_ns(CLOCK_MONOTONIC); }

/* ---- beginning ----------------------------------------------------------------------- */

static bool is_listed(const char *list, const char *name)
{
	size_t len = strlen(name), n;

	for (; list; list = list[n] ? list + n + 1 : NULL) {
		n = strcspn(list, ",");
		if (n == len && !memcmp(list, name, n))
			return true;
	}
	return !len;
}

/* The devices as a mask; 0: an error, which has been reported. */
static uint32_t devices_pick(struct cap *c)
{
	struct msg_rep rep = { .devices.n = 1 };
	uint32_t mask = 0;
	char name[RDMAD_NAME_LEN + 1];

	for (uint32_t i = 0; i < rep.devices.n; i++) {
		struct msg_req req = { .op = MSG_DEVICE_LIST, .id.handle = i };
		const struct msg_device *d = rep.devices.dev;

		if (!daemon_ask(c->fd, &req, &rep, NULL, 0))
			return 0;
		if (i >= rep.devices.n || d->index >= SPOOL_DEVICES ||
		    (c->o.devices && !is_listed(c->o.devices, d->name)))
			continue;
		mask |= 1u << d->index;
		c->iface[d->index] = (uint8_t)c->file.ifaces;
		c->device[c->file.ifaces] = (uint8_t)d->index;
		snprintf(c->file.iface[c->file.ifaces++], PCAPNG_NAME_LEN, "%.*s", (int)sizeof(d->name) - 1, d->name);
	}
	for (const char *p = c->o.devices; p && *p; p += p[strcspn(p, ",")] ? strcspn(p, ",") + 1 : strcspn(p, ",")) {
		bool found = false;

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(p, ","), p);
		for (unsigned i = 0; i < c->file.ifaces; i++)
			found |= !strcmp(name, c->file.iface[i]);
		if (!found) {
			fprintf(stderr, "rdmactl: there is no device %s\n", name);
			return 0;
		}
	}
	return mask;
}

static bool begin(struct cap *c, const struct ask *ask)
{
	struct msg_req req = { .op = MSG_CAPTURE,
			       .capture = {
				       .room = (uint32_t)c->o.room, .qpn_n = c->o.qpn_n, .snaplen = c->o.snaplen } };
	struct msg_rep rep;
	int fds[2] = { -1, -1 };

	c->fd = daemon_open(ask->socket);
	if (c->fd < 0)
		return false;
	req.capture.devices = devices_pick(c);
	memcpy(req.capture.qpn, c->o.qpn, sizeof(c->o.qpn));
	if (!req.capture.devices || !daemon_ask(c->fd, &req, &rep, fds, 2))
		return false;
	c->epoch = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
	c->event = fds[1];
	c->len = rep.capture.len;
	c->mem = fds[0] < 0 ? MAP_FAILED : mmap(NULL, c->len, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (fds[0] >= 0)
		close(fds[0]);
	c->strands = c->mem == MAP_FAILED ? 0 : spool_strands(c->mem, c->len);
	if (!c->strands) {
		fputs("rdmactl: the daemon's answer has no valid buffer of packets\n", stderr);
		return false;
	}
	for (unsigned i = 0; i < c->strands; i++)
		spool_reader(&c->spool[i], c->mem, i);
	return true;
}

/* ---- packets --------------------------------------------------------------------------- */

/* Each line of the text becomes a comment. */
static void comments(struct pcapng_item *it, const struct spool_pkt *p)
{
	const char *s = p->text, *end = p->text + p->text_n, *nl;

	for (; s < end && it->comments < PCAPNG_COMMENTS; s = nl + 1) {
		nl = memchr(s, '\n', (size_t)(end - s));
		if (!nl)
			nl = end;
		it->comment[it->comments++] = (struct pcapng_text){ s, (size_t)(nl - s) };
	}
}

static bool put(struct cap *c, const struct spool_pkt *p)
{
	struct dress d = { .route = &p->route,
			   .sport = p->sport,
			   .ip_id = p->ip_id,
			   .data = p->data,
			   .caplen = p->caplen,
			   .len = p->len,
			   .sum = p->sum };
	struct pcapng_item it = {
		.iface = c->iface[p->device], .ns = p->ns, .flags = p->dir, .drops = p->drops, .data = c->frame
	};

	if (p->caplen > 65536 || p->caplen > p->len)
		return true;
	it.caplen = dress_put(c->frame, &d);
	it.len = it.caplen + p->len - p->caplen;
	comments(&it, p);
	c->packets++;
	c->upto[it.iface].seen += p->drops + 1;
	c->upto[it.iface].lost += p->drops;
	return capfile_put(&c->file, &it);
}

static bool counted_out(const struct cap *c) { return c->o.count && c->packets == c->o.count; }

/*
 * Up to BATCH packets, those of all strands by time; how many.  A shard may be about to put one that is older than what
 * another has put: where there are several, a packet is taken SETTLE_NS later, but at the end.
 */
static int batch(struct cap *c, bool ends)
{
	uint64_t settled = c->strands > 1 && !ends ? stamp_now(c) - SETTLE_NS : UINT64_MAX;
	struct spool_pkt p[SPOOL_STRANDS];
	bool has[SPOOL_STRANDS] = { false };
	int n;

	for (n = 0; n < (int)BATCH && !counted_out(c); n++) {
		int first = -1;

		for (unsigned i = 0; i < c->strands; i++) {
			has[i] = has[i] || spool_next(&c->spool[i], &p[i]);
			if (has[i] && (first < 0 || p[i].ns < p[first].ns))
				first = (int)i;
		}
		if (first < 0 || p[first].ns > settled)
			break;
		if (!put(c, &p[first]))
			return -1;
		spool_done(&c->spool[first]);
		has[first] = false;
	}
	return n;
}

static bool any(struct cap *c)
{
	struct spool_pkt p;

	for (unsigned i = 0; i < c->strands; i++)
		if (spool_next(&c->spool[i], &p))
			return true;
	return false;
}

static void stats(void *arg, unsigned i, struct pcapng_item *it)
{
	struct cap *c = arg;

	it->ns = stamp_now(c);
	it->received = it->dropped = 0;
	if (counted_out(c)) { /* what comes behind the last one is not of this capture */
		it->received = c->upto[i].seen;
		it->dropped = c->upto[i].lost;
		return;
	}
	for (unsigned k = 0; k < c->strands; k++) {
		struct spool_count n = spool_count(&c->spool[k], c->device[i]);

		it->received += n.seen;
		it->dropped += n.lost;
	}
}

/* ---- the loop --------------------------------------------------------------------------- */

enum end { END_NOT, END_ASKED, END_DAEMON, END_ERROR };

/* Until there may be something to read; whether the end has come. */
static enum end sleep_on(struct cap *c, uint64_t until, const sigset_t *mask)
{
	struct pollfd p[4] = { { .fd = c->event, .events = POLLIN },
			       { .fd = c->fd, .events = POLLIN },
			       { .fd = c->o.ready, .events = POLLIN | POLLRDHUP }, /* gVisor knows only the first */
			       { .fd = c->file.fd } };                             /* a pipe whose reader has gone */
	uint64_t now = clock_ns(CLOCK_MONOTONIC), left = until > now ? until - now : 0;
	struct timespec limit = { .tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u) };
	eventfd_t n;

	if (ppoll(p, 4, until == UINT64_MAX ? NULL : &limit, mask) < 0 && errno != EINTR)
		return END_ERROR;
	if (p[0].revents)
		eventfd_read(c->event, &n);
	if (stopped || p[2].revents || p[3].revents)
		return END_ASKED;
	return p[1].revents ? END_DAEMON : END_NOT;
}

/* Packets seldom come alone: it waits a little for others before it sleeps. */
static void rest(void) { nanosleep(&(struct timespec){ .tv_nsec = REST_NS }, NULL); }

/* The end was asked for: the daemon is told, so that what is left to read does not grow. */
static void hang_up(struct cap *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static enum end loop(struct cap *c, const sigset_t *mask)
{
	uint64_t until = c->o.seconds > 0 ? clock_ns(CLOCK_MONOTONIC) + (uint64_t)(c->o.seconds * 1e9) : UINT64_MAX;
	enum end end = END_NOT;
	bool some;
	int n;

	for (;;) {
		n = batch(c, end != END_NOT);
		if (n < 0 || (n < (int)BATCH && !capfile_flush(&c->file)))
			return END_ERROR;
		if (counted_out(c))
			return END_ASKED;
		if (end != END_NOT && n < (int)BATCH)
			return end; /* what was there when the end came has been read */
		if (end != END_NOT)
			continue;
		if (n) {
			end = sleep_on(c, 0, mask);
			if (n < (int)BATCH && end == END_NOT)
				rest();
		} else {
			spool_sleep(c->mem);
			some = any(c);
			if (some)
				rest();
			end = sleep_on(c, some ? 0 : until, mask);
			spool_awake(c->mem);
		}
		if (end == END_NOT && clock_ns(CLOCK_MONOTONIC) >= until)
			end = END_ASKED;
		if (end == END_ASKED)
			hang_up(c);
	}
}

static void summary(const struct cap *c, enum end end)
{
	struct pcapng_item it;
	uint64_t dropped = 0;

	for (unsigned i = 0; i < c->file.ifaces; i++) {
		stats((void *)c, i, &it);
		dropped += it.dropped;
	}
	if (c->o.json) {
		printf("{\"packets\": %llu, \"dropped\": %llu, \"files\": %u}\n", (unsigned long long)c->packets,
		       (unsigned long long)dropped, c->file.file_n);
		return;
	}
	if (end == END_DAEMON && !c->o.quiet)
		fputs("rdmactl: the daemon has ended\n", stderr);
	if (!c->o.quiet || dropped)
		fprintf(stderr, "rdmactl: %llu packets captured, %llu dropped%s\n", (unsigned long long)c->packets,
			(unsigned long long)dropped, dropped ? " for want of room: --buffer, or a faster disk" : "");
}

static bool word(const struct cap *c) { return c->o.ready < 0 || write(c->o.ready, "\n", 1) == 1; }

static bool ready(struct cap *c)
{
	if (!word(c)) {
		fprintf(stderr, "rdmactl: --ready %d: %s\n", c->o.ready, strerror(errno));
		return false;
	}
	if (!c->o.quiet) {
		fputs("rdmactl: capturing on", stderr);
		for (unsigned i = 0; i < c->file.ifaces; i++)
			fprintf(stderr, "%s %s", i ? "," : "", c->file.iface[i]);
		fputs("; stop with ^C\n", stderr);
	}
	return true;
}

static int capture(struct cap *c, const struct ask *ask)
{
	struct sigaction act = { .sa_handler = on_signal };
	sigset_t set, mask;
	enum end end = END_ERROR;
	bool good;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &mask);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	if (!begin(c, ask))
		return 1;
	c->file.stats = stats;
	c->file.arg = c;
	if (!capfile_open(&c->file))
		return 1;
	if (ready(c))
		end = loop(c, &mask);
	hang_up(c);
	good = capfile_close(&c->file) && (end != END_ERROR || c->file.pipe_closed);
	summary(c, end);
	good &= !c->o.json || !show_end();
	return good && (word(c) || stopped) ? 0 : 1;
}

/* ---- arguments ----------------------------------------------------------------------------- */

static void usage(void)
{
	fputs("usage: rdmactl [-s SOCKET] [-j] capture -w FILE [options]\n"
	      "Write the packets of the daemon's devices as pcapng, including those that stay within the daemon and\n"
	      "those that rules drop, until SIGINT or the end of the daemon.\n"
	      "  -w, --write FILE     write to FILE; - is standard output: rdmactl capture -w - | wireshark -k -i -\n"
	      "  -d, --device LIST    capture these devices only\n"
	      "  -q, --qp LIST        capture only packets from and to these queue pairs\n"
	      "  -l, --snaplen N      keep N bytes of each UDP payload\n"
	      "  -C, --file-size SIZE begin another file after so many bytes (64K, 10M, 1G): FILE-00001, ...\n"
	      "  -W, --files N        keep the last N of them\n"
	      "  -b, --buffer SIZE    size of the buffer for each thread of the daemon (default: 16M)\n"
	      "  -c, --count N        stop after N packets\n"
	      "  -T, --seconds S      stop after so many seconds\n"
	      "  -r, --ready FD       write a byte to FD when it has begun, and one when all is written; stop\n"
	      "                       when its other end is closed\n"
	      "  -Q, --quiet          print errors and drops only\n"
	      "  -j, --json           print a summary as JSON at the end\n"
	      "Exit status: 0; 1 no daemon, or it refused, or a file cannot be written; 2 wrong arguments.\n",
	      stdout);
}

/* A number with K, M or G behind it; 0: it is none. */
static uint64_t size_get(const char *s)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = *s >= '0' && *s <= '9' ? strtoull(s, &end, 10) : 0;
	if (!v || errno || v >> 40)
		return 0;
	switch (*end | 0x20) { /* 64k as in rules, too */
	case 'g': v <<= 10;    /* fallthrough */
	case 'm': v <<= 10;    /* fallthrough */
	case 'k': v <<= 10; end++;
	}
	return *end ? 0 : v;
}

static bool u32_get(uint32_t *n, const char *s)
{
	uint64_t v = size_get(s);

	*n = (uint32_t)v;
	return v && v <= UINT32_MAX;
}

static bool fd_get(int *fd, const char *s)
{
	uint32_t v;

	if (!show_number(s, &v) || v > INT_MAX)
		return false;
	*fd = (int)v;
	return true;
}

/* The values that option() takes. */
static const char *allowed(int opt)
{
	static const struct {
		char opt;
		const char *values;
	} rows[] = {
		{ 'w', "a file, or -" },
		{ 'd', "names of devices, with commas" },
		{ 'q', "numbers of queue pairs, with commas, 16 at most" },
		{ 'l', "a number of bytes, 12 at least" },
		{ 'C', "a size, such as 64K, 10M or 1G" },
		{ 'W', "a number of files" },
		{ 'b', "a size, such as 16M; 1G at most" },
		{ 'c', "a number of packets" },
		{ 'T', "a number of seconds" },
		{ 'r', "the number of a descriptor" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].opt == opt)
			return rows[i].values;
	return "";
}

/* One option; false: it makes no sense. */
static bool option(struct cap *c, int opt, const char *arg)
{
	struct options *o = &c->o;
	char *end = NULL;

	switch (opt) {
	case 'w': c->file.path = show_out(arg); return *arg;
	case 'd': o->devices = arg; return *arg;
	case 'q': return show_qpns(arg, o->qpn, &o->qpn_n, MSG_CAPTURE_QPS);
	case 'l': return u32_get(&o->snaplen, arg) && o->snaplen >= SNAP_LEAST;
	case 'C': return (c->file.size = size_get(arg)) != 0;
	case 'W': return u32_get(&c->file.keep, arg);
	case 'b': o->room = size_get(arg); return o->room && o->room <= SPOOL_MOST;
	case 'c': return (o->count = size_get(arg)) != 0;
	case 'T': o->seconds = strtod(arg, &end); return o->seconds > 0 && o->seconds < 1e9 && !*end;
	case 'r': return fd_get(&o->ready, arg);
	case 'Q': return o->quiet = true;
	case 'j': return o->json = true;
	}
	return false;
}

int capture_main(int argc, char **argv, const struct ask *ask)
{
	static const struct option longs[] = {
		{ "write", required_argument, NULL, 'w' },
		{ "device", required_argument, NULL, 'd' },
		{ "qp", required_argument, NULL, 'q' },
		{ "snaplen", required_argument, NULL, 'l' },
		{ "file-size", required_argument, NULL, 'C' },
		{ "files", required_argument, NULL, 'W' },
		{ "buffer", required_argument, NULL, 'b' },
		{ "count", required_argument, NULL, 'c' },
		{ "seconds", required_argument, NULL, 'T' },
		{ "ready", required_argument, NULL, 'r' },
		{ "socket", required_argument, NULL, 's' },
		{ "quiet", no_argument, NULL, 'Q' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	static struct cap c = { .fd = -1, .event = -1, .file.fd = -1 };
	struct ask a = *ask;
	int opt, as = -1; /* which of longs it was; -1: a letter */

	c.o = (struct options){ .room = ROOM_DEFAULT, .ready = -1, .json = ask->json };
	while ((opt = getopt_long(argc, argv, "w:d:q:l:C:W:b:c:T:r:s:Qjh", longs, &as)) >= 0) {
		if (opt == 'h') {
			usage();
			return 0;
		}
		if (opt == 's') {
			a.socket = optarg;
		} else if (!option(&c, opt, optarg)) {
			return opt == '?' ? rdmactl_wrong(argv[0], NULL)
			       : as < 0   ? rdmactl_wrong(argv[0], "-%c \"%s\": give %s", opt, optarg, allowed(opt))
					  : rdmactl_wrong(argv[0], "--%s \"%s\": give %s", longs[as].name, optarg,
							  allowed(opt));
		}
		as = -1;
	}
	if (optind != argc)
		return rdmactl_wrong(argv[0], "\"%s\" is too many; it takes options only", argv[optind]);
	if (!c.file.path)
		return rdmactl_wrong(argv[0], "--write FILE is missing");
	if ((c.file.size || c.o.json) && !strcmp(c.file.path, "-"))
		return rdmactl_wrong(argv[0], "%s needs a file, not standard output",
				     c.o.json ? "--json" : "--file-size");
	if (c.file.keep && !c.file.size)
		return rdmactl_wrong(argv[0], "--files goes with --file-size");
	if (!strcmp(c.file.path, "-") && isatty(STDOUT_FILENO)) {
		fputs("rdmactl: a capture cannot be written to a terminal; try: rdmactl capture -w - | wireshark -k -i "
		      "-\n",
		      stderr);
		return 2;
	}
	return capture(&c, &a);
}
