/* SPDX-License-Identifier: MIT */
/* host.h - the interfaces and addresses of this host (network namespace), as they are now. */
#ifndef DAEMON_HOST_H
#define DAEMON_HOST_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define HOST_ADDRS 512u
#define HOST_IFS   256u

struct host_if {
	char name[IF_NAMESIZE];
	unsigned index;
	unsigned flags; /* IFF_UP ... */
	uint8_t mac[6];
	bool has_mac;
};

struct host_addr {
	uint8_t gid[16]; /* IPv4 as ::ffff:a.b.c.d */
	const struct host_if *dev;
};

/* Addresses grouped: of other interfaces, then of loopback; in each IPv4, then IPv6. */
struct host {
	unsigned if_n, addr_n;
	struct host_if ifs[HOST_IFS];
	struct host_addr addr[HOST_ADDRS];
};

/* 0 or errno.  Of more than there is room for the first ones are taken. */
int host_read(struct host *);

const struct host_if *host_if_find(const struct host *, const char *name);

/* It is up, and has a link. */
static inline bool host_if_up(const struct host_if *f) { return f->flags & IFF_UP && f->flags & IFF_RUNNING; }

/* Facts about an interface; 0: it does not say. */
uint32_t host_if_mtu(const char *name);
uint32_t host_if_mbps(const char *name);

/* Can a socket be bound to this address: is it ours, and not still being probed for duplicates? */
bool host_addr_usable(const uint8_t gid[16], unsigned ifindex);

#endif
