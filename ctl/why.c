/* SPDX-License-Identifier: MIT */
/* why.c - `rdmactl why [QP]`: what went wrong lately, with the numbers, what was before it, and a hint. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <rdmad/told.h>

#include "command.h"
#include "show.h"

static void usage(void)
{
	fputs("usage: rdmactl why [options] [QP]\n"
	      "Say what went wrong recently: error completions, queue pairs in ERR, refused verbs, connections\n"
	      "that failed; and for what live programs wait.\n"
	      "  QP                 show all that concerns this queue pair (0x12 or 18), notes included\n"
	      "options:\n"
	      "  -a, --all          show notes, too, which may not be errors: dropped datagrams, flushes,\n"
	      "                     killed programs\n"
	      "  -n, --last N       show the last N only\n"
	      "  -b, --brief        print one line for each\n"
	      "  -s, --socket PATH  the daemon's socket\n"
	      "  -j, --json         print JSON\n"
	      "  -h, --help         print this\n",
	      stdout);
}

/* In one line a row does not tell of that of the other end. */
static bool shown(const json_t *list, const json_t *r, bool brief) { return brief || !told_by_twin(list, r); }

static size_t shown_n(const json_t *list, bool brief)
{
	size_t i, n = 0;
	json_t *r;

	json_array_foreach(list, i, r) n += shown(list, r, brief);
	return n;
}

/* Leaves the rows that are asked for. */
static void sift(json_t *list, bool all, bool brief, uint32_t last)
{
	for (size_t i = json_array_size(list); i-- > 0;)
		if (!all && !strcmp(show_str(json_array_get(list, i), "grade"), "note"))
			json_array_remove(list, i);
	while (last && shown_n(list, brief) > last)
		json_array_remove(list, 0);
}

static void list_print(const json_t *list, bool brief, bool apart)
{
	const struct told t = told_begin(stdout);
	bool any = false;
	size_t i;
	json_t *r;

	json_array_foreach(list, i, r)
	{
		if (!shown(list, r, brief))
			continue;
		if (any && apart && !brief)
			putchar('\n');
		any = true;
		if (brief)
			printf("%s%s%s: %s\n", show_str(r, "program"), *show_str(r, "device") ? " " : "",
			       show_str(r, "device"), show_str(r, "text"));
		else
			told_row(&t, r);
	}
}

static void print(const json_t *list, const json_t *waits, bool brief)
{
	const struct told t = told_begin(stdout);

	/* Of more than one thing it is said at first how many there are. */
	if (!brief && json_array_size(list) + json_array_size(waits) > 1)
		told_heading(&t, "", list, waits);
	list_print(list, brief, true);
	if (json_array_size(list) && json_array_size(waits) && !brief)
		putchar('\n');
	if (json_array_size(waits) && !brief)
		puts("for what live programs wait:");
	list_print(waits, brief, false);
	if (!json_array_size(list) && !json_array_size(waits))
		puts("nothing went wrong that the daemon remembers");
}

int why_main(int argc, char **argv, const struct ask *ask)
{
	static const struct option longs[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "last", required_argument, NULL, 'n' },
		{ "brief", no_argument, NULL, 'b' },
		{ "socket", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct ask a = *ask;
	bool all = false, brief = false;
	uint32_t last = 0, qpn = 0;
	json_t *j, *list;
	int c;

	while ((c = getopt_long(argc, argv, "an:bs:jh", longs, NULL)) >= 0) {
		switch (c) {
		case 'a': all = true; break;
		case 'b': brief = true; break;
		case 'n':
			if (!show_number(optarg, &last))
				return rdmactl_wrong(argv[0], "--last %s: give a number", optarg);
			break;
		case 's': a.socket = optarg; break;
		case 'j': a.json = true; break;
		case 'h': usage(); return 0;
		default: return rdmactl_wrong(argv[0], NULL);
		}
	}
	if (!show_qpn(argc, argv, &qpn))
		return 2;
	j = show_ask(&a, DUMP_WHY, qpn);
	if (!j)
		return 1;
	list = json_object_get(j, "causes");
	sift(list, all || qpn, brief || a.json, last);
	sift(json_object_get(j, "waits"), all || qpn, brief, 0);
	if (a.json)
		return show_json(j);
	print(list, json_object_get(j, "waits"), brief);
	json_decref(j);
	return show_end();
}
