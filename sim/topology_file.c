/* SPDX-License-Identifier: MIT */
/* topology_file.c - YAML to a topology, by tables of keys; see rdmad-sim(1) for what they mean. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/rule_yaml.h"

#include "say.h"
#include "topology.h"
#include "topology_check.h"

#define GROUPS_MOST 64u
#define LOADS_MOST  64u

static bool get_flag(struct reader *rd, const struct node *n, bool *to)
{
	static const char *const words[] = { "no", "yes", "false", "true" };
	unsigned i;

	if (!get_word(rd, n, "yes or no", words, 4, &i))
		return false;
	*to = i & 1;
	return true;
}

static bool get_double(struct reader *rd, const struct node *n, double least, double most, const char *what, double *to)
{
	const char *s = node_word(rd, n, what);
	char *end;

	if (!s)
		return false;
	*to = strtod(s, &end);
	if (!isdigit((unsigned char)*s) || *end || *to < least || *to > most)
		return node_bad(rd, n, "%s is a number from %g to %g, not \"%.20s\"", what, least, most, s);
	return true;
}

static bool get_bytes(struct reader *rd, const struct node *n, uint64_t least, uint64_t most, const char *what,
		      uint64_t *to)
{
	if (!get_size(rd, n, to))
		return false;
	if (*to < least || *to > most)
		return node_bad(rd, n, "%s is from %llu to %llu bytes", what, (unsigned long long)least,
				(unsigned long long)most);
	return true;
}

/* ---- sets of nodes: host, host3, host0..9, leaf, leaf1 ----------------------------------------- */

static bool find_name(const struct topology *t, const char *name, size_t len, struct nodes *all)
{
	if (len == 4 && !strncmp(name, "host", 4)) {
		*all = (struct nodes){ 0, t->hosts };
		return true;
	}
	for (unsigned i = 0; i < t->group_n; i++) {
		if (strlen(t->group[i].name) != len || strncmp(t->group[i].name, name, len))
			continue;
		*all = t->group[i].nodes;
		return true;
	}
	return false;
}

static bool get_nodes(struct reader *rd, const struct node *n, const struct topology *t, struct nodes *to)
{
	const char *s = node_word(rd, n, "nodes");
	unsigned long first, last;
	struct nodes all;
	size_t len;
	char *end;

	if (!s)
		return false;
	for (len = strlen(s); len && (isdigit((unsigned char)s[len - 1]) || s[len - 1] == '.');)
		len--;
	if (!find_name(t, s, len, &all) || !all.n)
		return node_bad(rd, n,
				"there is no \"%.*s\": nodes are host, host3, host0..9, or a switch of this file by "
				"its name; hosts and switches stand before links and workload",
				30, s);
	*to = all;
	if (!s[len])
		return true;
	first = last = strtoul(s + len, &end, 10);
	if (end != s + len && end[0] == '.' && end[1] == '.' && isdigit((unsigned char)end[2]))
		last = strtoul(end + 2, &end, 10);
	if (end == s + len || *end || last < first)
		return node_bad(rd, n, "\"%.*s\" names no nodes; it looks like host3 or host0..9", 30, s);
	if (last >= all.n)
		return node_bad(rd, n, "\"%.*s\": there are %.*s0..%u", 30, s, (int)len, s, all.n - 1);
	*to = (struct nodes){ all.first + (uint32_t)first, (uint32_t)(last - first) + 1 };
	return true;
}

/* ---- switches ------------------------------------------------------------------------------------ */

#define GET(function, type, expression)                                          \
	static bool function(struct reader *rd, const struct node *n, void *arg) \
	{                                                                        \
		type *it = arg;                                                  \
                                                                                 \
		return expression;                                               \
	}

GET(ecn_kmin, struct ecn, get_bytes(rd, n, 1, 1u << 30, "kmin", &it->kmin))
GET(ecn_kmax, struct ecn, get_bytes(rd, n, 1, 1u << 30, "kmax", &it->kmax))

static bool ecn_pmax(struct reader *rd, const struct node *n, void *arg)
{
	uint64_t share;

	if (!get_share(rd, n, &share))
		return false;
	((struct ecn *)arg)->pmax = (double)share / 0x1p53;
	return true;
}

static bool switch_ecn(struct reader *rd, const struct node *n, void *arg)
{
	static const struct key keys[] = {
		{ "kmin", ecn_kmin }, { "kmax", ecn_kmax }, { "pmax", ecn_pmax }, { NULL, NULL }
	};
	struct ecn *e = &((struct group *)arg)->ecn;

	e->on = true;
	if (!node_map(rd, n, "ecn", keys, e))
		return false;
	if (e->kmin > e->kmax)
		return node_bad(
			rd, n,
			"kmin is above kmax: marking begins at kmin bytes of queue, and from kmax on all is marked");
	return true;
}

static bool switch_name(struct reader *rd, const struct node *n, void *arg)
{
	struct group *g = arg;

	if (!get_text(rd, n, "a name", g->name, sizeof(g->name)))
		return false;
	for (const char *s = g->name; *s; s++)
		if (!isalpha((unsigned char)*s) && *s != '-' && *s != '_')
			return node_bad(rd, n, "\"%s\": a name has letters only; the number behind it is made here",
					g->name);
	if (!*g->name || !strcmp(g->name, "host"))
		return node_bad(rd, n, "\"%s\" is no name for a switch: take another one", g->name);
	return true;
}

GET(switch_count, struct group, get_u32(rd, n, 1, SWITCHES_MOST, "count", &it->nodes.n))
GET(switch_buffer, struct group, get_bytes(rd, n, 10000, 1ull << 40, "buffer", &it->buffer))
GET(switch_alpha, struct group, get_double(rd, n, 0.001, 1000, "alpha", &it->alpha))
GET(switch_pfc, struct group, get_flag(rd, n, &it->pfc))

static bool one_switch(struct reader *rd, const struct node *n, void *arg)
{
	static const struct key keys[] = { { "name", switch_name },
					   { "count", switch_count },
					   { "buffer", switch_buffer },
					   { "alpha", switch_alpha },
					   { "pfc", switch_pfc },
					   { "ecn", switch_ecn },
					   { NULL, NULL } };
	struct topology *t = arg;
	struct group *g = &t->group[t->group_n];
	struct nodes same;

	if (t->group_n == GROUPS_MOST)
		return node_bad(rd, n, "more than %u kinds of switches; \"count\" makes many of one kind", GROUPS_MOST);
	if (!t->hosts)
		return node_bad(rd, n, "\"hosts: N\" has to stand before switches");
	*g = (struct group){ .nodes.n = 1,
			     .buffer = 16u << 20,
			     .alpha = 1,
			     .ecn = { .kmin = 102400, .kmax = 409600, .pmax = 0.01 },
			     .line = node_line(n) };
	if (!node_map(rd, n, "a switch", keys, g))
		return false;
	if (!*g->name)
		return node_bad(rd, n, "the switch has no \"name\", by which links find it");
	if (find_name(t, g->name, strlen(g->name), &same))
		return node_bad(rd, n, "there is a switch \"%s\" already", g->name);
	if (t->switches + g->nodes.n > SWITCHES_MOST)
		return node_bad(rd, n, "more than %u switches", SWITCHES_MOST);
	g->nodes.first = t->hosts + t->switches;
	t->switches += g->nodes.n;
	t->group_n++;
	return true;
}

/* ---- links --------------------------------------------------------------------------------------- */

struct span_of { /* a line of links */
	const struct topology *t;
	struct nodes from, to;
	struct cable like;
};

GET(link_from, struct span_of, get_nodes(rd, n, it->t, &it->from))
GET(link_to, struct span_of, get_nodes(rd, n, it->t, &it->to))
GET(link_rate, struct span_of, get_rate(rd, n, &it->like.rate))
GET(link_delay, struct span_of, get_ns(rd, n, &it->like.delay_ns))

static void cable_add(struct topology *t, const struct cable *like, uint32_t a, uint32_t b)
{
	if (t->cable_n == t->cable_max) {
		t->cable_max = t->cable_max ? 2 * t->cable_max : 256;
		t->cable = room_for(t->cable, t->cable_max, sizeof(*t->cable));
	}
	t->cable[t->cable_n] = *like;
	t->cable[t->cable_n].a = a;
	t->cable[t->cable_n++].b = b;
}

/* Hosts are shared out evenly, in order; of switches each gets a link to each. */
static bool one_link(struct reader *rd, const struct node *n, void *arg)
{
	static const struct key keys[] = {
		{ "from", link_from }, { "to", link_to }, { "rate", link_rate }, { "delay", link_delay }, { NULL, NULL }
	};
	struct topology *t = arg;
	struct span_of s = { .t = t, .like = { .rate = 100000000000u, .delay_ns = 1000, .line = node_line(n) } };

	if (!node_map(rd, n, "a link", keys, &s))
		return false;
	if (!s.from.n || !s.to.n)
		return node_bad(rd, n, "a link has \"from\" and \"to\"");
	if (s.to.first < t->hosts)
		return node_bad(rd, n, "a link leads to a switch: hosts stand behind \"from\"");
	if ((uint64_t)s.from.n * s.to.n > CABLES_MOST - t->cable_n)
		return node_bad(rd, n, "with this there are more than %u links; fewer switches need less", CABLES_MOST);
	for (uint32_t i = 0; i < s.from.n; i++) {
		if (s.from.first < t->hosts) {
			cable_add(t, &s.like, s.from.first + i,
				  s.to.first + (uint32_t)((uint64_t)i * s.to.n / s.from.n));
			continue;
		}
		for (uint32_t k = 0; k < s.to.n; k++) {
			if (s.from.first + i == s.to.first + k)
				return node_bad(rd, n, "a switch has no link to itself");
			cable_add(t, &s.like, s.from.first + i, s.to.first + k);
		}
	}
	return true;
}

/* ---- workload ------------------------------------------------------------------------------------ */

struct load_of {
	const struct topology *t;
	struct load *l;
};

static bool load_hosts(struct reader *rd, const struct node *n, const struct topology *t, struct nodes *to)
{
	if (!get_nodes(rd, n, t, to))
		return false;
	return to->first < t->hosts || node_bad(rd, n, "only hosts send and receive");
}

static bool load_from(struct reader *rd, const struct node *n, void *arg)
{
	struct load_of *it = arg;

	return load_hosts(rd, n, it->t, &it->l->from);
}

static bool load_to(struct reader *rd, const struct node *n, void *arg)
{
	struct load_of *it = arg;

	it->l->to_said = true;
	return load_hosts(rd, n, it->t, &it->l->to);
}

static bool load_kind(struct reader *rd, const struct node *n, void *arg)
{
	static const char *const words[] = { "incast", "permutation", "allreduce" };
	unsigned kind;

	if (!get_word(rd, n, "kind", words, LOADS, &kind))
		return false;
	((struct load_of *)arg)->l->kind = kind;
	return true;
}

GET(load_size, struct load_of, get_bytes(rd, n, 1, 1ull << 40, "size", &it->l->size))
GET(load_count, struct load_of, get_u64(rd, n, &it->l->count))
GET(load_depth, struct load_of, get_u32(rd, n, 1, 64, "depth", &it->l->depth))
GET(load_start, struct load_of, get_ns(rd, n, &it->l->start_ns))
GET(load_stop, struct load_of, get_ns(rd, n, &it->l->stop_ns))

static bool one_load(struct reader *rd, const struct node *n, void *arg)
{
	static const struct key keys[] = { { "kind", load_kind },   { "from", load_from },   { "to", load_to },
					   { "size", load_size },   { "count", load_count }, { "depth", load_depth },
					   { "start", load_start }, { "stop", load_stop },   { NULL, NULL } };
	struct topology *t = arg;
	struct load_of it = { t, &t->load[t->load_n] };

	if (t->load_n == LOADS_MOST)
		return node_bad(rd, n, "more than %u loads", LOADS_MOST);
	*it.l = (struct load){
		.kind = LOADS, .size = 1u << 20, .depth = 2, .stop_ns = UINT64_MAX, .line = node_line(n)
	};
	it.l->from = (struct nodes){ 0, t->hosts };
	if (!node_map(rd, n, "a load", keys, &it))
		return false;
	if (it.l->kind == LOADS)
		return node_bad(rd, n, "a load has a \"kind\": incast, permutation or allreduce");
	t->load_n++;
	return true;
}

/* ---- HCAs, and the whole --------------------------------------------------------------------------- */

static bool hca_mtu(struct reader *rd, const struct node *n, void *arg)
{
	static const char *const words[] = { "256", "512", "1024", "2048", "4096" };
	unsigned i;

	if (!get_word(rd, n, "mtu", words, 5, &i))
		return false;
	((struct adapter *)arg)->mtu = 256u << i;
	return true;
}

GET(hca_burst, struct adapter, get_bytes(rd, n, 256, 1u << 20, "burst", &it->burst))
GET(hca_window, struct adapter, get_bytes(rd, n, 4096, 1u << 30, "window", &it->window))
GET(hca_ecn, struct adapter, get_flag(rd, n, &it->ecn))
GET(hca_early, struct adapter, get_flag(rd, n, &it->early))
GET(hca_timeout, struct adapter, get_u32(rd, n, 1, 31, "timeout", &it->timeout))
GET(hca_retry, struct adapter, get_u32(rd, n, 0, 7, "retry", &it->retry))

/* An unsigned number of 32 bits, in ns; and one in kbit/s. */
static bool get_ns32(struct reader *rd, const struct node *n, uint32_t least, const char *what, uint32_t *to)
{
	uint64_t ns;

	if (!get_ns(rd, n, &ns))
		return false;
	if (ns < least || ns > 1000000000)
		return node_bad(rd, n, "%s is from %u ns to 1 s", what, least);
	*to = (uint32_t)ns;
	return true;
}

static bool get_kbps(struct reader *rd, const struct node *n, const char *what, uint32_t *to)
{
	uint64_t rate;

	if (!get_rate(rd, n, &rate))
		return false;
	if (rate < 1000 || rate > CONG_MOST * 1000ull)
		return node_bad(rd, n, "%s is from 1kbit to 500gbit", what);
	*to = (uint32_t)(rate / 1000);
	return true;
}

static bool law_bytes(struct reader *rd, const struct node *n, void *arg)
{
	uint64_t v;

	if (!get_bytes(rd, n, 1000, 1u << 31, "bytes", &v))
		return false;
	((struct adapter *)arg)->law.bytes = (uint32_t)v;
	return true;
}

GET(law_cut, struct adapter, get_ns32(rd, n, 0, "cut", &it->law.cut_ns))
GET(law_timer, struct adapter, get_ns32(rd, n, 1000, "timer", &it->law.timer_ns))
GET(law_fast, struct adapter, get_u32(rd, n, 0, 100, "fast", &it->law.fast))
GET(law_ai, struct adapter, get_kbps(rd, n, "ai", &it->law.ai))
GET(law_hai, struct adapter, get_kbps(rd, n, "hai", &it->law.hai))
GET(law_gain, struct adapter, get_u32(rd, n, 1, 65536, "gain", &it->law.gain))
GET(law_min, struct adapter, get_kbps(rd, n, "min", &it->law.min))
GET(law_line, struct adapter, get_flag(rd, n, &it->line))

static bool hca_dcqcn(struct reader *rd, const struct node *n, void *arg)
{
	static const struct key keys[] = { { "cut", law_cut },   { "timer", law_timer }, { "bytes", law_bytes },
					   { "fast", law_fast }, { "ai", law_ai },       { "hai", law_hai },
					   { "gain", law_gain }, { "min", law_min },     { "line", law_line },
					   { NULL, NULL } };

	return node_map(rd, n, "dcqcn", keys, arg);
}

static bool top_hca(struct reader *rd, const struct node *n, void *arg)
{
	static const struct key keys[] = { { "mtu", hca_mtu },     { "burst", hca_burst }, { "window", hca_window },
					   { "ecn", hca_ecn },     { "early", hca_early }, { "timeout", hca_timeout },
					   { "retry", hca_retry }, { "dcqcn", hca_dcqcn }, { NULL, NULL } };

	return node_map(rd, n, "hca", keys, &((struct topology *)arg)->adapter);
}

static bool top_hosts(struct reader *rd, const struct node *n, void *arg)
{
	struct topology *t = arg;

	t->hosts_line = node_line(n);
	return get_u32(rd, n, 2, HOSTS_MOST, "hosts", &t->hosts);
}

static bool top_switches(struct reader *rd, const struct node *n, void *arg)
{
	return node_each(rd, n, one_switch, arg);
}
static bool top_links(struct reader *rd, const struct node *n, void *arg) { return node_each(rd, n, one_link, arg); }
static bool top_workload(struct reader *rd, const struct node *n, void *arg) { return node_each(rd, n, one_load, arg); }

GET(top_seed, struct topology, get_u64(rd, n, &it->seed))

static bool top_duration(struct reader *rd, const struct node *n, void *arg)
{
	struct topology *t = arg;

	return get_ns(rd, n, &t->duration_ns) &&
	       (t->duration_ns || node_bad(rd, n, "duration is 0: nothing would happen"));
}

static bool top_sample(struct reader *rd, const struct node *n, void *arg)
{
	struct topology *t = arg;

	t->sample_line = node_line(n);
	return get_ns(rd, n, &t->sample_ns);
}

static bool whole(struct reader *rd, const struct node *n, void *arg)
{
	static const struct key keys[] = {
		{ "seed", top_seed },   { "duration", top_duration }, { "sample", top_sample },
		{ "hosts", top_hosts }, { "switches", top_switches }, { "links", top_links },
		{ "hca", top_hca },     { "workload", top_workload }, { NULL, NULL }
	};

	return node_map(rd, n, "a topology", keys, arg);
}

bool topology_read(struct topology *t, const char *name, const char *text, size_t len)
{
	struct rule_error err;

	*t = (struct topology){
		.seed = 1,
		.duration_ns = 10000000,
		.adapter = { .mtu = 4096,
			     .burst = 4096,
			     .window = 16u << 20,
			     .ecn = true,
			     .early = true,
			     .timeout = 14,
			     .retry = 7,
			     .law = cong_law },
	};
	t->group = room_new(GROUPS_MOST + 1, sizeof(*t->group));
	t->load = room_new(LOADS_MOST + 1, sizeof(*t->load));
	if (yaml_read(text, len, &err, whole, t) && topology_check(t, &err))
		return true;
	fprintf(stderr, "rdmad-sim: %s:%u: %s\n", name, err.line ? err.line : 1, err.text);
	topology_free(t);
	return false;
}
