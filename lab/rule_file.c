/* SPDX-License-Identifier: MIT */
/* rule_file.c - the whole of a text: seed and rules. */
#include <stdlib.h>
#include <string.h>

#include "rule_yaml.h"

struct file {
	struct rule **v;
	int n, max;
	uint64_t *seed;
};

static bool get_name(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	return get_text(rd, n, "a name", r->name, sizeof(r->name));
}

static bool get_at(struct reader *rd, const struct node *n, void *rule)
{
	struct rule *r = rule;

	r->timed = true;
	return get_ns(rd, n, &r->at_ns);
}

/* clang-format off */
static const struct rule nothing = {
	.nth_qp = { 0, -1 }, .sender = { 0, -1 }, .psn = { 0, -1 }, .rel = { 0, -1 }, .iter = { 0, -1 }, .nth = { 0, -1 }, .ns = { 0, -1 },
	.dirs = 1u << TAP_OUT, .paths = 3, .ops = UINT32_MAX, .services = 0xff, .cm = UINT32_MAX, .cnp = true, .share = 1ull << 53,
};
/* clang-format on */

/* Of a moment only devices and QPs can be said, and only what happens to these can happen. */
static bool timed_check(struct reader *rd, const struct node *n, const struct rule *r)
{
	const bool says_qp = r->qpn || r->prog[0] || r->nth_qp.to >= r->nth_qp.from;

	for (unsigned i = 0; i < r->act_n; i++) {
		enum rule_about about = rule_act_about(r->act[i].kind);

		if (r->timed && about == ABOUT_PACKET)
			return node_bad(rd, n, "%s happens to packets; a rule with \"at\" has none",
					rule_act_word(r->act[i].kind));
		if (r->timed && about == ABOUT_DEVICE && says_qp)
			return node_bad(rd, n, "%s happens to devices: of match it has device only",
					rule_act_word(r->act[i].kind));
		if (r->timed && about == ABOUT_QP && !says_qp)
			return node_bad(rd, n, "%s: of which QP? match has qp or program",
					rule_act_word(r->act[i].kind));
	}
	if (!r->timed)
		return true;
	if (r->ops != UINT32_MAX || r->syndromes || r->services != 0xff || r->psn.to >= 0 || r->rel.to >= r->rel.from ||
	    r->sender.to >= 0 || r->iter.to >= 0 || r->ns.to >= 0 || r->dirs != 1u || r->paths != 3 || r->nth.to >= 0 ||
	    r->every || r->times || r->each_qp || r->share != 1ull << 53)
		return node_bad(rd, n,
				"a rule with \"at\" is about a moment: of match it has device, qp and program only, "
				"and no when");
	return true;
}

static bool one_rule(struct reader *rd, const struct node *n, void *file)
{
	static const struct key keys[] = {
		{ "name", get_name }, { "match", get_match }, { "when", get_when },
		{ "at", get_at },     { "do", get_do },       { NULL, NULL },
	};
	struct file *f = file;
	struct rule *r;

	if (f->n == f->max)
		return node_bad(rd, n, "more than %d rules", f->max);
	r = malloc(sizeof(*r));
	if (!r)
		return node_bad(rd, n, "out of memory");
	*r = nothing;
	r->line = node_line(n);
	f->v[f->n++] = r;
	if (!node_map(rd, n, "a rule", keys, r))
		return false;
	if (!r->act_n)
		return node_bad(rd, n, "the rule has no \"do\"");
	return timed_check(rd, n, r);
}

static bool get_rules(struct reader *rd, const struct node *n, void *file)
{
	if (node_is_scalar(n))
		return node_bad(rd, n, "rules is a list, each rule behind a dash");
	return node_each(rd, n, one_rule, file);
}

static bool get_seed(struct reader *rd, const struct node *n, void *file)
{
	return get_u64(rd, n, ((struct file *)file)->seed);
}

static bool whole(struct reader *rd, const struct node *n, void *file)
{
	static const struct key keys[] = { { "seed", get_seed }, { "rules", get_rules }, { NULL, NULL } };

	if (!node_map(rd, n, "a file of faults", keys, file))
		return false;
	return ((struct file *)file)->n || node_bad(rd, n, "there are no rules");
}

int rule_parse(const char *text, size_t len, struct rule **v, unsigned max, uint64_t *seed, struct rule_error *err)
{
	struct file f = { .v = v, .max = (int)max, .seed = seed };

	if (len > RULES_TEXT_MOST) {
		*err = (struct rule_error){ .text = "more than 1 MiB of rules" };
		return -1;
	}
	if (yaml_read(text, len, err, whole, &f))
		return f.n;
	while (f.n)
		free(v[--f.n]);
	return -1;
}
