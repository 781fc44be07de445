/* SPDX-License-Identifier: MIT */
/*
 * yaml.h - of libyaml what lab/rule_yaml.c uses, where there is no libyaml: in WebAssembly.
 *
 * It reads the YAML that files of rules are written in (rdmad-fault(5)): mappings and lists, in blocks or in brackets;
 * values plain, 'quoted' or "quoted"; comments.  Of anything else (anchors, tags, values of many lines) it says that it
 * does not know it.
 */
#ifndef SHIM_YAML_H
#define SHIM_YAML_H

#include <stddef.h>

typedef enum { YAML_NO_NODE, YAML_SCALAR_NODE, YAML_SEQUENCE_NODE, YAML_MAPPING_NODE } yaml_node_type_t;
typedef int yaml_node_item_t;
typedef struct {
	int key, value;
} yaml_node_pair_t;
typedef struct {
	size_t line;
} yaml_mark_t;

typedef struct {
	yaml_node_type_t type;
	yaml_mark_t start_mark;
	union {
		struct {
			unsigned char *value;
			size_t length;
		} scalar;
		struct {
			struct {
				yaml_node_item_t *start, *top;
			} items;
		} sequence;
		struct {
			struct {
				yaml_node_pair_t *start, *top;
			} pairs;
		} mapping;
	} data;
} yaml_node_t;

#define YAML_NODES 4096

typedef struct {
	yaml_node_t *node; /* YAML_NODES of them; number 1 is the first */
	int n, root;
} yaml_document_t;

typedef struct {
	const char *problem; /* NULL: none, or no memory */
	yaml_mark_t problem_mark;
	const char *at, *end, *begin;
	size_t line, colon; /* where the reader is; where the last key was */
	yaml_document_t *doc;
} yaml_parser_t;

/* As in libyaml: 1 is good. */
int yaml_parser_initialize(yaml_parser_t *);
void yaml_parser_set_input_string(yaml_parser_t *, const unsigned char *, size_t len);
int yaml_parser_load(yaml_parser_t *, yaml_document_t *); /* a second time: a document without a root */
void yaml_parser_delete(yaml_parser_t *);
void yaml_document_delete(yaml_document_t *);
yaml_node_t *yaml_document_get_node(yaml_document_t *, int index);
yaml_node_t *yaml_document_get_root_node(yaml_document_t *);

#endif
