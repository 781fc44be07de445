/* SPDX-License-Identifier: MIT */
/*
 * device.h - an RDMA device of this daemon: a name, a GUID, addresses, and one HCA per shard.
 *
 * Devices are made at start (conf) and live to the end.  The GID table is changed by the
 * control thread (gid.c follows the host's addresses) through shard_call(); every shard
 * keeps its own copy in its HCA.
 */
#ifndef DAEMON_DEVICE_H
#define DAEMON_DEVICE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmad/msg.h>

#define DEVICES_MAX RDMAD_DEVICES
#define SHARDS_MAX  16u
#define GROUPS_MAX  896u   /* sockets of multicast groups, of all devices */
#define CM_IDS_MAX  65536u /* of a device */
#define RAWS_MAX    64u    /* packet sockets of a shard */

struct hca;
struct profile;

struct gid_row {
	uint8_t gid[16];  /* all zero: empty */
	unsigned ifindex; /* the interface that has the address */
	bool wire;        /* bound to UDP 4791: reachable from other hosts; false: same daemon only */
};

struct device {
	char name[RDMAD_NAME_LEN];
	uint64_t guid;
	unsigned index;                /* in devices[] */
	const struct profile *profile; /* what it looks like; profile.h */
	unsigned nth;                  /* of the devices of its profile */
	int numa;                      /* node, for rdmad-run --sysfs; -1: that of its interface */
	bool up;                       /* port state */
	bool cut;                      /* a rule has taken the port down */
	bool gone;                     /* a rule has unplugged it */
	uint32_t qp_made;              /* QPs since the start; changed while the control thread waits for a shard */
	uint8_t mtu;                   /* enum ibv_mtu: active */
	uint32_t link_mbps;
	uint16_t pkey[RD_PKEYS]; /* the P_Key table */
	uint32_t pkey_n;
	struct gid_row gid[RDMAD_GIDS]; /* written by the control thread only */
	struct hca *hca[SHARDS_MAX];    /* hca[s] belongs to shard s; its counters may be read */
};

extern struct device devices[DEVICES_MAX];
extern unsigned devices_n;

struct device *device_find(const char *name);
/* The first port of the adapter that this one is a port of; and which port it is, from 0 on. */
const struct device *device_adapter(const struct device *);
unsigned device_port(const struct device *);
/*
 * A row of the GID table as programs see it, and its enum ibv_gid_type: that of RoCE v1 is shown in front of each (GIDS_PAIRS), and all of a
 * link of InfiniBand are of that.
 */
const struct gid_row *device_gid(const struct device *, unsigned row, uint32_t *type);
/*
 * The row whose address the port's LID is of: the first of IPv4, rather another one than loopback, else the one made of the GUID; and that
 * LID, 0: none.
 */
unsigned device_lid_row(const struct device *);
uint16_t device_lid(const struct device *);
/*
 * The interface that a row is shown with: the one that has the address, or, for the GID that is made of the GUID, the one of the
 * port's addresses, rather another than loopback. 0: the row is empty, or the port has no address.
 */
unsigned device_gid_interface(const struct device *, const struct gid_row *);
/* The first row that has this GID, and the first device with one; -1: none. */
int device_row(const struct device *, const uint8_t gid[16]);
int device_of_gid(const uint8_t gid[16]);

#define MTU_HEADROOM 80u /* what a packet has besides payload, as rxe reckons (protocol section 1.7) */

/* The code (enum ibv_mtu) of the largest path MTU that so many bytes are room for; that of 256 if they are fewer. */
static inline uint8_t mtu_code(uint64_t len)
{
	uint8_t code = 5;

	while (code > 1 && 128u << code > len)
		code--;
	return code;
}

/* That of a link, or of a way, which passes packets of so many bytes. */
static inline uint8_t device_mtu(uint64_t link_mtu)
{
	return mtu_code(link_mtu > MTU_HEADROOM ? link_mtu - MTU_HEADROOM : 0);
}

#endif
