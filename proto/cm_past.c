/* SPDX-License-Identifier: MIT */
/*
 * cm_past.c - requests that are over: refused, or of a connection that has ended.
 *
 * A REQ that was repeated, or that the network kept back, may arrive after that.  Its id is gone, so it would be a new
 * request to a program whose peer asks no longer.  So it is remembered for a moment, with what answers it.  There is
 * room for the last ones only: what falls out may be told once too often, and nothing worse.
 */
#include "cm_in.h"

#include <string.h>

static struct cm_past *put(struct cm *c, uint32_t remote_id, uint64_t guid, const struct route *back)
{
	struct cm_past *p = &c->past[c->past_n++ % CM_PAST];

	*p = (struct cm_past){
		.remote_id = remote_id, .guid = guid, .back = *back, .until = mono_add(c->now, CM_PAST_NS)
	};
	return p;
}

void past_put(struct cm *c, const struct cm_req *r, const struct route *back, const struct cm_msg *rej)
{
	cm_msg_put(put(c, r->local_id, r->ca_guid, back)->rej, rej);
}

/* The message that refused it, if it was refused; else it is a connection of before. */
void past_id(struct cm *c, const struct cm_id *i)
{
	struct cm_past *p = put(c, i->remote_id, i->remote_guid, &i->route);
	struct cm_msg m = { .attr = CM_REJ, .tid = i->tid };

	if (cm_last(i) == CM_REJ) {
		memcpy(p->rej, i->last, MAD_LEN);
		return;
	}
	m.rej.remote_id = i->remote_id;
	m.rej.msg = REJ_OF_REQ;
	m.rej.reason = REJ_STALE;
	cm_msg_put(p->rej, &m);
}

const struct cm_past *past_find(struct cm *c, const struct cm_req *r, const uint8_t *gid)
{
	for (struct cm_past *p = c->past; p < c->past + CM_PAST; p++)
		if (p->remote_id == r->local_id && p->guid == r->ca_guid && gid_same(p->back.dgid, gid) &&
		    mono_before(c->now, p->until)) {
			p->until = mono_add(c->now, CM_PAST_NS);
			return p;
		}
	return NULL;
}
