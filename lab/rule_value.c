/* SPDX-License-Identifier: MIT */
/* rule_value.c - numbers, times, shares, ranges and words. */
#include "rule_yaml.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 40 /* characters of a wrong value */

/* Of the number at s, for strtoll(); 0: it is none.  17, 0x11; not 017, which is another number to some than to others. */
static int base_of(const char *s)
{
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		return 16;
	return isdigit((unsigned char)s[0]) && !(s[0] == '0' && isdigit((unsigned char)s[1])) ? 10 : 0;
}

static bool whole(const char *s, char **end, int64_t *to)
{
	errno = 0;
	if (!base_of(s))
		return false;
	*to = strtoll(s, end, base_of(s));
	return !errno;
}

bool get_u64(struct reader *rd, const struct node *n, uint64_t *to)
{
	const char *s = node_word(rd, n, "a number");
	char *end;

	if (!s)
		return false;
	errno = 0;
	if (base_of(s))
		*to = strtoull(s, &end, base_of(s));
	if (!base_of(s) || *end || errno)
		return node_bad(rd, n, "\"%.*s\" is no whole number; it looks like 17 or 0x11", SHOWN, s);
	return true;
}

bool get_u32(struct reader *rd, const struct node *n, uint64_t least, uint64_t most, const char *what, uint32_t *to)
{
	uint64_t v;

	if (!get_u64(rd, n, &v))
		return false;
	if (v < least || v > most)
		return node_bad(rd, n, "%s is a number from %llu to %llu", what, (unsigned long long)least,
				(unsigned long long)most);
	*to = (uint32_t)v;
	return true;
}

struct unit {
	const char *name;
	double times;
};

/* A number with a unit behind it, up to the end or "..". */
static bool with_unit(const char *s, const char **end, const struct unit *units, double most, double *to)
{
	char *e;
	size_t len = 0;

	if (!isdigit((unsigned char)*s) && *s != '.')
		return false;
	/* strtod() would take the first dot of a range. */
	{
		char number[32];
		size_t k = 0;

		while (k + 1 < sizeof(number) && (isdigit((unsigned char)s[k]) || (s[k] == '.' && s[k + 1] != '.')))
			k++;
		memcpy(number, s, k);
		number[k] = '\0';
		*to = strtod(number, &e);
		if (e != number + k || !k)
			return false;
		s += k;
	}
	while (isalpha((unsigned char)s[len]) || s[len] == '%')
		len++;
	for (const struct unit *u = units; u->name; u++) {
		if (strlen(u->name) == len && !strncmp(u->name, s, len)) {
			*to *= u->times;
			*end = s + len;
			return *to <= most;
		}
	}
	return false;
}

static const struct unit times[] = { { "ns", 1 },  { "us", 1e3 },   { "ms", 1e6 },
				     { "s", 1e9 }, { "min", 60e9 }, { NULL, 0 } };
static const struct unit sizes[] = { { "", 1 }, { "k", 1024 }, { "m", 1048576 }, { NULL, 0 } };
static const struct unit rates[] = { { "bit", 1 }, { "kbit", 1e3 }, { "mbit", 1e6 }, { "gbit", 1e9 }, { NULL, 0 } };
static const struct unit shares[] = { { "", 1 }, { "%", 0.01 }, { NULL, 0 } };

#define NS_MOST 3600e9

static bool value(struct reader *rd, const struct node *n, const char *what, const char *like, const struct unit *units,
		  double most, double *to)
{
	const char *s = node_word(rd, n, what), *end;

	if (!s)
		return false;
	if (!with_unit(s, &end, units, most, to) || *end)
		return node_bad(rd, n, "\"%.*s\" is not %s; it looks like %s", SHOWN, s, what, like);
	return true;
}

bool get_ns(struct reader *rd, const struct node *n, uint64_t *to)
{
	double v;

	if (!value(rd, n, "a time", "5ms (ns, us, ms, s, min; up to an hour)", times, NS_MOST, &v))
		return false;
	*to = (uint64_t)v;
	return true;
}

bool get_size(struct reader *rd, const struct node *n, uint64_t *to)
{
	double v;

	if (!value(rd, n, "a size", "64k (bytes, k, m; up to 10^12 bytes)", sizes, 1e12, &v))
		return false;
	*to = (uint64_t)v;
	return true;
}

bool get_rate(struct reader *rd, const struct node *n, uint64_t *to)
{
	double v;

	if (!value(rd, n, "a rate", "100mbit (bit, kbit, mbit, gbit; up to 1000gbit)", rates, 1e12, &v))
		return false;
	if (v < 1000)
		return node_bad(rd, n, "a rate is 1kbit at least");
	*to = (uint64_t)v;
	return true;
}

bool get_share(struct reader *rd, const struct node *n, uint64_t *to)
{
	double v;

	if (!value(rd, n, "a probability", "0.01 or 1% (100% at most)", shares, 1.0, &v))
		return false;
	*to = (uint64_t)(v * 0x1p53);
	return true;
}

bool get_text(struct reader *rd, const struct node *n, const char *what, char *to, size_t room)
{
	const char *s = node_word(rd, n, what);

	if (!s)
		return false;
	if (!*s || strlen(s) >= room)
		return node_bad(rd, n, "%s has 1 to %zu characters", what, room - 1);
	for (const char *p = s; *p; p++)
		if (iscntrl((unsigned char)*p))
			return node_bad(rd, n, "%s is one line of text", what);
	snprintf(to, room, "%s", s);
	return true;
}

bool get_range(struct reader *rd, const struct node *n, int64_t least, int64_t most, const char *what,
	       struct rule_range *to)
{
	const char *s = node_word(rd, n, what), *at = s;
	struct rule_range r = { 0, most };
	char *end;

	if (!s)
		return false;
	if (!whole(at, &end, &r.from))
		goto bad;
	if (!strncmp(end, "..", 2)) {
		at = end + 2;
		if (*at && (!whole(at, &end, &r.to) || *end))
			goto bad;
	} else if (*end) {
		goto bad;
	} else {
		r.to = r.from;
	}
	if (r.from < least || r.to > most || r.to < r.from)
		return node_bad(rd, n, "%s is %lld to %lld, and a range ends behind its beginning", what,
				(long long)least, (long long)most);
	*to = r;
	return true;
bad:
	return node_bad(rd, n, "\"%.*s\" is not %s; it looks like 3, 3..7 or 3..", SHOWN, s, what);
}

bool get_ns_range(struct reader *rd, const struct node *n, struct rule_range *to)
{
	const char *s = node_word(rd, n, "a time"), *at = s;
	struct rule_range r = { 0, INT64_MAX };
	double from, end;

	if (!s)
		return false;
	if (!with_unit(at, &at, times, NS_MOST, &from) || strncmp(at, "..", 2))
		goto bad;
	at += 2;
	r.from = (int64_t)from;
	if (*at) {
		if (!with_unit(at, &at, times, NS_MOST, &end) || *at)
			goto bad;
		r.to = (int64_t)end;
	}
	if (r.to <= r.from)
		goto bad;
	*to = r;
	return true;
bad:
	return node_bad(rd, n, "\"%.*s\" is no span of time; it looks like 1s..3s or 500ms..", SHOWN, s);
}

bool get_word(struct reader *rd, const struct node *n, const char *what, const char *const *words, unsigned count,
	      unsigned *to)
{
	const char *s = node_word(rd, n, what);
	char list[200] = "";
	size_t at = 0;

	if (!s)
		return false;
	for (unsigned i = 0; i < count; i++) {
		if (!strcmp(s, words[i])) {
			*to = i;
			return true;
		}
	}
	for (unsigned i = 0; i < count && at < sizeof(list); i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", i ? ", " : "", words[i]);
	return node_bad(rd, n, "\"%.*s\" is no %s; there are: %s", SHOWN, s, what, list);
}
