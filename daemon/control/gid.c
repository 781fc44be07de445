/* SPDX-License-Identifier: MIT */
/*
 * gid.c - the GID tables of the devices follow the addresses of the host.
 *
 *	row 0		fe80::EUI-64 of the interface's MAC; on the wire if the interface has this very address
 *	row 1 ...	one per address: IPv4, IPv6; loopback last.  A row stays where it is until its
 *			address goes; a new address takes the first free row.
 *
 * The profile of a device may leave each other row free, from row 0 on, or take link-local addresses only.
 *
 * Any message of rtnetlink makes the whole picture be taken anew and compared: so no message can be
 * missed or misunderstood.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ev.h>

#include <rdmad/gid.h>
#include <rdmad/gid_text.h>

#include "../base/conf.h"
#include "../base/device.h"
#include "eui.h"
#include "host.h"
#include "../base/log.h"
#include "../base/profile.h"
#include "../shard/net.h"
#include "gid.h"
#include "port.h"
#include "taken.h"

#define WANTS 256u /* addresses that are looked at; those without a row are told of */

static struct host host;
static struct ev_io watcher = { .fd = -1 };
static bool running; /* after the first picture: new rows are told of */

/* The addresses that a device is to have: pointers into host, or of conf. */
struct want {
	uint8_t gid[16];
	unsigned ifindex;
};

/* ---- rows ---------------------------------------------------------------- */

static void row_set(struct device *dev, unsigned row, const uint8_t *gid, unsigned ifindex, bool wire)
{
	struct gid_row *r = &dev->gid[row];
	char text[INET6_ADDRSTRLEN];
	int err;

	*r = (struct gid_row){ .ifindex = ifindex, .wire = wire };
	if (gid)
		memcpy(r->gid, gid, 16);
	err = net_gid_changed(dev, row);
	if (!err)
		return;
	r->wire = false;
	net_gid_changed(dev, row);
	if (err != EADDRINUSE)
		log_warn("%s: cannot use %s: %s", dev->name, gid_text(r->gid, text), strerror(err));
	else
		taken_put(dev, r->gid);
}

/* How far it is from one row to the next; and the first behind the default one. */
static unsigned row_step(const struct device *dev) { return dev->profile->gids == GIDS_PAIRS ? 2 : 1; }
static unsigned row_first(const struct device *dev) { return profile_default_row(dev->profile) + row_step(dev); }

static int row_find(const struct device *dev, const uint8_t *gid)
{
	for (unsigned i = row_first(dev); i < dev->profile->gid_tbl_len; i += row_step(dev))
		if (gid_same(dev->gid[i].gid, gid))
			return (int)i;
	return -1;
}

static int row_free(const struct device *dev)
{
	static const uint8_t zero[16];

	return row_find(dev, zero);
}

/* Each row that an address can have, as far on as there are rows in use; around, if the table is full. */
void gid_move(struct device *dev)
{
	const unsigned first = row_first(dev), step = row_step(dev);
	const unsigned n = ((unsigned)dev->profile->gid_tbl_len - first + step - 1) / step;
	struct gid_row was[RDMAD_GIDS];
	unsigned low = n, high = 0, by;
	char text[INET6_ADDRSTRLEN];

	if (dev->profile->gid_tbl_len <= first) /* a table with no row for an address */
		return;
	memcpy(was, dev->gid, sizeof(was));
	for (unsigned i = 0; i < n; i++) {
		if (gid_is_empty(was[first + i * step].gid))
			continue;
		low = low < n ? low : i;
		high = i;
	}
	by = low < n ? high - low + 1 : 0;
	by = by == n ? 1 : by;
	for (unsigned i = 0; by && i < n; i++)
		if (!gid_is_empty(was[first + i * step].gid))
			row_set(dev, first + i * step, NULL, 0, false);
	for (unsigned i = 0; by && i < n; i++) {
		const struct gid_row *r = &was[first + i * step];
		unsigned to = first + (i + by) % n * step;

		if (gid_is_empty(r->gid))
			continue;
		row_set(dev, to, r->gid, r->ifindex, r->wire);
		log_note("%s: GID %u (%s) is GID %u now", dev->name, first + i * step, gid_text(r->gid, text), to);
	}
	port_tell(dev, EV_GID_CHANGE);
	if (watcher.fd >= 0)
		ev_feed_event(EV_DEFAULT_UC_ & watcher, EV_READ); /* a port that could not be had is tried again */
}

static bool is_wanted(const struct want *want, unsigned n, const uint8_t *gid)
{
	for (unsigned i = 0; i < n; i++)
		if (gid_same(want[i].gid, gid))
			return true;
	return false;
}

/*
 * Rows 1 and up.  An address that could not be bound (it was taken, or being probed) is tried again each time; one that is on
 * another interface now stays where it is.
 */
static bool rows_update(struct device *dev, const struct want *want, unsigned n)
{
	static unsigned told[DEVICES_MAX];
	char text[INET6_ADDRSTRLEN];
	const uint8_t *without = NULL;
	unsigned left = 0;
	bool changed = false;
	int row;

	for (unsigned i = row_first(dev); i < dev->profile->gid_tbl_len; i++) {
		if (gid_is_empty(dev->gid[i].gid) || is_wanted(want, n, dev->gid[i].gid))
			continue;
		log_note("%s: GID %u (%s) is gone", dev->name, i, gid_text(dev->gid[i].gid, text));
		row_set(dev, i, NULL, 0, false);
		changed = true;
	}
	for (unsigned i = 0; i < n; i++) {
		row = row_find(dev, want[i].gid);
		if (row < 0) {
			row = row_free(dev);
			if (row < 0) {
				without = left++ ? without : want[i].gid;
				continue;
			}
			row_set(dev, (unsigned)row, want[i].gid, want[i].ifindex, true);
			if (running)
				log_note("%s: GID %d is %s", dev->name, row, gid_text(want[i].gid, text));
			changed = true;
		} else if (!dev->gid[row].wire || dev->gid[row].ifindex != want[i].ifindex) {
			row_set(dev, (unsigned)row, want[i].gid, want[i].ifindex, true);
		}
	}
	if (left > told[dev->index])
		log_warn("%s: the GID table is full: %u of the host's addresses have no row, the first is %s",
			 dev->name, left, gid_text(without, text));
	told[dev->index] = left;
	return changed;
}

/* ---- what a device is to have -------------------------------------------- */

/* fe80::/10, 169.254.0.0/16 */
static bool gid_link_local(const uint8_t *gid)
{
	return gid_is_v4(gid) ? gid[12] == 169 && gid[13] == 254 : gid_is_v6_link_local(gid);
}

static void want_put(const struct device *dev, struct want *want, unsigned *n, const uint8_t *gid, unsigned ifindex)
{
	if (*n >= WANTS || is_wanted(want, *n, gid) || gid_same(dev->gid[profile_default_row(dev->profile)].gid, gid) ||
	    (dev->profile->gids == GIDS_LINK_LOCAL && !gid_link_local(gid)) || !host_addr_usable(gid, ifindex))
		return;
	memcpy(want[*n].gid, gid, 16);
	want[(*n)++].ifindex = ifindex;
}

/* Of two interfaces that have it, one that is up. */
static const struct host_addr *addr_find(const uint8_t *gid)
{
	const struct host_addr *found = NULL;

	for (unsigned i = 0; i < host.addr_n; i++)
		if (gid_same(host.addr[i].gid, gid) && (!found || !(found->dev->flags & IFF_UP)))
			found = &host.addr[i];
	return found;
}

/* 127.0.0.2 and the like are usable without being listed. */
static unsigned want_conf(const struct device *dev, const struct device_conf *c, struct want *want)
{
	const struct host_addr *a;
	unsigned n = 0;

	for (unsigned i = 0; i < c->addr_n; i++) {
		a = addr_find(c->addr[i].s6_addr);
		want_put(dev, want, &n, c->addr[i].s6_addr, a ? a->dev->index : if_nametoindex("lo"));
	}
	return n;
}

static unsigned want_host(const struct device *dev, const struct device_conf *c, struct want *want)
{
	const struct host_addr *a;
	unsigned n = 0;

	for (unsigned i = 0; i < host.addr_n; i++) {
		a = &host.addr[i];
		if (!(a->dev->flags & IFF_UP) || (c->netdev[0] && strcmp(a->dev->name, c->netdev)))
			continue;
		want_put(dev, want, &n, a->gid, a->dev->index);
	}
	return n;
}

/* ---- row 0 and the GUID -------------------------------------------------- */

/* The interface whose MAC names the device: the one given, or the first one in use. */
static const struct host_if *main_if(const struct device_conf *c)
{
	const struct host_if *f;

	if (c->addr_n)
		return NULL;
	if (c->netdev[0]) {
		f = host_if_find(&host, c->netdev);
		return f && f->has_mac ? f : NULL;
	}
	for (unsigned i = 0; i < host.addr_n; i++) {
		f = host.addr[i].dev;
		if (f->has_mac && f->flags & IFF_UP && !(f->flags & IFF_LOOPBACK))
			return f;
	}
	return NULL;
}

static bool default_update(struct device *dev, const struct device_conf *c)
{
	struct gid_row *r = &dev->gid[profile_default_row(dev->profile)];
	const struct host_if *f = main_if(c);
	const unsigned ifindex = f ? f->index : 0;
	uint8_t gid[16] = { 0xfe, 0x80 };
	bool fresh = gid_is_empty(r->gid), wire, changed;

	if (f)
		eui_from_mac(f->mac, gid + 8);
	else if (fresh)
		eui_made_up(dev, c, gid + 8);
	else
		memcpy(gid, r->gid, 16); /* its interface may come back */
	if (!fresh && !f && !r->wire && !r->ifindex)
		return false;
	wire = f && addr_find(gid) && host_addr_usable(gid, f->index);
	changed = !gid_same(r->gid, gid);
	if (!changed && r->wire == wire && r->ifindex == ifindex)
		return false;
	if (fresh && !dev->guid) {
		for (unsigned i = 8; i < 16; i++)
			dev->guid = dev->guid << 8 | gid[i];
	}
	row_set(dev, profile_default_row(dev->profile), gid, ifindex, wire);
	return changed;
}

/* ---- following ----------------------------------------------------------- */

static int picture(void)
{
	static struct want want[WANTS];
	bool changed;
	unsigned n;
	int err = host_read(&host);

	if (err)
		return err;
	taken_none();
	for (unsigned i = 0; i < devices_n; i++) {
		struct device *dev = &devices[i];
		const struct device_conf *c = &device_conf[i];

		changed = default_update(dev, c);
		n = c->addr_n ? want_conf(dev, c, want) : want_host(dev, c, want);
		changed |= rows_update(dev, want, n);
		port_follow(dev, &host);
		if (changed)
			port_tell(dev, EV_GID_CHANGE);
	}
	return 0;
}

static int netlink_open(void)
{
	struct sockaddr_nl nl = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&nl, sizeof(nl)) < 0) {
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		log_warn("changes of the host's addresses are not followed: %s", strerror(errno));
	return fd;
}

/* 0, or an errno that has been told. */
static int look(void)
{
	int err = picture();

	if (err)
		log_warn("cannot read the host's addresses: %s", strerror(err));
	return err;
}

static void on_message(struct ev_loop *loop, struct ev_io *w, int)
{
	char buf[16384];

	while (recv(w->fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		; /* that there was something says it all */
	if (!look())
		taken_follow(loop, look);
}

/* ---- start and end ----------------------------------------------------------- */

/* Of the addresses that the configuration names: they may come later, or be wrong.  Was there one? */
static bool absent_tell(const struct device *dev)
{
	const struct device_conf *c = &device_conf[dev->index];
	char text[INET6_ADDRSTRLEN];
	bool told = false;

	for (unsigned i = 0; i < c->addr_n; i++) {
		if (addr_find(c->addr[i].s6_addr) || host_addr_usable(c->addr[i].s6_addr, 0))
			continue;
		log_warn("%s is no address of this host: %s %s until it is", gid_text(c->addr[i].s6_addr, text),
			 dev->name, dev->up ? "does without it" : "is DOWN");
		told = true;
	}
	return told;
}

/* Programs seldom say it of a port. */
static void down_tell(const struct device *dev)
{
	bool any = false;

	for (unsigned i = 0; i < host.if_n; i++)
		any |= host_if_up(&host.ifs[i]);
	log_warn("%s is DOWN until %s", dev->name,
		 any ? "an interface that is up has an address for it"
		     : "an interface is up, as by: ip link set lo up");
}

static void start_tell(const struct device *dev)
{
	if (!absent_tell(dev) && !dev->up && !dev->gone)
		down_tell(dev);
}

int gid_start(struct ev_loop *loop, bool must)
{
	int fd = netlink_open(), err; /* first, so that nothing is missed between */

	err = picture();
	if (err)
		log_err("cannot read the addresses of this host: %s", strerror(err));
	else
		err = must ? taken_wait(look) : 0;
	if (!err)
		taken_follow(loop, look);
	for (unsigned i = 0; !err && i < devices_n; i++)
		start_tell(&devices[i]);
	running = true;
	if (err && fd >= 0)
		close(fd);
	if (err || fd < 0)
		return err;
	ev_io_init(&watcher, on_message, fd, EV_READ);
	ev_io_start(loop, &watcher);
	return err;
}

void gid_stop(struct ev_loop *loop)
{
	taken_end(loop);
	if (watcher.fd < 0)
		return;
	ev_io_stop(loop, &watcher);
	close(watcher.fd);
	watcher.fd = -1;
	running = false;
}
