/* SPDX-License-Identifier: MIT */
/*
 * metrics.c - `rdmactl stats --openmetrics` and --prometheus: a family for each counter and each number of objects, with a label for whose it is.
 *
 * The name and the meaning of a family are a row here, or of stats.def; a row whose key the daemon does not tell has no samples, and
 * is left out.
 */
#include "metrics.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "show.h"

enum kind { COUNTER, GAUGE };

struct family {
	const char *key; /* in the dump */
	enum kind kind;
	const char *help;
};

static const struct family counters[] = {
#define STAT(name, lower, text) { #lower, COUNTER, text },
#include "../proto/stats.def"
#undef STAT
};

static const struct family objects[] = {
	{ "contexts", GAUGE, "verbs contexts: programs times devices they have open" },
	{ "pds", GAUGE, "protection domains" },
	{ "mrs", GAUGE, "memory regions" },
	{ "cqs", GAUGE, "completion queues" },
	{ "srqs", GAUGE, "shared receive queues" },
	{ "qps", GAUGE, "queue pairs" },
	{ "channels", GAUGE, "completion channels" },
};

static const struct family shards[] = {
	{ "turns", COUNTER, "turns of a thread of the data path" },
	{ "sleeps", COUNTER, "times that it slept for want of work" },
	{ "kicks", COUNTER, "times that a doorbell woke it" },
};

static const struct family daemon_[] = {
	{ "sessions", GAUGE, "connections of programs to the daemon" },
	{ "holds", GAUGE, "connections that keep a private daemon alive" },
	{ "fds", GAUGE, "open file descriptors" },
	{ "shared_maps", GAUGE, "memory that is shared with programs: mappings" },
	{ "heap_bytes", GAUGE, "memory from malloc" },
};

static const struct family cm[] = {
	{ "channels", GAUGE, "event channels of the connection manager" },
	{ "ids", GAUGE, "communication ids of programs" },
	{ "listeners", GAUGE, "ids that listen" },
	{ "ports", GAUGE, "ports that are bound" },
	{ "groups", GAUGE, "multicast groups that were joined" },
	{ "events", GAUGE, "events that no program has taken yet" },
	{ "agent_ids", GAUGE, "exchanges that the agents follow" },
};

#define ROWS(table) table, sizeof(table) / sizeof(table[0])

/* Families with a sample of each member of a list. */
static const struct group {
	const char *prefix;
	const struct family *f;
	size_t n;
	const char *list;  /* of the statistics */
	const char *label; /* its value is */
	const char *key;   /* that of the member; NULL: its index */
	const char *part;  /* of the member, that has the numbers; NULL: it has them itself */
} groups[] = {
	{ "", ROWS(counters), "devices", "device", "name", "counters" },
	{ "", ROWS(objects), "devices", "device", "name", "objects" },
	{ "shard_", ROWS(shards), "shards", "shard", NULL, NULL },
};

static void label(const char *name, const char *value)
{
	printf("%s=\"", name);
	for (; *value; value++)
		if (*value == '\n')
			fputs("\\n", stdout);
		else
			printf("%s%c", *value == '"' || *value == '\\' ? "\\" : "", *value);
	putchar('"');
}

static bool ends(const char *s, const char *end)
{
	size_t n = strlen(s), e = strlen(end);

	return n >= e && !strcmp(s + n - e, end);
}

static const char *total(const struct family *f) { return f->kind == COUNTER ? "_total" : ""; }

/* The classic format has no units, and counters whose name is that of their samples. */
static void head(const char *prefix, const struct family *f, bool classic)
{
	const char *end = classic ? total(f) : "";

	printf("# TYPE rdmad_%s%s%s %s\n", prefix, f->key, end, f->kind == COUNTER ? "counter" : "gauge");
	if (!classic && ends(f->key, "_bytes"))
		printf("# UNIT rdmad_%s%s bytes\n", prefix, f->key);
	printf("# HELP rdmad_%s%s%s %s\n", prefix, f->key, end, f->help);
}

static void families(const struct group *g, const json_t *stats, bool classic)
{
	const json_t *list = json_object_get(stats, g->list);

	for (const struct family *f = g->f; f < g->f + g->n; f++) {
		bool first = true;
		json_t *o;
		size_t i;

		json_array_foreach(list, i, o)
		{
			const json_t *v = json_object_get(g->part ? json_object_get(o, g->part) : o, f->key);
			char index[24];

			snprintf(index, sizeof(index), "%zu", i);
			if (!json_is_integer(v))
				continue;
			if (first)
				head(g->prefix, f, classic);
			first = false;
			printf("rdmad_%s%s%s{", g->prefix, f->key, total(f));
			label(g->label, g->key ? show_str(o, g->key) : index);
			printf("} %lld\n", (long long)json_integer_value(v));
		}
	}
}

static void singles(const char *prefix, const struct family *f, size_t n, const json_t *o, bool classic)
{
	for (; n; n--, f++) {
		const json_t *v = json_object_get(o, f->key);

		if (!json_is_integer(v))
			continue;
		head(prefix, f, classic);
		printf("rdmad_%s%s %lld\n", prefix, f->key, (long long)json_integer_value(v));
	}
}

void metrics_print(const json_t *stats, bool classic)
{
	const json_t *d = json_object_get(stats, "daemon");

	fputs("# TYPE rdmad_info gauge\n# HELP rdmad_info the daemon that was asked\nrdmad_info{", stdout);
	label("version", show_str(d, "version"));
	fputs("} 1\n", stdout);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		families(&groups[i], stats, classic);
	singles("", ROWS(daemon_), d, classic);
	singles("cm_", ROWS(cm), json_object_get(d, "cm"), classic);
	if (!classic)
		puts("# EOF");
}
