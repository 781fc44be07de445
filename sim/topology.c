/* SPDX-License-Identifier: MIT */
/* topology.c - names of nodes, and what follows from a topology's numbers. */
#include "topology.h"

#include <stdio.h>
#include <stdlib.h>

#include "packet.h"

#define HEADERS 60u /* BTH and the longest extended headers, padding */

void topology_name(const struct topology *t, uint32_t node, char *text, size_t room)
{
	const struct group *g;

	if (node < t->hosts) {
		snprintf(text, room, "host%u", node);
		return;
	}
	g = topology_group(t, node);
	snprintf(text, room, "%s%u", g->name, node - g->nodes.first);
}

const struct group *topology_group(const struct topology *t, uint32_t node)
{
	const struct group *g = t->group;

	while (node - g->nodes.first >= g->nodes.n)
		g++;
	return g;
}

uint32_t topology_packet_len(const struct topology *t) { return t->adapter.mtu + HEADERS + PACKET_AROUND; }

/*
 * The packet that made it ask; one that this end has begun to send before it can say so; the frame itself; one that the other
 * end has begun to send before it hears it; and what is on the wire both ways meanwhile.
 */
uint64_t topology_headroom(const struct topology *t, const struct cable *c)
{
	uint64_t wire = (uint64_t)((unsigned __int128)2 * c->delay_ns * c->rate / 8000000000u);

	return 3 * (uint64_t)topology_packet_len(t) + 2 * PACKET_PAUSE + wire + 2;
}

void topology_free(struct topology *t)
{
	free(t->group);
	free(t->cable);
	free(t->load);
}

uint64_t topology_flows(const struct load *l)
{
	return l->kind == LOAD_INCAST ? (uint64_t)l->from.n * l->to.n : l->from.n;
}
