/* SPDX-License-Identifier: MIT */
/*
 * conf.h - what the configuration says of the devices, in the form that gid.c reads.
 *
 * device_conf[i] belongs to devices[i]; both are filled before shard_start() and do not change.
 */
#ifndef DAEMON_CONF_H
#define DAEMON_CONF_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "device.h"

/* addr_n > 0: just these addresses.  Else netdev: those of this interface.  Neither: all of the host's. */
struct device_conf {
	char netdev[IF_NAMESIZE];	/* empty: none named */
	unsigned addr_n;
	struct in6_addr addr[RDMAD_GIDS - 1];	/* IPv4 as ::ffff:a.b.c.d, so each is a GID */
};

extern struct device_conf device_conf[DEVICES_MAX];

#endif
