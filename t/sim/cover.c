/* SPDX-License-Identifier: MIT */
/*
 * cover.c - the coverage gate: after all runs every row of fault.def, every counter and every
 * legal change of a QP's state has been reached, or is in the table of those that cannot be,
 * with the reason.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/qp_state.h"

#include "sim.h"

#define FAULTS_MAX 256u

static struct cover {
	uint64_t fault[FAULTS_MAX];
	uint64_t stat[HCA_STATS];
	uint64_t edge[16][QP_STATES][QP_STATES];
} * cover;

/* Rows that a simulation cannot reach, and why. */
static const struct exempt {
	const char *name, *why;
} exempt[] = {
	{ "send_err", "counted by the host when a socket refuses" },
	{ "link_downed", "counted by the host when the interface goes down" },
	{ "strangers", "counted by the host: packets for another shard" },
	{ "cm_req_dropped", "counted by the host: requests for connections beyond what an address may make" },
	{ "bad_source", "counted by the host: datagrams from this host that are not the daemon's" },
};

void cover_share(void)
{
	cover = mmap(NULL, sizeof *cover, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (cover == MAP_FAILED)
		abort();
}

void cover_hca(const struct hca *h)
{
	if (!cover)
		return;
	for (unsigned i = 0; i < hca_fault_n() && i < FAULTS_MAX; i++)
		cover->fault[i] += hca_fault_count(h, i);
	for (unsigned i = 0; i < HCA_STATS; i++)
		cover->stat[i] += hca_stat(h, i);
}

void cover_edge(unsigned type, unsigned from, unsigned to)
{
	if (cover)
		cover->edge[type & 15][from][to]++;
}

static const char *excuse(const char *name)
{
	for (size_t i = 0; i < sizeof exempt / sizeof exempt[0]; i++)
		if (!strcmp(exempt[i].name, name))
			return exempt[i].why;
	return NULL;
}

static unsigned name_report(FILE *f, bool all, const char *what, const char *name, uint64_t n)
{
	const char *why = excuse(name);

	if (all || (!n && !why))
		fprintf(f, "%-8s %-28s %12llu%s%s\n", what, name, (unsigned long long)n,
			why ? "  "
			: n ? ""
			    : "  NEVER",
			why ? why : "");
	return !n && !why;
}

unsigned cover_report(FILE *f, bool all)
{
	static const struct {
		uint8_t type;
		const char *name;
	} types[] = {
		{ QPT_RC, "RC" },
		{ QPT_UC, "UC" },
		{ QPT_UD, "UD" },
		{ QPT_XRC_SEND, "XRC_SEND" },
		{ QPT_XRC_RECV, "XRC_RECV" },
	};
	unsigned missing = 0;
	char name[64];

	for (unsigned i = 0; i < hca_fault_n(); i++)
		missing += name_report(f, all, "fault", hca_fault_name(i), cover->fault[i]);
	for (unsigned i = 0; i < HCA_STATS; i++)
		missing += name_report(f, all, "counter", hca_stat_name(i), cover->stat[i]);
	for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
		for (uint8_t from = 0; from < QP_STATES; from++)
			for (uint8_t to = 0; to < QP_STATES; to++) {
				if (!qp_state_edge(types[t].type, from, to))
					continue;
				snprintf(name, sizeof name, "%s %s->%s", types[t].name, qp_state_name(from),
					 qp_state_name(to));
				missing += name_report(f, all, "edge", name, cover->edge[types[t].type][from][to]);
			}
	return missing;
}
