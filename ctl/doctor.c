/* SPDX-License-Identifier: MIT */
/* doctor.c - the steps in their order, and the daemon's part of them. */
#include "doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/gid.h>

#include "beside.h"
#include "command.h"
#include "daemon.h"
#include "show.h"

#define AGAIN "RDMACTL_DOCTOR_AGAIN" /* set: rdmad-run has started us, with a daemon */

static void usage(void)
{
	fputs("usage: rdmactl [-j] [-s SOCKET] doctor PEER\n"
	      "Try the path to a RoCEv2 peer (a name or an address) step by step: route, UDP port 4791, GID, MTU,\n"
	      "the peer's connection manager, the ICRC of its answers. Say what is wrong and what to do about it.\n"
	      "If no daemon runs, a private one is started.\n"
	      "Exit status: 0 all is well; 1 something is wrong; 2 wrong arguments.\n",
	      stdout);
}

enum verdict doctor_say(struct doctor *d, enum verdict v, const char *step, const char *help, const char *fmt, ...)
{
	static const char *const verdicts[] = { [STEP_OK] = "ok", [STEP_UNKNOWN] = "?", [STEP_FAILED] = "FAILED" };
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (d->mute)
		return v;
	if (d->json) {
		json_array_append_new(d->json, json_pack("{s:s, s:s, s:o, s:s}", "step", step, "verdict",
							 v == STEP_OK        ? "ok"
							 : v == STEP_UNKNOWN ? "unknown"
									     : "failed",
							 "text", show_text(text), "help", help ? help : ""));
		return v;
	}
	printf("%-7s %-9s %s\n", verdicts[v], step, text);
	if (help)
		printf("        -> %s\n", help);
	fflush(stdout);
	return v;
}

static enum verdict name(struct doctor *d)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *ai;
	char text[INET6_ADDRSTRLEN];
	int err = getaddrinfo(d->peer_name, "4791", &hints, &ai);

	if (err)
		return doctor_say(d, STEP_FAILED, "name",
				  "give an IPv4 or IPv6 address, or a name that getent hosts knows", "%s: %s",
				  d->peer_name, gai_strerror(err));
	memcpy(&d->peer, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	doctor_address(&d->peer, text);
	return doctor_say(d, STEP_OK, "name", NULL, "%s is %s", d->peer_name, text);
}

/* ---- the daemon ------------------------------------------------------------------------ */

/* Runs this program again below rdmad-run; returns if that cannot be done. */
static void again(const struct doctor *d)
{
	char self[BESIDE_PATH], *argv[] = { NULL, self, "--json", "doctor", (char *)d->peer_name, NULL };

	if (getenv(AGAIN) || !beside_self(self))
		return;
	setenv(AGAIN, "1", 1);
	if (!d->json)
		memmove(&argv[2], &argv[3], 3 * sizeof(argv[0]));
	beside_run(argv);
	unsetenv(AGAIN);
}

/* The address of a row: of IPv4, as it is or mapped (::ffff:0:0/96), or of IPv6. */
static bool row_addr(const char *text, union cmm_addr *a)
{
	uint8_t v6[16];

	*a = (union cmm_addr){ .in.sin_family = AF_INET };
	if (inet_pton(AF_INET, text, &a->in.sin_addr) == 1)
		return true;
	if (inet_pton(AF_INET6, text, v6) != 1)
		return false;
	if (gid_is_v4(v6)) {
		memcpy(&a->in.sin_addr, v6 + GID_V4_AT, 4);
		return true;
	}
	*a = (union cmm_addr){ .in6.sin6_family = AF_INET6 };
	memcpy(&a->in6.sin6_addr, v6, sizeof(v6));
	return true;
}

static bool is_loopback(const union cmm_addr *a)
{
	return a->sa.sa_family == AF_INET ? ntohl(a->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
					  : IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

/* Row 0 may be one that is made up. */
static bool is_address(json_t *gid)
{
	return json_integer_value(json_object_get(gid, "index")) || json_is_true(json_object_get(gid, "wire"));
}

static bool is_link_local(const union cmm_addr *a)
{
	return a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr);
}

static bool is_self(const struct doctor *d, json_t *, const union cmm_addr *a)
{
	return doctor_same_host(a, &d->self.sa);
}

static bool is_loopback_v4(const struct doctor *, json_t *, const union cmm_addr *a)
{
	return a->sa.sa_family == AF_INET && is_loopback(a);
}

/* Another address of the same interface. */
static bool is_beside(const struct doctor *d, json_t *gid, const union cmm_addr *a)
{
	const char *name = json_string_value(json_object_get(gid, "interface"));

	return json_is_true(json_object_get(gid, "wire")) && name && !strcmp(name, d->ifname) &&
	       a->sa.sa_family == d->self.sa.sa_family && is_link_local(a) == is_link_local(&d->self);
}

/* The first row of the GID table with such an address, which is in *found. */
static json_t *row_of(const struct doctor *d, json_t *dump,
		      bool (*such)(const struct doctor *, json_t *, const union cmm_addr *), json_t **device,
		      union cmm_addr *found)
{
	json_t *dev, *gid;
	size_t i, k;

	json_array_foreach(json_object_get(dump, "devices"), i, dev)
		json_array_foreach(json_object_get(dev, "gids"), k, gid)
	{
		const char *text = json_string_value(json_object_get(gid, "address"));

		*device = dev;
		if (text && is_address(gid) && row_addr(text, found) && such(d, gid, found))
			return gid;
	}
	return NULL;
}

/*
 * A device may well have another address than the routes choose: any of loopback, or of the same interface, will do, as for the RDMA CM
 * (rdmad-cm(7)); for a peer of loopback that is the chosen one, too.
 */
static json_t *row_get(struct doctor *d, json_t *dump, json_t **device)
{
	union cmm_addr found;
	bool lo = is_loopback(&d->self) && is_loopback(&d->peer);
	json_t *gid = row_of(d, dump, is_self, device, &found);

	if (gid)
		return gid;
	gid = row_of(d, dump, lo ? is_loopback_v4 : is_beside, device, &found);
	if (!gid)
		return NULL;
	if (lo && doctor_same_host(&d->peer, &d->self.sa))
		d->peer = found;
	d->self = found;
	return gid;
}

static enum verdict port(struct doctor *d)
{
	json_t *dump = daemon_dump(d->fd, DUMP_DEVICES), *dev = NULL, *gid = dump ? row_get(d, dump, &dev) : NULL;
	char who[160], self[INET6_ADDRSTRLEN];
	enum verdict v;

	doctor_address(&d->self, self);
	if (!gid) {
		v = doctor_say(d, STEP_FAILED, "GID",
			       "give the daemon that address (rdmad.conf(5), or rdmad-run --own=ADDRESS), or take "
			       "the address off the interface",
			       "packets to the peer leave from %s, which no device of the daemon has", self);
		goto out;
	}
	snprintf(d->device, sizeof(d->device), "%s", json_string_value(json_object_get(dev, "name")));
	d->gid_index = (int)json_integer_value(json_object_get(gid, "index"));
	d->roce_mtu = (int)json_integer_value(json_object_get(dev, "mtu"));
	if (!json_is_true(json_object_get(gid, "wire"))) {
		doctor_port_taken(d, who, sizeof(who));
		v = doctor_say(d, STEP_FAILED, "port",
			       "end what has it (if it is the kernel: rmmod rdma_rxe), then start rdmad anew",
			       "UDP port 4791 of %s is taken: %s", self, who);
		goto out;
	}
	doctor_say(d, STEP_OK, "port", NULL, "UDP port 4791 of %s is rdmad's", self);
	v = doctor_say(d, STEP_OK, "GID", NULL,
		       "device %s, GID index %d (perftest: -x %d, pingpongs: -g %d), path MTU %d", d->device,
		       d->gid_index, d->gid_index, d->gid_index, d->roce_mtu);
out:
	json_decref(dump);
	return v;
}

static enum verdict daemon_step(struct doctor *d)
{
	char who[160];

	if (d->fd >= 0)
		return d->greeted ? STEP_OK
				  : doctor_say(d, STEP_FAILED, "daemon", "restart it",
					       "an rdmad runs, but hangs, or is not of the version of this rdmactl");
	if (doctor_port_taken(d, who, sizeof(who)))
		return doctor_say(d, STEP_FAILED, "port",
				  "end what has it (if it is the kernel: rmmod rdma_rxe), and try again",
				  "no rdmad runs, and UDP port 4791 is taken: %s", who);
	return doctor_say(d, STEP_FAILED, "daemon", "start one: systemctl start rdmad, or run this inside rdmad-run",
			  "no rdmad answers");
}

/* A private daemon that is about to end, as nobody uses it, goes on.  false: it has ended. */
static bool hold(struct doctor *d)
{
	struct msg_req req = { .op = MSG_HOLD };
	struct msg_rep rep;
	char c;

	d->greeted = daemon_hello(d->fd) && daemon_ask(d->fd, &req, &rep, NULL, 0);
	if (d->greeted || recv(d->fd, &c, sizeof(c), MSG_PEEK | MSG_DONTWAIT) > 0 || errno == EAGAIN)
		return true;
	close(d->fd);
	d->fd = -1;
	return false;
}

/* If there is no daemon and one can be had, this is run again below rdmad-run, and does not return. */
static void daemon_get(struct doctor *d)
{
	char who[160];

	d->fd = daemon_find(d->socket, true);
	if ((d->fd >= 0 && hold(d)) || d->socket)
		return;
	d->mute = true;
	if (name(d) == STEP_OK && doctor_route(d) == STEP_OK && !doctor_port_taken(d, who, sizeof(who)))
		again(d);
	d->mute = false;
}

/* ---- all ----------------------------------------------------------------------------------- */

static const struct {
	enum verdict (*step)(struct doctor *);
	bool needed; /* what follows makes no sense without it */
} steps[] = {
	{ name, true },         { doctor_route, true }, { daemon_step, true }, { port, true },
	{ doctor_reach, true }, { doctor_mtu, false },  { doctor_cm, true },
};

int doctor_main(int argc, char **argv, const struct ask *ask)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct doctor d = { .socket = ask->socket, .fd = -1 };
	bool as_json = ask->json, failed = false;
	int c;

	while ((c = getopt_long(argc, argv, "jh", longs, NULL)) >= 0) {
		switch (c) {
		case 'j': as_json = true; break;
		case 'h': usage(); return 0;
		default: return rdmactl_wrong(argv[0], NULL);
		}
	}
	if (optind + 1 != argc)
		return rdmactl_wrong(argv[0], "name one peer, not %d", argc - optind);
	d.peer_name = argv[optind];
	d.json = as_json ? json_array() : NULL;
	daemon_get(&d);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i].step(&d) == STEP_FAILED) {
			failed = true;
			if (steps[i].needed)
				break;
		}
	if (d.json) {
		json_dumpf(d.json, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(d.json);
	} else if (!failed) {
		puts("All is well.");
	}
	if (d.fd >= 0)
		close(d.fd);
	return failed || show_end();
}
