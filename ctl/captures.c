/* SPDX-License-Identifier: MIT */
/*
 * captures.c - clocks of several captures, by packets that two of them have.
 *
 *	from the first host to this one:  time here - time there = clock + way
 *	from this host to the first one:  time here - time there = clock - way
 *
 * A way takes no less than nothing, so the clock is between the least of the one and the most of the other.
 */
#include "captures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../proto/hdr.h"
#include "../proto/mono.h"

/*
 * Files of one capture, one after the other, have packets in common that left at the end of the one and arrived in the other:
 * so little later that they need no second clock.
 */
#define SAME_CLOCK_NS 10000000

/* A packet, seen. */
struct seen {
	uint64_t id, ns;
	unsigned file;
	uint8_t sgid[16], dgid[16];
};

struct heap {
	struct seen *v;
	size_t n, room;
	bool no_memory;
};

static void seen_add(struct heap *h, const struct seen *s)
{
	if (h->n == h->room) {
		size_t room = h->room ? 2 * h->room : 1024;
		struct seen *v = realloc(h->v, room * sizeof(*v));

		if (!v) {
			h->no_memory = true;
			return;
		}
		h->v = v;
		h->room = room;
	}
	h->v[h->n++] = *s;
}

static int by_id(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->file < y->file ? -1 : x->file > y->file;
}

/* ---- all packets of a file ------------------------------------------------------- */

static void look_at(struct captures *c, unsigned file, const struct pcapng_item *it, struct heap *h)
{
	struct seen s = { .file = file, .ns = it->ns };
	struct frame f = { .ns = it->ns };
	size_t seg, off = 0;

	enum frame_kind kind = frame_get(&f, (int)c->source[file].reader.iface[it->iface].link, it->data, it->caplen);

	if (kind != FRAME_ROCE && kind != FRAME_CUT)
		return;
	c->first = !c->first || it->ns < c->first ? it->ns : c->first;
	c->last = it->ns > c->last ? it->ns : c->last;
	if (c->n == 1)
		return;
	memcpy(s.sgid, f.sgid, 16);
	memcpy(s.dgid, f.dgid, 16);
	for (seg = kind == FRAME_CUT ? f.len : frame_segment(&f); off < f.len; off += seg) {
		size_t len = f.len - off < seg ? f.len - off : seg;

		if (len < BTH_LEN + ICRC_LEN)
			continue;
		s.id = frame_id(&f, f.data + off, kind == FRAME_CUT ? len : len - ICRC_LEN);
		seen_add(h, &s);
	}
}

/* False: said why. */
static bool look_through(struct captures *c, unsigned file, const char *name, struct heap *h)
{
	struct pcapng_item it;
	enum source_what w;

	if (!source_open(&c->source[file], name)) {
		fprintf(stderr, "rdmactl: %s: %s\n", name, c->source[file].error);
		return false;
	}
	while ((w = source_next(&c->source[file], &it)) == SOURCE_PACKET || w == SOURCE_WAIT)
		if (w == SOURCE_PACKET)
			look_at(c, file, &it, h);
	source_close(&c->source[file]); /* an error is told when it is read again */
	if (h->no_memory)
		fprintf(stderr, "rdmactl: %s: no memory\n", name);
	return !h->no_memory;
}

/* ---- clocks ------------------------------------------------------------------------- */

static struct capture_way *way_of(struct capture_clock *k, const uint8_t *sgid, const uint8_t *dgid, bool make)
{
	struct capture_way *w;

	for (unsigned i = 0; i < k->ways; i++)
		if (!memcmp(k->way[i].sgid, sgid, 16) && !memcmp(k->way[i].dgid, dgid, 16))
			return &k->way[i];
	w = make ? realloc(k->way, (k->ways + 1) * sizeof(*w)) : NULL;
	if (!w)
		return NULL;
	k->way = w;
	w = &w[k->ways++];
	*w = (struct capture_way){ .least = INT64_MAX, .most = INT64_MIN };
	memcpy(w->sgid, sgid, 16);
	memcpy(w->dgid, dgid, 16);
	return w;
}

/* Packets that are in either file once: of a repetition nobody knows which one it is. */
static void clock_compare(struct capture_clock *k, unsigned file, const struct heap *h)
{
	for (size_t i = 0, end; i < h->n; i = end) {
		const struct seen *a = NULL, *b = NULL;
		unsigned n[2] = { 0, 0 };
		struct capture_way *w;
		int64_t d;

		for (end = i; end < h->n && h->v[end].id == h->v[i].id; end++) {
			if (h->v[end].file == 0 && !n[0]++)
				a = &h->v[end];
			if (h->v[end].file == file && !n[1]++)
				b = &h->v[end];
		}
		if (n[0] != 1 || n[1] != 1 || !(w = way_of(k, a->sgid, a->dgid, true)))
			continue;
		d = b->ns < a->ns ? -(int64_t)ns_since(a->ns, b->ns) : (int64_t)ns_since(b->ns, a->ns);
		w->least = d < w->least ? d : w->least;
		w->most = d > w->most ? d : w->most;
		k->packets++;
	}
}

static void clock_settle(struct capture_clock *k)
{
	int64_t low = INT64_MIN, high = INT64_MAX;

	for (unsigned i = 0; i < k->ways; i++) {
		struct capture_way *w = &k->way[i];
		const struct capture_way *back = way_of(k, w->dgid, w->sgid, false);

		w->arrives = !back || w->least > back->least || (w->least == back->least && w < back);
		if (w->arrives && w->least < high)
			high = w->least;
		if (!w->arrives && w->most > low)
			low = w->most;
	}
	if (!k->ways)
		return;
	k->one_way = low == INT64_MIN;
	if (k->one_way && high >= 0 && high <= SAME_CLOCK_NS) {
		k->ways = 0;
		return;
	}
	k->ahead_ns = k->one_way ? high : low + (high - low) / 2;
	k->within_ns = k->one_way ? 0 : (high - low) / 2;
}

static bool clocks_look(struct captures *c, char *const *names)
{
	struct heap h = { 0 };
	bool good = true;

	for (unsigned i = 0; good && i < c->n; i++)
		good = look_through(c, i, names[i], &h);
	if (good && h.n)
		qsort(h.v, h.n, sizeof(*h.v), by_id);
	for (unsigned i = 1; good && i < c->n; i++) {
		clock_compare(&c->clock[i], i, &h);
		clock_settle(&c->clock[i]);
	}
	free(h.v);
	return good;
}

/* ---- one after the other ------------------------------------------------------------- */

bool captures_open(struct captures *c, char *const *names, unsigned n, bool look)
{
	*c = (struct captures){ .n = n };
	for (unsigned i = 0; i < CAPTURES_MAX; i++)
		c->source[i].fd = -1;
	if ((look || n > 1) && !clocks_look(c, names))
		return false;
	for (unsigned i = 0; i < n; i++) {
		c->head[i].taken = true;
		if (source_open(&c->source[i], names[i]))
			continue;
		fprintf(stderr, "rdmactl: %s: %s\n", names[i], c->source[i].error);
		return false;
	}
	return true;
}

void captures_close(struct captures *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		source_close(&c->source[i]);
		free(c->clock[i].way);
	}
}

/* The next frame of a file is in its head, or there is none. */
static bool head_fill(struct captures *c, unsigned i)
{
	struct source *s = &c->source[i];

	if (!c->head[i].taken)
		return c->head[i].what == SOURCE_PACKET;
	do
		c->head[i].what = source_next(s, &c->head[i].item);
	while (c->head[i].what == SOURCE_WAIT);
	if (c->head[i].what == SOURCE_ERROR) {
		fprintf(stderr, "rdmactl: %s: %s\n", s->name, s->error);
		c->broken = true;
	}
	c->head[i].taken = false;
	c->head[i].item.ns -= (uint64_t)c->clock[i].ahead_ns;
	return c->head[i].what == SOURCE_PACKET;
}

/* The way that a frame goes, as far as other files tell. */
static enum capture_dir dir_known(struct captures *c, unsigned file, const struct pcapng_item *it)
{
	struct frame f = { 0 };
	enum capture_dir dir = CAPTURE_ANYWHERE;

	if (c->n == 1 ||
	    frame_get(&f, (int)c->source[file].reader.iface[it->iface].link, it->data, it->caplen) == FRAME_OTHER)
		return dir;
	for (unsigned i = 1; i < c->n && dir == CAPTURE_ANYWHERE; i++) {
		const struct capture_way *w = file && file != i ? NULL : way_of(&c->clock[i], f.sgid, f.dgid, false);

		if (w)
			dir = w->arrives == (file == i) ? CAPTURE_ARRIVES : CAPTURE_LEAVES;
	}
	return dir;
}

bool captures_next(struct captures *c, struct capture_frame *f)
{
	unsigned best = c->n;
	uint32_t dir;

	for (unsigned i = 0; i < c->n; i++)
		if (head_fill(c, i) && (best == c->n || c->head[i].item.ns < c->head[best].item.ns))
			best = i;
	if (best == c->n)
		return false;
	c->head[best].taken = true;
	f->source = &c->source[best];
	f->item = &c->head[best].item;
	dir = f->item->flags & PCAPNG_DIR;
	f->dir = dir == PCAPNG_OUT ? CAPTURE_LEAVES : dir == PCAPNG_IN ? CAPTURE_ARRIVES : dir_known(c, best, f->item);
	return true;
}
