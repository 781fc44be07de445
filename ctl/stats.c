/* SPDX-License-Identifier: MIT */
/* stats.c - `rdmactl stats`: the counters, and what the daemon holds. */
#include <getopt.h>
#include <stdio.h>

#include "command.h"
#include "metrics.h"
#include "show.h"

static void show_object(const json_t *j)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)j, key, v)
	{
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

	json_array_foreach(json_object_get(j, "devices"), i, o)
	{
		printf("%s\n", show_str(o, "name"));
		show_object(json_object_get(o, "counters"));
		show_object(json_object_get(o, "objects"));
	}
	json_array_foreach(json_object_get(j, "shards"), i, o)
	{
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
	enum { OPT_OPEN = 256, OPT_CLASSIC };
	static const struct option longs[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "openmetrics", no_argument, NULL, OPT_OPEN },
		{ "prometheus", no_argument, NULL, OPT_CLASSIC },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct ask a = *ask;
	bool open = false, classic = false;
	json_t *j;
	int c;

	while ((c = getopt_long(argc, argv, "s:jh", longs, NULL)) >= 0) {
		switch (c) {
		case 's': a.socket = optarg; break;
		case 'j': a.json = true; break;
		case OPT_OPEN: open = true; break;
		case OPT_CLASSIC: classic = true; break;
		case 'h': puts("usage: rdmactl [-s SOCKET] stats [--json | --openmetrics | --prometheus]"); return 0;
		default: return rdmactl_wrong(argv[0], NULL);
		}
	}
	if (optind != argc)
		return rdmactl_wrong(argv[0], "\"%s\" is too many; it takes no arguments", argv[optind]);
	if (a.json + open + classic > 1)
		return rdmactl_wrong(argv[0], "one of --json, --openmetrics and --prometheus");
	j = show_ask(&a, DUMP_STATS, 0);
	if (!j)
		return 1;
	if (a.json)
		return show_json(j);
	if (open || classic)
		metrics_print(j, classic);
	else
		show(j);
	json_decref(j);
	return show_end();
}
