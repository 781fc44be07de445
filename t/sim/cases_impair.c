/* SPDX-License-Identifier: MIT */
/* cases_impair.c - rules in virtual time: the same seed, the same decisions. */
#include "cases.h"
#include "runs.h"

#define S WR_SIGNALED

static const char rules_text[] =
	"rules:\n"
	"- {name: loss, match: {packet: request}, when: {probability: 10%}, do: drop}\n"
	"- {name: twice, match: {packet: request}, when: {probability: 10%}, do: duplicate}\n"
	"- {name: slow, match: {packet: request, iter: 2..}, do: {delay: 3us}}\n"
	"- {name: arriving, match: {packet: request, direction: in}, when: {probability: 5%}, do: drop}\n";

/* One after the other, so that which packets there are is no matter of chance; what is repeated comes by the timer. */
static void talk(struct model *m)
{
	struct duo d = duo_rc(m, NULL);

	for (unsigned i = 0; i < 100; i++) {
		if (i % 3 == 0)
			recv_ok(d.b, 2000);
		send_ok(d.a, &(struct post){ .op = i % 3 ? WR_WRITE : WR_SEND, .flags = S, .len = 10 + i });
		model_settle(m);
	}
}

uint64_t impair_run(uint64_t sim_seed, uint64_t seed, char *log, size_t len)
{
	static struct model model;
	struct model *m = &model;
	struct model_cfg c = {
		.kind = "rules", .seed = sim_seed, .nodes = 2, .arena_len = 1 << 20, .hca = model_hca()
	};
	struct link link = { .delay_ns = 2 * USEC };
	struct rules rules;
	char line[300];
	uint64_t hash;
	size_t at = 0;

	model_init(m, &c);
	sim_link(&m->s, 0, 1, &link);
	impair_set(&m->s, &rules, rules_text, &seed);
	talk(m);
	log[0] = '\0';
	for (uint64_t i = 1; rules_note(&rules, i, line, sizeof line) && at < len; i++)
		at += (size_t)snprintf(log + at, len - at, "%s\n", line);
	m->s.rules = NULL;
	model_end(m);
	hash = m->s.hash;
	rules_fini(&rules);
	return hash;
}
