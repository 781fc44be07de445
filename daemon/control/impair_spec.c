/* SPDX-License-Identifier: MIT */
/* impair_spec.c - the text that says how bad the wire is to be. */
#include "impair_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/seed.h>

/* ---- the text ------------------------------------------------------------ */

static const char *get_share(const char *text, double *to)
{
	char *end;

	errno = 0;
	*to = strtod(text, &end);
	if (end == text || errno)
		return "a probability is a number: 0.01 or 1%";
	if (!strcmp(end, "%"))
		*to /= 100;
	else if (*end)
		return "a probability is a number: 0.01 or 1%";
	return *to >= 0 && *to <= 1 ? NULL : "a probability is from 0 to 1, or from 0% to 100%";
}

static const char *get_time(const char *text, uint64_t *to)
{
	static const struct {
		const char *unit;
		double ns;
	} unit[] = {
		{ "ns", 1 },
		{ "us", 1e3 },
		{ "ms", 1e6 },
		{ "s", 1e9 },
	};
	char *end;
	double v = strtod(text, &end);

	for (unsigned i = 0; i < sizeof(unit) / sizeof(*unit); i++) {
		if (end != text && !strcmp(end, unit[i].unit) && v >= 0 && v * unit[i].ns <= 3600e9) {
			*to = (uint64_t)(v * unit[i].ns);
			return NULL;
		}
	}
	return "a time has a unit: 20us, 2ms, 1s";
}

static const char *get_word(struct impair_spec *c, const char *key, const char *value)
{
	if (!strcmp(key, "loss"))
		return get_share(value, &c->loss);
	if (!strcmp(key, "dup"))
		return get_share(value, &c->dup);
	if (!strcmp(key, "reorder"))
		return get_share(value, &c->reorder);
	if (!strcmp(key, "corrupt"))
		return get_share(value, &c->corrupt);
	if (!strcmp(key, "delay"))
		return get_time(value, &c->delay_ns);
	if (!strcmp(key, "jitter"))
		return get_time(value, &c->jitter_ns);
	if (!strcmp(key, "seed"))
		return seed_read(value, &c->seed) ? NULL : SEED_WORDS;
	return "a fault is one of: loss dup reorder corrupt delay jitter seed";
}

const char *impair_spec_parse(const char *spec, struct impair_spec *to)
{
	struct impair_spec c = { .seed = 1 };
	const char *wrong = NULL;
	char *copy = strdup(spec), *rest = copy, *word, *value;

	if (!copy)
		return "out of memory";
	while (!wrong && (word = strsep(&rest, ","))) {
		value = strchr(word, '=');
		if (!value) {
			wrong = "a fault looks like loss=1%";
			break;
		}
		*value++ = '\0';
		wrong = get_word(&c, word, value);
	}
	free(copy);
	if (!wrong)
		*to = c;
	return wrong;
}
