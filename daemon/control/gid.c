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
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <ev.h>

#include <rdmad/gid.h>
#include <rdmad/gid_text.h>

#include "../../proto/hca.h"
#include "../base/conf.h"
#include "../base/device.h"
#include "eui.h"
#include "host.h"
#include "../base/log.h"
#include "../base/profile.h"
#include "../shard/shard.h"
#include "../shard/net.h"
#include "../shard/inbox.h"
#include "gid.h"

#define MTU_HEADROOM 80u     /* what a packet has besides payload, as rxe reckons (protocol section 1.7) */
#define WANTS        256u    /* addresses that are looked at; those without a row are told of */
#define LINK_MBPS    200000u /* of interfaces that do not say: about what goes between programs of one host */
#define PORT_TRY_S   0.1     /* a port that is taken is tried again so often, */
#define PORT_TRIES   50u     /* and so many times: whoever had it may be about to end */

void (*gid_notify)(struct device *, unsigned event_type);

static struct host host;
static struct ev_io watcher = { .fd = -1 };
static bool running; /* after the first picture: changes are told */

/* Of the picture: addresses whose port is somebody else's. */
static struct {
	unsigned n, named; /* those that the configuration names */
	uint8_t first[16], first_named[16];
	unsigned told_n;  /* the last warning was about so many, */
	uint8_t told[16]; /* and named this one */
	unsigned tries;
	struct ev_timer timer;
} taken;

/* The addresses that a device is to have: pointers into host, or of conf. */
struct want {
	uint8_t gid[16];
	unsigned ifindex;
};

static bool gid_same(const uint8_t *a, const uint8_t *b) { return !memcmp(a, b, 16); }

static bool gid_empty(const uint8_t *gid)
{
	static const uint8_t zero[16];

	return gid_same(gid, zero);
}

static void tell(struct device *dev, unsigned event)
{
	if (running && gid_notify)
		gid_notify(dev, event);
}

/* ---- rows ---------------------------------------------------------------- */

static void taken_put(const struct device *dev, const uint8_t *gid)
{
	if (!taken.n++)
		memcpy(taken.first, gid, sizeof(taken.first));
	if (device_conf[dev->index].addr_n && !taken.named++)
		memcpy(taken.first_named, gid, sizeof(taken.first_named));
}

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

/* Of the link-local default; and how far it is from one row to the next. */
static unsigned row_default(const struct device *dev) { return dev->profile->gids == GIDS_PAIRS; }
static unsigned row_step(const struct device *dev) { return 1 + row_default(dev); }
static unsigned row_first(const struct device *dev) { return row_default(dev) + row_step(dev); }

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
		if (gid_empty(was[first + i * step].gid))
			continue;
		low = low < n ? low : i;
		high = i;
	}
	by = low < n ? high - low + 1 : 0;
	by = by == n ? 1 : by;
	for (unsigned i = 0; by && i < n; i++)
		if (!gid_empty(was[first + i * step].gid))
			row_set(dev, first + i * step, NULL, 0, false);
	for (unsigned i = 0; by && i < n; i++) {
		const struct gid_row *r = &was[first + i * step];
		unsigned to = first + (i + by) % n * step;

		if (gid_empty(r->gid))
			continue;
		row_set(dev, to, r->gid, r->ifindex, r->wire);
		log_note("%s: GID %u (%s) is GID %u now", dev->name, first + i * step, gid_text(r->gid, text), to);
	}
	tell(dev, EV_GID_CHANGE);
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
		if (gid_empty(dev->gid[i].gid) || is_wanted(want, n, dev->gid[i].gid))
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
	return gid_is_v4(gid) ? gid[12] == 169 && gid[13] == 254 : gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static void want_put(const struct device *dev, struct want *want, unsigned *n, const uint8_t *gid, unsigned ifindex)
{
	if (*n >= WANTS || is_wanted(want, *n, gid) || gid_same(dev->gid[row_default(dev)].gid, gid) ||
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
	struct gid_row *r = &dev->gid[row_default(dev)];
	const struct host_if *f = main_if(c);
	uint8_t gid[16] = { 0xfe, 0x80 };
	bool fresh = gid_empty(r->gid), wire, changed;

	if (f)
		eui_from_mac(f->mac, gid + 8);
	else if (fresh)
		eui_made_up(dev, c, gid + 8);
	else
		memcpy(gid, r->gid, 16); /* its interface may come back */
	if (!fresh && !f && !r->wire)
		return false;
	wire = f && addr_find(gid) && host_addr_usable(gid, f->index);
	changed = !gid_same(r->gid, gid);
	if (!changed && r->wire == wire)
		return false;
	if (fresh && !dev->guid) {
		for (unsigned i = 8; i < 16; i++)
			dev->guid = dev->guid << 8 | gid[i];
	}
	row_set(dev, row_default(dev), gid, f ? f->index : 0, wire);
	return changed;
}

/* ---- the port ------------------------------------------------------------ */

struct port {
	bool up;
	uint32_t mtu, mbps;
};

/* The interfaces that the rows stand on; loopback counts for MTU and speed only if there is nothing else. */
static struct port port_read(const struct device *dev)
{
	struct port p = { .mtu = UINT32_MAX };
	uint32_t mtu, mbps;
	bool any = false;

	for (unsigned i = 0; i < host.if_n; i++) {
		const struct host_if *f = &host.ifs[i];
		bool used = false;

		for (unsigned row = 0; row < RDMAD_GIDS && !used; row++)
			used = !gid_empty(dev->gid[row].gid) && dev->gid[row].ifindex == f->index;
		if (!used)
			continue;
		any = true;
		p.up |= (f->flags & IFF_UP) && (f->flags & IFF_RUNNING);
		if (f->flags & IFF_LOOPBACK)
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

static uint8_t mtu_code(uint64_t mtu)
{
	uint8_t code = 5;

	while (code > 1 && (128u << code) + MTU_HEADROOM > mtu)
		code--;
	return code;
}

static void mtu_call(struct shard *s, void *arg)
{
	const struct device *dev = arg;

	hca_mtu_set(s->hca[dev->index], dev->mtu);
}

static void port_update(struct device *dev)
{
	struct port p = port_read(dev);
	uint8_t mtu = mtu_code(p.mtu);
	bool was_up = dev->up;

	if (mtu > mtu_code(dev->profile->max_mtu + MTU_HEADROOM))
		mtu = mtu_code(dev->profile->max_mtu + MTU_HEADROOM);
	dev->link_mbps = dev->profile->mbps ? dev->profile->mbps : p.mbps ? p.mbps : LINK_MBPS;
	if (dev->mtu != mtu) {
		dev->mtu = mtu;
		for (unsigned i = 0; i < shards_n; i++)
			if (shards[i])
				shard_call(shards[i], mtu_call, dev);
	}
	dev->up = p.up && !dev->cut && !dev->gone;
	if (was_up != dev->up) {
		if (running)
			log_note("%s: port is %s", dev->name, dev->up ? "up" : "down");
		tell(dev, dev->up ? EV_PORT_ACTIVE : EV_PORT_ERR);
	}
}

void gid_unplug(struct device *dev, bool gone)
{
	dev->gone = gone;
	port_update(dev);
}

void gid_port_cut(struct device *dev, bool cut)
{
	dev->cut = cut;
	port_update(dev);
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
	taken.n = taken.named = 0;
	for (unsigned i = 0; i < devices_n; i++) {
		struct device *dev = &devices[i];
		const struct device_conf *c = &device_conf[i];

		changed = default_update(dev, c);
		n = c->addr_n ? want_conf(dev, c, want) : want_host(dev, c, want);
		changed |= rows_update(dev, want, n);
		port_update(dev);
		if (changed)
			tell(dev, EV_GID_CHANGE);
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

/* ---- a port that is taken -------------------------------------------------- */

#define TAKEN_BY "by another rdmad, or the module rdma_rxe"

static void on_try(struct ev_loop *loop, struct ev_timer *w, int);

/* An address may also come later.  One that stays taken is tried again with each change, and told of once. */
static void taken_follow(struct ev_loop *loop)
{
	char text[INET6_ADDRSTRLEN];

	if (taken.n && (taken.n > taken.told_n || !gid_same(taken.first, taken.told))) {
		log_warn("UDP port 4791 of %s is taken (" TAKEN_BY
			 "): only programs of this daemon reach each other there",
			 gid_text(taken.first, text));
		memcpy(taken.told, taken.first, sizeof(taken.told));
		taken.tries = 0;
	}
	taken.told_n = taken.n;
	if (!taken.n || ev_is_active(&taken.timer))
		return;
	taken.tries = 0;
	ev_timer_init(&taken.timer, on_try, PORT_TRY_S, PORT_TRY_S);
	ev_timer_start(loop, &taken.timer);
}

static void again(struct ev_loop *loop)
{
	int err = picture();

	if (err)
		log_warn("cannot read the host's addresses: %s", strerror(err));
	else
		taken_follow(loop);
}

static bool on_wire(const uint8_t *gid)
{
	for (unsigned i = 0; i < devices_n; i++)
		for (unsigned row = 0; row < RDMAD_GIDS; row++)
			if (devices[i].gid[row].wire && gid_same(devices[i].gid[row].gid, gid))
				return true;
	return false;
}

static void on_try(struct ev_loop *loop, struct ev_timer *w, int)
{
	char text[INET6_ADDRSTRLEN];

	again(loop);
	if (!taken.n && on_wire(taken.first))
		log_note("UDP port 4791 of %s has become free, and is ours", gid_text(taken.first, text));
	if (!taken.n || ++taken.tries == PORT_TRIES)
		ev_timer_stop(loop, w);
}

static void on_message(struct ev_loop *loop, struct ev_io *w, int)
{
	char buf[16384];

	while (recv(w->fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		; /* that there was something says it all */
	again(loop);
}

static bool told_to_end(void)
{
	sigset_t pending;

	return !sigpending(&pending) && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* A private daemon is made for the addresses that it was given: without them it would be of no use, and not say so. */
static int taken_wait(void)
{
	const struct timespec pause = { .tv_nsec = (long)(PORT_TRY_S * 1e9) };
	char text[INET6_ADDRSTRLEN];
	int err = 0;

	log_note("UDP port 4791 of %s is taken (" TAKEN_BY "): waiting for it", gid_text(taken.first_named, text));
	for (unsigned i = 0; !err && taken.named && i < PORT_TRIES; i++) {
		nanosleep(&pause, NULL);
		if (told_to_end())
			return EINTR;
		err = picture();
	}
	if (err || !taken.named)
		return err;
	log_err("UDP port 4791 of %s is still taken after %.0f s (" TAKEN_BY "): end that, or choose another address",
		gid_text(taken.first_named, text), PORT_TRIES * PORT_TRY_S);
	return EADDRINUSE;
}

/* ---- start and end ----------------------------------------------------------- */

/* Of the addresses that the configuration names: they may come later, or be wrong. */
static void absent_tell(const struct device *dev)
{
	const struct device_conf *c = &device_conf[dev->index];
	char text[INET6_ADDRSTRLEN];

	for (unsigned i = 0; i < c->addr_n; i++)
		if (!addr_find(c->addr[i].s6_addr) && !host_addr_usable(c->addr[i].s6_addr, 0))
			log_warn("%s is no address of this host: %s %s until it is", gid_text(c->addr[i].s6_addr, text),
				 dev->name, dev->up ? "does without it" : "is DOWN");
}

int gid_start(struct ev_loop *loop, bool must)
{
	int fd = netlink_open(), err; /* first, so that nothing is missed between */

	err = picture();
	if (err)
		log_err("cannot read the addresses of this host: %s", strerror(err));
	else
		err = must && taken.named ? taken_wait() : 0;
	if (!err)
		taken_follow(loop);
	for (unsigned i = 0; !err && i < devices_n; i++)
		absent_tell(&devices[i]);
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
	if (ev_is_active(&taken.timer))
		ev_timer_stop(loop, &taken.timer);
	if (watcher.fd < 0)
		return;
	ev_io_stop(loop, &watcher);
	close(watcher.fd);
	watcher.fd = -1;
	running = false;
}
