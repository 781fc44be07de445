/* SPDX-License-Identifier: MIT */
/* ladder_fold.c - which rows there are, and where each is. */
#include "ladder_fold.h"

#include <stdlib.h>
#include <string.h>

enum { TRAIN_MIN = 4, CYCLES_MIN = 3, QUIET_MIN = 18, QUIET_KEEP = 4, TRAIN_HEIGHT = 19, QUIET_HEIGHT = 34 };

static bool loud(const struct rung *r)
{
	return r->class == RUNG_NAK || r->class == RUNG_RNR || r->class == RUNG_CM || r->class == RUNG_OTHER;
}

static bool remarkable(const struct rung *r)
{
	return r->fate || r->again || r->say || (r->dup && r->class != RUNG_ACK) || loud(r);
}

/* Its neighbours are remarkable in the same way, so that they may be one train. */
static bool common(const struct rung *r)
{
	return !r->say && (r->fate == FATE_OK || r->fate == FATE_DISCARDED) && !loud(r);
}

/* Does b go on where a was, and look the same? */
static bool follows(const struct rung *a, const struct rung *b)
{
	return a->conn == b->conn && a->from == b->from && a->class == b->class && a->request == b->request &&
	       b->rel == a->rel + 1 && a->fate == b->fate && !a->again == !b->again && a->dup == b->dup && common(a) &&
	       common(b);
}

static struct row row_of(const struct ladder *l, enum row_kind kind, uint32_t first, uint32_t last)
{
	struct row r = { .kind = kind, .first = first, .last = last };

	for (uint32_t i = first; i <= last; i++) {
		r.packets += l->rung[i].fate != FATE_MISSING;
		r.bytes += l->rung[i].len;
	}
	return r;
}

/* From rung i on, behind an RNR NAK: how often it was sent again and had the same answer; *end: the rung behind. */
static uint32_t cycles(const struct ladder *l, uint32_t i, uint32_t *end)
{
	const struct rung *nak = &l->rung[i ? i - 1 : 0];
	uint32_t n = 0;

	for (*end = i; i && nak->class == RUNG_RNR && i < l->n && l->rung[i].conn == nak->conn; i++) {
		const struct rung *r = &l->rung[i];

		if (r->from != nak->from && (r->again || r->fate == FATE_DISCARDED))
			continue;
		if (r->class != RUNG_RNR || r->rel != nak->rel || r->from != nak->from)
			break;
		n++;
		*end = i + 1;
	}
	return n < CYCLES_MIN ? 0 : n;
}

static void trains(struct rows *rows, const struct ladder *l)
{
	for (uint32_t i = 0, k, n; i < l->n; i = k) {
		n = cycles(l, i, &k);
		if (n) {
			rows->v[rows->n] = row_of(l, ROW_CYCLES, i, k - 1);
			rows->v[rows->n++].cycles = n;
			continue;
		}
		for (k = i + 1; k < l->n && follows(&l->rung[k - 1], &l->rung[k]); k++)
			;
		if (k - i < TRAIN_MIN)
			k = i + 1;
		rows->v[rows->n++] = row_of(l, k - i > 1 ? ROW_TRAIN : ROW_RUNG, i, k - 1);
	}
}

static bool calm(const struct ladder *l, const struct row *r)
{
	return r->kind != ROW_CYCLES && !remarkable(&l->rung[r->first]);
}

static void quiets(struct rows *rows, const struct ladder *l)
{
	uint32_t n = 0;

	for (uint32_t i = 0, k; i < rows->n; i = k) {
		for (k = i; k < rows->n && calm(l, &rows->v[k]); k++)
			;
		if (k - i >= QUIET_MIN) {
			uint32_t first = rows->v[i + QUIET_KEEP].first, last = rows->v[k - QUIET_KEEP - 1].last;

			memmove(&rows->v[n], &rows->v[i], QUIET_KEEP * sizeof(*rows->v));
			rows->v[n + QUIET_KEEP] = row_of(l, ROW_QUIET, first, last);
			memmove(&rows->v[n + QUIET_KEEP + 1], &rows->v[k - QUIET_KEEP], QUIET_KEEP * sizeof(*rows->v));
			n += 2 * QUIET_KEEP + 1;
		} else {
			memmove(&rows->v[n], &rows->v[i], (k - i) * sizeof(*rows->v));
			n += k - i;
		}
		if (k < rows->n)
			rows->v[n++] = rows->v[k++];
	}
	rows->n = n;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* A silence is worth a row of its own where it is long beside those around it. */
static uint64_t silence(const struct rows *rows, const struct ladder *l)
{
	uint64_t *d = calloc(rows->n, sizeof(*d)), limit = 0;
	uint32_t n = rows->n ? rows->n - 1 : 0;

	if (!d)
		return UINT64_MAX;
	for (uint32_t i = 0; i < n; i++)
		d[i] = ns_since(l->rung[rows->v[i + 1].first].ns, l->rung[rows->v[i].last].ns);
	qsort(d, n, sizeof(*d), by_size);
	if (n)
		limit = 8 * d[(uint32_t)(n * 0.7)];
	free(d);
	return limit > 1000 ? limit : 1000;
}

static void rows_lay(struct rows *rows, const struct ladder *l)
{
	uint64_t limit = silence(rows, l), before = 0;
	double y = MARGIN_TOP;

	for (uint32_t i = 0; i < rows->n; i++) {
		struct row *r = &rows->v[i];
		uint64_t ns = l->rung[r->first].ns;

		r->gap = i && ns_since(ns, before) > limit ? ns_since(ns, before) : 0;
		y += r->gap ? GAP_HEIGHT : 0;
		r->y = y;
		r->h = r->kind == ROW_TRAIN ? TRAIN_HEIGHT : r->kind == ROW_RUNG ? 0 : QUIET_HEIGHT;
		y += r->h + ROW_HEIGHT;
		before = l->rung[r->last].ns;
	}
	rows->height = y + 14;
}

bool rows_fold(struct rows *rows, const struct ladder *l, bool unfold)
{
	*rows = (struct rows){ .v = calloc(l->n ? l->n : 1, sizeof(*rows->v)) };
	if (!rows->v)
		return false;
	if (unfold) {
		for (uint32_t i = 0; i < l->n; i++)
			rows->v[rows->n++] = row_of(l, ROW_RUNG, i, i);
	} else {
		trains(rows, l);
		quiets(rows, l);
	}
	rows_lay(rows, l);
	return true;
}

double rows_y(const struct rows *rows, const struct ladder *l, uint64_t ns)
{
	uint32_t lo = 0, hi = rows->n;
	const struct row *a, *b;
	uint64_t from, to;
	double y0, y1;

	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) / 2;

		if (l->rung[rows->v[mid].first].ns <= ns)
			lo = mid;
		else
			hi = mid;
	}
	a = &rows->v[lo];
	b = lo + 1 < rows->n ? a + 1 : NULL;
	from = l->rung[a->first].ns;
	to = l->rung[a->last].ns;
	y0 = a->y;
	y1 = a->y + a->h;
	if (ns > to) { /* behind it */
		if (!b)
			return y1 + ROW_HEIGHT;
		from = to;
		to = l->rung[b->first].ns;
		y0 = y1;
		y1 = b->y;
	}
	return ns <= from || to <= from ? y0 : y0 + (y1 - y0) * (double)ns_since(ns, from) / (double)ns_since(to, from);
}
