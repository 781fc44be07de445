/* SPDX-License-Identifier: MIT */
/* topology_check.c - see topology_check.h. */
#include "topology_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "say.h"

#define MESSAGE_MOST (1u << 31)
#define SAMPLES      1000u

static bool bad(struct rule_error *err, unsigned line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static bool bad(struct rule_error *err, unsigned line, const char *fmt, ...)
{
	va_list ap;

	err->line = line;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return false;
}

static bool there(const struct topology *t, struct rule_error *err)
{
	if (!t->hosts)
		return bad(err, 1, "there is no \"hosts: N\"");
	if (!t->switches)
		return bad(err, t->hosts_line,
			   "there are no switches: hosts are joined by one at least (switches: [{name: leaf}])");
	if (!t->cable_n)
		return bad(err, t->hosts_line, "there are no links (links: [{from: host, to: leaf}])");
	if (!t->load_n)
		return bad(err, t->hosts_line, "there is no workload (workload: [{kind: incast, to: host0}])");
	return true;
}

/* ---- links: a host has one, a switch not too many, and all can be reached --------------------------- */

static uint32_t root(uint32_t *up, uint32_t i)
{
	while (up[i] != i)
		i = up[i] = up[up[i]];
	return i;
}

static bool joined(const struct topology *t, struct rule_error *err, unsigned *of, uint32_t *up)
{
	char name[NAME_ROOM + 16];

	for (uint32_t i = 0; i < t->hosts + t->switches; i++)
		up[i] = i;
	for (uint32_t i = 0; i < t->cable_n; i++) {
		const struct cable *c = &t->cable[i];

		topology_name(t, c->a, name, sizeof(name));
		if (c->a < t->hosts && of[c->a])
			return bad(err, c->line, "%s has a link already, of line %u: a host has one", name, of[c->a]);
		of[c->a] = c->line;
		up[root(up, c->a)] = root(up, c->b);
	}
	for (uint32_t i = 0; i < t->hosts; i++) {
		topology_name(t, i, name, sizeof(name));
		if (!of[i])
			return bad(err, t->hosts_line, "%s has no link: add one to links", name);
		if (root(up, i) != root(up, 0))
			return bad(err, t->hosts_line,
				   "%s cannot be reached from host0: a link between their switches is missing", name);
	}
	return true;
}

static bool port(const struct topology *t, const struct cable *c, uint32_t node, uint32_t *ports,
		 struct rule_error *err)
{
	char name[NAME_ROOM + 16];

	if (ports[node]++ < PORTS_MOST)
		return true;
	topology_name(t, node, name, sizeof(name));
	return bad(err, c->line, "%s gets more than %u links, which is the most", name, PORTS_MOST);
}

static bool ports(const struct topology *t, struct rule_error *err, uint32_t *n)
{
	for (uint32_t i = 0; i < t->cable_n; i++) {
		const struct cable *c = &t->cable[i];

		if (!port(t, c, c->a, n, err) || !port(t, c, c->b, n, err))
			return false;
	}
	return true;
}

static bool links(const struct topology *t, struct rule_error *err)
{
	unsigned *of = room_new(t->hosts + t->switches, sizeof(*of));
	uint32_t *up = room_new(t->hosts + t->switches, sizeof(*up));
	uint32_t *n = room_new(t->hosts + t->switches, sizeof(*n));
	bool ok = ports(t, err, n) && joined(t, err, of, up);

	free(of);
	free(up);
	free(n);
	return ok;
}

/* ---- buffers ------------------------------------------------------------------------------------------ */

/* kept: for all links of that node. */
static bool buffer(const struct topology *t, const struct group *g, uint32_t node, uint64_t kept,
		   struct rule_error *err)
{
	char name[NAME_ROOM + 16];

	kept += topology_packet_len(t);
	if (!g->pfc || g->buffer >= kept)
		return true;
	topology_name(t, node, name, sizeof(name));
	return bad(err, g->line,
		   "PFC would lose packets in %s: what can still come in after a pause is %llu bytes for all its "
		   "ports, and \"buffer\" is "
		   "%llu; make it larger",
		   name, (unsigned long long)kept, (unsigned long long)g->buffer);
}

static bool each_buffer(const struct topology *t, const uint64_t *kept, struct rule_error *err)
{
	for (unsigned i = 0; i < t->group_n; i++) {
		const struct group *g = &t->group[i];

		if (g->buffer < topology_packet_len(t))
			return bad(err, g->line, "buffer holds no packet of %u bytes: make it larger",
				   topology_packet_len(t));
		if (!g->pfc && g->alpha * (double)g->buffer < topology_packet_len(t))
			return bad(err, g->line,
				   "no packet of %u bytes would ever be let in: alpha times buffer is %.0f bytes; make "
				   "one of them larger",
				   topology_packet_len(t), g->alpha * (double)g->buffer);
		for (uint32_t k = 0; k < g->nodes.n; k++)
			if (!buffer(t, g, g->nodes.first + k, kept[g->nodes.first + k], err))
				return false;
	}
	return true;
}

static bool buffers(const struct topology *t, struct rule_error *err)
{
	uint64_t *kept = room_new(t->hosts + t->switches, sizeof(*kept));
	bool ok;

	for (uint32_t i = 0; i < t->cable_n; i++) {
		kept[t->cable[i].a] += topology_headroom(t, &t->cable[i]);
		kept[t->cable[i].b] += topology_headroom(t, &t->cable[i]);
	}
	ok = each_buffer(t, kept, err);
	free(kept);
	return ok;
}

/* ---- workload ------------------------------------------------------------------------------------------- */

static bool load(const struct topology *t, struct load *l, struct rule_error *err)
{
	if (l->kind == LOAD_INCAST) {
		if (!l->to_said)
			return bad(err, l->line, "an incast has a \"to\": the host that all send to");
		if (l->from.n == 1 && l->to.n == 1 && l->from.first == l->to.first)
			return bad(err, l->line, "a host does not send to itself: \"from\" and \"to\" are the same");
	} else if (l->to_said) {
		return bad(err, l->line, "only an incast has a \"to\"; here \"from\" says which hosts take part");
	} else if (l->from.n < 2) {
		return bad(err, l->line, "this needs two hosts at least: \"from: host0..3\", or none for all");
	}
	if (l->kind != LOAD_ALLREDUCE && l->size > MESSAGE_MOST)
		return bad(err, l->line, "a message has 2048m at most");
	if (l->kind == LOAD_ALLREDUCE && (l->size < l->from.n || (l->size - 1) / l->from.n >= MESSAGE_MOST))
		return bad(err, l->line, "size is cut into as many parts as there are hosts: each has 1 byte to 2048m");
	if (l->kind == LOAD_ALLREDUCE && l->count > UINT64_MAX / 2 / (l->from.n - 1))
		return bad(err, l->line,
			   "count is %llu at most with so many hosts; without it there are as many rounds as the time "
			   "allows",
			   (unsigned long long)UINT64_MAX / 2 / (l->from.n - 1));
	if (l->stop_ns <= l->start_ns)
		return bad(err, l->line, "it stops before it starts");
	if (l->start_ns >= t->duration_ns)
		return bad(err, l->line, "it starts when all is over: \"duration\" is %llu ns",
			   (unsigned long long)t->duration_ns);
	return true;
}

static bool loads(const struct topology *t, struct rule_error *err)
{
	uint64_t flows = 0;

	for (unsigned i = 0; i < t->load_n; i++) {
		struct load *l = &t->load[i];

		if (!load(t, l, err))
			return false;
		flows += topology_flows(l);
		if (flows > FLOWS_MOST)
			return bad(
				err, l->line,
				"with this there are %llu flows; a million is the most: fewer of \"from\" and \"to\"",
				(unsigned long long)flows);
	}
	return true;
}

bool topology_check(struct topology *t, struct rule_error *err)
{
	if (!there(t, err) || !links(t, err) || !buffers(t, err) || !loads(t, err))
		return false;
	if (!t->sample_ns)
		t->sample_ns = t->duration_ns / SAMPLES ? t->duration_ns / SAMPLES : 1;
	if (t->duration_ns / t->sample_ns > 10000000)
		return bad(err, t->sample_line, "sample is so short that there would be more than ten million of them");
	return true;
}
