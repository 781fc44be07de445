/* SPDX-License-Identifier: MIT */
/* event.h - async events: a set per object, and a list of the objects that have some. */
#ifndef PROTO_EVENT_H
#define PROTO_EVENT_H

#include <stdint.h>

#include <rdmad/abi.h>

#include "link.h"

struct hca_event;

struct events {
	struct link link; /* in hca.events while mask is not 0 */
	uint32_t mask;    /* bit enum event_type */
	uint32_t number;  /* of the object */
};

void events_init(struct events *, uint32_t number);
void events_raise(struct link *list, struct events *, unsigned type);
void events_clear(struct events *);
unsigned events_take(struct link *list, struct hca_event *, unsigned max); /* how many */

#endif
