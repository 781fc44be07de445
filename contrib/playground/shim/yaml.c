/* SPDX-License-Identifier: MIT */
/* yaml.c - see yaml.h.  One function a kind of node, each begins at its first character. */
#include "yaml.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lab/rule_yaml.h"

#define DEEP 32

static int fail(yaml_parser_t *p, const char *problem)
{
	if (!p->problem) {
		p->problem = problem;
		p->problem_mark.line = p->line;
	}
	return 0;
}

static char peek(const yaml_parser_t *p) { return p->at < p->end ? *p->at : '\0'; }

static void next(yaml_parser_t *p)
{
	if (p->at < p->end && *p->at++ == '\n')
		p->line++;
}

/* To the next character that means something, over comments and lines. */
static void skip(yaml_parser_t *p)
{
	for (; p->at < p->end; next(p)) {
		if (peek(p) == '#' && (p->at == p->begin || p->at[-1] == ' ' || p->at[-1] == '\n'))
			while (p->at < p->end && *p->at != '\n')
				next(p);
		if (!strchr(" \r\n", peek(p)))
			return;
	}
}

static int column(const yaml_parser_t *p)
{
	const char *s = p->at;

	while (s > p->begin && s[-1] != '\n')
		s--;
	return (int)(p->at - s);
}

static int node_new(yaml_parser_t *p, yaml_node_type_t type)
{
	yaml_document_t *d = p->doc;

	if (d->n == YAML_NODES)
		return fail(p, "too long");
	d->node[d->n] = (yaml_node_t){ .type = type, .start_mark = { p->line } };
	return ++d->n;
}

static yaml_node_t *at(yaml_parser_t *p, int i) { return &p->doc->node[i - 1]; }

/* One more pair or item; they are few. */
static int put(yaml_parser_t *p, int parent, int key, int value)
{
	yaml_node_t *n = at(p, parent);
	bool map = n->type == YAML_MAPPING_NODE;
	size_t one = map ? sizeof(yaml_node_pair_t) : sizeof(yaml_node_item_t);
	char *start = map ? (char *)n->data.mapping.pairs.start : (char *)n->data.sequence.items.start;
	size_t len = start ? (size_t)((map ? (char *)n->data.mapping.pairs.top : (char *)n->data.sequence.items.top) -
				      start)
			   : 0;

	start = realloc(start, len + one);
	if (!start)
		return fail(p, "out of memory");
	if (map) {
		n->data.mapping.pairs.start = (yaml_node_pair_t *)(void *)start;
		n->data.mapping.pairs.top = n->data.mapping.pairs.start + len / one + 1;
		n->data.mapping.pairs.top[-1] = (yaml_node_pair_t){ key, value };
	} else {
		n->data.sequence.items.start = (yaml_node_item_t *)(void *)start;
		n->data.sequence.items.top = n->data.sequence.items.start + len / one + 1;
		n->data.sequence.items.top[-1] = value;
	}
	return 1;
}

static int scalar_put(yaml_parser_t *p, int n, const char *from, size_t len)
{
	unsigned char *s = malloc(len + 1);

	if (!s)
		return fail(p, "out of memory");
	memcpy(s, from, len);
	s[len] = '\0';
	at(p, n)->data.scalar.value = s;
	at(p, n)->data.scalar.length = len;
	return n;
}

/* "\n" and the like; -1: not known. */
static int escaped(char c)
{
	static const char from[] = "nt\"\\0", to[] = "\n\t\"\\";
	const char *at = c ? strchr(from, c) : NULL;

	return at ? to[at - from] : -1;
}

static int quoted(yaml_parser_t *p)
{
	int n = node_new(p, YAML_SCALAR_NODE);
	char quote = peek(p), *s = n ? malloc((size_t)(p->end - p->at)) : NULL;
	size_t len = 0;

	if (!s)
		return fail(p, "out of memory");
	at(p, n)->data.scalar.value = (unsigned char *)s;
	for (next(p); p->at < p->end && *p->at != '\n'; next(p)) {
		s[len] = *p->at;
		if (*p->at == quote) {
			next(p);
			if (quote == '"' || peek(p) != quote) { /* two of ' are one */
				s[len] = '\0';
				at(p, n)->data.scalar.length = len;
				return n;
			}
		} else if (quote == '"' && *p->at == '\\') {
			next(p);
			if (escaped(peek(p)) < 0)
				return fail(p, "this escape is not known here");
			s[len] = (char)escaped(peek(p));
		}
		len++;
	}
	return fail(p, "a quote has no end on its line");
}

/* Is this the colon behind a key? */
static bool is_colon(const yaml_parser_t *p, const char *s)
{
	return *s == ':' && (s + 1 == p->end || strchr(" \r\n,]}", s[1]));
}

static int plain(yaml_parser_t *p, bool flow)
{
	const char *from = p->at, *end;
	int n;

	if (strchr("&*!|>%@`", peek(p)))
		return fail(p, "anchors, tags and long texts are not known here");
	n = node_new(p, YAML_SCALAR_NODE);
	while (p->at < p->end && *p->at != '\n' && !is_colon(p, p->at) && !(flow && strchr(",[]{}", *p->at)) &&
	       !(*p->at == '#' && p->at > from && p->at[-1] == ' '))
		next(p);
	for (end = p->at; end > from && strchr(" \r", end[-1]); end--)
		;
	return n ? scalar_put(p, n, from, (size_t)(end - from)) : 0;
}

static int flow(yaml_parser_t *p, int deep);

static int flow_value(yaml_parser_t *p, int deep)
{
	skip(p);
	if (peek(p) == '{' || peek(p) == '[')
		return flow(p, deep + 1);
	if (peek(p) == '"' || peek(p) == '\'')
		return quoted(p);
	return plain(p, true);
}

static int flow(yaml_parser_t *p, int deep)
{
	bool map = peek(p) == '{';
	int n = deep < DEEP ? node_new(p, map ? YAML_MAPPING_NODE : YAML_SEQUENCE_NODE) : fail(p, "too deep"), key = 0,
	    v;

	next(p);
	for (skip(p); n && peek(p) != (map ? '}' : ']'); skip(p)) {
		if (p->at == p->end)
			return fail(p, "a bracket has no end");
		v = flow_value(p, deep);
		if (map) {
			key = v;
			skip(p);
			if (peek(p) != ':')
				return fail(p, "a colon is missing");
			next(p);
			v = flow_value(p, deep);
		}
		if (!v || !put(p, n, key, v))
			return 0;
		skip(p);
		if (peek(p) == ',')
			next(p);
		else if (peek(p) != (map ? '}' : ']'))
			return fail(p, "a comma or a bracket is missing");
	}
	next(p);
	return n;
}

static bool is_dash(const yaml_parser_t *p)
{
	return peek(p) == '-' && (p->at + 1 == p->end || strchr(" \n", p->at[1]));
}

/* Is there a key on this line? */
static bool is_key(yaml_parser_t *p)
{
	for (const char *s = p->at; s < p->end && *s != '\n'; s++)
		if (is_colon(p, s))
			return true;
	return false;
}

/* A key without a value: that is an empty one, beside its key. */
static int nothing(yaml_parser_t *p)
{
	int n = node_new(p, YAML_SCALAR_NODE);

	if (n)
		at(p, n)->start_mark.line = p->colon;
	return n ? scalar_put(p, n, "", 0) : 0;
}

/* A line "---" begins the next document. */
static bool is_next(const yaml_parser_t *p)
{
	return p->end - p->at >= 3 && !memcmp(p->at, "---", 3) && !column(p) &&
	       (p->end - p->at == 3 || strchr(" \r\n", p->at[3]));
}

/* least: the column that a block has at least. */
static int block(yaml_parser_t *p, int least, int deep)
{
	int n, key, v, col;
	bool list;

	skip(p);
	col = column(p);
	if (deep == DEEP)
		return fail(p, "too deep");
	if (peek(p) == '\t')
		return fail(p, "a line begins with a tab");
	if (p->at == p->end || col < least || is_next(p))
		return nothing(p);
	if (peek(p) == '{' || peek(p) == '[')
		return flow(p, deep);
	list = is_dash(p);
	if (!list && !is_key(p))
		return peek(p) == '"' || peek(p) == '\'' ? quoted(p) : plain(p, false);
	n = node_new(p, list ? YAML_SEQUENCE_NODE : YAML_MAPPING_NODE);
	for (; n && p->at < p->end && column(p) == col && is_dash(p) == list && !is_next(p); skip(p)) {
		key = 0;
		if (!list) {
			key = peek(p) == '"' || peek(p) == '\'' ? quoted(p) : plain(p, false);
			if (!key || peek(p) != ':')
				return fail(p, "a key and a colon are missing");
		}
		p->colon = p->line;
		next(p);
		/* A list may stand below its key without being indented. */
		skip(p);
		v = block(p, col + (list || !is_dash(p)), deep + 1);
		if (!v || !put(p, n, key, v))
			return 0;
		skip(p);
		if (p->at < p->end && column(p) > col)
			return fail(p, "a line begins at a column where nothing else does");
	}
	return n;
}

/* The bytes that follow the first one of a character; -1: none begins so. */
static int tail_len(unsigned char c)
{
	return c < 0x80 ? 0 : c < 0xc2 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : -1;
}

/* If not, the line of what is none. */
static bool is_utf8(const yaml_parser_t *p, size_t *line)
{
	for (const char *s = p->at; s < p->end; s++) {
		int n = tail_len((unsigned char)*s);

		*line += *s == '\n';

		if (n < 0 || n >= p->end - s)
			return false;
		for (; n; n--)
			if (((unsigned char)*++s & 0xc0) != 0x80)
				return false;
	}
	return true;
}

/* DEEP and YAML_NODES bound it. */
bool yaml_bounded(const char *text, size_t len, struct rule_error *err)
{
	(void)text, (void)len, (void)err;
	return true;
}

/* ---- as libyaml has it ------------------------------------------------------------------------- */

int yaml_parser_initialize(yaml_parser_t *p)
{
	memset(p, 0, sizeof *p);
	return 1;
}

void yaml_parser_set_input_string(yaml_parser_t *p, const unsigned char *text, size_t len)
{
	p->begin = p->at = (const char *)text;
	p->end = p->begin + len;
}

int yaml_parser_load(yaml_parser_t *p, yaml_document_t *d)
{
	size_t line = p->line;

	memset(d, 0, sizeof *d);
	if (!is_utf8(p, &line))
		return p->line = line, fail(p, "it is no UTF-8");
	skip(p);
	if (is_next(p))
		p->at += 3;
	skip(p);
	if (p->at == p->end)
		return 1;
	d->node = calloc(YAML_NODES, sizeof *d->node);
	p->doc = d;
	d->root = d->node ? block(p, 0, 0) : 0;
	skip(p);
	if (d->root && p->at < p->end && !is_next(p))
		d->root = fail(p, "something stands behind the end");
	if (!d->root)
		yaml_document_delete(d);
	return d->root != 0;
}

void yaml_parser_delete(yaml_parser_t *p) { (void)p; }

void yaml_document_delete(yaml_document_t *d)
{
	for (int i = 0; d->node && i < d->n; i++)
		switch (d->node[i].type) {
		case YAML_SCALAR_NODE: free(d->node[i].data.scalar.value); break;
		case YAML_SEQUENCE_NODE: free(d->node[i].data.sequence.items.start); break;
		case YAML_MAPPING_NODE: free(d->node[i].data.mapping.pairs.start); break;
		case YAML_NO_NODE: break;
		}
	free(d->node);
	memset(d, 0, sizeof *d);
}

yaml_node_t *yaml_document_get_node(yaml_document_t *d, int i) { return i > 0 && i <= d->n ? &d->node[i - 1] : NULL; }
yaml_node_t *yaml_document_get_root_node(yaml_document_t *d) { return yaml_document_get_node(d, d->root); }
