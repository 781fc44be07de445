/* SPDX-License-Identifier: MIT */
/* profile.c - the profiles of profile.def, with no more in them than rdmad can do. */
#include "profile.h"

#include <stdio.h>
#include <string.h>

#include "../../proto/opcode.h"
#include "config.h"

/* Of mlx5 adapters since ConnectX-6. */
#define CX7_LIMITS                                                                                           \
	.no = NO(FLUSH) | NO(ATOMIC_WRITE) | NO(RATE) | NO(COMP_CNTR), .max_qp = 131072, .max_qp_wr = 32768, \
	.max_sge = 30, .max_sge_rd = 30, .max_cq = 16777216, .max_cqe = 4194303, .max_mr = 16777216,         \
	.max_mw = 16777216, .max_pd = 8388608, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,              \
	.max_res_rd_atom = 2097152, .max_srq = 8388608, .max_srq_wr = 32767, .max_srq_sge = 31,              \
	.max_mcast_grp = 2097152, .max_mcast_qp_attach = 240, .max_dm = 131072, .max_pkeys = 128,            \
	.max_msg = 0x40000000, .gid_tbl_len = 255

static const struct profile profiles[] = {
#define PROFILE(key, n, text, ...) { .name = key, .ports = n, __VA_ARGS__ },
#include <rdmad/profile.def>
#undef PROFILE
};

#define PROFILES_N (sizeof(profiles) / sizeof(*profiles))

const struct profile *profile_find(const char *name)
{
	for (unsigned i = 0; i < PROFILES_N; i++)
		if (!strcmp(profiles[i].name, name))
			return &profiles[i];
	return NULL;
}

void profile_names(char *buf, size_t len)
{
	size_t at = 0;

	*buf = 0;
	for (unsigned i = 0; i < PROFILES_N && at < len; i++)
		at += (size_t)snprintf(buf + at, len - at, "%s%s", i ? ", " : "", profiles[i].name);
}

static void lower(uint64_t *n, uint64_t own)
{
	if (!*n || *n > own)
		*n = own;
}

void profile_settle(struct profile *p)
{
#define LIMIT(field, key, own, text) lower(&p->field, own);
#include "limit.def"
#undef LIMIT
	if (p->no & NO(SRQ))
		p->max_srq = p->max_srq_wr = p->max_srq_sge = 0;
	if (p->no & NO(MW)) {
		p->no |= NO(MW2);
		p->max_mw = 0;
	}
	if (p->no & NO(MCAST))
		p->max_mcast_grp = p->max_mcast_qp_attach = 0;
	if (p->no & NO(INLINE))
		p->max_inline = 0;
	if (p->no & NO(DM))
		p->max_dm = 0;
	if (p->no & NO(READ) && p->no & NO(ATOMICS))
		p->max_qp_rd_atom = p->max_qp_init_rd_atom = p->max_res_rd_atom = 0;
	if (!*p->fw)
		snprintf(p->fw, sizeof(p->fw), "%s", PACKAGE_VERSION);
}

const struct profile *profile_own(void)
{
	static struct profile own;

	if (!own.ports) {
		own = *profile_find(PROFILE_OWN);
		profile_settle(&own);
	}
	return &own;
}

uint32_t profile_no_kinds(const struct profile *p)
{
	return (p->no & NO(FLUSH) ? 1u << KIND_FLUSH : 0) | (p->no & NO(ATOMIC_WRITE) ? 1u << KIND_AWRITE : 0);
}

uint32_t profile_addresses(const struct profile *p)
{
	const uint32_t n = (uint32_t)(p->gids == GIDS_PAIRS ? p->gid_tbl_len / 2 : p->gid_tbl_len);

	return n ? n - 1 : 0; /* the first is the link-local default */
}

void profile_device(const struct profile *p, unsigned number, char name[RDMAD_NAME_LEN])
{
	const char *at = strchr(p->device, '#');
	int head = at ? (int)(at - p->device) : (int)strlen(p->device);

	snprintf(name, RDMAD_NAME_LEN, "%.*s%u%s", head, p->device, p->first + number, at ? at + 1 : "");
}

uint32_t profile_node(const struct profile *p)
{
	static const uint8_t types[] = { [NODE_CA] = 1, [NODE_RNIC] = 4, [NODE_UNSPECIFIED] = 7 };

	return types[p->node];
}

uint32_t profile_transport(const struct profile *p)
{
	static const uint8_t types[] = { [TRANSPORT_IB] = 0, [TRANSPORT_IWARP] = 1, [TRANSPORT_UNSPECIFIED] = 4 };

	return types[p->transport];
}

static const struct {
	uint8_t layer;
	const char *name;
} links[] = {
	[LINK_ETHERNET] = { 2, "Ethernet" },
	[LINK_UNSPECIFIED] = { 0, "Unspecified" },
	[LINK_INFINIBAND] = { 1, "InfiniBand" },
};

uint8_t profile_link_layer(const struct profile *p) { return links[p->link].layer; }

const char *profile_link_name(const struct profile *p) { return links[p->link].name; }
