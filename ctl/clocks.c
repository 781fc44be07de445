/* SPDX-License-Identifier: MIT */
/*
 * clocks.c - how far clocks are apart, and how much faster one runs, by packets that two captures have.
 *
 *	from the other host to this one:  time here - time there = clock + way
 *	from this host to the other one:  time here - time there = clock - way
 *
 * A way takes no less than nothing, so the clock is between the least of the one and the most of the other.
 */
#include "clocks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid.h>

#include "../proto/mono.h"

#define SEEN_MOST  (1u << 20)            /* beyond that they are thinned out */
#define APART_MOST 3000000000000000000ll /* ns, almost a century: no clock is so wrong */
#define SAME_NS    10000000 /* a packet that left at the end of a file arrives in the next one not later than that */
#define RATE_MOST  1e-3     /* more than any clock gains */
#define ROUNDS     8

/* A packet, seen. */
struct seen {
	uint64_t id, ns;
	uint8_t capture, way;
	uint32_t index; /* of the interface, of those of the host */
};

/* ---- packets ------------------------------------------------------------------------ */

static unsigned way_of(const struct clocks *c, const uint8_t *sgid, const uint8_t *dgid)
{
	unsigned i;

	for (i = 0; i < c->ways; i++)
		if (gid_same(c->way[i].sgid, sgid) && gid_same(c->way[i].dgid, dgid))
			break;
	return i;
}

static bool kept(const struct clocks *c, uint64_t id)
{
	return !((id ^ id >> 32) & ((1ull << c->thin) - 1)); /* the same ones of each capture */
}

static void thin_out(struct clocks *c)
{
	size_t n = 0;

	c->thin++;
	for (size_t i = 0; i < c->seen_n; i++)
		if (kept(c, c->seen[i].id))
			c->seen[n++] = c->seen[i];
	c->seen_n = n;
}

void clocks_frame(struct clocks *c, unsigned capture, uint64_t ns)
{
	uint64_t *first = &c->span[capture].first, *last = &c->span[capture].last;

	*first = !c->span[capture].packets++ || ns < *first ? ns : *first;
	*last = ns > *last ? ns : *last;
}

void clocks_see(struct clocks *c, unsigned capture, const struct frame *f, uint32_t index, uint64_t id, uint64_t ns)
{
	unsigned way = way_of(c, f->sgid, f->dgid);

	if (way == CLOCK_WAYS || !kept(c, id))
		return;
	if (way == c->ways) {
		memcpy(c->way[way].sgid, f->sgid, 16);
		memcpy(c->way[way].dgid, f->dgid, 16);
		c->ways++;
	}
	while (c->seen_n == SEEN_MOST && c->thin < 31)
		thin_out(c);
	if (c->seen_n == SEEN_MOST || !kept(c, id))
		return;
	if (c->seen_n == c->seen_room) {
		size_t room = c->seen_room ? 2 * c->seen_room : 1024;
		struct seen *v = realloc(c->seen, room * sizeof(*v));

		c->no_memory |= !v;
		if (!v)
			return;
		c->seen = v;
		c->seen_room = room;
	}
	c->seen[c->seen_n++] = (struct seen){
		.id = id, .ns = ns, .capture = (uint8_t)capture, .way = (uint8_t)way, .index = index
	};
}

/* ---- two captures ------------------------------------------------------------------------ */

struct point {
	double t, d; /* time here, and by how much it is more than there; since the first of them */
	unsigned way;
};

struct pair {
	struct point *v;
	size_t n;
	uint64_t t0;
	int64_t d0, least, most; /* least, most: of all d */
	struct {
		size_t n;
		double least;
		bool arrives; /* here */
	} way[CLOCK_WAYS];
	unsigned back[CLOCK_WAYS]; /* the opposite one; CLOCK_WAYS: none */
};

static int64_t apart(uint64_t a, uint64_t b)
{
	uint64_t more = ns_since(a, b), less = ns_since(b, a);

	if (more > APART_MOST || less > APART_MOST)
		return INT64_MAX;
	return (int64_t)more - (int64_t)less;
}

static int by_id(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->capture != y->capture)
		return x->capture < y->capture ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static int by_time(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	return (x->t > y->t) - (x->t < y->t);
}

/* Packets that either capture has once, or once of an interface: of a repetition nobody knows which one it is.  right: by the first clock. */
static bool pair_get(struct pair *p, struct clocks *c, unsigned there, unsigned here, bool right)
{
	struct point *room = realloc(p->v, (c->seen_n + 1) * sizeof(*p->v));

	if (!room) {
		c->no_memory = true;
		return false;
	}
	*p = (struct pair){ .v = room, .least = INT64_MAX, .most = INT64_MIN };
	for (size_t i = 0, end; i < c->seen_n; i = end) {
		const struct seen *s[2] = { NULL, NULL };
		unsigned n[2] = { 0, 0 };
		uint64_t t, was;
		int64_t d;

		for (end = i; end < c->seen_n && c->seen[end].id == c->seen[i].id; end++)
			for (unsigned k = 0; k < 2; k++)
				if (c->seen[end].capture == (k ? here : there) &&
				    (!s[k] || s[k]->index == c->seen[end].index) && !n[k]++)
					s[k] = &c->seen[end];
		if (n[0] != 1 || n[1] != 1)
			continue;
		t = right ? clocks_right(c, here, s[1]->ns) : s[1]->ns;
		was = right ? clocks_right(c, there, s[0]->ns) : s[0]->ns;
		d = apart(t, was);
		if (d == INT64_MAX || (p->n && apart(t, p->t0) == INT64_MAX))
			continue;
		p->t0 = p->n ? p->t0 : t;
		p->d0 = p->n ? p->d0 : d;
		p->least = d < p->least ? d : p->least;
		p->most = d > p->most ? d : p->most;
		p->way[s[1]->way].n++;
		p->v[p->n++] = (struct point){ (double)apart(t, p->t0), (double)(d - p->d0), s[1]->way };
	}
	for (unsigned w = 0; w < CLOCK_WAYS; w++)
		p->back[w] = w >= c->ways ? CLOCK_WAYS : way_of(c, c->way[w].dgid, c->way[w].sgid);
	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), by_time);
	return p->n;
}

/* Of each way, the end it has here. */
static void pair_ends(struct pair *p, double rate)
{
	for (unsigned w = 0; w < CLOCK_WAYS; w++)
		p->way[w].least = HUGE_VAL;
	for (size_t i = 0; i < p->n; i++) {
		const struct point *x = &p->v[i];
		double d = x->d - rate * x->t, *least = &p->way[x->way].least;

		*least = d < *least ? d : *least;
	}
	for (unsigned w = 0; w < CLOCK_WAYS; w++) {
		unsigned b = p->back[w];

		p->way[w].arrives = b >= CLOCK_WAYS || !p->way[b].n || p->way[w].least > p->way[b].least ||
				    (p->way[w].least == p->way[b].least && w < b);
	}
}

/* The clock is between low and high, by these points. */
struct bounds {
	double low, high;
	bool has_low, has_high;
};

static struct bounds bounds_of(const struct pair *p, size_t from, size_t to, double rate)
{
	struct bounds b = { 0 };

	for (size_t i = from; i < to; i++) {
		double d = p->v[i].d - rate * p->v[i].t;

		if (p->way[p->v[i].way].arrives) {
			b.high = !b.has_high || d < b.high ? d : b.high;
			b.has_high = true;
		} else {
			b.low = !b.has_low || d > b.low ? d : b.low;
			b.has_low = true;
		}
	}
	return b;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The gain of a way, whichever end is here: medians of its first and of its last third. */
static double rate_guess(struct clocks *c, const struct pair *p)
{
	unsigned most = 0;
	size_t n = 0, third;
	double *d, *t, rate = 0;

	for (unsigned w = 0; w < CLOCK_WAYS; w++)
		most = p->way[w].n > p->way[most].n ? w : most;
	d = calloc(2 * p->way[most].n + 2, sizeof(*d));
	c->no_memory |= !d;
	if (!d)
		return 0;
	t = d + p->way[most].n + 1;
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].way == most) {
			d[n] = p->v[i].d;
			t[n++] = p->v[i].t;
		}
	third = (n + 2) / 3;
	if (n > 1 && t[n - 1 - third / 2] > t[third / 2]) {
		qsort(d, third, sizeof(*d), by_value);
		qsort(d + n - third, third, sizeof(*d), by_value);
		rate = (d[n - 1 - third / 2] - d[third / 2]) / (t[n - 1 - third / 2] - t[third / 2]);
	}
	free(d);
	return rate;
}

/* The rate that is left: from the bounds of the first third of the time to those of the last one. */
static double rate_left(const struct pair *p, double rate)
{
	const double begin = p->v[0].t, end = p->v[p->n - 1].t, third = (end - begin) / 3;
	struct bounds a, z;
	size_t i = 0, k = p->n;

	while (i < p->n && p->v[i].t <= begin + third)
		i++;
	while (k > 0 && p->v[k - 1].t >= end - third)
		k--;
	a = bounds_of(p, 0, i, rate);
	z = bounds_of(p, k, p->n, rate);
	if (!(third > 0))
		return 0;
	if (a.has_low && a.has_high && z.has_low && z.has_high)
		return (z.low + z.high - a.low - a.high) / 2 / (2 * third);
	if (a.has_high && z.has_high)
		return (z.high - a.high) / (2 * third);
	return a.has_low && z.has_low ? (z.low - a.low) / (2 * third) : 0;
}

/* A rate only if clocks that run alike do not explain what is there. */
static void clock_fit(struct clocks *c, struct clock *k, struct pair *p)
{
	double rate = 0, best = 0;
	struct bounds b, at = { 0 };

	for (unsigned round = 0; round < ROUNDS; round++) {
		pair_ends(p, rate);
		b = bounds_of(p, 0, p->n, rate);
		if (!round || !(b.high - b.low <= at.high - at.low)) {
			at = b;
			best = rate;
		}
		if (!b.has_low || !b.has_high || b.low <= b.high)
			break;
		rate += round ? rate_left(p, rate) : rate_guess(c, p);
		if (!(rate <= RATE_MOST && rate >= -RATE_MOST))
			break;
	}
	k->rate = best;
	k->ref_ns = p->t0;
	k->packets = (uint32_t)p->n;
	k->one_way = !at.has_low || !at.has_high;
	k->within_ns = k->one_way ? 0 : (int64_t)((at.high - at.low) / 2);
	k->ahead_ns = p->d0 +
		      (int64_t)(k->one_way ? (at.has_high ? at.high : at.low) : at.low + (at.high - at.low) / 2);
}

/* ---- all captures ------------------------------------------------------------------------- */

/* One begins where the other one ends, and at most what was on its way then is in both. */
static bool same_capture(const struct clocks *c, unsigned a, unsigned b, const struct pair *p)
{
	const bool a_first = c->span[a].first <= c->span[b].first;
	const unsigned one = a_first ? a : b, two = a_first ? b : a;
	const uint64_t over = ns_since(c->span[one].last, c->span[two].first),
		       long_a = ns_since(c->span[a].last, c->span[a].first),
		       long_b = ns_since(c->span[b].last, c->span[b].first), least = long_a < long_b ? long_a : long_b;
	const uint64_t few = c->span[a].packets < c->span[b].packets ? c->span[a].packets : c->span[b].packets;

	if (!c->span[a].packets || !c->span[b].packets || over > SAME_NS || over > least / 10)
		return false;
	return !p->n || (2 * p->n < few &&
			 (one == a ? p->least >= 0 && p->most <= SAME_NS : p->most <= 0 && p->least >= -SAME_NS));
}

/* 0: nothing is known. */
static uint64_t link_worth(const struct clocks *c, unsigned there, unsigned here, const struct pair *p)
{
	if (same_capture(c, there, here, p))
		return p->n ? UINT64_MAX : 1;
	return p->n ? p->n + 1 : 0;
}

/* Of captures that lead to the first, and those that do not yet, the two that have most to do with each other. */
static void link_all(struct clocks *c, struct pair *p)
{
	uint64_t worth[CAPTURES_MAX][CAPTURES_MAX] = { 0 };
	bool leads[CAPTURES_MAX] = { true };

	for (unsigned i = 0; i < c->n; i++)
		for (unsigned k = 0; k < i; k++) {
			pair_get(p, c, k, i, false);
			worth[i][k] = worth[k][i] = link_worth(c, k, i, p);
		}
	for (unsigned round = 1; round < c->n; round++) {
		unsigned here = c->n, there = 0;
		struct clock *k;

		for (unsigned i = 1; i < c->n; i++)
			for (unsigned j = 0; !leads[i] && j < c->n; j++)
				if (leads[j] && (here == c->n || worth[i][j] > worth[here][there])) {
					here = i;
					there = j;
				}
		leads[here] = true;
		k = &c->clock[here];
		if (!worth[here][there])
			continue;
		k->against = there;
		pair_get(p, c, there, here, false);
		k->link = same_capture(c, there, here, p) ? CLOCK_SAME : CLOCK_PACKETS;
		if (k->link == CLOCK_PACKETS)
			clock_fit(c, k, p);
	}
}

static bool is_same(const struct clocks *c, unsigned a, unsigned b)
{
	unsigned root[2] = { a, b };

	for (unsigned i = 0; i < 2; i++)
		while (c->clock[root[i]].link == CLOCK_SAME)
			root[i] = c->clock[root[i]].against;
	return root[0] == root[1];
}

static void dir_put(struct clocks *c, unsigned capture, unsigned way, enum capture_dir dir)
{
	uint8_t *is = &c->dir[capture][way];

	*is = *is == CAPTURE_ANYWHERE || *is == dir ? (uint8_t)dir : CAPTURE_BETWEEN;
}

void clocks_settle(struct clocks *c)
{
	struct pair p = { 0 };

	if (c->seen_n)
		qsort(c->seen, c->seen_n, sizeof(*c->seen), by_id);
	link_all(c, &p);
	for (unsigned i = 1; i < c->n; i++)
		for (unsigned k = 0; k < i; k++) {
			if (is_same(c, i, k) || !pair_get(&p, c, k, i, true))
				continue;
			pair_ends(&p, 0);
			for (unsigned w = 0; w < c->ways; w++) {
				unsigned b = p.back[w];
				bool here = p.way[w].arrives;

				if (!p.way[w].n)
					continue;
				if (b >= c->ways || !p.way[b].n) /* the clocks may be known from others */
					here = (double)p.d0 + p.way[w].least >= 0;
				dir_put(c, i, w, here ? CAPTURE_ARRIVES : CAPTURE_LEAVES);
				dir_put(c, k, w, here ? CAPTURE_LEAVES : CAPTURE_ARRIVES);
			}
		}
	free(p.v);
	free(c->seen);
	c->seen = NULL;
	c->seen_n = c->seen_room = 0;
}

uint64_t clocks_right(const struct clocks *c, unsigned capture, uint64_t ns)
{
	for (const struct clock *k = &c->clock[capture]; k->link != CLOCK_NONE; k = &c->clock[k->against]) {
		int64_t since = k->rate != 0 ? apart(ns, k->ref_ns) : 0, by;

		by = k->ahead_ns + (since == INT64_MAX ? 0 : (int64_t)(k->rate * (double)since));
		ns = by < 0 ? mono_add((mono_t){ ns }, (uint64_t)-by).ns : ns_since(ns, (uint64_t)by);
	}
	return ns;
}

uint64_t clocks_last(const struct clocks *c)
{
	uint64_t last = 0;

	for (unsigned i = 0; i < c->n; i++) {
		uint64_t ns = clocks_right(c, i, c->span[i].last);

		last = c->span[i].packets && ns > last ? ns : last;
	}
	return last;
}

uint64_t clocks_uneven(const struct clocks *c)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < c->n; i++) /* of two captures that are not held against each other their sum */
		most += c->clock[i].within_ns < 0 ? (uint64_t)(-2 * c->clock[i].within_ns) : 0;
	return most;
}

enum capture_dir clocks_dir(const struct clocks *c, unsigned capture, const uint8_t sgid[16], const uint8_t dgid[16])
{
	unsigned way = way_of(c, sgid, dgid);

	return way == c->ways ? CAPTURE_ANYWHERE : (enum capture_dir)c->dir[capture][way];
}

void clocks_free(struct clocks *c) { free(c->seen); }
