/* SPDX-License-Identifier: MIT */
/* captures.c - frames of several captures, in the order of their times. */
#include "captures.h"

#include <stdio.h>
#include <string.h>

#include "../proto/hdr.h"

/* ---- all packets of a file ------------------------------------------------------- */

static void look_at(struct captures *c, unsigned file, const struct pcapng_item *it)
{
	struct frame f = { .ns = it->ns };
	const int link = (int)c->source[file].reader.iface[it->iface].link;
	const enum frame_kind kind = frame_get(&f, link, it->data, it->caplen);
	size_t seg, off = 0;

	if (kind != FRAME_ROCE && kind != FRAME_CUT)
		return;
	clocks_frame(&c->clocks, file, it->ns);
	for (seg = kind == FRAME_CUT ? f.len : frame_segment(&f); c->n > 1 && off < f.len; off += seg) {
		size_t len = f.len - off < seg ? f.len - off : seg;

		if (len < BTH_LEN + ICRC_LEN)
			continue;
		clocks_see(&c->clocks, file, &f, frame_index(link, it->data, it->caplen),
			   frame_id(&f, f.data + off, kind == FRAME_CUT ? len : len - ICRC_LEN), it->ns);
	}
}

/* False: said why. */
static bool look_through(struct captures *c, unsigned file, const char *name)
{
	struct pcapng_item it;
	enum source_what w;

	if (!source_open(&c->source[file], name)) {
		fprintf(stderr, "rdmactl: %s: %s\n", name, c->source[file].error);
		return false;
	}
	while ((w = source_next(&c->source[file], &it)) == SOURCE_PACKET || w == SOURCE_WAIT)
		if (w == SOURCE_PACKET)
			look_at(c, file, &it);
	source_close(&c->source[file]); /* an error is told when it is read again */
	return true;
}

static bool clocks_look(struct captures *c, char *const *names)
{
	for (unsigned i = 0; i < c->n; i++)
		if (!look_through(c, i, names[i]))
			return false;
	clocks_settle(&c->clocks);
	if (c->clocks.no_memory)
		fprintf(stderr, "rdmactl: %s: no memory\n", names[0]);
	return !c->clocks.no_memory;
}

/* ---- one after the other ------------------------------------------------------------- */

bool captures_open(struct captures *c, char *const *names, unsigned n, bool look)
{
	*c = (struct captures){ .n = n, .clocks.n = n };
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
	for (unsigned i = 0; i < c->n; i++)
		source_close(&c->source[i]);
	clocks_free(&c->clocks);
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
		c->broken |= !c->head[i].n;
	}
	c->head[i].taken = false;
	if (c->head[i].what != SOURCE_PACKET)
		return false;
	c->head[i].n++;
	c->head[i].item.ns = clocks_right(&c->clocks, i, c->head[i].item.ns);
	return true;
}

/* The way that a frame goes: it says so itself, or other files tell. */
static enum capture_dir dir_of(struct captures *c, unsigned file, const struct pcapng_item *it)
{
	struct frame f = { 0 };
	uint32_t dir = it->flags & PCAPNG_DIR;

	if (dir == PCAPNG_OUT || dir == PCAPNG_IN)
		return dir == PCAPNG_OUT ? CAPTURE_LEAVES : CAPTURE_ARRIVES;
	if (c->n == 1 ||
	    frame_get(&f, (int)c->source[file].reader.iface[it->iface].link, it->data, it->caplen) == FRAME_OTHER)
		return CAPTURE_ANYWHERE;
	return clocks_dir(&c->clocks, file, f.sgid, f.dgid);
}

bool captures_next(struct captures *c, struct capture_frame *f)
{
	unsigned best;

	do {
		best = c->n;
		for (unsigned i = 0; i < c->n; i++)
			if (head_fill(c, i) && (best == c->n || c->head[i].item.ns < c->head[best].item.ns))
				best = i;
		if (best == c->n)
			return false;
		c->head[best].taken = true;
		f->source = &c->source[best];
		f->item = &c->head[best].item;
		f->dir = dir_of(c, best, f->item);
	} while (f->dir == CAPTURE_BETWEEN); /* its two ends are in other files */
	return true;
}
