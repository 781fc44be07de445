/* SPDX-License-Identifier: MIT */
/*
 * topology.c - fuzz target: any text as a topology of rdmad-sim.  It is refused with a line that is there, and a reason; or it is
 * one whose numbers hold what the simulator takes for granted.
 */
#include <string.h>

#include "file.h"
#include "sim/say.h"
#include "sim/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Memory of hosts that nobody runs: without huge pages. */
void *room_new(size_t n, size_t each)
{
	void *v = calloc(n ? n : 1, each);

	must(v);
	return v;
}

void *room_for(void *old, size_t n, size_t each)
{
	void *v = reallocarray(old, n ? n : 1, each);

	must(v);
	return v;
}

static void nodes(const struct topology *t, const struct nodes *n, uint32_t first, uint32_t end)
{
	must(n->n && n->first >= first && n->first < end && n->n <= end - n->first && end <= t->hosts + t->switches);
}

static void good(const struct topology *t)
{
	char name[NAME_ROOM + 16];
	uint64_t flows = 0;

	must(t->hosts && t->hosts <= HOSTS_MOST && t->switches && t->switches <= SWITCHES_MOST);
	must(t->duration_ns && t->sample_ns && t->duration_ns / t->sample_ns <= 10000000);
	for (uint32_t i = 0; i < t->hosts + t->switches; i++)
		topology_name(t, i, name, sizeof(name));
	for (unsigned i = 0; i < t->group_n; i++)
		nodes(t, &t->group[i].nodes, t->hosts, t->hosts + t->switches);
	for (uint32_t i = 0; i < t->cable_n; i++)
		must(t->cable[i].rate && t->cable[i].a != t->cable[i].b && t->cable[i].a < t->hosts + t->switches &&
		     t->cable[i].b >= t->hosts && t->cable[i].b < t->hosts + t->switches);
	for (unsigned i = 0; i < t->load_n; i++) {
		nodes(t, &t->load[i].from, 0, t->hosts);
		if (t->load[i].kind == LOAD_INCAST)
			nodes(t, &t->load[i].to, 0, t->hosts);
		must(t->load[i].size && t->load[i].depth && t->load[i].kind < LOADS);
		flows += topology_flows(&t->load[i]);
	}
	must(flows && flows <= FLOWS_MOST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct topology t;

	quiet();
	if (topology_read(&t, "fuzz", (const char *)data, len)) {
		good(&t);
		topology_free(&t);
	}
	loud();
	return 0;
}
