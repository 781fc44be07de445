/* SPDX-License-Identifier: MIT */
/* rules.c - of the report: the rules that disturbed packets, and each of their decisions. */
#include "config.h"

#include "field.h"
#include "report.h"
#include "say.h"
#include "tape.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Those of --record and --replay are not the user's, and disturb nothing. */
static bool is_tape(const json_t *rule) { return !strcmp(str(rule, "name"), TAPE_NAME); }

static long long disturbed(const json_t *rule) { return is_tape(rule) ? 0 : num(rule, "hits"); }

static bool any(const json_t *list)
{
	json_t *r;
	size_t i;

	json_array_foreach(list, i, r) if (!is_tape(r)) return true;
	return false;
}

/* How many packets they disturbed. */
static long long hits(const json_t *list)
{
	long long n = 0;
	json_t *r;
	size_t i;

	json_array_foreach(list, i, r) n += disturbed(r);
	return n;
}

void rules_put(FILE *f, const json_t *rules)
{
	json_t *list = json_object_get(rules, "rules"), *r;
	size_t i;

	if (!hits(list))
		return;
	fputs("\nrules that disturbed packets (decisions: rules.txt)\n", f);
	json_array_foreach(list, i, r)
	{
		if (!disturbed(r))
			continue;
		fprintf(f, "  rule %lld", num(r, "id"));
		if (*str(r, "name"))
			fprintf(f, " (%s)", str(r, "name"));
		fprintf(f, ": %s, %lld of %lld packets that match; seed ", str(r, "do"), num(r, "hits"),
			num(r, "matches"));
		if (*str(r, "seed")) /* text, as it is beyond JSON's integers */
			fprintf(f, "%s\n", str(r, "seed"));
		else
			fprintf(f, "%lld\n", num(r, "seed"));
	}
}

bool rules_write(const struct options *opt, const json_t *rules)
{
	json_t *n;
	char *path;
	size_t i;
	FILE *f;

	if (!any(json_object_get(rules, "rules")))
		return false;
	if (!hits(json_object_get(rules, "rules")))
		return true;
	path = report_file(opt, "rules.txt");
	f = fopen(path, "we");
	if (f) {
		rules_put(f, rules);
		fputs("\nwhat they decided, the newest 4096\n", f);
		json_array_foreach(json_object_get(rules, "log"), i, n) fprintf(f, "  %s\n", str(n, "text"));
	}
	if (!f || fclose(f))
		say_lost("--report %s: %s", path, strerror(errno));
	free(path);
	return true;
}
