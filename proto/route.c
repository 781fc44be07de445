/* SPDX-License-Identifier: MIT */
/* route.c - see route.h. */
#include "route.h"

#include <string.h>

#define ECN 3u

void route_set(const struct hca *h, struct route *r, const struct av *av, bool slowed)
{
	const struct marks *m = &h->cfg.marks;

	memcpy(r->sgid, h->gid[av->sgid_index], 16);
	memcpy(r->dgid, av->dgid, 16);
	r->flow_label = av->flow_label;
	r->sl = av->sl % SLS;
	r->tclass = av->tclass ? av->tclass : m->tclass[r->sl];
	if (slowed && !(r->tclass & ECN))
		r->tclass |= m->ect;
	r->hop_limit = av->hop_limit ? av->hop_limit : HOPS_DEFAULT;
}
