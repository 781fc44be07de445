/* SPDX-License-Identifier: MIT */
/*
 * region.c - a client's memory, piece by piece as it can be reached.
 *
 *	addr        map.addr             map.addr+map.len      addr+len
 *	 |-- vm ------|====== mapped ========|------- vm ---------|
 *
 * A copy walks both lists of spans together and cuts them where either side changes its way:
 * pointer to pointer is a memcpy at once, everything else is collected in a vm_batch.  If both lists are
 * one span that can be pointed to, as most are, there is nothing to walk.
 */
#include "region.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mem_map.h"
#include "mem_vm.h"
#include "touch.h"

struct region {
	const struct peer *peer;
	struct mem_map map;
	bool null;
	bool torn; /* a copy that was put off failed */
};

_Static_assert(sizeof(struct region) <= REGION_LEN, "REGION_LEN");

/* Reads of a null region come from here, writes to it go here; pieces are no longer than that. */
#define NULL_LEN 65536u
static const uint8_t zeros[NULL_LEN] __attribute__((aligned(64)));
static _Thread_local uint8_t sink[NULL_LEN] __attribute__((aligned(64)));

static int region_put(struct region **out, const struct region *what)
{
	*out = malloc(sizeof(**out));
	if (!*out)
		return ENOMEM;
	**out = *what;
	return 0;
}

/* With what is mapped of it, which is taken over; the rest must be there. */
static int region_with(struct region **out, struct peer *peer, uint64_t addr, uint64_t len, const struct mem_map *map)
{
	struct region r = { .peer = peer, .map = *map };
	int err = 0;

	if (map->addr > addr)
		err = vm_probe(peer, addr);
	else if (map->len < len)
		err = vm_probe(peer, addr + map->len);
	if (!err)
		err = region_put(out, &r);
	if (err)
		map_free(&r.map);
	return err;
}

static bool has_part(uint64_t addr, uint64_t len, const struct map_part *p)
{
	return p->addr >= addr && p->len <= len && p->addr - addr <= len - p->len;
}

int region_new(struct region **out, struct peer *peer, uint64_t addr, uint64_t len, int fd, const struct map_part *part)
{
	struct mem_map map = { 0 };
	int err = 0;

	*out = NULL;
	if (addr + len < addr || (fd >= 0 && !has_part(addr, len, part)))
		return EINVAL;
	if (fd >= 0)
		err = map_new(&map, peer, fd, false, part);
	return err ? err : region_with(out, peer, addr, len, &map);
}

int region_new_segment(struct region **out, struct peer *peer, uint64_t addr, uint64_t len, int fd, int id,
		       const struct map_part *part)
{
	struct mem_map map;
	int err;

	*out = NULL;
	if (addr + len < addr || !has_part(addr, len, part))
		return EINVAL;
	err = fd < 0 ? map_new_segment(&map, peer, id, part) : map_new(&map, peer, fd, true, part);
	return err ? err : region_with(out, peer, addr, len, &map);
}

int region_new_lazy(struct region **out, struct peer *peer, uint64_t addr, uint64_t len)
{
	int err;

	*out = NULL;
	if (addr + len < addr)
		return EINVAL;
	err = vm_probe(peer, addr);
	if (err && err != EFAULT)
		return err;
	return region_put(out, &(struct region){ .peer = peer });
}

int region_new_fd(struct region **out, const struct peer *peer, uint64_t addr, uint64_t len, int fd, uint64_t off)
{
	struct region r = { 0 };
	int err = map_keeps_size(fd) ? map_new(&r.map, peer, fd, false, &(struct map_part){ addr, len, off }) : EINVAL;

	*out = NULL;
	if (!err)
		err = region_put(out, &r);
	if (err)
		map_free(&r.map);
	return err;
}

int region_new_held(struct region **out, uint64_t addr, uint64_t len, struct held *held, uint64_t off)
{
	struct mem_map map = { .addr = addr, .len = len, .ptr = held->base + off, .held = held };

	return region_put(out, &(struct region){ .map = map });
}

int region_new_null(struct region **out) { return region_put(out, &(struct region){ .null = true }); }

void region_free(struct region *r)
{
	if (!r)
		return;
	map_free(&r->map);
	free(r);
}

/* ---- walking spans ------------------------------------------------------- */

struct walk {
	const struct span *span, *end;
	uint64_t off; /* in *span */
};

/* A piece that is reached in one way; peer NULL: addr is a pointer of ours. */
struct piece {
	const struct peer *peer;
	uint64_t addr, len;
};

static void walk_start(struct walk *w, const struct span *span, unsigned n, uint64_t off)
{
	*w = (struct walk){ .span = span, .end = span + n, .off = off };
	while (w->span < w->end && w->off >= w->span->len)
		w->off -= (w->span++)->len;
}

static void walk_on(struct walk *w, uint64_t len)
{
	w->off += len;
	while (w->span < w->end && w->off >= w->span->len)
		w->off -= (w->span++)->len;
}

/* The owner of memory that is not there any more: what reaches for it fails with EBADF. */
static const struct peer nobody = { .mem_fd = INT_MAX };

void region_orphan(struct region *r)
{
	if (!r->peer)
		return;
	r->peer = &nobody;
	r->map.len = 0;
}

static inline struct piece region_piece(const struct region *r, uint64_t addr, uint64_t len, bool dst)
{
	const struct mem_map *m = &r->map;
	uint64_t in = addr - m->addr;

	if (r->null)
		return (struct piece){ .addr = (uintptr_t)(dst ? sink : zeros),
				       .len = len < NULL_LEN ? len : NULL_LEN };
	if (in < m->len && held_is_torn(m->held, m->ptr, m->len))
		return (struct piece){ .peer = &nobody, .addr = addr, .len = len };
	if (in < m->len) {
		len = len < m->len - in ? len : m->len - in;
		if (dst && m->touch)
			touch(m->touch, m->ptr + in, len);
		return (struct piece){ .addr = (uintptr_t)m->ptr + in, .len = len };
	}
	if (m->len && addr < m->addr && len > m->addr - addr)
		len = m->addr - addr;
	return (struct piece){ .peer = r->peer, .addr = addr, .len = len };
}

/* The beginning of what is behind off in the span. */
static inline struct piece span_piece(const struct span *s, uint64_t off, bool dst)
{
	if (!s->region)
		return (struct piece){ .addr = s->addr + off, .len = s->len - off };
	return region_piece(s->region, s->addr + off, s->len - off, dst);
}

static struct piece walk_piece(const struct walk *w, bool dst) { return span_piece(w->span, w->off, dst); }

const uint8_t *region_look(const struct span *span, unsigned n, uint64_t off, uint64_t len)
{
	struct walk w;
	struct piece p;

	walk_start(&w, span, n, off);
	if (w.span == w.end)
		return NULL;
	p = walk_piece(&w, false);
	return p.peer || p.len < len ? NULL : (const uint8_t *)(uintptr_t)p.addr;
}

/* ---- copies that are put off ---------------------------------------------- */

#define DEFER_LEN 256u

static _Thread_local struct defer {
	bool on;
	const struct peer *peer; /* all of one */
	unsigned n;
	size_t len;
	struct {
		struct region *region;
		uint64_t addr;
		uint32_t len;
	} to[VM_IOVS];
	uint8_t data[VM_IOVS * DEFER_LEN];
} defer;

static int defer_write(unsigned from, unsigned n)
{
	const uint8_t *data = defer.data;
	struct vm_batch batch; /* only its counters need a value */
	int err = 0;

	batch.dst_peer = batch.src_peer = NULL;
	batch.dst_n = batch.src_n = 0;
	batch.len = 0;
	batch.apart = false;
	for (unsigned i = 0; i < from; i++)
		data += defer.to[i].len;
	for (unsigned i = from; i < from + n && !err; data += defer.to[i++].len)
		err = vm_batch_add(&batch, defer.peer, defer.to[i].addr, NULL, (uintptr_t)data, defer.to[i].len);
	return err ? err : vm_batch_flush(&batch);
}

static void defer_flush(void)
{
	unsigned n = defer.n;

	if (!n)
		return;
	/* Once more from the beginning, one by one: the same bytes to the same place. */
	if (defer_write(0, n))
		for (unsigned i = 0; i < n; i++)
			if (defer_write(i, 1))
				defer.to[i].region->torn = true;
	defer.n = 0;
	defer.len = 0;
}

static void region_settle(void *) { defer_flush(); }

void region_defer(bool on)
{
	defer_flush();
	defer.on = on;
}

/* false: it must be made now. */
static bool defer_copy(const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n, uint64_t src_off)
{
	const struct region *r;
	struct walk from;
	struct piece d, s;
	uint64_t left;

	if (dst_n != 1 || !dst->region || dst->len > DEFER_LEN)
		return false;
	r = dst->region;
	d = region_piece(r, dst->addr, dst->len, true);
	if (r->torn || !d.peer || d.len < dst->len)
		return false;
	if (defer.n == VM_IOVS || d.peer != defer.peer)
		defer_flush();
	walk_start(&from, src, src_n, src_off);
	for (left = dst->len; left; left -= s.len) {
		if (from.span == from.end)
			return false;
		s = walk_piece(&from, false);
		if (s.peer)
			return false;
		s.len = s.len < left ? s.len : left;
		memcpy(defer.data + defer.len + (dst->len - left), (const void *)(uintptr_t)s.addr, s.len);
		walk_on(&from, s.len);
	}
	defer.peer = d.peer;
	defer.to[defer.n].region = dst->region;
	defer.to[defer.n].addr = dst->addr;
	defer.to[defer.n++].len = (uint32_t)dst->len;
	defer.len += dst->len;
	return true;
}

/*
 * Programs wait for the last byte of a WRITE, as adapters write it last, and take a flag away as soon as they see it, as adapters write
 * it once.  memmove() does neither: it stores 4 bytes as the first 4 and the last 4, and of more the last before what is left between.
 * So what is small goes by aligned pieces, each byte once; of all else the last word goes by itself.
 */
#define SMALL_LEN 64u

static uint64_t last_word(const struct piece *d, uint64_t len) { return ((d->addr + len - 1) & 7) + 1; }

/* How much of it a system call moves behind the rest: the kernel of an x86_64 copies what is short forwards. */
#ifdef __x86_64__
#define ORDER_LEN 256u
#else
#define ORDER_LEN 9u
#endif

static uint64_t last_call(const struct piece *d, uint64_t len) { return len < ORDER_LEN ? 0 : last_word(d, len); }

/* Each piece is stored behind all that was stored before. */
static void pieces_store(uintptr_t to, const uint8_t *from, uint64_t len)
{
	uint64_t n, v8;
	uint32_t v4;
	uint16_t v2;

	for (; len; to += n, from += n, len -= n) {
		n = 8;
		while (to % n || n > len)
			n /= 2;
		switch (n) {
		case 8:
			memcpy(&v8, from, 8);
			__atomic_store_n((uint64_t *)to, v8, __ATOMIC_RELEASE);
			break;
		case 4:
			memcpy(&v4, from, 4);
			__atomic_store_n((uint32_t *)to, v4, __ATOMIC_RELEASE);
			break;
		case 2:
			memcpy(&v2, from, 2);
			__atomic_store_n((uint16_t *)to, v2, __ATOMIC_RELEASE);
			break;
		default: __atomic_store_n((uint8_t *)to, *from, __ATOMIC_RELEASE);
		}
	}
}

/* last: the end of the message's, or packet's. */
static inline void move(const struct piece *d, const struct piece *s, uint64_t len, bool last)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)s->addr;
	uint64_t apart = len <= SMALL_LEN ? len : last ? last_word(d, len) : 0;
	uint8_t copy[SMALL_LEN]; /* the two may overlap */

	memcpy(copy, from + len - apart, apart);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* behind the packet before, also if all of this one is one word */
	if (len > apart)
		memmove((void *)(uintptr_t)d->addr, from, len - apart);
	pieces_store((uintptr_t)(d->addr + len - apart), copy, apart);
}

/* A mapping was torn by the copy just made: which side's? */
static int torn_err(const struct span *src, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct region *r = src[i].region;

		if (r && r->map.held && held_is_torn(r->map.held, r->map.ptr, r->map.len))
			return EIO;
	}
	return EFAULT;
}

/* The usual case: one span each, and both can be pointed to.  false: it is not, and nothing was done. */
static bool plain_copy(const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n, uint64_t src_off)
{
	struct piece d, s;

	if (dst_n != 1 || src_n != 1 || src_off > src->len)
		return false;
	d = span_piece(dst, 0, true);
	s = span_piece(src, src_off, false);
	if (d.peer || s.peer || d.len < dst->len || s.len < dst->len)
		return false;
	if (defer.n)
		defer_flush();
	move(&d, &s, dst->len, true);
	return true;
}

static int walk_copy(const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n, uint64_t src_off)
{
	struct vm_batch batch; /* only its counters need a value */
	struct walk to, from;
	struct piece d, s;
	uint64_t len, apart;
	bool last;
	int err;

	batch.dst_peer = batch.src_peer = NULL;
	batch.dst_n = batch.src_n = 0;
	batch.len = 0;
	batch.apart = false;
	walk_start(&to, dst, dst_n, 0);
	walk_start(&from, src, src_n, src_off);
	while (to.span < to.end) {
		if (from.span == from.end)
			return EFAULT;
		d = walk_piece(&to, true);
		s = walk_piece(&from, false);
		len = d.len < s.len ? d.len : s.len;
		last = to.span + 1 == to.end && to.off + len == to.span->len;
		if (d.peer || s.peer) {
			apart = last ? last_call(&d, len) : 0;
			err = vm_batch_add(&batch, d.peer, d.addr, s.peer, s.addr, len - apart);
			batch.apart = true;
			if (!err && apart)
				err = vm_batch_add(&batch, d.peer, d.addr + len - apart, s.peer, s.addr + len - apart,
						   apart);
			batch.apart = false;
			if (err)
				return err;
		} else {
			err = last ? vm_batch_flush(&batch) : 0; /* what is in it comes before */
			if (err)
				return err;
			move(&d, &s, len, last);
		}
		walk_on(&to, len);
		walk_on(&from, len);
	}
	return vm_batch_flush(&batch);
}

static int region_copy(void *, const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n,
		       uint64_t src_off)
{
	unsigned tears = held_tears;
	int err = 0;

	if (!plain_copy(dst, dst_n, src, src_n, src_off)) {
		if (defer.on && defer_copy(dst, dst_n, src, src_n, src_off))
			return 0;
		defer_flush();
		err = walk_copy(dst, dst_n, src, src_n, src_off);
	}
	return err || held_tears == tears ? err : torn_err(src, src_n);
}

/* ---- atomics ------------------------------------------------------------- */

static uint64_t next_swap(uint64_t old, uint64_t compare, uint64_t swap) { return old == compare ? swap : old; }
static uint64_t next_add(uint64_t old, uint64_t add, uint64_t) { return old + add; }

static bool is_null(const struct span *at) { return ((const struct region *)at->region)->null; }

/* Of a null region: zeros are read.  Where its writes go others' went, too. */
static int none(uint64_t *old)
{
	*old = 0;
	return 0;
}

static int region_cmp_swap(void *, const struct span *at, uint64_t compare, uint64_t swap, uint64_t *old)
{
	unsigned tears = held_tears;
	struct piece p = region_piece(at->region, at->addr, sizeof(*old), true);

	defer_flush();
	if (is_null(at))
		return none(old);
	if (p.peer)
		return vm_atomic(p.peer, p.addr, next_swap, compare, swap, old);
	*old = compare;
	__atomic_compare_exchange_n((uint64_t *)(uintptr_t)p.addr, old, swap, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return held_tears == tears ? 0 : EFAULT;
}

static int region_fetch_add(void *, const struct span *at, uint64_t add, uint64_t *old)
{
	unsigned tears = held_tears;
	struct piece p = region_piece(at->region, at->addr, sizeof(*old), true);

	defer_flush();
	if (is_null(at))
		return none(old);
	if (p.peer)
		return vm_atomic(p.peer, p.addr, next_add, add, 0, old);
	*old = __atomic_fetch_add((uint64_t *)(uintptr_t)p.addr, add, __ATOMIC_SEQ_CST);
	return held_tears == tears ? 0 : EFAULT;
}

static uint64_t next_store(uint64_t, uint64_t value, uint64_t) { return value; }

static int region_store(void *, const struct span *at, uint64_t value)
{
	unsigned tears = held_tears;
	struct piece p = region_piece(at->region, at->addr, sizeof(value), true);
	uint64_t old;

	defer_flush();
	if (is_null(at))
		return 0;
	if (p.peer)
		return vm_atomic(p.peer, p.addr, next_store, value, 0, &old);
	__atomic_store_n((uint64_t *)(uintptr_t)p.addr, value, __ATOMIC_SEQ_CST);
	return held_tears == tears ? 0 : EFAULT;
}

const struct mem_ops region_mem_ops = {
	.copy = region_copy,
	.cmp_swap = region_cmp_swap,
	.fetch_add = region_fetch_add,
	.store = region_store,
	.settle = region_settle,
};
