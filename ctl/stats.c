/* SPDX-License-Identifier: MIT */
/* stats.c - `rdmactl stats`: the counters, and what the daemon holds. */
#include <stdio.h>

#include "command.h"
#include "show.h"

static void show_object(const json_t *j)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)j, key, v) {
		if (json_is_string(v))
			printf("  %-24s %s\n", key, json_string_value(v));
		else if (json_is_integer(v))
			printf("  %-24s %lld\n", key, (long long)json_integer_value(v));
	}
}

static void show(const json_t *j)
{
	size_t i;
	json_t *o;

	json_array_foreach(json_object_get(j, "devices"), i, o) {
		printf("%s\n", show_str(o, "name"));
		show_object(json_object_get(o, "counters"));
		show_object(json_object_get(o, "objects"));
	}
	json_array_foreach(json_object_get(j, "shards"), i, o) {
		printf("shard %zu\n", i);
		show_object(o);
	}
	puts("daemon");
	show_object(json_object_get(j, "daemon"));
	puts("connection manager");
	show_object(json_object_get(json_object_get(j, "daemon"), "cm"));
}

int stats_main(int argc, char **argv, const struct ask *ask)
{
	return show_dump(argc, argv, ask, DUMP_STATS, show);
}
