/* SPDX-License-Identifier: MIT */
/*
 * cma_addr.c - from addresses to devices, GIDs and paths.
 *
 * The source address is what the program bound, or what the host's routes say: a connected UDP socket knows
 * it without a packet.  The device is the one with a GID for that address.  Loopback has so many addresses
 * that a device may well have another one than the routes choose: there any of the device's own will do.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdmad/gid.h>

#include "cma.h"
#include "cma_refuse.h"
#include "neigh.h"

/* ---- addresses ------------------------------------------------------------------ */

uint16_t cma_addr_port(const union cmm_addr *a)
{
	return ntohs(cma_family(a) == AF_INET ? a->in.sin_port : a->in6.sin6_port);
}

void cma_addr_port_set(union cmm_addr *a, uint16_t port)
{
	if (cma_family(a) == AF_INET)
		a->in.sin_port = htons(port);
	else
		a->in6.sin6_port = htons(port);
}

bool cma_addr_ok(const union cmm_addr *a) { return cma_family(a) == AF_INET || cma_family(a) == AF_INET6; }

bool cma_addr_any(const union cmm_addr *a)
{
	if (cma_family(a) == AF_INET)
		return a->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return gid_is_empty(a->in6.sin6_addr.s6_addr);
}

void cma_addr_gid(const union cmm_addr *a, uint8_t *gid)
{
	if (cma_family(a) == AF_INET) {
		memcpy(gid, gid_v4_prefix, GID_V4_AT);
		memcpy(gid + GID_V4_AT, &a->in.sin_addr, 4);
	} else {
		memcpy(gid, &a->in6.sin6_addr, 16);
	}
}

void cma_addr_of_gid(union cmm_addr *a, int family, const uint8_t *gid, uint16_t port, unsigned scope)
{
	memset(a, 0, sizeof(*a));
	a->sa.sa_family = (sa_family_t)family;
	if (family == AF_INET) {
		memcpy(&a->in.sin_addr, gid + 12, 4);
	} else {
		memcpy(&a->in6.sin6_addr, gid, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr))
			a->in6.sin6_scope_id = scope;
	}
	cma_addr_port_set(a, port);
}

/* ---- devices ---------------------------------------------------------------------- */

int cma_row(const struct device *dev, const uint8_t *gid) { return dev->gone ? -1 : device_row(dev, gid); }

bool cma_gid_here(const uint8_t *gid)
{
	for (unsigned d = 0; d < devices_n; d++)
		if (cma_row(&devices[d], gid) >= 0)
			return true;
	return false;
}

static void id_settle(struct cma_id *id, struct device *dev, int row)
{
	id->dev = dev;
	id->sgid_index = (uint8_t)row;
	memcpy(id->sgid, dev->gid[row].gid, 16);
}

/* scope: the interface of a link-local address; 0: any. */
static bool settle_by_gid(struct cma_id *id, const uint8_t *gid, unsigned scope)
{
	int row;

	for (unsigned d = 0; d < devices_n; d++) {
		row = cma_row(&devices[d], gid);
		if (row < 0 || (scope && gid_is_v6_link_local(gid) && devices[d].gid[row].ifindex != scope))
			continue;
		id_settle(id, &devices[d], row);
		return true;
	}
	return false;
}

static bool gid_loopback_v4(const uint8_t *gid) { return gid_is_loopback(gid) && gid_is_v4(gid); }

/* The first device with such an address, which is in *row; NULL: there is none. */
static struct device *device_with(bool (*such)(const uint8_t *gid), int *row)
{
	for (unsigned d = 0; d < devices_n; d++) {
		if (devices[d].gone)
			continue;
		for (*row = 0; *row < (int)RDMAD_GIDS; ++*row)
			if (such(devices[d].gid[*row].gid))
				return &devices[d];
	}
	return NULL;
}

static bool settle_loopback(struct cma_id *id, bool v4)
{
	int row;
	struct device *dev = device_with(v4 ? gid_loopback_v4 : gid_is_v6_loopback, &row);

	if (dev)
		id_settle(id, dev, row);
	return dev;
}

/*
 * 127.0.0.1 or ::1, if no device has it: the loopback address that one has, else its first one of IPv4.  A private daemon's device
 * has one of its own (rdmad-run --own), and the programs there mean each other.  Of IPv6 there is no second loopback address, so
 * for ::1 it is that of IPv4 as a mapped one, which is the same GID.  False: *a is as it was.
 */
static bool localhost_here(union cmm_addr *a)
{
	bool v4 = cma_family(a) == AF_INET;
	struct device *dev;
	uint8_t gid[16];
	int row;

	if (v4 ? a->in.sin_addr.s_addr != htonl(INADDR_LOOPBACK) : !IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr))
		return false;
	cma_addr_gid(a, gid);
	if (cma_gid_here(gid))
		return false;
	dev = device_with(gid_loopback_v4, &row);
	if (!dev)
		dev = device_with(gid_is_v4, &row);
	if (dev)
		cma_addr_of_gid(a, cma_family(a), dev->gid[row].gid, cma_addr_port(a), 0);
	return dev;
}

/* ---- bind --------------------------------------------------------------------------- */

static bool v6only_default(void)
{
	FILE *f = fopen("/proc/sys/net/ipv6/bindv6only", "re");
	int v = 0;

	if (!f)
		return false;
	if (fscanf(f, "%d", &v) != 1)
		v = 0;
	fclose(f);
	return v;
}

/* Is it an address of this host, though no device has it?  Then the fault is ENODEV. */
static bool host_has(const union cmm_addr *a)
{
	union cmm_addr try = *a;
	int fd = socket(cma_family(a), SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return false;
	cma_addr_port_set(&try, 0);
	ret = bind(fd, &try.sa, cma_family(a) == AF_INET ? sizeof(try.in) : sizeof(try.in6));
	close(fd);
	return ret == 0;
}

int cma_bind(struct cma_id *id, const union cmm_addr *asked)
{
	union cmm_addr addr = *asked, *a = &addr;
	uint8_t gid[16];
	bool here;
	int err;

	if (!cma_addr_ok(a))
		return EAFNOSUPPORT;
	err = cma_must_be(id, CMA_IDLE);
	if (err)
		return err;
	here = localhost_here(a);
	cma_addr_gid(a, gid);
	if (cma_family(a) == AF_INET6 && gid_is_v6_link_local(gid) && !a->in6.sin6_scope_id)
		return cma_refuse(EINVAL, "an address of fe80::/10 needs sin6_scope_id, the interface");
	if (!cma_addr_any(a) && !settle_by_gid(id, gid, cma_family(a) == AF_INET6 ? a->in6.sin6_scope_id : 0))
		return host_has(a) ? ENODEV : EADDRNOTAVAIL;
	id->src = *a;
	id->dst.sa.sa_family = a->sa.sa_family; /* of nobody yet */
	id->from_here = here && !gid_is_loopback(gid);
	if (here) /* ::1 takes no IPv4 */
		id->afonly = true;
	else if (!id->afonly_set)
		id->afonly = cma_family(a) == AF_INET || v6only_default();
	err = cma_port_bind(id);
	if (err) {
		id->dev = NULL;
		memset(&id->src, 0, sizeof(id->src));
		memset(&id->dst, 0, sizeof(id->dst));
		return err;
	}
	id->state = CMA_BOUND;
	return 0;
}

/* ---- resolve ---------------------------------------------------------------------------- */

/* A socket that knows the way there, from src or from where this host would send; -1 and errno. */
static int way_open(const union cmm_addr *src, const union cmm_addr *dst)
{
	union cmm_addr from, to = *dst;
	int fd = socket(cma_family(dst), SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -1;
	if (!cma_addr_port(&to))
		cma_addr_port_set(&to, ROCE_PORT);
	if (src) {
		from = *src;
		cma_addr_port_set(&from, 0);
	}
	if ((!src || !bind(fd, &from.sa, cmm_addr_len(&from))) && !connect(fd, &to.sa, cmm_addr_len(&to)))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* The address that this host would send from; 0 or errno. */
static int source_of(const union cmm_addr *dst, union cmm_addr *src)
{
	socklen_t len = sizeof(*src);
	int fd = way_open(NULL, dst), err = 0;

	if (fd < 0)
		return errno;
	memset(src, 0, sizeof(*src));
	if (getsockname(fd, &src->sa, &len) < 0)
		err = errno;
	close(fd);
	return err;
}

/*
 * An address of the daemon's in place of the one that the host would send from: of the same interface (rdmad-run --own=ADDRESS); to this
 * host any.
 */
static bool settle_beside(struct cma_id *id, const union cmm_addr *src, const union cmm_addr *dst, const uint8_t *to)
{
	bool here = host_has(dst);
	unsigned ifindex = here ? 0 : neigh_interface(src, dst);

	for (unsigned d = 0; (here || ifindex) && d < devices_n; d++)
		for (int row = 0; !devices[d].gone && row < (int)RDMAD_GIDS; row++) {
			const struct gid_row *r = &devices[d].gid[row];

			if (!r->wire || (!here && r->ifindex != ifindex) || gid_is_v4(r->gid) != gid_is_v4(to) ||
			    gid_is_v6_link_local(r->gid) != gid_is_v6_link_local(to) ||
			    gid_is_loopback(r->gid) != gid_is_loopback(to))
				continue;
			id_settle(id, &devices[d], row);
			return true;
		}
	return false;
}

/* The id is bound to no address: finds one for dst. */
static int settle_by_route(struct cma_id *id, const union cmm_addr *dst)
{
	uint8_t gid[16], to[16];
	union cmm_addr src;
	int err = source_of(dst, &src);

	if (err)
		return err;
	cma_addr_gid(dst, to);
	cma_addr_gid(&src, gid);
	if (settle_by_gid(id, gid, cma_family(&src) == AF_INET6 ? src.in6.sin6_scope_id : 0))
		return 0;
	/* To oneself: from there, too. */
	if (settle_by_gid(id, to, cma_family(dst) == AF_INET6 ? dst->in6.sin6_scope_id : 0))
		return 0;
	if (gid_is_loopback(to) && settle_loopback(id, cma_family(dst) == AF_INET))
		return 0;
	return settle_beside(id, &src, dst, to) ? 0 : ENODEV;
}

static int settle(struct cma_id *id, union cmm_addr *dst)
{
	uint16_t port = cma_addr_port(&id->src);
	uint8_t gid[16];
	unsigned scope;
	int err;

	/* To nowhere is to oneself, as with sockets. */
	if (cma_addr_any(dst)) {
		if (!id->dev && !settle_loopback(id, cma_family(dst) == AF_INET))
			return ENODEV;
		cma_addr_of_gid(dst, cma_family(dst), id->sgid, cma_addr_port(dst),
				id->dev->gid[id->sgid_index].ifindex);
	} else if (!id->dev) {
		err = settle_by_route(id, dst);
		if (err)
			return err;
	}
	scope = id->dev->gid[id->sgid_index].ifindex;
	id->src_chosen = cma_addr_any(&id->src);
	if (id->src_chosen)
		cma_addr_of_gid(&id->src, cma_family(dst), id->sgid, port, scope);
	cma_addr_gid(dst, gid);
	memcpy(id->dgid, gid, 16);
	id->dst_here = cma_gid_here(gid);
	return 0;
}

/* It may try elsewhere, from another address. */
static void unsettle(struct cma_id *id)
{
	union cmm_addr any = { .sa.sa_family = (sa_family_t)cma_family(&id->src) };

	id->state = CMA_BOUND;
	if (!id->src_chosen)
		return;
	cma_addr_port_set(&any, cma_addr_port(&id->src));
	id->src = any;
	id->dev = NULL;
	id->src_chosen = false;
}

static bool resolved(struct cma_id *id, int err)
{
	if (err)
		unsettle(id);
	else
		id->state = CMA_ADDR_RESOLVED;
	return cma_event_put(id, err ? CMA_EV_ADDR_ERROR : CMA_EV_ADDR_RESOLVED, -err);
}

int cma_resolve_addr(struct cma_id *id, const union cmm_addr *src, const union cmm_addr *dst, uint32_t timeout_ms)
{
	union cmm_addr any = { 0 };
	int err;

	if (!cma_addr_ok(dst))
		return EINVAL;
	if (id->state == CMA_IDLE) {
		any.sa.sa_family = (sa_family_t)cma_family(dst);
		err = cma_bind(id, cma_family(src) ? src : &any);
		if (err)
			return err;
	}
	err = cma_must_be(id, CMA_BOUND);
	if (err)
		return err;
	if (cma_family(&id->src) != cma_family(dst))
		return cma_refuse(EINVAL, "the address is of another family than the one that the id is bound to");
	id->dst = *dst;
	localhost_here(&id->dst);
	err = settle(id, &id->dst);
	if (!err) {
		err = cma_ask(id, timeout_ms, resolved);
		if (err == ENETUNREACH || err == EHOSTUNREACH)
			unsettle(id);
		return err;
	}
	/* As kernels do: without a route the call fails; a route without a device is an event. */
	if (err != ENODEV)
		return err;
	return resolved(id, err) ? 0 : ENOMEM;
}

/* ---- the path ------------------------------------------------------------------------------- */

/* Of packets that the host's routes let pass whole: as they say, or a router on the way has said lately. */
static uint8_t route_mtu(const struct cma_id *id)
{
	bool v4 = cma_family(&id->dst) == AF_INET;
	int fd = way_open(&id->src, &id->dst), mtu = 0;
	socklen_t len = sizeof(mtu);

	if (fd < 0)
		return UINT8_MAX;
	if (getsockopt(fd, v4 ? SOL_IP : SOL_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &len) < 0)
		mtu = 0;
	close(fd);
	return mtu > 0 ? device_mtu((uint64_t)mtu) : UINT8_MAX;
}

/*
 * The smaller one of both ports, where the other is ours as well; else that of the way, and what a REQ says is the peer's to
 * refuse.
 */
static uint8_t path_mtu(const struct cma_id *id)
{
	uint8_t mtu = id->dev->mtu, way = id->dst_here ? mtu : route_mtu(id);

	if (way < mtu)
		mtu = way;

	for (unsigned d = 0; d < devices_n; d++)
		if (devices[d].mtu < mtu && cma_row(&devices[d], id->dgid) >= 0)
			mtu = devices[d].mtu;
	return mtu;
}

int cma_resolve_route(struct cma_id *id)
{
	uint32_t flow = cma_family(&id->src) == AF_INET6 ? ntohl(id->src.in6.sin6_flowinfo) & 0xfffff : 0;

	if (id->state != CMA_ADDR_RESOLVED)
		return cma_must_be(id, CMA_ADDR_RESOLVED);
	id->mtu = path_mtu(id);
	/* Rule 7.5. */
	id->flow_label = flow ? flow : cm_flow_label(cma_addr_port(&id->src), cma_addr_port(&id->dst));
	id->life = id->timeout_set && id->timeout ? (uint8_t)(id->timeout - 1) : (uint8_t)CMA_LIFE;
	id->routed = true;
	id->state = CMA_ROUTE_RESOLVED;
	return cma_event_put(id, CMA_EV_ROUTE_RESOLVED, 0) ? 0 : ENOMEM;
}
