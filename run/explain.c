/* SPDX-License-Identifier: MIT */
/* explain.c - --explain: what the daemon says went wrong for this program. */
#include "config.h"

#include "field.h"
#include "report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/told.h>

bool explain_wrong(const json_t *causes)
{
	json_t *c;
	size_t i;

	json_array_foreach(causes, i, c) if (!strcmp(str(c, "grade"), "error")) return true;
	return false;
}

/*
 * Notes may explain errors, and what a program waited for in vain; but every connection that is closed leaves a note of the first
 * kind, and every program that was ended one of the other.
 */
static bool usual(const json_t *c, bool wrong)
{
	return !strcmp(str(c, "cause"), "PROGRAM_ERR") || (!wrong && !strcmp(str(c, "cause"), "KILLED"));
}

/* The daemon cannot know that it was us. */
static void killed_put(const struct told *t, const json_t *c)
{
	const char *text = str(c, "report"), *hint = strstr(text, "  hint: ");
	char *all = NULL;

	if (asprintf(&all, "%.*s  hint: rdmad-run ended it, since its time (--timeout) was up\n",
		     hint ? (int)(hint - text) : (int)strlen(text), text) < 0)
		return;
	told_put(t, c, all);
	free(all);
}

/* Those that are shown. */
static json_t *sifted(const json_t *causes)
{
	bool wrong = explain_wrong(causes);
	json_t *list = json_array(), *c;
	size_t i;

	json_array_foreach(causes, i, c) if (!usual(c, wrong)) json_array_append(list, c);
	return list;
}

void explain_put(FILE *f, const json_t *causes, const json_t *waits, const struct outcome *o)
{
	const struct told t = told_begin(f);
	json_t *c, *list;
	size_t i;

	if (o->timed_out)
		fprintf(f, "%stime was up (--timeout): the program was ended after %.1f s\n",
			f == stderr ? "rdmad-run: " : "", (double)o->took_ms / 1000);
	if (json_array_size(waits))
		told_heading(&t, f == stderr ? "rdmad-run: for what it waited: " : "for what it waited: ", waits, NULL);
	json_array_foreach(waits, i, c) if (!told_by_twin(waits, c)) told_row(&t, c);
	if (!explain_wrong(causes) && !o->timed_out)
		return;
	list = sifted(causes);
	if (json_array_size(list))
		told_heading(&t, f == stderr ? "rdmad-run: what went wrong: " : "what went wrong: ", list, NULL);
	json_array_foreach(list, i, c)
	{
		if (o->timed_out && !strcmp(str(c, "cause"), "KILLED"))
			killed_put(&t, c);
		else if (!told_by_twin(list, c))
			told_row(&t, c);
	}
	json_decref(list);
}
