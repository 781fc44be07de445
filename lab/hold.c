/* SPDX-License-Identifier: MIT */
/* hold.c - a list in the order of time. */
#include "hold.h"

#include <stdlib.h>
#include <string.h>

struct parcel *parcel_new(const struct hold *h, const struct tap_pkt *p)
{
	struct parcel *c = h->len + p->len > HOLD_LEN ? NULL : malloc(sizeof(*c) + p->len);

	if (!c)
		return NULL;
	*c = (struct parcel){
		.at = p->now,
		.device = p->device,
		.dir = p->dir,
		.kind = p->kind,
		.iter = p->iter,
		.qpn = p->qpn,
		.local = p->local,
		.to = -1,
		.route = *p->route,
		.sport = p->sport,
		.len = p->len,
	};
	memcpy(c->data, p->data, p->len);
	return c;
}

void hold_put(struct hold *h, struct parcel *c)
{
	struct parcel **at = &h->first;

	while (*at && !mono_before(c->at, (*at)->at))
		at = &(*at)->next;
	c->next = *at;
	*at = c;
	h->len += c->len;
}

static struct parcel *take(struct hold *h, struct parcel **at)
{
	struct parcel *c = *at;

	*at = c->next;
	c->next = NULL;
	h->len -= c->len;
	return c;
}

struct parcel *hold_due(struct hold *h, mono_t now)
{
	return h->first && mono_reached(now, h->first->at) ? take(h, &h->first) : NULL;
}

static bool same_stream(const struct parcel *c, const struct tap_pkt *p)
{
	return c->device == p->device && c->dir == p->dir && c->kind == p->kind && c->qpn == p->qpn;
}

bool hold_waits(const struct hold *h, const struct tap_pkt *p)
{
	for (const struct parcel *c = h->first; c && mono_reached(p->now, c->at); c = c->next)
		if (!c->made && same_stream(c, p))
			return true;
	return false;
}

void hold_passed(struct hold *h, const struct tap_pkt *p)
{
	struct parcel **at = &h->first, *due = NULL, **end = &due, *c;

	while (*at) {
		c = *at;
		if (!c->behind || !same_stream(c, p) || --c->behind) {
			at = &c->next;
			continue;
		}
		*end = take(h, at);
		end = &(*end)->next;
		*end = NULL;
	}
	while ((c = due)) {
		due = c->next;
		c->at = mono_min(c->at, p->now);
		hold_put(h, c);
	}
}

mono_t hold_deadline(const struct hold *h) { return h->first ? h->first->at : MONO_NEVER; }

void hold_fini(struct hold *h)
{
	while (h->first)
		free(take(h, &h->first));
}
