/* SPDX-License-Identifier: MIT */
/*
 * conf.h - the configuration of the daemon, and that of the devices in the form that gid.c reads.
 *
 * device_conf[i] belongs to devices[i]; both are filled before shard_start() and do not change.
 */
#ifndef DAEMON_CONF_H
#define DAEMON_CONF_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/types.h>

#include "../../proto/burst.h"
#include "device.h"
#include "log.h"
#include "profile.h"
#include "quota.h"
#include "rights.h"

/* addr_n > 0: just these addresses.  Else netdev: those of this interface.  Neither: all of the host's. */
struct device_conf {
	char netdev[IF_NAMESIZE]; /* empty: none named */
	unsigned addr_n;
	struct in6_addr addr[RDMAD_GIDS - 1]; /* IPv4 as ::ffff:a.b.c.d, so each is a GID */
};

struct conf_device {
	char name[RDMAD_NAME_LEN];
	char profile[PROFILE_NAME_LEN];
	unsigned number; /* of the devices of its profile: which one this is */
	bool spare;      /* left out if the adapter of its profile has no such port */
	int numa;        /* node; -1: that of its interface */
	uint64_t guid;   /* 0: made from its addresses */
	uint16_t pkey[RD_PKEYS - 1];
	unsigned pkey_n; /* behind the default one */
	struct device_conf at;
};

enum io_kind { IO_AUTO, IO_URING, IO_EPOLL }; /* how shards wait: io.h */

extern struct device_conf device_conf[DEVICES_MAX];

#define CONF_USERS      64u
#define CONF_RCVBUF_MIN 65536u
#define CONF_RCVBUF_MAX (1u << 30)
#define CONF_PORTS      8u /* where nothing is said */
#define CONF_PORTS_MAX  64u
#define CONF_PRIO_MAX   6u   /* more takes a right that the daemon gives up */
#define CONF_SOCKET_LEN 108u /* of sun_path */

struct conf {
	char socket[CONF_SOCKET_LEN]; /* a path, or @name; empty: the default */
	mode_t mode;                  /* of a socket with a path */
	gid_t group;                  /* (gid_t)-1: not changed */
	struct {
		unsigned n; /* 0: everyone */
		uid_t uid[CONF_USERS];
	} users;                 /* who may connect */
	struct rights_user user; /* who a daemon of root becomes; RIGHTS_KEEP: not said */
	enum io_kind io;
	unsigned shards;    /* 0: chosen by the number of cores */
	uint32_t rcvbuf;    /* of each socket, bytes; 0: as much as is allowed */
	unsigned ports;     /* source ports of an address and shard; 0: that of the destination is the source's, too */
	struct marks marks; /* of packets */
	enum log_level log_level;
	uint64_t quota[QUOTAS]; /* of a user, in units of quota.def; QUOTA_UNSET: its default */
	char impair[4096];      /* fault in the file: a file of rules (rdmad-fault(5)); empty: none */
	struct {
		unsigned n;
		struct profile v[PROFILES_MAX];
	} profile;
	struct {
		unsigned n;
		struct conf_device v[DEVICES_MAX];
	} device;
};

void conf_default(struct conf *);

/*
 * Reads a file into *conf, which conf_default() has made.  false: it is wrong, and conf_say() got for each error a line
 * "file:line: what is wrong; what to do".  Without a device section there is one
 * device, rdmad0, with all addresses of the host; also with path NULL.
 */
bool conf_read(struct conf *, const char *path);
extern void (*conf_say)(const char *line); /* to stderr at first */

/* Fills devices[], device_conf[] and devices_n, once. */
void conf_devices(const struct conf *);

/* The keys (conf.def) in which two configurations differ; now: the change can be made while the daemon runs. */
void conf_changes(const struct conf *, const struct conf *, void (*each)(const char *key, bool now));

/* "auto", "uring", "epoll". */
bool conf_io_parse(const char *, enum io_kind *);

#endif
