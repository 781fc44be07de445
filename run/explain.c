/* SPDX-License-Identifier: MIT */
/* explain.c - --explain: what the daemon says went wrong for this program. */
#include "config.h"

#include "field.h"
#include "report.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

bool explain_wrong(const json_t *causes)
{
	json_t *c;
	size_t i;

	json_array_foreach(causes, i, c) if (!strcmp(str(c, "grade"), "error")) return true;
	return false;
}

/* If there are errors, notes may explain them; but every connection that is closed leaves a note of this kind. */
static bool usual(const json_t *c) { return !strcmp(str(c, "cause"), "PROGRAM_ERR"); }

/* The daemon cannot know that it was us. */
static void killed_put(FILE *f, const json_t *c)
{
	const char *text = str(c, "report"), *hint = strstr(text, "  hint: ");

	fprintf(f, "%.*s  hint: rdmad-run ended it, since its time (--timeout) was up\n",
		hint ? (int)(hint - text) : (int)strlen(text), text);
}

void explain_put(FILE *f, const json_t *causes, const json_t *waits, const struct outcome *o)
{
	const char *prefix = f == stderr ? "rdmad-run: " : "";
	json_t *c;
	size_t i;

	if (o->timed_out)
		fprintf(f, "%stime was up (--timeout): the program was ended after %.1f s\n", prefix,
			(double)o->took_ms / 1000);
	if (json_array_size(waits))
		fprintf(f, "%sfor what it waited:\n", prefix);
	json_array_foreach(waits, i, c) fprintf(f, "%s", str(c, "report"));
	if (!explain_wrong(causes))
		return;
	fprintf(f, "%swhat went wrong:\n", prefix);
	json_array_foreach(causes, i, c)
	{
		if (o->timed_out && !strcmp(str(c, "cause"), "KILLED"))
			killed_put(f, c);
		else if (!usual(c))
			fprintf(f, "%s", str(c, "report"));
	}
}
