/* SPDX-License-Identifier: MIT */
/*
 * conf_profile.c - the sections profile of rdmad.conf: profiles of the user's own, each like another one but for what it says.
 *
 * A section is taken when it is complete, so that what stands below it can name it.
 */
#include "conf_in.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct profile, field), sizeof(((struct profile *)0)->field)

static const struct {
	const char *key;
	size_t at, len;
} texts[] = {
	{ "device", AT(device) },
	{ "firmware", AT(fw) },
	{ "board-id", AT(board) },
	{ "hca-type", AT(hca_type) },
};

static const struct {
	const char *key;
	size_t at, len;
	long least, most;
} numbers[] = {
	{ "ports", AT(ports), 1, 8 },
	{ "vendor-id", AT(vendor), 0, 0xffffff },
	{ "part-id", AT(part), 0, UINT32_MAX },
	{ "hw-version", AT(hw_ver), 0, UINT32_MAX },
	{ "pci-vendor", AT(pci_vendor), 0, 0xffffff },
	{ "pci-device", AT(pci_device), 0, 0xffff },
	{ "speed", AT(mbps), 1, 800000 },
};

static const struct {
	const char *key, *word;
	size_t at, len;
	uint8_t value;
} words[] = {
	{ "gids", "all", AT(gids), GIDS_ALL },
	{ "gids", "pairs", AT(gids), GIDS_PAIRS },
	{ "gids", "link-local", AT(gids), GIDS_LINK_LOCAL },
	{ "link-layer", "ethernet", AT(link), LINK_ETHERNET },
	{ "link-layer", "unspecified", AT(link), LINK_UNSPECIFIED },
	{ "link-layer", "infiniband", AT(link), LINK_INFINIBAND },
};

static const struct {
	const char *key;
	size_t at;
	uint64_t own;
} limits[] = {
#define LIMIT(field, key, own, text) { key, offsetof(struct profile, field), own },
#include "limit.def"
#undef LIMIT
};

#define N(table) (sizeof(table) / sizeof(*(table)))

static struct profile mine[PROFILES_MAX];
static unsigned mine_n;

cfg_opt_t conf_profile_opts[] = { CFG_STR("like", NULL, CFGF_NODEFAULT),
				  CFG_STR("device", NULL, CFGF_NODEFAULT),
				  CFG_STR("firmware", NULL, CFGF_NODEFAULT),
				  CFG_STR("board-id", NULL, CFGF_NODEFAULT),
				  CFG_STR("hca-type", NULL, CFGF_NODEFAULT),
				  CONF_INT("ports"),
				  CONF_INT("vendor-id"),
				  CONF_INT("part-id"),
				  CONF_INT("hw-version"),
				  CONF_INT("pci-vendor"),
				  CONF_INT("pci-device"),
				  CONF_INT("speed"),
				  CFG_STR("gids", NULL, CFGF_NODEFAULT),
				  CFG_STR("link-layer", NULL, CFGF_NODEFAULT),
				  CFG_STR_LIST("refuse", NULL, CFGF_NODEFAULT),
#define LIMIT(field, key, own, text) CONF_INT(key),
#include "limit.def"
#undef LIMIT
				  CFG_END() };

/* ---- values --------------------------------------------------------------------------- */

static int check_text(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);
	bool name = !strcmp(opt->name, "device");
	size_t most = 0;

	for (unsigned i = 0; i < N(texts); i++)
		if (!strcmp(opt->name, texts[i].key))
			most = texts[i].len - 1;
	if (name)
		most -= 11; /* the number takes the place of # */
	if (!*s || strlen(s) > most)
		return conf_wrong(cfg, "%s \"%s\" is empty or too long; give 1 to %zu characters", opt->name, s, most);
	for (const char *p = s; *p; p++)
		if (name ? !isalnum((unsigned char)*p) && !strchr("_-#", *p) : !isgraph((unsigned char)*p))
			return conf_wrong(cfg, "%s \"%s\" has a character that cannot be there; %s", opt->name, s,
					  name ? "use letters, digits, _ and -, and # for the device's number"
					       : "use printable ones without blanks");
	return name && strchr(s, '#') != strrchr(s, '#')
		       ? conf_wrong(cfg, "device \"%s\" has two places for a number; leave one #", s)
		       : 0;
}

static int check_number(cfg_t *cfg, cfg_opt_t *opt)
{
	long n = cfg_opt_getnint(opt, 0);

	for (unsigned i = 0; i < N(numbers); i++)
		if (!strcmp(opt->name, numbers[i].key) && (n < numbers[i].least || n > numbers[i].most))
			return conf_wrong(cfg, "%s is %ld; give %ld to %ld", opt->name, n, numbers[i].least,
					  numbers[i].most);
	return 0;
}

static int check_word(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, 0);
	char all[128] = "";

	for (unsigned i = 0; i < N(words); i++) {
		if (strcmp(opt->name, words[i].key) != 0)
			continue;
		if (!strcmp(s, words[i].word))
			return 0;
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", *all ? ", " : "", words[i].word);
	}
	return conf_wrong(cfg, "%s \"%s\" is unknown; give one of: %s", opt->name, s, all);
}

static int check_limit(cfg_t *cfg, cfg_opt_t *opt)
{
	long n = cfg_opt_getnint(opt, 0);

	if (n < 1)
		return conf_wrong(cfg, "%s is %ld; give 1 or more, or take the feature away with refuse", opt->name, n);
	if (!strcmp(opt->name, "max-mtu") && (n < 256 || n > 4096 || n & (n - 1)))
		return conf_wrong(cfg, "max-mtu is %ld; give 256, 512, 1024, 2048 or 4096", n);
	return 0;
}

static int check_refuse(cfg_t *cfg, cfg_opt_t *opt)
{
	char all[768] = "";

	for (unsigned i = 0; i < cfg_opt_size(opt); i++) {
		if (feature_find(cfg_opt_getnstr(opt, i)) < FEATURES)
			continue;
		for (unsigned s = 0; s < FEATURES; s++)
			snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", s ? ", " : "",
				 feature_row(s)->word);
		return conf_wrong(cfg, "\"%s\" is no feature that can be refused; these are: %s",
				  cfg_opt_getnstr(opt, i), all);
	}
	return 0;
}

void conf_profile_checks(cfg_t *cfg)
{
	char key[64];

	for (unsigned i = 0; conf_profile_opts[i].name; i++) {
		const cfg_opt_t *o = &conf_profile_opts[i];

		snprintf(key, sizeof(key), "profile|%s", o->name);
		for (unsigned k = 0; k < N(texts); k++)
			if (!strcmp(o->name, texts[k].key))
				cfg_set_validate_func(cfg, key, check_text);
		for (unsigned k = 0; k < N(numbers); k++)
			if (!strcmp(o->name, numbers[k].key))
				cfg_set_validate_func(cfg, key, check_number);
		for (unsigned k = 0; k < N(words); k++)
			if (!strcmp(o->name, words[k].key))
				cfg_set_validate_func(cfg, key, check_word);
		for (unsigned k = 0; k < N(limits); k++)
			if (!strcmp(o->name, limits[k].key))
				cfg_set_validate_func(cfg, key, check_limit);
	}
	cfg_set_validate_func(cfg, "profile|refuse", check_refuse);
}

/* ---- the section ----------------------------------------------------------------------- */

void conf_profiles_begin(void)
{
	memset(mine, 0, sizeof(mine)); /* what is between the fields, too: conf_changes() */
	mine_n = 0;
}

static const struct profile *find(const struct profile *v, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(v[i].name, name))
			return &v[i];
	return profile_find(name);
}

const struct profile *conf_profile_known(const char *name) { return find(mine, mine_n, name); }

const struct profile *conf_profile_of(const struct conf *c, const char *name)
{
	return find(c->profile.v, c->profile.n, name);
}

static void take(struct profile *p, cfg_t *sec)
{
	char *to = (char *)p;

	for (unsigned i = 0; i < N(texts); i++)
		if (cfg_getstr(sec, texts[i].key))
			snprintf(to + texts[i].at, texts[i].len, "%s", cfg_getstr(sec, texts[i].key));
	for (unsigned i = 0; i < N(numbers); i++)
		if (cfg_size(sec, numbers[i].key))
			*(uint32_t *)(to + numbers[i].at) = (uint32_t)cfg_getint(sec, numbers[i].key);
	for (unsigned i = 0; i < N(words); i++)
		if (cfg_getstr(sec, words[i].key) && !strcmp(cfg_getstr(sec, words[i].key), words[i].word))
			*(to + words[i].at) = (char)words[i].value;
	for (unsigned i = 0; i < N(limits); i++)
		if (cfg_size(sec, limits[i].key))
			*(uint64_t *)(to + limits[i].at) = (uint64_t)cfg_getint(sec, limits[i].key);
	if (cfg_size(sec, "speed"))
		p->active_speed = p->active_width = 0;
	if (!(cfg_getopt(sec, "refuse")->flags & CFGF_MODIFIED))
		return; /* an empty list is one, too */
	p->no = 0;
	for (unsigned i = 0; i < cfg_size(sec, "refuse"); i++)
		p->no |= UINT64_C(1) << feature_find(cfg_getnstr(sec, "refuse", i));
}

/* Runs when the section is complete. */
int conf_profile_check(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *sec = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
	const char *name = cfg_title(sec), *like = cfg_getstr(sec, "like");
	const struct profile *base = conf_profile_known(like ? like : PROFILE_OWN);
	char all[256];

	if (!name[0] || strlen(name) >= PROFILE_NAME_LEN)
		return conf_wrong(cfg, "profile without a good name; give 1 to %u characters", PROFILE_NAME_LEN - 1);
	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-')
			return conf_wrong(cfg, "\"%s\" is no name for a profile; use letters, digits, _ and - only",
					  name);
	if (conf_profile_known(name))
		return conf_wrong(cfg, "there is a profile \"%s\" already; choose another name", name);
	if (mine_n == PROFILES_MAX)
		return conf_wrong(cfg, "more than %u profiles; leave some out", PROFILES_MAX);
	profile_names(all, sizeof(all));
	if (!base)
		return conf_wrong(
			cfg, "there is no profile \"%s\" to be like; give %s, or one of a section profile above this",
			like, all);
	memcpy(&mine[mine_n], base, sizeof(*base));
	memset(mine[mine_n].name, 0, sizeof(mine[mine_n].name));
	snprintf(mine[mine_n].name, sizeof(mine[mine_n].name), "%s", name);
	if (!cfg_getstr(sec, "device") && !like)
		snprintf(mine[mine_n].device, sizeof(mine[mine_n].device), "%s#", name);
	if (cfg_getstr(sec, "device"))
		mine[mine_n].first = 0;
	take(&mine[mine_n++], sec);
	return 0;
}

void conf_profiles_take(struct conf *c)
{
	c->profile.n = mine_n;
	memcpy(c->profile.v, mine, sizeof(mine));
}
