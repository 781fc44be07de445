/* SPDX-License-Identifier: MIT */
/* impair_spec.c - the text that says how bad the wire is to be. */
#include "impair_spec.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/number.h>
#include <rdmad/seed.h>

/* ---- the text ------------------------------------------------------------ */

/* strtod() takes more: blanks, signs, hexadecimal. */
static bool number(const char *text, char **end, double *to)
{
	errno = 0;
	*to = strtod(text, end);
	return !errno && (isdigit((unsigned char)*text) || *text == '.') && *end != text && !strpbrk(text, "xX");
}

static const char *get_share(const char *text, void *to)
{
	double *share = to;
	char *end;

	if (!number(text, &end, share))
		return "a probability is a number: 0.01 or 1%";
	if (!strcmp(end, "%"))
		*share /= 100;
	else if (*end)
		return "a probability is a number: 0.01 or 1%";
	return *share <= 1 ? NULL : "a probability is from 0 to 1, or from 0% to 100%";
}

static const char *get_time(const char *text, void *to)
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
	double v;
	bool good = number(text, &end, &v);

	for (unsigned i = 0; i < sizeof(unit) / sizeof(*unit); i++) {
		if (good && !strcmp(end, unit[i].unit) && v * unit[i].ns <= 3600e9) {
			*(uint64_t *)to = (uint64_t)(v * unit[i].ns);
			return NULL;
		}
	}
	return "a time has a unit, and is an hour at most: 20us, 2ms, 1s";
}

static const char *get_seed(const char *text, void *to) { return number_read(text, to) ? NULL : SEED_WORDS; }

static const struct {
	const char *key;
	const char *(*get)(const char *, void *);
	size_t at;
} keys[] = {
#define AT(field) offsetof(struct impair_spec, field)
	{ "loss", get_share, AT(loss) },       { "dup", get_share, AT(dup) },
	{ "reorder", get_share, AT(reorder) }, { "corrupt", get_share, AT(corrupt) },
	{ "delay", get_time, AT(delay_ns) },   { "jitter", get_time, AT(jitter_ns) },
	{ "seed", get_seed, AT(seed) },
};

/* seen: a bit for each key that was there. */
static const char *get_word(struct impair_spec *c, unsigned *seen, const char *key, const char *value)
{
	for (unsigned i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (strcmp(key, keys[i].key) != 0)
			continue;
		if (*seen & 1u << i)
			return "a fault stands there twice";
		*seen |= 1u << i;
		return keys[i].get(value, (char *)c + keys[i].at);
	}
	return "a fault is one of: loss dup reorder corrupt delay jitter seed";
}

const char *impair_spec_parse(const char *spec, struct impair_spec *to)
{
	struct impair_spec c = { .seed = 1 };
	const char *wrong = NULL;
	unsigned seen = 0;
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
		wrong = get_word(&c, &seen, word, value);
	}
	free(copy);
	if (!wrong)
		*to = c;
	return wrong;
}
