/* SPDX-License-Identifier: MIT */
/*
 * profile.h - what a device looks like and what it refuses: rdmad's own, another vendor's, or one of the user's.
 *
 *	profile.def, a section profile --> struct profile, of each device --> answers to queries (verb_query.c, dump.c)
 *	                                                                 \--> refusals (limits.c; the library: feature.h)
 *
 * A profile is a name for facts: it adds nothing to what rdmad can do.  Filled at the start, then only read.
 */
#ifndef DAEMON_PROFILE_H
#define DAEMON_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmad/msg.h>
#include <rdmad/feature.h>

#define PROFILES_MAX 32u

/* The rows of the GID table, and the addresses in them. */
enum gid_layout {
	GIDS_ALL,        /* row 0: the link-local one of the interface; then all */
	GIDS_PAIRS,      /* the same in rows 1, 3, 5, ...; the ones before are shown as the same GIDs of RoCE v1 */
	GIDS_LINK_LOCAL, /* only fe80::/10 and 169.254.0.0/16 */
};

/* As verbs.h has them, in another order: those of a RoCE adapter are 0. */
enum profile_node { NODE_CA, NODE_RNIC, NODE_UNSPECIFIED };
enum profile_transport { TRANSPORT_IB, TRANSPORT_IWARP, TRANSPORT_UNSPECIFIED };
enum profile_link { LINK_ETHERNET, LINK_UNSPECIFIED, LINK_INFINIBAND };

/* No pointers: configurations are handed from process to process. */
struct profile {
	char name[PROFILE_NAME_LEN];
	char device[RDMAD_NAME_LEN]; /* # stands for the number */
	char fw[RDMAD_NAME_LEN], board[32], hca_type[32];
	uint32_t first; /* number of the first device */
	uint32_t ports; /* devices of an adapter: each port is one */
	uint32_t vendor, part, hw_ver;
	uint32_t pci_vendor, pci_device;
	uint8_t node, transport, link;      /* enum profile_node, ... */
	uint8_t gids;                       /* enum gid_layout */
	uint32_t mbps;                      /* of the port; 0: the interface's */
	uint8_t active_speed, active_width; /* as the port states them; 0: as mbps has it */
	int32_t qp_err;                     /* for a queue pair too many; 0: ENOMEM */
	uint64_t no;                        /* NO() of features */
#define LIMIT(field, key, own, text) uint64_t field;
#include "limit.def"
#undef LIMIT
};

#define PROFILE_OWN "rdmad" /* that of devices that say nothing */

/* One of profile.def; NULL: there is none of that name. */
const struct profile *profile_find(const char *name);

/* rdmad's own, settled. */
const struct profile *profile_own(void);

/* Lowers each number to rdmad's own, which also takes the place of those that are 0, and what refused features leave to 0. */
void profile_settle(struct profile *);

/* Requests of peers that no right of a QP keeps away: 1 << KIND_... */
uint32_t profile_no_kinds(const struct profile *);
/* The row of the link-local GID that is made of the GUID. */
static inline unsigned profile_default_row(const struct profile *p) { return p->gids == GIDS_PAIRS; }
/* How many addresses have room in the GID table. */
uint32_t profile_addresses(const struct profile *);

/* The name of a device with that number. */
void profile_device(const struct profile *, unsigned number, char name[RDMAD_NAME_LEN]);

/* enum ibv_node_type, ibv_transport_type, and IBV_LINK_LAYER_. */
uint32_t profile_node(const struct profile *);
uint32_t profile_transport(const struct profile *);
uint8_t profile_link_layer(const struct profile *);
const char *profile_link_name(const struct profile *); /* as files in /sys have it */

/* Its port has a LID, and peers may be addressed by theirs. */
static inline bool profile_has_lids(const struct profile *p) { return p->link == LINK_INFINIBAND; }

/* "rdmad, cx7, ...": all of profile.def. */
void profile_names(char *buf, size_t len);

static inline bool profile_is_own(const struct profile *p) { return !strcmp(p->name, PROFILE_OWN); }

#endif
