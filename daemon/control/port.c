/* SPDX-License-Identifier: MIT */
/* port.c - see port.h. */
#include <rdmad/gid.h>

#include "../../proto/hca.h"
#include "../base/log.h"
#include "../base/profile.h"
#include "../shard/inbox.h"
#include "../shard/shard.h"
#include "host.h"
#include "port.h"

#define LINK_MBPS 200000u /* of interfaces that do not say: about what goes between programs of one host */

void (*port_notify)(struct device *, unsigned event_type);

static bool link_up[DEVICES_MAX]; /* of an interface of the port, as last seen */

void port_tell(struct device *dev, unsigned event)
{
	if (port_notify)
		port_notify(dev, event);
}

/* ---- state ----------------------------------------------------------------- */

static void state_update(struct device *dev)
{
	bool was_up = dev->up;

	dev->up = link_up[dev->index] && !dev->cut && !dev->gone;
	if (was_up == dev->up)
		return;
	if (port_notify)
		log_note("%s: port is %s", dev->name, dev->up ? "up" : "down");
	port_tell(dev, dev->up ? EV_PORT_ACTIVE : EV_PORT_ERR);
}

void port_unplug(struct device *dev, bool gone)
{
	dev->gone = gone;
	state_update(dev);
}

void port_cut(struct device *dev, bool cut)
{
	dev->cut = cut;
	state_update(dev);
}

/* ---- what the interfaces say -------------------------------------------------- */

struct link_facts {
	bool up;
	uint32_t mtu, mbps;
};

static bool stands_on(const struct device *dev, const struct host_if *f)
{
	for (unsigned row = 0; row < RDMAD_GIDS; row++)
		if (!gid_is_empty(dev->gid[row].gid) && dev->gid[row].ifindex == f->index)
			return true;
	return false;
}

/* Beside loopback. */
static bool has_up(const struct device *dev, const struct host *host)
{
	for (unsigned i = 0; i < host->if_n; i++) {
		const struct host_if *f = &host->ifs[i];

		if (!(f->flags & IFF_LOOPBACK) && host_if_up(f) && stands_on(dev, f))
			return true;
	}
	return false;
}

/*
 * Loopback counts for MTU and speed only if there is nothing else; and what is down, as a bridge without containers is, only if
 * nothing is up.
 */
static struct link_facts facts_read(const struct device *dev, const struct host *host)
{
	struct link_facts p = { .mtu = UINT32_MAX };
	uint32_t mtu, mbps;
	bool any = false, some_up = has_up(dev, host);

	for (unsigned i = 0; i < host->if_n; i++) {
		const struct host_if *f = &host->ifs[i];

		if (!stands_on(dev, f))
			continue;
		any = true;
		p.up |= host_if_up(f);
		if (f->flags & IFF_LOOPBACK || (some_up && !host_if_up(f)))
			continue;
		mtu = host_if_mtu(f->name);
		mbps = host_if_mbps(f->name);
		if (mtu && mtu < p.mtu)
			p.mtu = mtu;
		if (mbps > p.mbps)
			p.mbps = mbps;
	}
	/* With nothing but the default it reaches its own daemon, whatever becomes of interfaces. */
	if (!any && dev->profile->gids == GIDS_LINK_LOCAL)
		p.up = true;
	return p;
}

static void mtu_call(struct shard *s, void *arg)
{
	const struct device *dev = arg;

	hca_mtu_set(s->hca[dev->index], dev->mtu);
}

static void mtu_update(struct device *dev, uint32_t link_mtu)
{
	const uint8_t way = device_mtu(link_mtu), most = mtu_code(dev->profile->max_mtu), mtu = way < most ? way : most;

	if (dev->mtu == mtu)
		return;
	dev->mtu = mtu;
	for (unsigned i = 0; i < shards_n; i++)
		if (shards[i])
			shard_call(shards[i], mtu_call, dev);
}

void port_follow(struct device *dev, const struct host *host)
{
	struct link_facts p = facts_read(dev, host);

	mtu_update(dev, p.mtu);
	dev->link_mbps = dev->profile->mbps ? dev->profile->mbps : p.mbps ? p.mbps : LINK_MBPS;
	link_up[dev->index] = p.up;
	state_update(dev);
}

/* As rxe shows the speed of the interface; the products are those of the InfiniBand rates. */
void port_lanes(const struct device *dev, uint8_t *speed, uint8_t *width)
{
	static const struct {
		uint32_t mbps;
		uint8_t speed, width;
	} steps[] = {
		{ 1000, 1, 1 },     /* SDR 1x */
		{ 10000, 8, 1 },    /* FDR10 1x */
		{ 20000, 2, 2 },    /* DDR 4x */
		{ 25000, 32, 1 },   /* EDR 1x */
		{ 40000, 8, 2 },    /* FDR10 4x */
		{ 100000, 32, 2 },  /* EDR 4x */
		{ 200000, 64, 2 },  /* HDR 4x */
		{ 400000, 128, 2 }, /* NDR 4x */
	};
	const struct profile *p = dev->profile;
	size_t i = 0;

	while (i + 1 < sizeof(steps) / sizeof(steps[0]) && dev->link_mbps > steps[i].mbps)
		i++;
	*speed = p->active_speed ? p->active_speed : steps[i].speed;
	*width = p->active_speed ? p->active_width : steps[i].width;
}
