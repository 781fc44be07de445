/* SPDX-License-Identifier: MIT */
/* event.c - async events.  A type that is raised twice before it is taken is told once. */
#include "event.h"

#include "hca.h"

/* The order in which the events of one object are told: as they can follow from each other. */
static const uint8_t order[] = { EV_COMM_EST,   EV_SQ_DRAINED,    EV_CQ_ERR,   EV_SRQ_LIMIT,  EV_SRQ_ERR,
				 EV_QP_REQ_ERR, EV_QP_ACCESS_ERR, EV_QP_FATAL, EV_QP_LAST_WQE };

void events_init(struct events *e, uint32_t number)
{
	link_init(&e->link);
	e->mask = 0;
	e->number = number;
}

void events_raise(struct link *list, struct events *e, unsigned type)
{
	if (!e->mask)
		link_add_tail(list, &e->link);
	e->mask |= 1u << type;
}

void events_clear(struct events *e)
{
	link_del(&e->link);
	e->mask = 0;
}

unsigned events_take(struct link *list, struct hca_event *v, unsigned max)
{
	unsigned n = 0;

	while (n < max && !link_empty(list)) {
		struct events *e = LINK_OF(list->next, struct events, link);

		for (unsigned i = 0; i < sizeof(order) && n < max; i++) {
			if (!(e->mask & 1u << order[i]))
				continue;
			e->mask &= ~(1u << order[i]);
			v[n++] = (struct hca_event){ order[i], e->number };
		}
		if (!e->mask)
			link_del(&e->link);
	}
	return n;
}
