/* SPDX-License-Identifier: MIT */
/*
 * doctor_net.c - route, neighbour, port and MTU, with sockets that anyone may open.
 *
 * A datagram to a port where nobody listens comes back as an ICMP message: that is how a host shows that it is there, and
 * that a datagram of some size came to it whole.  A host that sends no ICMP leaves this unknown.
 */
#include "doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <rdmad/gid.h>
#include <rdmad/icmp.h>

#define CLOSED_PORT  33434u /* where traceroute begins: nobody listens */
#define TRIES        4      /* longer than a host that has sent many ICMP messages keeps the next back: a second */
#define TRIES_NEIGH  9      /* longer than the kernel looks for a neighbour */
#define WAIT_MS      400
#define ROCE_HEADERS (8 + 12 + 16 + 4) /* UDP, BTH, RETH, ICRC */

void doctor_address(const union cmm_addr *a, char text[INET6_ADDRSTRLEN])
{
	if (getnameinfo(&a->sa, cmm_addr_len(a), text, INET6_ADDRSTRLEN, NULL, 0, NI_NUMERICHOST))
		*text = '\0';
}

static union cmm_addr with_port(const union cmm_addr *a, unsigned port)
{
	union cmm_addr b = *a;

	if (a->sa.sa_family == AF_INET)
		b.in.sin_port = htons((uint16_t)port);
	else
		b.in6.sin6_port = htons((uint16_t)port);
	return b;
}

bool doctor_same_host(const union cmm_addr *a, const struct sockaddr *b)
{
	if (!b || a->sa.sa_family != b->sa_family)
		return false;
	if (b->sa_family == AF_INET)
		return a->in.sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return !memcmp(&a->in6.sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr, 16);
}

/* ---- route ------------------------------------------------------------------------- */

static void interface(struct doctor *d)
{
	struct ifaddrs *list, *i;
	struct ifreq ifr = { 0 };
	int fd;

	if (getifaddrs(&list))
		return;
	for (i = list; i && !doctor_same_host(&d->self, i->ifa_addr); i = i->ifa_next)
		;
	if (i)
		snprintf(d->ifname, sizeof(d->ifname), "%s", i->ifa_name);
	freeifaddrs(list);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%.15s", d->ifname);
	if (fd >= 0 && !ioctl(fd, SIOCGIFMTU, &ifr))
		d->if_mtu = ifr.ifr_mtu;
	close(fd);
}

enum verdict doctor_route(struct doctor *d)
{
	union cmm_addr to = with_port(&d->peer, ROCE_PORT);
	int fd = socket(to.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	socklen_t len = sizeof(d->self);
	char self[INET6_ADDRSTRLEN];

	if (fd < 0 || connect(fd, &to.sa, cmm_addr_len(&to)) || getsockname(fd, &d->self.sa, &len))
		err = errno;
	if (fd >= 0)
		close(fd);
	if (err)
		return doctor_say(d, STEP_FAILED, "route",
				  err == EINVAL
					  ? "a link-local address needs its interface: fe80::1%eth0"
					  : "look at ip addr and ip route: is the interface up, has it an address in "
					    "the peer's network, is there a default route?",
				  "there is no way to the peer: %s", strerror(err));
	interface(d);
	doctor_address(&d->self, self);
	return doctor_say(d, STEP_OK, "route", NULL, "from %s by %s, MTU %d", self, d->ifname, d->if_mtu);
}

bool doctor_port_taken(const struct doctor *d, char *who, size_t len)
{
	union cmm_addr at = with_port(&d->self, ROCE_PORT);
	int fd = socket(at.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool taken = fd >= 0 && bind(fd, &at.sa, cmm_addr_len(&at)) && errno == EADDRINUSE;

	if (fd >= 0)
		close(fd);
	snprintf(who, len,
		 !access("/sys/module/rdma_rxe", F_OK) ? "the kernel's rdma_rxe is loaded"
						       : "by another program (ss -ulpn 'sport = :4791' names it)");
	return taken;
}

/* ---- probes -------------------------------------------------------------------------- */

/* The answer to a datagram, and who gave it. */
struct answer {
	int err;           /* ECONNREFUSED: nobody listens on its port; another errno; 0: nothing */
	union cmm_addr by; /* of which host an ICMP message says so; none: it is this one */
	bool prohibited;   /* that is a firewall */
	uint32_t mtu;      /* EMSGSIZE: of what it passes; 0: it does not say */
};

static bool told_by_other(const struct answer *a) { return a->by.sa.sa_family != AF_UNSPEC; }

/* The peer got it whole, whatever it says to it. */
static bool came(const struct doctor *d, const struct answer *a)
{
	return a->err && a->err != EMSGSIZE && doctor_same_host(&d->peer, &a->by.sa);
}

/* A firewall, if it is not the peer. */
static bool refuses(const struct answer *a) { return a->prohibited || (told_by_other(a) && a->err == ECONNREFUSED); }

/* That nobody answered for its hardware address a host tells itself by ICMP. */
static void answer_take(struct answer *a, const struct doctor *d, const struct sock_extended_err *e)
{
	const struct sockaddr *by = SO_EE_OFFENDER(e);

	a->err = (int)e->ee_errno;
	if (!icmp_is(e))
		return;
	if (doctor_same_host(&d->self, by) && !doctor_same_host(&d->peer, by))
		return;
	memcpy(&a->by, by, by->sa_family == AF_INET ? sizeof(a->by.in) : sizeof(a->by.in6));
	a->prohibited = icmp_prohibits(e);
	a->mtu = a->err == EMSGSIZE ? e->ee_info : 0;
}

static bool answer_read(struct answer *a, const struct doctor *d, int fd)
{
	union {
		struct cmsghdr align;
		uint8_t buf[256];
	} room;
	struct msghdr msg = { .msg_control = &room, .msg_controllen = sizeof(room) };
	bool v6 = d->peer.sa.sa_family == AF_INET6;

	if (recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == (v6 ? SOL_IPV6 : SOL_IP) && c->cmsg_type == (v6 ? IPV6_RECVERR : IP_RECVERR)) {
			answer_take(a, d, (const struct sock_extended_err *)CMSG_DATA(c));
			return true;
		}
	return false;
}

/* The answer to a datagram of len bytes to this port. */
static struct answer probe(const struct doctor *d, unsigned port, size_t len, int tries)
{
	static const uint8_t zeros[8192];
	union cmm_addr to = with_port(&d->peer, port);
	bool v6 = to.sa.sa_family == AF_INET6;
	int fd = socket(to.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), how = IP_PMTUDISC_PROBE, on = 1;
	struct pollfd p = { .fd = fd };
	struct answer a = { 0 };

	if (fd < 0)
		return (struct answer){ .err = errno };
	setsockopt(fd, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &how, sizeof(how));
	setsockopt(fd, v6 ? SOL_IPV6 : SOL_IP, v6 ? IPV6_RECVERR : IP_RECVERR, &on,
		   sizeof(on)); /* no neighbour: told, too */
	if (connect(fd, &to.sa, cmm_addr_len(&to)))
		a.err = errno;
	for (int i = 0; i < tries && !a.err; i++) {
		int err = send(fd, zeros, len, 0) < 0 ? errno : 0;

		if (!err)
			poll(&p, 1, WAIT_MS);
		if (!answer_read(&a, d, fd))
			a.err = err;
	}
	close(fd);
	return a;
}

static enum verdict refused(struct doctor *d, const struct answer *a)
{
	char by[INET6_ADDRSTRLEN];

	doctor_address(&a->by, by);
	if (a->err == ECONNREFUSED && came(d, a))
		return doctor_say(d, STEP_FAILED, "peer",
				  "start rdmad there, or an RDMA program below rdmad-run; for rdma_rxe: rdma link add; "
				  "if one runs, a firewall refuses: let UDP port 4791 in, from any source port",
				  "the host is there, but nobody listens on its UDP port 4791");
	if (refuses(a))
		return doctor_say(d, STEP_FAILED, "peer",
				  "let UDP port 4791 through there, from any source port: firewall-cmd "
				  "--add-port=4791/udp, nft list ruleset, iptables -S",
				  "a firewall of %s refuses UDP port 4791", by);
	return doctor_say(d, STEP_FAILED, "peer", "is the host up, the address right? does that router know the way?",
			  "%s says: %s", by, strerror(a->err));
}

enum verdict doctor_reach(struct doctor *d)
{
	struct answer a = probe(d, CLOSED_PORT, 1, TRIES_NEIGH);

	d->icmp = came(d, &a);
	if (!a.err || d->icmp || refuses(&a)) /* it may be that port alone */
		a = probe(d, ROCE_PORT, 1, TRIES);
	if (told_by_other(&a))
		return refused(d, &a);
	switch (a.err) {
	case 0:
		return doctor_say(d, STEP_OK, "peer", NULL,
				  "no ICMP message against UDP port 4791: it is open, or silently filtered");
	case EHOSTUNREACH:
		return doctor_say(d, STEP_FAILED, "peer",
				  "is the host up, the cable in, the address right? ip neigh shows who answered",
				  "no host answers to that address (%s)", strerror(a.err));
	case EPERM:
	case EACCES:
		return doctor_say(d, STEP_FAILED, "peer", "let UDP port 4791 out: nft list ruleset, iptables -S",
				  "a firewall of this host "
				  "forbids it: %s",
				  strerror(a.err));
	}
	return doctor_say(d, STEP_FAILED, "peer",
			  "a firewall or a router on the way refuses: let UDP port 4791 through", "%s",
			  strerror(a.err));
}

static bool comes_whole(const struct doctor *d, int roce_mtu, struct answer *a)
{
	*a = probe(d, CLOSED_PORT, (size_t)roce_mtu + ROCE_HEADERS - 8, TRIES);
	return came(d, a);
}

enum verdict doctor_mtu(struct doctor *d)
{
	int mtu = d->roce_mtu, head = d->peer.sa.sa_family == AF_INET ? 20 : 40;
	char help[200], limit[INET6_ADDRSTRLEN + 40] = "", by[INET6_ADDRSTRLEN];
	struct answer a, b;

	if (!d->icmp)
		return doctor_say(d, STEP_UNKNOWN, "MTU", NULL,
				  "not known: the peer sends no ICMP messages; packets have up to %d bytes",
				  mtu + head + ROCE_HEADERS);
	if (comes_whole(d, mtu, &a))
		return doctor_say(d, STEP_OK, "MTU", NULL, "packets of %d bytes (path MTU %d) come through whole",
				  mtu + head + ROCE_HEADERS, mtu);
	for (mtu /= 2; mtu >= 256 && !comes_whole(d, mtu, &b); mtu /= 2)
		;
	if (mtu < 256)
		return doctor_say(d, STEP_FAILED, "MTU", "look at the MTU of both interfaces and of the switch",
				  "not even packets of 256 "
				  "bytes of payload come through");
	snprintf(help, sizeof(help),
		 "give all interfaces on the way the same MTU, or use path MTU %d (perftest: -m %d, pingpongs: -m %d)",
		 mtu, mtu, mtu);
	if (told_by_other(&a) && a.mtu) {
		doctor_address(&a.by, by);
		snprintf(limit, sizeof(limit), " (%s passes %u)", by, (unsigned)a.mtu);
	}
	return doctor_say(d, STEP_FAILED, "MTU", help, "packets of %d bytes get lost%s, %d bytes come through",
			  d->roce_mtu + head + ROCE_HEADERS, limit, mtu + head + ROCE_HEADERS);
}
