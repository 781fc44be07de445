/* SPDX-License-Identifier: MIT */
/*
 * rule_yaml.h - values of a YAML document, each read by a function that says what is wrong with it, and where.
 *
 * All functions: false, and the error is set.
 */
#ifndef LAB_RULE_YAML_H
#define LAB_RULE_YAML_H

#include "rule.h"

struct node; /* of the document */

struct reader {
	void *doc;
	struct rule_error *err;
};

struct key {
	const char *name;
	bool (*get)(struct reader *, const struct node *, void *to);
};

bool node_bad(struct reader *, const struct node *, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A scalar's text; NULL: it is none, and that is the error. */
const char *node_word(struct reader *, const struct node *, const char *what);
bool node_is_map(const struct node *);
bool node_is_scalar(const struct node *);
/* Not a list or a mapping without anything in it: that is the error. */
bool node_some(struct reader *, const struct node *, const char *what);

/* A mapping: each key by its row; none twice, none unknown. */
bool node_map(struct reader *, const struct node *, const char *what, const struct key *keys, void *to);
/* Each pair of a mapping, or each element of a list; one that is neither is its own only element. */
bool node_pairs(struct reader *, const struct node *, const char *what,
		bool (*pair)(struct reader *, const struct node *key, const struct node *value, void *to), void *to);
bool node_each(struct reader *, const struct node *, bool (*one)(struct reader *, const struct node *, void *to),
	       void *to);

bool get_u32(struct reader *, const struct node *, uint64_t least, uint64_t most, const char *what, uint32_t *to);
bool get_u64(struct reader *, const struct node *, uint64_t *to);
bool get_ns(struct reader *, const struct node *, uint64_t *to);    /* 5ms */
bool get_size(struct reader *, const struct node *, uint64_t *to);  /* 64k, bytes */
bool get_rate(struct reader *, const struct node *, uint64_t *to);  /* 100mbit */
bool get_share(struct reader *, const struct node *, uint64_t *to); /* 1%: of 2^53 */
bool get_text(struct reader *, const struct node *, const char *what, char *to, size_t room);
/* 3, 3..7, 3.. ; times: of them, in ns. */
bool get_range(struct reader *, const struct node *, int64_t least, int64_t most, const char *what,
	       struct rule_range *to);
bool get_ns_range(struct reader *, const struct node *, struct rule_range *to);
/* The index of the word; said if it is none of them. */
bool get_word(struct reader *, const struct node *, const char *what, const char *const *words, unsigned n,
	      unsigned *to);

/* rule_match.c, rule_do.c */
bool get_match(struct reader *, const struct node *, void *rule);
bool get_when(struct reader *, const struct node *, void *rule);
bool get_do(struct reader *, const struct node *, void *rule);

/* Reads the text; top: what is called for the whole of it. */
bool yaml_read(const char *text, size_t len, struct rule_error *,
	       bool (*top)(struct reader *, const struct node *, void *), void *to);
unsigned node_line(const struct node *);
unsigned yaml_lines(const char *text, size_t len); /* 1 at least */
/* rule_yaml_bound.c: the text is YAML, of which a document can be made in a short time. */
bool yaml_bounded(const char *text, size_t len, struct rule_error *);

#endif
