/* SPDX-License-Identifier: MIT */
/* conf_device.c - the sections device of rdmad.conf, and the devices that they make. */
#include "conf_in.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid_text.h>

#include "../../proto/hdr.h"

#define NUMA_MOST  255
#define UNNUMBERED UINT32_MAX /* until conf_devices_settle() */

struct device devices[DEVICES_MAX];
unsigned devices_n;
struct device_conf device_conf[DEVICES_MAX];

struct device *device_find(const char *name)
{
	for (unsigned i = 0; i < devices_n; i++)
		if (!strcmp(devices[i].name, name))
			return &devices[i];
	return NULL;
}

const struct device *device_adapter(const struct device *d)
{
	for (unsigned i = 0; i < devices_n && d->profile->ports > 1; i++)
		if (!strcmp(devices[i].profile->name, d->profile->name) &&
		    devices[i].nth / d->profile->ports == d->nth / d->profile->ports)
			return &devices[i];
	return d;
}

unsigned device_port(const struct device *d) { return d->nth % d->profile->ports; }

const struct gid_row *device_gid(const struct device *dev, unsigned row, uint32_t *type)
{
	bool v1 = dev->profile->gids == GIDS_PAIRS && !(row & 1);

	*type = profile_has_lids(dev->profile) ? 0 : v1 ? 1 : 2;
	return &dev->gid[row | v1];
}

unsigned device_lid_row(const struct device *dev)
{
	unsigned found = profile_default_row(dev->profile);

	for (unsigned i = 0; i < RDMAD_GIDS; i++) {
		const uint8_t *gid = dev->gid[i].gid;

		if (gid_is_v4(gid) && !gid_is_loopback(gid))
			return i;
		if (gid_is_v4(gid) && !gid_is_v4(dev->gid[found].gid))
			found = i;
	}
	return found;
}

uint16_t device_lid(const struct device *dev)
{
	return profile_has_lids(dev->profile) ? gid_lid(dev->gid[device_lid_row(dev)].gid) : 0;
}

unsigned device_gid_interface(const struct device *dev, const struct gid_row *row)
{
	const unsigned loopback = 1; /* in each network namespace */
	unsigned found = row->ifindex;

	if (found || gid_is_empty(row->gid))
		return found;
	for (unsigned i = 0; i < RDMAD_GIDS; i++)
		if (!found || (found == loopback && dev->gid[i].ifindex))
			found = dev->gid[i].ifindex;
	return found;
}

int device_row(const struct device *dev, const uint8_t gid[16])
{
	for (int i = 0; i < (int)RDMAD_GIDS; i++)
		if (gid_same(dev->gid[i].gid, gid))
			return i;
	return -1;
}

int device_of_gid(const uint8_t gid[16])
{
	for (unsigned d = 0; d < devices_n && !gid_is_empty(gid); d++)
		if (device_row(&devices[d], gid) >= 0)
			return (int)d;
	return -1;
}

/* ---- values -------------------------------------------------------------------------- */

static int check_netdev(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);

	if (!s[0] || strlen(s) >= IF_NAMESIZE)
		return conf_wrong(cfg, "netdev \"%s\" is no name of an interface; \"ip link\" lists them", s);
	return 0;
}

static int check_addresses(cfg_t *cfg, cfg_opt_t *opt)
{
	unsigned n = cfg_opt_size(opt);
	const char *s = n ? cfg_opt_getnstr(opt, n - 1) : NULL;
	uint8_t gid[16];

	if (n > RDMAD_GIDS - 1)
		return conf_wrong(cfg, "more than %u addresses; the GID table is full then", RDMAD_GIDS - 1);
	if (n && !gid_read(s, gid))
		return conf_wrong(cfg, "\"%s\" is no address; give IPv4 or IPv6 addresses without a prefix length", s);
	if (n && gid_is_nobody(gid))
		return conf_wrong(cfg, "\"%s\" is no address that a host has; give one, or leave addresses out for all",
				  s);
	return 0;
}

/* 0123:4567:89ab:cdef as ibv_devinfo writes it, or 16 digits. */
static bool guid_parse(const char *s, uint64_t *guid)
{
	unsigned digits = 0;

	*guid = 0;
	for (; *s; s++) {
		if (*s == ':')
			continue;
		if (!isxdigit((unsigned char)*s) || ++digits > 16)
			return false;
		*guid = *guid << 4 | (unsigned)(isdigit((unsigned char)*s) ? *s - '0' : (tolower(*s) - 'a' + 10));
	}
	return digits == 16 && *guid;
}

static int check_guid(cfg_t *cfg, cfg_opt_t *opt)
{
	uint64_t guid;

	if (!guid_parse(cfg_opt_getnstr(opt, 0), &guid))
		return conf_wrong(cfg,
				  "guid \"%s\" is none; give 16 hexadecimal digits, such as \"0200:5eff:fe00:5301\"",
				  cfg_opt_getnstr(opt, 0));
	return 0;
}

static int check_numa(cfg_t *cfg, cfg_opt_t *opt)
{
	long n = cfg_opt_getnint(opt, 0);

	return n < -1 || n > NUMA_MOST
		       ? conf_wrong(cfg, "numa-node is %ld; give 0 to %d, or -1 for that of the interface", n,
				    NUMA_MOST)
		       : 0;
}

/* As a row of the P_Key table; the default partition has row 0. */
static int check_pkeys(cfg_t *cfg, cfg_opt_t *opt)
{
	unsigned n = cfg_opt_size(opt);

	if (n > RD_PKEYS - 1)
		return conf_wrong(cfg, "more than %u P_Keys; the table is full then", RD_PKEYS - 1);
	for (unsigned i = n ? n - 1 : 0; i < n; i++) {
		long v = cfg_opt_getnint(opt, i);

		if (v < 0 || v > 0xffff || !(v & PKEY_PART) || (v & PKEY_PART) == PKEY_PART)
			return conf_wrong(
				cfg,
				"0x%lx is no P_Key to add; give 0x8001 to 0xfffe for a full member of a partition, "
				"0x0001 to 0x7ffe for a limited one",
				v);
		for (unsigned k = 0; k < i; k++)
			if (((v ^ cfg_opt_getnint(opt, k)) & PKEY_PART) == 0)
				return conf_wrong(
					cfg, "0x%lx names a partition that pkeys has already; take one of them out", v);
	}
	return 0;
}

/* Each address belongs to one device: else a packet for it would have two receivers. */
static int check_overlap(cfg_t *cfg, cfg_t *a, cfg_t *b)
{
	const char *na = cfg_getstr(a, "netdev"), *nb = cfg_getstr(b, "netdev");
	struct in6_addr x, y;

	if ((!na && !cfg_size(a, "addresses")) || (!nb && !cfg_size(b, "addresses")))
		return conf_wrong(
			cfg,
			"of the devices %s and %s one takes all addresses of the host; give both netdev or addresses",
			cfg_title(a), cfg_title(b));
	if (na && nb && !strcmp(na, nb) && (!cfg_size(a, "addresses") || !cfg_size(b, "addresses")))
		return conf_wrong(cfg, "the devices %s and %s are both on %s; say which addresses each has",
				  cfg_title(a), cfg_title(b), na);
	for (unsigned i = 0; i < cfg_size(a, "addresses"); i++)
		for (unsigned k = 0; k < cfg_size(b, "addresses"); k++)
			if (gid_read(cfg_getnstr(a, "addresses", i), x.s6_addr) &&
			    gid_read(cfg_getnstr(b, "addresses", k), y.s6_addr) && !memcmp(&x, &y, sizeof(x)))
				return conf_wrong(
					cfg, "the devices %s and %s both have the address %s; take it from one of them",
					cfg_title(a), cfg_title(b), cfg_getnstr(b, "addresses", k));
	return 0;
}

/* Digits are the number of one of its profile's devices.  false: there are none. */
static bool number_of(cfg_t *sec, unsigned *number)
{
	const char *title = cfg_title(sec);

	*number = (unsigned)strtoul(title, NULL, 10);
	return cfg_getstr(sec, "profile") && strlen(title) < 5 && title[strspn(title, "0123456789")] == 0;
}

/* NULL: there is none of that name, as was said. */
static const struct profile *profile_of(cfg_t *sec)
{
	const char *s = cfg_getstr(sec, "profile");

	return conf_profile_known(s ? s : PROFILE_OWN);
}

static void name_of(cfg_t *sec, char name[RDMAD_NAME_LEN])
{
	const struct profile *p = profile_of(sec);
	unsigned number;

	if (p && number_of(sec, &number))
		profile_device(p, number, name);
	else
		snprintf(name, RDMAD_NAME_LEN, "%s", cfg_title(sec));
}

static int check_profile(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);
	char all[256];

	profile_names(all, sizeof(all));
	return conf_profile_known(s) ? 0
				     : conf_wrong(cfg,
						  "there is no profile \"%s\"; give %s, or one of a section profile "
						  "above this line",
						  s, all);
}

/* Is there room in the profile, and a name that no other device has? */
static int check_look(cfg_t *cfg, cfg_opt_t *opt, cfg_t *sec)
{
	char name[RDMAD_NAME_LEN], other[RDMAD_NAME_LEN];
	const struct profile *known = profile_of(sec);
	struct profile p;

	if (!known)
		return 0;
	p = *known;
	profile_settle(&p);
	if (cfg_size(sec, "pkeys") >= p.max_pkeys)
		return conf_wrong(cfg, "the P_Key table of profile %s has %u rows; take %u of the pkeys out", p.name,
				  (unsigned)p.max_pkeys, (unsigned)(cfg_size(sec, "pkeys") + 1 - p.max_pkeys));
	if (cfg_size(sec, "addresses") > profile_addresses(&p))
		return conf_wrong(cfg, "the GID table of profile %s has room for %u addresses; take %u of them out",
				  p.name, (unsigned)profile_addresses(&p),
				  (unsigned)(cfg_size(sec, "addresses") - profile_addresses(&p)));
	name_of(sec, name);
	for (unsigned i = 0; i + 1 < cfg_opt_size(opt); i++) {
		name_of(cfg_opt_getnsec(opt, i), other);
		if (!strcmp(name, other))
			return conf_wrong(cfg, "two devices have the name %s; give one of them another number or name",
					  name);
	}
	return 0;
}

/* Runs when the section is complete. */
int conf_device_check(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *sec = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
	const char *name = cfg_title(sec);

	if (!name[0] || strlen(name) >= RDMAD_NAME_LEN)
		return conf_wrong(cfg, "device without a good name; give 1 to %u characters", RDMAD_NAME_LEN - 1);
	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-')
			return conf_wrong(cfg, "\"%s\" is no name for a device; use letters, digits, _ and - only",
					  name);
	if (cfg_opt_size(opt) > DEVICES_MAX)
		return conf_wrong(cfg, "more than %u devices; leave some out", DEVICES_MAX);
	for (unsigned i = 0; i + 1 < cfg_opt_size(opt); i++)
		check_overlap(cfg, cfg_opt_getnsec(opt, i), sec);
	return check_look(cfg, opt, sec);
}

/* ---- the section ----------------------------------------------------------------------- */

cfg_opt_t conf_device_opts[] = { CFG_STR("netdev", NULL, CFGF_NODEFAULT),
				 CFG_STR_LIST("addresses", NULL, CFGF_NODEFAULT),
				 CONF_INTS("pkeys"),
				 CFG_STR("guid", NULL, CFGF_NODEFAULT),
				 CFG_STR("profile", NULL, CFGF_NODEFAULT),
				 CFG_INT_CB("numa-node", -1, CFGF_NONE, conf_number),
				 CFG_BOOL("spare", cfg_false, CFGF_NONE),
				 CFG_END() };

void conf_device_checks(cfg_t *cfg)
{
	cfg_set_validate_func(cfg, "device|netdev", check_netdev);
	cfg_set_validate_func(cfg, "device|addresses", check_addresses);
	cfg_set_validate_func(cfg, "device|guid", check_guid);
	cfg_set_validate_func(cfg, "device|pkeys", check_pkeys);
	cfg_set_validate_func(cfg, "device|profile", check_profile);
	cfg_set_validate_func(cfg, "device|numa-node", check_numa);
}

void conf_device_take(struct conf_device *d, cfg_t *sec)
{
	const char *s;

	name_of(sec, d->name);
	if (!number_of(sec, &d->number))
		d->number = UNNUMBERED;
	s = cfg_getstr(sec, "profile");
	snprintf(d->profile, sizeof(d->profile), "%s", s ? s : PROFILE_OWN);
	d->numa = (int)cfg_getint(sec, "numa-node");
	d->spare = cfg_getbool(sec, "spare");
	s = cfg_getstr(sec, "guid");
	if (s)
		guid_parse(s, &d->guid);
	s = cfg_getstr(sec, "netdev");
	if (s)
		snprintf(d->at.netdev, sizeof(d->at.netdev), "%s", s);
	d->at.addr_n = cfg_size(sec, "addresses");
	for (unsigned n = 0; n < d->at.addr_n; n++)
		gid_read(cfg_getnstr(sec, "addresses", n), d->at.addr[n].s6_addr);
	d->pkey_n = cfg_size(sec, "pkeys");
	for (unsigned n = 0; n < d->pkey_n; n++)
		d->pkey[n] = (uint16_t)cfg_getnint(sec, "pkeys", n);
}

static bool is_taken(const struct conf *c, const char *profile, unsigned number)
{
	for (unsigned i = 0; i < c->device.n; i++)
		if (c->device.v[i].number == number && !strcmp(c->device.v[i].profile, profile))
			return true;
	return false;
}

void conf_devices_settle(struct conf *c)
{
	unsigned n = 0, number;

	for (unsigned i = 0; i < c->device.n; i++) {
		const struct conf_device *d = &c->device.v[i];

		if (!d->spare || d->number < conf_profile_of(c, d->profile)->ports)
			c->device.v[n++] = *d;
	}
	memset(&c->device.v[n], 0, (c->device.n - n) * sizeof(c->device.v[0]));
	c->device.n = n;
	for (unsigned i = 0; i < n; i++) {
		struct conf_device *d = &c->device.v[i];

		if (d->number != UNNUMBERED)
			continue;
		for (number = 0; is_taken(c, d->profile, number);)
			number++;
		d->number = number;
	}
}

void conf_devices(const struct conf *c)
{
	static struct profile profiles[DEVICES_MAX];

	devices_n = c->device.n;
	for (unsigned i = 0; i < devices_n; i++) {
		const struct conf_device *from = &c->device.v[i];

		devices[i] = (struct device){ .index = i, .guid = from->guid, .pkey = { PKEY_DEFAULT } };
		devices[i].pkey_n = 1 + from->pkey_n;
		memcpy(&devices[i].pkey[1], from->pkey, sizeof(from->pkey));
		memcpy(devices[i].name, from->name, sizeof(devices[i].name));
		device_conf[i] = from->at;
		profiles[i] = *conf_profile_of(c, from->profile);
		profile_settle(&profiles[i]);
		devices[i].profile = &profiles[i];
		devices[i].nth = from->number;
		devices[i].numa = from->numa;
	}
}
