/* SPDX-License-Identifier: MIT */
/* rule_yaml.c - nodes of libyaml, and mappings and lists of them. */
#include "rule_yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#define KEYS_MAX 32u

static const yaml_node_t *as_yaml(const struct node *n) { return (const yaml_node_t *)n; }

static const struct node *node_at(const struct reader *rd, int item)
{
	return (const struct node *)yaml_document_get_node(rd->doc, item);
}

unsigned node_line(const struct node *n) { return (unsigned)as_yaml(n)->start_mark.line + 1; }
bool node_is_map(const struct node *n) { return as_yaml(n)->type == YAML_MAPPING_NODE; }
bool node_is_scalar(const struct node *n) { return as_yaml(n)->type == YAML_SCALAR_NODE; }

bool node_bad(struct reader *rd, const struct node *n, const char *fmt, ...)
{
	va_list ap;

	rd->err->line = node_line(n);
	va_start(ap, fmt);
	vsnprintf(rd->err->text, sizeof(rd->err->text), fmt, ap);
	va_end(ap);
	return false;
}

bool node_some(struct reader *rd, const struct node *n, const char *what)
{
	const yaml_node_t *y = as_yaml(n);

	if ((y->type == YAML_SEQUENCE_NODE && y->data.sequence.items.start == y->data.sequence.items.top) ||
	    (y->type == YAML_MAPPING_NODE && y->data.mapping.pairs.start == y->data.mapping.pairs.top))
		return node_bad(rd, n, "%s: there is nothing in it", what);
	return true;
}

const char *node_word(struct reader *rd, const struct node *n, const char *what)
{
	const yaml_node_t *y = as_yaml(n);

	if (y->type != YAML_SCALAR_NODE) {
		node_bad(rd, n, "%s is a single value, no list and no mapping", what);
		return NULL;
	}
	if (strlen((const char *)y->data.scalar.value) != y->data.scalar.length) {
		node_bad(rd, n, "%s has a zero byte in it", what);
		return NULL;
	}
	return (const char *)y->data.scalar.value;
}

bool node_pairs(struct reader *rd, const struct node *n, const char *what,
		bool (*pair)(struct reader *, const struct node *, const struct node *, void *), void *to)
{
	const yaml_node_t *y = as_yaml(n);

	if (y->type != YAML_MAPPING_NODE)
		return node_bad(rd, n, "%s is a mapping (key: value)", what);
	for (const yaml_node_pair_t *p = y->data.mapping.pairs.start; p < y->data.mapping.pairs.top; p++)
		if (!pair(rd, node_at(rd, p->key), node_at(rd, p->value), to))
			return false;
	return true;
}

bool node_each(struct reader *rd, const struct node *n, bool (*one)(struct reader *, const struct node *, void *),
	       void *to)
{
	const yaml_node_t *y = as_yaml(n);

	if (y->type != YAML_SEQUENCE_NODE)
		return one(rd, n, to);
	for (const yaml_node_item_t *i = y->data.sequence.items.start; i < y->data.sequence.items.top; i++)
		if (!one(rd, node_at(rd, *i), to))
			return false;
	return true;
}

/* ---- mappings by a table ---------------------------------------------------------------------- */

struct by_table {
	const char *what;
	const struct key *keys;
	void *to;
	uint32_t seen;
};

static bool unknown_key(struct reader *rd, const struct node *n, const char *name, const struct by_table *t)
{
	char list[160] = "";
	size_t at = 0;

	for (const struct key *k = t->keys; k->name && at < sizeof(list); k++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", at ? ", " : "", k->name);
	return node_bad(rd, n, "\"%.40s\" is not known in %s; there are: %s", name, t->what, list);
}

static bool table_pair(struct reader *rd, const struct node *key, const struct node *value, void *arg)
{
	struct by_table *t = arg;
	const char *name = node_word(rd, key, "a key");

	if (!name)
		return false;
	for (unsigned i = 0; t->keys[i].name && i < KEYS_MAX; i++) {
		if (strcmp(name, t->keys[i].name))
			continue;
		if (t->seen & 1u << i)
			return node_bad(rd, key, "\"%s\" stands there twice", name);
		t->seen |= 1u << i;
		return t->keys[i].get(rd, value, t->to);
	}
	return unknown_key(rd, key, name, t);
}

bool node_map(struct reader *rd, const struct node *n, const char *what, const struct key *keys, void *to)
{
	struct by_table t = { .what = what, .keys = keys, .to = to };

	return node_pairs(rd, n, what, table_pair, &t);
}

/* ---- the document ----------------------------------------------------------------------------- */

unsigned yaml_lines(const char *text, size_t len)
{
	unsigned n = len && text[len - 1] != '\n' && text[len - 1] != '\r';

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n' || (text[i] == '\r' && (i + 1 == len || text[i + 1] != '\n'));
	return n ? n : 1;
}

static bool documents(const char *text, size_t len, struct rule_error *err,
		      bool (*top)(struct reader *, const struct node *, void *), void *to)
{
	struct reader rd = { .err = err };
	yaml_document_t doc, more;
	yaml_parser_t parser;
	bool ok = false;

	if (!yaml_parser_initialize(&parser))
		return false;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &doc)) {
		err->line = (unsigned)parser.problem_mark.line + 1;
		snprintf(err->text, sizeof(err->text), "this is no YAML: %s",
			 parser.problem ? parser.problem : "out of memory");
		yaml_parser_delete(&parser);
		return false;
	}
	rd.doc = &doc;
	if (!yaml_document_get_root_node(&doc))
		*err = (struct rule_error){ .line = 1, .text = "there is nothing in it" };
	else
		ok = top(&rd, (const struct node *)yaml_document_get_root_node(&doc), to);
	yaml_document_delete(&doc);
	if (ok && yaml_parser_load(&parser, &more)) {
		if (yaml_document_get_root_node(&more))
			ok = node_bad(&rd, (const struct node *)yaml_document_get_root_node(&more),
				      "one document is enough");
		yaml_document_delete(&more);
	} else if (ok) {
		err->line = (unsigned)parser.problem_mark.line + 1;
		snprintf(err->text, sizeof(err->text), "this is no YAML: %s", parser.problem ? parser.problem : "?");
		ok = false;
	}
	yaml_parser_delete(&parser);
	return ok;
}

bool yaml_read(const char *text, size_t len, struct rule_error *err,
	       bool (*top)(struct reader *, const struct node *, void *), void *to)
{
	const unsigned last = yaml_lines(text, len);
	bool ok;

	*err = (struct rule_error){ .text = "out of memory" };
	ok = yaml_bounded(text, len, err) && documents(text, len, err, top, to);
	/* The end of a text whose last line does not end is a line further, to libyaml. */
	if (!ok && err->line > last)
		err->line = last;
	return ok;
}
