/* SPDX-License-Identifier: MIT */
/* own.c - the devices and users of a daemon that rdmad-run starts for one program alone: --own, --as, --rails, --users. */
#include "run.h"
#include "say.h"

#include <rdmad/gid.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORTS_MOST 8u   /* of an adapter in a file of the user's */
#define NODE_MOST  255u /* numa-node of rdmad.conf(5) */
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

/* ---- the profile ----------------------------------------------------------------- */

static const struct {
	const char *name;
	unsigned ports;
} profiles[] = {
#define PROFILE(name, ports, text, ...) { name, ports },
#include <rdmad/profile.def>
#undef PROFILE
};

#define PROFILES_N (sizeof(profiles) / sizeof(*profiles))

bool own_profile(struct options *opt, char *name)
{
	char *file = strchr(name, ':');
	bool odd;

	opt->profile = name;
	if (file) {
		*file++ = 0;
		opt->profile_file = realpath(file, NULL);
		if (!opt->profile_file) {
			say("--as %s:%s: %s", name, file, strerror(errno));
			return false;
		}
		odd = strpbrk(opt->profile_file, "'\\\n") || name[strspn(name, NAME_CHARS)];
		if (odd)
			say("--as %s:%s: a name has a character that cannot be in a configuration", name, file);
		return !odd;
	}
	for (unsigned i = 0; i < PROFILES_N; i++) {
		if (!strcmp(profiles[i].name, name)) {
			opt->ports = profiles[i].ports;
			return true;
		}
	}
	fprintf(stderr, "rdmad-run: --as %s: there is no such profile; these are:", name);
	for (unsigned i = 0; i < PROFILES_N; i++)
		fprintf(stderr, " %s", profiles[i].name);
	fputs("; or NAME:FILE for one of your own (rdmad-profiles(7))\n", stderr);
	return false;
}

/* ---- users ----------------------------------------------------------------------- */

bool own_users(const struct options *opt)
{
	const char *s = opt->users;

	if (geteuid()) {
		say("--users=%s: only a daemon that root starts serves other users", s);
		return false;
	}
	if (*s && !s[strspn(s, NAME_CHARS ".,")])
		return true;
	say("--users=%s: give names or numbers of users, with commas between", s);
	return false;
}

static void users_put(FILE *f, const char *s)
{
	const char *between = "users = {";

	for (size_t n; *s; s += n + (s[n] == ',')) {
		n = strcspn(s, ",");
		fprintf(f, "%s \"%.*s\"", between, (int)n, s);
		between = ",";
	}
	fputs(" }\n", f);
}

/* ---- addresses ------------------------------------------------------------------- */

/* Is the port of RoCEv2 free at that address? */
static bool addr_free(uint32_t addr)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT), .sin_addr.s_addr = htonl(addr) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_free = fd >= 0 && !bind(fd, (struct sockaddr *)&in, sizeof(in));

	if (fd >= 0)
		close(fd);
	return is_free;
}

/*
 * An address of the loopback network, 127.64.0.0/10, for each port another one.  Our process id chooses it, so that two of us try
 * different ones, unless they are in different PID namespaces.  LIDs are the last 15 bits, so there all are of 127.64.0.0/17.
 */
static uint32_t own_addr(const struct options *opt, unsigned port)
{
	const uint32_t most = opt->profile && !strcmp(opt->profile, "ib") ? GID_LID_MOST : 0x3fffff;
	uint32_t pid = (uint32_t)getpid(), addr = 0;

	for (uint32_t i = 0; i < 64; i++) {
		addr = 0x7f400000 | ((pid + i * 65521 + port * 2039) & most);
		if (addr & GID_LID_MOST && addr_free(addr))
			break;
	}
	return addr;
}

/* ---- the configuration ----------------------------------------------------------- */

/* The numbers of the machine's nodes, as "0-1,4" says them; some have no CPU, but any is a node. */
static void machine_nodes(struct options *opt)
{
	FILE *f = fopen("/sys/devices/system/node/online", "re");
	char text[256] = "";
	char *at = text;

	if (f && !fgets(text, sizeof(text), f))
		*text = 0;
	if (f)
		fclose(f);
	while (*at >= '0' && *at <= '9') {
		unsigned long from = strtoul(at, &at, 10), to = *at == '-' ? strtoul(at + 1, &at, 10) : from;

		while (from <= to && from <= NODE_MOST && opt->nodes < NODES_MOST)
			opt->node[opt->nodes++] = (unsigned)from++;
		at += *at == ',';
	}
	if (!opt->nodes)
		opt->nodes = 1; /* of which the kernel does not speak */
}

void own_rails(struct options *opt)
{
	unsigned n;

	if (!opt->rails) { /* --hosts alone: the ports of the profile; of a file of the user's, only the daemon knows how many */
		opt->spare = opt->profile && !opt->ports;
		opt->rails = opt->spare ? PORTS_MOST : opt->ports ? opt->ports : 1;
	}
	n = opt->rails * (opt->hosts ? opt->hosts : 1);
	for (unsigned i = 0; i < opt->nodes; i++)
		opt->node[i] = i;
	if (!opt->nodes)
		machine_nodes(opt);
	opt->addr = calloc(n, sizeof(*opt->addr));
	if (!opt->addr)
		abort();
	for (unsigned i = 0; i < n; i++)
		opt->addr[i] = own_addr(opt, i);
}

static unsigned devices_n(const struct options *opt)
{
	if (opt->rails)
		return opt->rails;
	if (!opt->profile || opt->own_addr)
		return 1;
	return opt->ports ? opt->ports : PORTS_MOST;
}

/* Rails that are neighbours share a node.  Nobody knows how many of the spare ones there will be, so those take turns. */
static unsigned node_of(const struct options *opt, unsigned rail, unsigned n)
{
	return opt->node[opt->spare ? rail % opt->nodes : rail * opt->nodes / n];
}

static void config_put(FILE *f, const struct options *opt)
{
	const unsigned n = devices_n(opt);
	uint32_t a;

	if (opt->users)
		users_put(f, opt->users);
	if (opt->profile_file)
		fprintf(f, "include('%s')\n", opt->profile_file);
	for (unsigned i = 0; i < n; i++) { /* in one line: what is wrong with all of them is said once */
		fprintf(f, "%sdevice %s%u {", i ? " " : "", opt->profile ? "" : "rdmad", i);
		if (opt->profile)
			fprintf(f, " profile = \"%s\"", opt->profile);
		if (opt->spare || (opt->profile && !opt->rails && !opt->ports))
			fprintf(f, " spare = true");
		if (opt->rails)
			fprintf(f, " numa-node = %u", node_of(opt, i, n));
		a = opt->own_addr ? 0 : opt->rails ? opt->addr[opt->host * n + i] : own_addr(opt, i);
		if (opt->own_addr)
			fprintf(f, " addresses = { \"%s\" } }", opt->own_addr);
		else
			fprintf(f, " addresses = { \"%u.%u.%u.%u\" } }", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
	}
	fputc('\n', f);
}

int own_config(const struct options *opt)
{
	int fd = memfd_create("rdmad.conf", MFD_CLOEXEC);
	char *text = NULL;
	size_t len = 0;
	FILE *f;
	bool good;

	if (fd < 0)
		return -1;
	f = open_memstream(&text, &len);
	if (!f)
		abort();
	config_put(f, opt);
	if (fclose(f))
		abort();
	good = pwrite(fd, text, len, 0) == (ssize_t)len;
	free(text);
	if (good)
		return fd;
	close(fd);
	errno = EFBIG;
	return -1;
}
