/* SPDX-License-Identifier: MIT */
/* packet.c - see packet.h. */
#include "packet.h"

#include <stdlib.h>

#include "say.h"

struct packet *packet_get(struct packets *all)
{
	struct packet *p = all->free;

	if (p)
		all->free = p->next;
	else
		p = room_new(1, sizeof(*p));
	return p;
}

void packet_put(struct packets *all, struct packet *p)
{
	p->next = all->free;
	all->free = p;
}

void packets_fini(struct packets *all)
{
	while (all->free) {
		struct packet *p = all->free;

		all->free = p->next;
		free(p);
	}
}

uint32_t packet_wire_len(const struct burst *b, uint32_t i)
{
	uint32_t len = burst_pkt_len(b, i);

	return PACKET_AROUND + opcode_get(burst_opcode(b, i))->hdr_len + len + (-len & 3);
}
