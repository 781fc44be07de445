/* SPDX-License-Identifier: MIT */
/*
 * sweep_plan.c - from the packets of the clean run to cases, and their files of rules.
 *
 * Numbers of QPs and starting PSNs differ from run to run.  A packet is found again by its QP's place among those that send,
 * its operation, its PSN behind the first one, and its transmission; one of the CM by its message and how many of these
 * there were before.  ACKs are coalesced as it happens: for one of them stands the first that acknowledges its PSN.
 */
#include "config.h"

#include "lab/splitmix.h"
#include "field.h"
#include "say.h"
#include "sweep.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NOTED 4096 /* as many as the daemon remembers */

/* ---- faults --------------------------------------------------------------------- */

static bool is_any(const struct packet *) { return true; }

static bool is_reliable(const struct packet *p)
{
	return !p->cm && p->kind == PKT_REQUEST && (!strncmp(p->opcode, "RC_", 3) || !strncmp(p->opcode, "XRC_", 4));
}

/* Only requests that take a receive can meet a receiver that is not ready, with their first packet or that of the IMM. */
static bool takes_receive(const struct packet *p)
{
	const char *op = p->opcode;
	bool first = strstr(op, "_SEND_FIRST") || strstr(op, "_SEND_ONLY");

	return is_reliable(p) && (first || (strstr(op, "_WRITE_") && strstr(op, "_IMM")));
}

static const struct sweep_fault faults[SWEEP_FAULTS] = {
	{ "drop", "is lost", "drop", is_any },
	{ "delay", "is 250 ms late", "{delay: 250ms}", is_any },
	{ "dup", "comes twice", "duplicate", is_any },
	{ "nak", "is answered with a NAK (PSN sequence error)", "{nak: sequence}", is_reliable },
	{ "rnr", "is answered with an RNR NAK", "{rnr: 14}", takes_receive },
};

static const struct sweep_fault *fault_of(const char *word, size_t len)
{
	for (unsigned i = 0; i < SWEEP_FAULTS; i++)
		if (strlen(faults[i].word) == len && !strncmp(faults[i].word, word, len))
			return &faults[i];
	return NULL;
}

unsigned sweep_faults(const char *list, const struct sweep_fault *v[])
{
	unsigned n = 0;

	if (!strcmp(list, "all"))
		for (; n < SWEEP_FAULTS; n++)
			v[n] = &faults[n];
	while (!n || *list == ',') {
		size_t len = strcspn(list += *list == ',', ",");
		const struct sweep_fault *f = fault_of(list, len);
		bool twice = false;

		for (unsigned i = 0; i < n; i++)
			twice |= v[i] == f;
		if (!f || twice) {
			say("--sweep: \"%.*s\" %s: drop, delay, dup, nak and rnr there are, with commas between, or "
			    "all",
			    (int)len, list, f ? "stands there twice" : "is no fault");
			return 0;
		}
		v[n++] = f;
		list += len;
	}
	return n;
}

/* ---- packets of the clean run ------------------------------------------------------ */

bool plan_note(const char *path)
{
	FILE *f = fopen(path, "we");

	if (f)
		fprintf(f, SWEEP_MARK "all is noted\nrules:\n- {name: note, when: {nth: 1..%d}, do: note}\n", NOTED);
	if (f && !fclose(f))
		return true;
	say("--report %s: %s", path, strerror(errno));
	return false;
}

bool plan_read(struct sweep *s, const char *path)
{
	json_t *j = json_load_file(path, 0, NULL), *log = json_object_get(j, "log"), *note;
	struct packet p;
	size_t i;

	s->sent_n = (unsigned long long)num(json_array_get(json_object_get(j, "rules"), 0), "matches");
	s->pkt = calloc(json_array_size(log) + 1, sizeof(*s->pkt));
	if (!s->pkt)
		abort();
	json_array_foreach(log, i, note)
	{
		if (!packet_read(&p, json_object_get(note, "packet")) || p.in)
			continue;
		for (unsigned k = 0; k < s->pkt_n; k++)
			p.nth += packet_same(&p, &s->pkt[k]);
		if (p.nth == 1 || !packet_is_ack(&p))
			s->pkt[s->pkt_n++] = p;
	}
	json_decref(j);
	return s->pkt_n;
}

/* ---- cases ---------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state, uint64_t n) { return splitmix(state) % n; }

static uint64_t seed_of(const struct sweep *s) { return s->opt->seeded ? s->opt->seed : 1; }

static struct sweep_case *case_new(struct sweep *s)
{
	struct sweep_case *v = realloc(s->c, (s->n + 1) * sizeof(*v));

	if (!v)
		abort();
	s->c = v;
	v[s->n] = (struct sweep_case){ .id = s->n + 1 };
	return &v[s->n++];
}

/* Of so many cases not yet looked at, is the next one among the so many that are wanted?  Each is with the same chance. */
static bool is_chosen(uint64_t *state, unsigned left, unsigned wanted) { return draw(state, left) < wanted; }

void plan_singles(struct sweep *s)
{
	const struct sweep_fault *f[SWEEP_FAULTS];
	unsigned fault_n = sweep_faults(s->opt->sweep.faults, f), all = 0, wanted;
	uint64_t state = seed_of(s);

	for (unsigned i = 0; i < s->pkt_n; i++)
		for (unsigned k = 0; k < fault_n; k++)
			all += f[k]->fits(&s->pkt[i]);
	wanted = all < s->opt->sweep.limit ? all : s->opt->sweep.limit;
	s->single_left = all - wanted;
	for (unsigned i = 0; i < s->pkt_n; i++) {
		for (unsigned k = 0; k < fault_n; k++) {
			struct sweep_case *c;

			if (!f[k]->fits(&s->pkt[i]) || !is_chosen(&state, all--, wanted))
				continue;
			wanted--;
			c = case_new(s);
			c->n = 1;
			c->part[0].fault = f[k];
			c->part[0].pkt = &s->pkt[i];
		}
	}
	s->single_n = s->n;
}

static bool is_pair(const struct sweep *s, const struct sweep_case *a, const struct sweep_case *b)
{
	if (a->part[0].pkt == b->part[0].pkt)
		return false;
	for (unsigned i = s->single_n; i < s->n; i++) {
		const struct sweep_case *c = &s->c[i];

		if (c->part[0].pkt == a->part[0].pkt && c->part[0].fault == a->part[0].fault &&
		    c->part[1].pkt == b->part[0].pkt && c->part[1].fault == b->part[0].fault)
			return false;
	}
	return true;
}

void plan_pairs(struct sweep *s)
{
	unsigned *good = calloc(s->single_n + 1, sizeof(*good)), n = 0, wanted = s->opt->sweep.pairs, room;
	uint64_t state = seed_of(s) ^ 0x7061697273u;

	if (!good)
		abort();
	for (unsigned i = 0; i < s->single_n; i++)
		if (s->c[i].result == SWEEP_OK)
			good[n++] = i;
	room = s->opt->sweep.limit - s->single_n;
	if (wanted > room) {
		s->pair_left = wanted - room;
		wanted = room;
	}
	/* There may be fewer pairs than are wanted: so many tries find those that there are, or nearly. */
	for (unsigned tries = 20 * wanted; n > 1 && tries && s->pair_n < wanted; tries--) {
		unsigned a = good[draw(&state, n)], b = good[draw(&state, n)], low = a < b ? a : b,
			 high = a < b ? b : a;
		struct sweep_case *c;

		if (!is_pair(s, &s->c[low], &s->c[high]))
			continue;
		c = case_new(s);
		c->n = 2;
		c->part[0] = s->c[low].part[0];
		c->part[1] = s->c[high].part[0];
		s->pair_n++;
	}
	free(good);
}

/* ---- words -------------------------------------------------------------------------------- */

void plan_name(const struct sweep_case *c, char *text, size_t len)
{
	size_t at = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < c->n && at < len; i++) {
		at += (size_t)snprintf(text + at, len - at, "%s%s ", i ? " and " : "", c->part[i].fault->word);
		if (at < len)
			at += packet_tell(c->part[i].pkt, text + at, len - at);
	}
}

void plan_tell(const struct sweep_case *c, char *text, size_t len)
{
	size_t at = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < c->n && at < len; i++) {
		at += (size_t)snprintf(text + at, len - at, "%s", i ? " and " : "");
		if (at < len)
			at += packet_tell(c->part[i].pkt, text + at, len - at);
		if (at < len)
			at += (size_t)snprintf(text + at, len - at, " %s", c->part[i].fault->says);
	}
}

bool plan_rules(const struct sweep_case *c, const char *path)
{
	FILE *f = fopen(path, "we");
	char text[256];

	if (f) {
		plan_tell(c, text, sizeof(text));
		fprintf(f, SWEEP_MARK "%s\nrules:\n", text);
		for (unsigned i = 0; i < c->n; i++)
			packet_rule(f, c->part[i].pkt, c->part[i].fault->act);
	}
	if (f && !fclose(f))
		return true;
	say("--report %s: %s", path, strerror(errno));
	return false;
}
