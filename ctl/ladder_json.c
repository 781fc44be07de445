/* SPDX-License-Identifier: MIT */
/* ladder_json.c - a ladder as JSON: what `rdmactl --json ladder` prints, and what the page draws. */
#include <string.h>

#include <rdmad/gid_text.h>

#include "ladder.h"
#include "show.h"

static json_t *side_json(const struct conn_side *s)
{
	char buf[INET6_ADDRSTRLEN];

	return json_pack("{s:s, s:I}", "address", gid_text(s->gid, buf), "qpn", (json_int_t)s->qpn);
}

static bool is_at(const struct conn_side *a, const struct conn_side *b)
{
	return a->qpn == b->qpn && gid_same(a->gid, b->gid);
}

/* [side, state, since, how it is known] of both sides, in the order of time. */
static json_t *bands_json(const struct ladder *l, const struct conn *c)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < l->bands; i++) {
		const struct band *b = &l->band[i];

		for (int side = 0; side < 2; side++)
			if (is_at(&b->at, &c->side[side]))
				json_array_append_new(list, json_pack("[i, s, I, s]", side, b->state,
								      (json_int_t)ns_since(b->ns, l->begin), b->why));
	}
	return list;
}

static json_t *conn_json(const struct ladder *l, const struct conn *c)
{
	json_t *j = json_pack("{s:s, s:[o, o], s:I, s:I, s:o}", "service", service_name(c->svc), "ends",
			      side_json(&c->side[0]), side_json(&c->side[1]), "begin",
			      (json_int_t)ns_since(c->begin, l->begin), "end", (json_int_t)ns_since(c->end, l->begin),
			      "states", bands_json(l, c));
	const struct {
		const char *key;
		uint64_t n;
	} counts[] = {
		{ "packets", c->packets },     { "bytes", c->bytes },     { "again", c->again },
		{ "lost", c->lost },           { "missing", c->missing }, { "unanswered", c->unanswered },
		{ "discarded", c->discarded }, { "duplicates", c->dup },  { "naks", c->nak },
		{ "rnr_naks", c->rnr },
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		json_object_set_new(j, counts[i].key, json_integer((json_int_t)counts[i].n));
	return j;
}

static void put(json_t *j, const char *key, int64_t n)
{
	if (n)
		json_object_set_new(j, key, json_integer(n));
}

static json_t *detail_json(const char *d)
{
	json_t *list = json_array();

	for (; d && *d; d += strcspn(d, "\n"), d += *d == '\n') {
		size_t name = strcspn(d, "\t"), end = strcspn(d, "\n");

		if (name < end)
			json_array_append_new(list, json_pack("[s%, s%]", d, name, d + name + 1, end - name - 1));
	}
	return list;
}

/* Values that are 0, or as usual, are left out. */
static json_t *rung_json(const struct ladder *l, const struct rung *r)
{
	json_t *j = json_pack("{s:I, s:i, s:i, s:s, s:s}", "t", (json_int_t)ns_since(r->ns, l->begin), "c",
			      (int)r->conn, "from", r->from, "kind", class_name(r->class), "op", r->name);

	put(j, "no", (int64_t)r->no);
	put(j, "at", (int64_t)ns_since(r->arrived, r->ns));
	put(j, "answer", !r->request && r->class <= RUNG_RNR);
	json_object_set_new(j, "psn", json_integer(r->psn));
	if (r->class != RUNG_CM)
		json_object_set_new(j, "rel", json_integer(r->rel));
	put(j, "len", r->len);
	put(j, "again", r->again);
	put(j, "dup", r->dup);
	put(j, "n", r->fate == FATE_MISSING ? r->n : 0);
	if (r->fate)
		json_object_set_new(j, "fate", json_string(fate_name(r->fate)));
	if (r->note)
		json_object_set_new(j, "note", show_text(r->note));
	if (r->comment)
		json_object_set_new(j, "comment", show_text(r->comment));
	if (r->say)
		json_object_set_new(j, "say", show_text(r->say));
	if (r->detail)
		json_object_set_new(j, "detail", detail_json(r->detail));
	return j;
}

json_t *ladder_json(const struct ladder *l)
{
	json_t *conns = json_array(), *rungs = json_array();

	for (uint32_t i = 0; i < l->conns; i++)
		json_array_append_new(conns, conn_json(l, &l->conn[i]));
	for (uint32_t i = 0; i < l->n; i++)
		json_array_append_new(rungs, rung_json(l, &l->rung[i]));
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "title", show_text(l->title), "frames",
			 (json_int_t)l->frames, "packets", (json_int_t)l->check.packets, "left_out",
			 (json_int_t)l->skipped, "drops", (json_int_t)l->drops, "span",
			 (json_int_t)ns_since(l->last, l->begin), "connections", conns, "rungs", rungs);
}
