/* SPDX-License-Identifier: MIT */
/* impair.c - rules are added from the command line, a file or rdmactl, and removed. */
#include "impair.h"

#include <errno.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/conf_text.h"
#include "../base/log.h"
#include "../shard/tap.h"

#define OF_CONF UINT64_C(1) /* owner of the rules of the command line and the configuration; no client's */

static struct {
	struct ev_loop *loop;
	void (*event_do)(const struct rule_event *, unsigned device);
	ev_async event; /* a packet has set one off */
	ev_timer timer; /* rules with a moment of their own */
	struct impair_text staged, in_force;
} impair;

/* ---- shards ask ------------------------------------------------------------------------- */

static void decide(struct flow *f, struct tap_pkt *p, struct rule_verdict *v)
{
	bool event;

	impair_lock();
	rules_decide(&impair_rules, f, p, v);
	event = impair_rules.event_n;
	impair_unlock();
	if (event && impair.loop)
		ev_async_send(impair.loop, &impair.event);
}

static const struct tap_judge judge = { decide };

/* ---- events ----------------------------------------------------------------------------- */

static void events_run(void)
{
	mono_t at, now = clock_now();
	struct rule_event e;
	bool any;

	do {
		impair_lock();
		any = rules_event(&impair_rules, &e, now);
		at = rules_deadline(&impair_rules);
		impair_unlock();
		for (unsigned i = 0; any && i < devices_n; i++)
			if (impair.event_do && e.devices >> i & 1)
				impair.event_do(&e, i);
	} while (any);
	if (!impair.loop)
		return;
	ev_timer_stop(impair.loop, &impair.timer);
	if (mono_is_never(at))
		return;
	ev_timer_set(&impair.timer, (double)mono_since(at, now) / 1e9, 0.);
	ev_timer_start(impair.loop, &impair.timer);
}

static void on_event(struct ev_loop *, ev_async *, int) { events_run(); }
static void on_time(struct ev_loop *, ev_timer *, int) { events_run(); }

/* ---- rules come and go -------------------------------------------------------------------- */

static void devices_name(void)
{
	for (unsigned i = 0; i < devices_n; i++)
		impair_rules.device[i] = devices[i].name;
	impair_rules.device_n = devices_n;
}

int impair_add(const char *text, size_t len, uint64_t owner, const uint64_t *seed, struct rule_error *err)
{
	uint32_t made[RULE_DEVICES] = { 0 };
	struct rule_host host = { .owner = owner, .seed = seed, .now = clock_now(), .qp_base = made };
	int n;

	for (unsigned i = 0; i < devices_n; i++)
		made[i] = devices[i].qp_made;
	impair_lock();
	devices_name();
	n = rules_add(&impair_rules, text, len, &host, err);
	impair_unlock();
	if (n < 0)
		return n;
	if (tap_judge(&judge))
		log_err("no memory to look at packets: not all rules are in force");
	events_run();
	return n;
}

unsigned impair_clear(unsigned id, uint64_t owner)
{
	unsigned n, left;

	impair_lock();
	n = rules_clear(&impair_rules, id, owner);
	left = impair_rules.n;
	impair_unlock();
	if (!n)
		return 0;
	events_run();
	tap_judge(left ? &judge : NULL);
	return n;
}

/* "loss=1%,..." is for the wire, and short for these rules. */
static char *spec_text(const struct impair_spec *c)
{
	char *text = NULL;

	if (asprintf(
		    &text,
		    "seed: %llu\nrules:\n"
		    "- {name: loss, match: {path: wire}, when: {probability: %.15f}, do: drop}\n"
		    "- {name: dup, match: {path: wire}, when: {probability: %.15f}, do: duplicate}\n"
		    "- {name: corrupt, match: {path: wire}, when: {probability: %.15f}, do: {corrupt: any}}\n"
		    "- {name: reorder, match: {path: wire}, when: {probability: %.15f}, do: {delay: {jitter: 200us}}}\n"
		    "- {name: delay, match: {path: wire}, when: {probability: %d}, do: {delay: {time: %lluns, jitter: "
		    "%lluns}}}\n",
		    (unsigned long long)c->seed, c->loss, c->dup, c->corrupt, c->reorder, c->delay_ns || c->jitter_ns,
		    (unsigned long long)c->delay_ns, (unsigned long long)c->jitter_ns) < 0)
		return NULL;
	return text;
}

static char *file_text(const char *path, const char **wrong)
{
	char *text = text_load(path);

	*wrong = text              ? NULL
		 : errno == EFBIG  ? "more than 1 MiB of rules"
		 : errno == EILSEQ ? "it has a zero byte in it"
				   : strerror(errno);
	return text;
}

const char *impair_read(const char *spec, const uint64_t *seed)
{
	static char said[400];
	struct impair_spec c;
	struct rules try = { 0 };
	struct rule_error err;
	const char *wrong = NULL;
	int n;

	free(impair.staged.text);
	impair.staged = (struct impair_text){ 0 };
	if (!*spec)
		return NULL;
#ifdef WITHOUT_LAB
	return "this daemon was built without faults (--disable-lab)";
#endif
	if (strchr(spec, '=') && !strchr(spec, '/')) {
		wrong = impair_spec_parse(spec, &c);
		impair.staged.text = wrong ? NULL : spec_text(&c);
	} else {
		impair.staged.text = file_text(spec, &wrong);
	}
	if (!impair.staged.text)
		return wrong ? wrong : "out of memory";
	impair.staged.seeded = seed;
	impair.staged.seed = seed ? *seed : 0;
	devices_name();
	memcpy(try.device, impair_rules.device, sizeof(try.device));
	try.device_n = impair_rules.device_n;
	n = rules_add(&try, impair.staged.text, strlen(impair.staged.text), &(struct rule_host){ 0 }, &err);
	rules_fini(&try);
	if (n > 0)
		return NULL;
	snprintf(said, sizeof(said), "line %u: %s", err.line, err.text);
	return said;
}

struct impair_text *impair_staged(void) { return &impair.staged; }

static bool text_same(const struct impair_text *a, const struct impair_text *b)
{
	if (!a->text || !b->text)
		return !a->text && !b->text;
	return !strcmp(a->text, b->text) && a->seeded == b->seeded && a->seed == b->seed;
}

int impair_again(void)
{
	struct impair_text next = impair.staged;
	struct rule_error err;

	impair.staged = (struct impair_text){ 0 };
	if (text_same(&next, &impair.in_force)) {
		free(next.text);
		return 0;
	}
	impair_clear(0, OF_CONF);
	free(impair.in_force.text);
	impair.in_force = (struct impair_text){ 0 };
	if (next.text && impair_add(next.text, strlen(next.text), OF_CONF, next.seeded ? &next.seed : NULL, &err) < 0) {
		log_err("the rules of fault are not in force: line %u: %s", err.line, err.text);
		free(next.text);
		return -1;
	}
	impair.in_force = next;
	return 1;
}

void impair_start(struct ev_loop *loop, void (*event_do)(const struct rule_event *, unsigned device))
{
	impair.loop = loop;
	impair.event_do = event_do;
	if (loop) {
		ev_async_init(&impair.event, on_event);
		ev_async_start(loop, &impair.event);
		ev_timer_init(&impair.timer, on_time, 0., 0.);
	}
	impair_again();
}

void impair_stop(struct ev_loop *loop)
{
	impair_clear(0, 0);
	free(impair.in_force.text);
	impair.in_force = (struct impair_text){ 0 };
	if (loop) {
		ev_async_stop(loop, &impair.event);
		ev_timer_stop(loop, &impair.timer);
	}
	impair.loop = NULL;
}
