/* SPDX-License-Identifier: MIT */
/* arena.c - simulated memory that knows what may be stored where; see arena.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/*
 * Thousands of runs in one process have arenas of the same few sizes.  What one leaves is clear for the next: nothing is
 * stored but in pieces, so only the pages that had any are cleared.
 */
#define PAGE 4096u

static struct spare {
	uint32_t len;
	uint8_t *bytes;
	struct piece **map;
	bool *dirty; /* pages */
} spares[8];

static void *cleared(size_t n, size_t each)
{
	void *v = calloc(n, each);

	if (!v)
		abort();
	return v;
}

void arena_init(struct arena *a, struct node *node, uint32_t len, uint64_t va)
{
	if (len % PAGE)
		abort();
	*a = (struct arena){ .node = node, .len = len, .va = va };
	for (struct spare *s = spares; s < spares + sizeof(spares) / sizeof(*spares); s++)
		if (s->bytes && s->len == len) {
			a->bytes = s->bytes;
			a->map = s->map;
			a->dirty = s->dirty;
			s->bytes = NULL;
			return;
		}
	a->bytes = cleared(1, len);
	a->map = cleared(len / ARENA_GRAIN, sizeof(*a->map));
	a->dirty = cleared(len / PAGE, sizeof(*a->dirty));
}

void arena_free(struct arena *a)
{
	struct spare *s = spares;

	while (a->all) {
		struct piece *p = a->all;

		a->all = p->next;
		content_put(p->c);
		free(p);
	}
	for (uint32_t i = 0; i < a->len / PAGE; i++)
		if (a->dirty[i]) {
			memset(a->bytes + i * PAGE, 0, PAGE);
			memset(a->map + i * (PAGE / ARENA_GRAIN), 0, PAGE / ARENA_GRAIN * sizeof(*a->map));
			a->dirty[i] = false;
		}
	while (s < spares + sizeof(spares) / sizeof(*spares) && s->bytes)
		s++;
	if (s < spares + sizeof(spares) / sizeof(*spares)) {
		*s = (struct spare){ a->len, a->bytes, a->map, a->dirty };
	} else {
		free(a->bytes);
		free(a->map);
		free(a->dirty);
	}
	memset(a, 0, sizeof *a);
}

struct region *arena_region(struct arena *a, uint32_t len)
{
	uint32_t used = 0, gap = 4 * ARENA_GRAIN;
	struct region *r;

	if (a->region_n == ARENA_REGIONS)
		return NULL;
	if (a->region_n)
		used = a->region[a->region_n - 1].grain0 * ARENA_GRAIN + a->region[a->region_n - 1].len + gap;
	len -= len % ARENA_GRAIN;
	if (used + len > a->len)
		return NULL;
	r = &a->region[a->region_n++];
	*r = (struct region){
		.node = a->node,
		.va = a->va + used,
		.len = len,
		.grain0 = used / ARENA_GRAIN,
		.grain_n = len / ARENA_GRAIN,
	};
	r->cursor = r->grain0;
	return r;
}

/* ---- contents ---------------------------------------------------------- */

struct content *content_new(struct rng *rng, uint32_t len)
{
	struct content *c = calloc(1, sizeof *c);

	if (!c)
		abort();
	c->len = len;
	c->ref = 1;
	content_version(c, rng);
	return c;
}

unsigned content_version(struct content *c, struct rng *rng)
{
	uint8_t *p = malloc(c->len + 1);

	if (!p || c->ver_n == sizeof c->ver / sizeof c->ver[0])
		abort();
	rng_fill(rng, p, c->len);
	c->ver[c->ver_n] = p;
	return c->ver_n++;
}

void content_put(struct content *c)
{
	if (!c || --c->ref)
		return;
	for (unsigned i = 0; i < c->ver_n; i++)
		free(c->ver[i]);
	free(c);
}

/* ---- pieces ------------------------------------------------------------ */

static bool grains_free(struct arena *a, uint32_t at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (a->map[at + i])
			return false;
	return true;
}

/* Next fit: a piece that was freed is not soon reused, so that a late store is caught. */
static bool grains_find(struct region *r, uint32_t n, uint32_t *at)
{
	struct arena *a = &r->node->mem;
	uint32_t end = r->grain0 + r->grain_n, tries = r->grain_n;

	if (n > r->grain_n)
		return false;
	for (uint32_t i = r->cursor; tries; tries--, i++) {
		if (i + n > end) {
			i = r->grain0;
		}
		if (!a->map[i] && grains_free(a, i, n)) {
			*at = i;
			r->cursor = i + n;
			return true;
		}
	}
	return false;
}

struct piece *piece_new(struct region *r, struct rng *rng, enum piece_kind kind, uint32_t len, uint32_t align)
{
	struct arena *a = &r->node->mem;
	uint32_t shift = align ? 0 : rng_one_in(rng, 2) ? rng_below(rng, ARENA_GRAIN) : 0;
	uint32_t n = (shift + len + ARENA_GRAIN - 1) / ARENA_GRAIN, at;
	struct piece *p;

	n += n == 0;
	if (!grains_find(r, n + 1, &at)) /* one more as a guard */
		return NULL;
	p = calloc(1, sizeof *p);
	if (!p)
		abort();
	p->r = r;
	p->va = a->va + (uint64_t)at * ARENA_GRAIN + shift;
	p->len = len;
	p->kind = kind;
	p->ref = 1;
	p->grain0 = at;
	p->grain_n = n;
	for (uint32_t i = 0; i < n; i++) {
		a->map[at + i] = p;
		a->dirty[(at + i) * ARENA_GRAIN / PAGE] = true;
	}
	p->next = a->all;
	a->all = p;
	return p;
}

void piece_content(struct piece *p, struct content *c, uint32_t c_off)
{
	c->ref++;
	p->c = c;
	p->c_off = c_off;
	p->ver_min = c->ver_n - 1;
	if (p->kind == PIECE_SRC || p->kind == PIECE_DST)
		memcpy(p->r->node->mem.bytes + (p->va - p->r->node->mem.va), c->ver[c->ver_n - 1] + c_off, p->len);
}

void piece_put(struct piece *p)
{
	struct arena *a;

	if (!p || --p->ref)
		return;
	a = &p->r->node->mem;
	for (uint32_t i = 0; i < p->grain_n; i++)
		a->map[p->grain0 + i] = NULL;
	for (struct piece **q = &a->all; *q; q = &(*q)->next)
		if (*q == p) {
			*q = p->next;
			break;
		}
	content_put(p->c);
	free(p);
}

const uint8_t *piece_bytes(const struct piece *p) { return p->r->node->mem.bytes + (p->va - p->r->node->mem.va); }

struct piece *arena_piece(const struct span *s)
{
	struct region *r = s->region;

	if (!r || s->addr < r->va || s->addr >= r->va + r->len)
		return NULL;
	return r->node->mem.map[(s->addr - r->node->mem.va) / ARENA_GRAIN];
}

/* ---- the core's way in ------------------------------------------------- */

/* The contract of mem.h: only ranges inside a living region. */
static uint8_t *span_bytes(struct sim *s, const struct span *sp)
{
	struct region *r = sp->region;
	struct arena *a;

	if (!r)
		return (uint8_t *)(uintptr_t)sp->addr;
	a = &r->node->mem;
	if (r < a->region || r >= a->region + a->region_n)
		sim_fail(s, "the core names a region that does not exist");
	if (!r->alive)
		sim_fail(s, "the core touches a region after its dereg");
	if (sp->addr < r->va || sp->len > r->len || sp->addr - r->va > r->len - sp->len)
		sim_fail(s, "the core leaves a region: 0x%llx+%u", (unsigned long long)sp->addr, sp->len);
	if (r->gone) {
		a->refused++;
		return NULL;
	}
	return a->bytes + (sp->addr - a->va);
}

static bool bytes_in_versions(const struct piece *p, uint32_t off, const uint8_t *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		unsigned v = p->ver_min;

		while (v < p->c->ver_n && p->c->ver[v][p->c_off + off + i] != from[i])
			v++;
		if (v == p->c->ver_n)
			return false;
	}
	return true;
}

static void store_check(struct sim *s, struct node *host, const struct span *at, const uint8_t *from)
{
	struct piece *p = arena_piece(at);
	uint32_t off;
	unsigned v;

	if (((struct region *)at->region)->node != host)
		sim_fail(s, "node %u writes memory of node %u", host->i, ((struct region *)at->region)->node->i);
	if (!at->len)
		return;
	if (!p || at->addr < p->va || at->len > p->len || at->addr - p->va > p->len - at->len)
		sim_fail(s, "stray store of %u bytes at 0x%llx of node %u (%s)", at->len, (unsigned long long)at->addr,
			 host->i, p ? "across the end of a buffer" : "no work there");
	off = (uint32_t)(at->addr - p->va);
	if (p->kind == PIECE_DST) {
		for (v = p->uc && s->late ? 0 : p->ver_min; v < p->c->ver_n; v++)
			if (!memcmp(p->c->ver[v] + p->c_off + off, from, at->len))
				break;
		if (v == p->c->ver_n)
			sim_fail(s, "wrong bytes written at %u+%u of a WRITE's target", off, at->len);
		p->ver_min = v;
	} else if (p->kind == PIECE_READ) {
		if (!s->strange && !bytes_in_versions(p, off, from, at->len))
			sim_fail(s, "wrong bytes read at %u+%u of a READ", off, at->len);
	} else if (p->kind == PIECE_OPEN) {
		memcpy(&p->value, from, at->len < 8 ? at->len : 8);
	} else if (p->kind != PIECE_RECV) {
		sim_fail(s, "store into a buffer that is only read (kind %d)", p->kind);
	}
	p->stored += at->len;
	if (off + at->len > p->high)
		p->high = off + at->len;
}

struct cursor {
	const struct span *sp;
	unsigned n;
	uint32_t off;
};

static void cursor_skip(struct sim *s, struct cursor *c, uint64_t n)
{
	while (n) {
		uint32_t left;

		if (!c->n)
			sim_fail(s, "a copy needs more bytes than its source has");
		left = c->sp->len - c->off;
		if (n < left) {
			c->off += (uint32_t)n;
			return;
		}
		n -= left;
		c->sp++;
		c->n--;
		c->off = 0;
	}
}

static int arena_copy(void *host, const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n,
		      uint64_t src_off)
{
	struct node *node = host;
	struct sim *s = node->sim;
	struct cursor c = { src, src_n, 0 };

	cursor_skip(s, &c, src_off);
	for (unsigned i = 0; i < dst_n; i++) {
		uint32_t done = 0;

		while (done < dst[i].len) {
			struct span from, to;
			uint8_t *f, *t;

			while (c.n && c.off == c.sp->len)
				c.sp++, c.n--, c.off = 0;
			if (!c.n)
				sim_fail(s, "a copy needs more bytes than its source has");
			from = (struct span){ c.sp->region, c.sp->addr + c.off, c.sp->len - c.off };
			if (from.len > dst[i].len - done)
				from.len = dst[i].len - done;
			to = (struct span){ dst[i].region, dst[i].addr + done, from.len };
			f = span_bytes(s, &from);
			t = span_bytes(s, &to);
			if (!f || !t)
				return f ? EFAULT : EIO;
			if (to.region)
				store_check(s, node, &to, f);
			memmove(t, f, from.len);
			done += from.len;
			c.off += from.len;
		}
	}
	return 0;
}

static uint64_t *word_at(struct node *node, const struct span *at)
{
	struct sim *s = node->sim;
	struct piece *p = arena_piece(at);

	if (at->len != 8 || !at->region || at->addr % 8)
		sim_fail(s, "an atomic on %u bytes at 0x%llx", at->len, (unsigned long long)at->addr);
	if (!p || p->kind != PIECE_WORD || at->addr != p->va || p->r->node != node)
		sim_fail(s, "an atomic on memory that nobody offered for it");
	return (uint64_t *)(void *)span_bytes(s, at);
}

static int arena_cmp_swap(void *host, const struct span *at, uint64_t compare, uint64_t swap, uint64_t *old)
{
	struct node *node = host;
	uint64_t *w = word_at(node, at);

	if (!w)
		return EFAULT;
	*old = *w;
	if (*w == compare)
		*w = swap;
	if (node->sim->ops->atomic)
		node->sim->ops->atomic(node->sim, arena_piece(at), true, compare, swap, *old);
	return 0;
}

static int arena_fetch_add(void *host, const struct span *at, uint64_t add, uint64_t *old)
{
	struct node *node = host;
	uint64_t *w = word_at(node, at);

	if (!w)
		return EFAULT;
	*old = *w;
	*w += add;
	if (node->sim->ops->atomic)
		node->sim->ops->atomic(node->sim, arena_piece(at), false, add, 0, *old);
	return 0;
}

static int arena_store(void *host, const struct span *at, uint64_t value)
{
	struct node *node = host;
	struct sim *s = node->sim;
	uint8_t *to = span_bytes(s, at);

	if (at->len != 8 || !at->region || at->addr % 8)
		sim_fail(s, "an atomic WRITE of %u bytes at 0x%llx", at->len, (unsigned long long)at->addr);
	if (!to)
		return EFAULT;
	store_check(s, node, at, (const uint8_t *)&value);
	memcpy(to, &value, 8);
	return 0;
}

const struct mem_ops arena_ops = { arena_copy, arena_cmp_swap, arena_fetch_add, arena_store, NULL };

int arena_gather(struct sim *s, const struct span *sp, unsigned n, uint64_t off, uint32_t len, uint8_t *to)
{
	struct cursor c = { sp, n, 0 };

	cursor_skip(s, &c, off);
	while (len) {
		struct span from;
		uint8_t *f;

		if (!c.n)
			sim_fail(s, "a burst has less payload than it says");
		from = (struct span){ c.sp->region, c.sp->addr + c.off, c.sp->len - c.off };
		if (from.len > len)
			from.len = len;
		f = span_bytes(s, &from);
		if (!f)
			return EFAULT;
		memcpy(to, f, from.len);
		to += from.len;
		len -= from.len;
		cursor_skip(s, &c, from.len);
	}
	return 0;
}
