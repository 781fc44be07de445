/* SPDX-License-Identifier: MIT */
/*
 * cma_port.c - the ports of the four port spaces, and who may have them.
 *
 * A port is taken by bind and by resolve_addr, until the id is destroyed; an id that a request made has none
 * of its own.  Several ids have one port if their addresses differ, or if all of them asked for it
 * (REUSEADDR) and none but one listens.  A request looks at the listeners only, which have an address each; who binds
 * looks at all.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cma.h"
#include "../base/port_range.h"

#define SPACES   4u
#define PORT_IDS 1024u /* have one port, at most */

struct cma_port {
	unsigned space;
	uint16_t port;
	unsigned n;
	struct link ids, listeners;
};

static struct cma_port *ports[SPACES][65536];

static unsigned space_of(uint16_t ps)
{
	switch (ps) {
	case CM_PS_TCP: return 0;
	case CM_PS_UDP: return 1;
	case CM_PS_IB: return 2;
	default: return 3; /* IPOIB */
	}
}

static bool privileged(const struct cma_id *id, uint16_t port)
{
	unsigned start = 1024;
	FILE *f;

	if (port >= 1024 || id->ch->who.uid == 0)
		return false;
	f = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
	if (f && fscanf(f, "%u", &start) != 1)
		start = 1024;
	if (f)
		fclose(f);
	return port < start;
}

/*
 * 0, or why id may not be among those who have the port: a wildcard in the way is told as EADDRNOTAVAIL, as
 * kernels do.
 */
static int conflict_with(const struct link *ids, const struct cma_id *id, bool reuse)
{
	uint8_t a[16], b[16];

	cma_addr_gid(&id->src, a);
	for (struct link *l = ids->next; l != ids; l = l->next) {
		const struct cma_id *o = LINK_OF(l, struct cma_id, in_port);

		if (o == id || (o->state != CMA_LISTEN && reuse && o->reuse))
			continue;
		if (id->afonly && o->afonly && cma_family(&id->src) != cma_family(&o->src))
			continue;
		if (cma_addr_any(&id->src) || cma_addr_any(&o->src))
			return EADDRNOTAVAIL;
		cma_addr_gid(&o->src, b);
		if (gid_same(a, b))
			return EADDRINUSE;
	}
	return 0;
}

static int conflict(const struct cma_port *p, const struct cma_id *id, bool reuse)
{
	int err = conflict_with(&p->listeners, id, reuse);

	return err ? err : conflict_with(&p->ids, id, reuse);
}

/* Those of the range are what everybody shares: each user has his part of them. */
static int port_take(struct cma_id *id, unsigned space, uint16_t port, const struct port_range *range)
{
	int err = bill_set(&id->bill, QUOTA_CM_PORTS, port >= range->low && port <= range->high);
	struct cma_port *p = ports[space][port];

	if (err)
		return err;
	if (p && p->n == PORT_IDS) {
		bill_set(&id->bill, QUOTA_CM_PORTS, 0);
		return EADDRINUSE;
	}
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p) {
			bill_set(&id->bill, QUOTA_CM_PORTS, 0);
			return ENOMEM;
		}
		p->space = space;
		p->port = port;
		link_init(&p->ids);
		link_init(&p->listeners);
		ports[space][port] = p;
		cma_count.ports++;
	}
	link_add_tail(&p->ids, &id->in_port);
	p->n++;
	id->port = p;
	cma_addr_port_set(&id->src, port);
	return 0;
}

static int ephemeral(struct cma_id *id, unsigned space, const struct port_range *range)
{
	unsigned n = range->high - range->low + 1u, at = 0;

	if (getentropy(&at, sizeof(at)))
		return EIO;
	for (unsigned i = 0; i < n; i++) {
		uint16_t port = (uint16_t)(range->low + (at + i) % n);

		if (!ports[space][port])
			return port_take(id, space, port, range);
	}
	return EADDRNOTAVAIL;
}

int cma_port_bind(struct cma_id *id)
{
	unsigned space = space_of(id->ps);
	uint16_t port = cma_addr_port(&id->src);
	struct port_range range = port_range();
	int err;

	if (!port)
		return ephemeral(id, space, &range);
	if (privileged(id, port))
		return EACCES;
	err = ports[space][port] ? conflict(ports[space][port], id, id->reuse) : 0;
	return err ? err : port_take(id, space, port, &range);
}

void cma_port_leave(struct cma_id *id)
{
	struct cma_port *p = id->port;

	if (!p)
		return;
	link_del(&id->in_port);
	id->port = NULL;
	bill_set(&id->bill, QUOTA_CM_PORTS, 0);
	if (--p->n)
		return;
	ports[p->space][p->port] = NULL;
	cma_count.ports--;
	free(p);
}

int cma_port_listen(struct cma_id *id) { return conflict(id->port, id, false); }

void cma_port_listens(struct cma_id *id, bool on)
{
	link_del(&id->in_port);
	link_add_tail(on ? &id->port->listeners : &id->port->ids, &id->in_port);
}

/*
 * An address of its own goes before a wildcard of the family, and that before one of IPv6 that takes IPv4 as
 * well.
 */
struct cma_id *cma_port_find(uint16_t ps, uint16_t port, const uint8_t *gid, int family)
{
	const struct cma_port *p = ports[space_of(ps)][port];
	struct cma_id *best = NULL;
	int best_rank = 0;

	for (struct link *l = p ? p->listeners.next : NULL; p && l != &p->listeners; l = l->next) {
		struct cma_id *id = LINK_OF(l, struct cma_id, in_port);
		uint8_t own[16];
		int rank = 0;

		cma_addr_gid(&id->src, own);
		if (!cma_addr_any(&id->src))
			rank = gid_same(own, gid) && (!id->afonly || cma_family(&id->src) == family) ? 3 : 0;
		else if (cma_family(&id->src) == family)
			rank = 2;
		else if (cma_family(&id->src) == AF_INET6 && !id->afonly)
			rank = 1;
		if (rank > best_rank) {
			best = id;
			best_rank = rank;
		}
	}
	return best;
}
