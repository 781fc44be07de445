/* SPDX-License-Identifier: MIT */
/* fault.c - dice, and the text that says how they are loaded. */
#include "fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REORDER_NS	200000u		/* an overtaken datagram comes up to this much later */

struct fault_conf fault_conf;

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
	static const struct { const char *unit; double ns; } unit[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 },
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

static const char *get_seed(const char *text, uint64_t *to)
{
	char *end;

	errno = 0;
	*to = strtoull(text, &end, 0);
	return end != text && !*end && !errno ? NULL : "a seed is a whole number";
}

static const char *get_word(struct fault_conf *c, const char *key, const char *value)
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
		return get_seed(value, &c->seed);
	return "a fault is one of: loss dup reorder corrupt delay jitter seed";
}

const char *fault_parse(const char *spec)
{
	struct fault_conf c = { .on = true, .seed = 1 };
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
		fault_conf = c;
	return wrong;
}

/* ---- the dice ------------------------------------------------------------ */

/* splitmix64: every state is good, so is any seed. */
static uint64_t draw(struct fault *f)
{
	uint64_t z = f->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static bool chance(struct fault *f, double share) { return (double)(draw(f) >> 11) * 0x1p-53 < share; }
static uint64_t below(struct fault *f, uint64_t n) { return n ? draw(f) % n : 0; }

void fault_init(struct fault *f, unsigned shard) { f->state = fault_conf.seed + (uint64_t)shard * 0x100000001b3u; }

/* The same number of draws whatever comes of them, so that one probability does not shift the others' luck. */
struct fate fault_draw(struct fault *f, size_t len)
{
	const struct fault_conf *c = &fault_conf;
	struct fate fate = { .flip = -1 };
	uint64_t bit = below(f, len * 8), behind = below(f, REORDER_NS), jitter = below(f, c->jitter_ns);

	fate.lost = chance(f, c->loss);
	fate.twice = chance(f, c->dup);
	if (chance(f, c->corrupt))
		fate.flip = (int)bit;
	fate.late_ns = c->delay_ns + jitter;
	if (chance(f, c->reorder))
		fate.late_ns += behind + 1;
	return fate;
}
