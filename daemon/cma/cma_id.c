/* SPDX-License-Identifier: MIT */
/*
 * cma_id.c - ids are made, move between channels, and end with all they have.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cma.h"
#include "cma_agent.h"

#define IDS_MAX 1000000u

#define HASH 4096u

static struct slots ids;
static struct link by_cm[HASH]; /* ids by the agent's; an empty head is zero at first */

struct cma_id *cma_id_new(struct cma_channel *ch, uint16_t ps, uint8_t qp_type)
{
	struct cost cost = { { [QUOTA_CM_IDS] = 1, [QUOTA_HEAP] = sizeof(struct cma_id) + CM_ID_LEN } };
	struct cma_id *id = calloc(1, sizeof(*id));

	if (!id || bill_open(&id->bill, ch->who.uid, &cost)) {
		free(id);
		return NULL;
	}
	if (!ids.max)
		slots_init(&ids, IDS_MAX);
	if (getentropy(&id->psn, sizeof(id->psn)) || slots_add(&ids, id, &id->number)) {
		bill_close(&id->bill);
		free(id);
		return NULL;
	}
	id->psn &= PSN_MASK;
	id->ps = ps;
	id->qp_type = qp_type;
	id->ch = ch;
	link_add_tail(&ch->ids, &id->in_channel);
	link_init(&id->in_port);
	link_init(&id->by_cm);
	link_init(&id->groups);
	link_init(&id->records);
	cma_count.ids++;
	return id;
}

struct cma_id *cma_id_get(uint32_t number) { return slots_get(&ids, number); }

void cma_device_gone(const struct device *dev)
{
	for (uint32_t i = 0; i < ids.size; i++) {
		struct cma_id *id = ids.v[i];

		if (id && id->dev == dev)
			cma_event_put(id, CMA_EV_DEVICE_REMOVAL, 0);
	}
}

static struct link *chain(const struct device *dev, uint32_t cm_id)
{
	struct link *l = &by_cm[(cm_id ^ dev->index * 0x9e3779b1u) % HASH];

	if (!l->next)
		link_init(l);
	return l;
}

void cma_id_tie(struct cma_id *id, uint32_t cm_id)
{
	id->cm_id = cm_id;
	link_add_tail(chain(id->dev, cm_id), &id->by_cm);
}

/* The agent's id is freed. */
static void cut(struct cma_id *id)
{
	if (!id->cm_id)
		return;
	link_del(&id->by_cm);
	agent_id_free(id->dev, id->cm_id);
	id->cm_id = 0;
}

struct cma_id *cma_id_by_cm(const struct device *dev, uint32_t cm_id)
{
	struct link *head = chain(dev, cm_id);

	for (struct link *l = head->next; l != head; l = l->next) {
		struct cma_id *id = LINK_OF(l, struct cma_id, by_cm);

		if (id->cm_id == cm_id && id->dev == dev)
			return id;
	}
	return NULL;
}

/* Those of one chain but for the first skip, max at most. */
static unsigned chained(const struct link *head, unsigned skip, struct cma_id **v, unsigned max)
{
	unsigned n = 0;

	for (struct link *l = head->next; l && l != head && n < max; l = l->next)
		if (!skip || !skip--)
			v[n++] = LINK_OF(l, struct cma_id, by_cm);
	return n;
}

unsigned cma_ids_tied(unsigned *at, struct cma_id **v, unsigned max)
{
	unsigned n = 0, c = *at % HASH, skip = *at / HASH;

	while (c < HASH) {
		unsigned got = chained(&by_cm[c], skip, v + n, max - n);

		n += got;
		if (n == max) {
			*at = (skip + got) * HASH + c;
			return n;
		}
		skip = 0;
		c++;
	}
	*at = UINT_MAX;
	return n;
}

void cma_id_destroy(struct cma_id *id)
{
	if (id->state == CMA_LISTEN)
		cma_unlisten(id);
	cma_ask_stop(id);
	cma_events_drop_id(id);
	cma_leave_all(id);
	cut(id);
	cma_port_leave(id);
	link_del(&id->in_channel);
	slots_del(&ids, id->number);
	cma_count.ids--;
	bill_close(&id->bill);
	free(id);
}

void cma_id_move(struct cma_id *id, struct cma_channel *to)
{
	struct cma_channel *from = id->ch;

	if (from == to)
		return;
	link_del(&id->in_channel);
	link_add_tail(&to->ids, &id->in_channel);
	id->ch = to;
	for (struct link *l = id->records.next; l != &id->records; l = l->next) {
		struct cma_record *r = LINK_OF(l, struct cma_record, of_id);

		link_del(&r->link);
		from->record_n--;
		link_add_tail(&to->records, &r->link);
		to->record_n++;
		if (r->fresh) /* nobody knows it yet; it has no records of its own */
			cma_id_move(r->fresh, to);
	}
	cma_channel_light(from);
	cma_channel_light(to);
}

void cma_id_info(const struct cma_id *id, struct cmm_info *i)
{
	memset(i, 0, sizeof(*i));
	i->src = id->src;
	i->dst = id->dst;
	if (!id->dev)
		return;
	memcpy(i->dev, id->dev->name, sizeof(i->dev));
	i->guid = id->dev->guid;
	i->port = 1;
	i->gid_index = id->sgid_index;
	i->pkey = PKEY_DEFAULT;
	memcpy(i->sgid, id->sgid, 16);
	memcpy(i->dgid, id->dgid, 16);
	if (!id->routed)
		return;
	i->paths = 1;
	i->flow_label = id->flow_label;
	i->service_id = cm_service_id(id->ps, cma_addr_port(&id->dst));
	i->mtu = id->mtu;
	i->hop_limit = CMA_HOPS;
	i->tclass = id->tos;
	i->life = id->life;
}
