/* SPDX-License-Identifier: MIT */
/* rule_yaml_bound.c - a text before a document is made of it: is it YAML, and no more of it than anybody writes? */
#include "rule_yaml.h"

#include <stdio.h>

#include <yaml.h>

#define DEPTH_MAX   64u
#define ANCHORS_MAX 1000u

/* The parser's own words; of bytes that are no characters it does not know the line. */
static void no_yaml(const yaml_parser_t *p, const char *text, size_t len, struct rule_error *err)
{
	const unsigned begin = (unsigned)p->context_mark.line + 1;
	int at;

	err->line = (unsigned)p->problem_mark.line + 1;
	if (p->error == YAML_READER_ERROR)
		err->line = yaml_lines(text, p->problem_offset < len ? p->problem_offset + 1 : len);
	at = snprintf(err->text, sizeof(err->text), "this is no YAML: %s", p->problem ? p->problem : "out of memory");
	if (p->context && begin < err->line)
		snprintf(err->text + at, sizeof(err->text) - (size_t)at, ", %s that begins in line %u", p->context,
			 begin);
}

struct extent {
	unsigned depth, anchors;
};

/* An event adds to it; the reason why that is too much, or NULL. */
static const char *extent_add(struct extent *x, const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_SCALAR_EVENT: x->anchors += e->data.scalar.anchor != NULL; break;
	case YAML_SEQUENCE_START_EVENT:
		x->depth++;
		x->anchors += e->data.sequence_start.anchor != NULL;
		break;
	case YAML_MAPPING_START_EVENT:
		x->depth++;
		x->anchors += e->data.mapping_start.anchor != NULL;
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT: x->depth--; break;
	default: break;
	}
	return x->depth == DEPTH_MAX      ? "lists in lists, more than anybody reads"
	       : x->anchors > ANCHORS_MAX ? "more anchors (&) than anybody reads"
					  : NULL;
}

/* With the square of both grows libyaml's time for a document. */
bool yaml_bounded(const char *text, size_t len, struct rule_error *err)
{
	const char *why = NULL;
	struct extent x = { 0 };
	bool ended = false;
	yaml_parser_t p;
	yaml_event_t e;

	if (!yaml_parser_initialize(&p))
		return false;
	yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
	while (!ended && !why && yaml_parser_parse(&p, &e)) {
		ended = e.type == YAML_STREAM_END_EVENT;
		why = extent_add(&x, &e);
		if (why) {
			err->line = (unsigned)e.start_mark.line + 1;
			snprintf(err->text, sizeof(err->text), "%s", why);
		}
		yaml_event_delete(&e);
	}
	if (!ended && !why)
		no_yaml(&p, text, len, err);
	yaml_parser_delete(&p);
	return ended;
}
