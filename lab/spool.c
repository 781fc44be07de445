/* SPDX-License-Identifier: MIT */
/*
 * spool.c - the rings.  Positions count bytes and never wrap; a record does not wrap either: where it would, the
 * rest of the ring becomes a pad.
 */
#include "spool.h"

#include <string.h>

#include <rdmad/ring.h>

#define SPOOL_MAGIC (0x73706f00u + (uint32_t)sizeof(struct spool_pkt))
#define LINE        64u

struct spool_strand {
	_Alignas(LINE) uint64_t prod;
	struct spool_count count[SPOOL_DEVICES];
	_Alignas(LINE) uint64_t cons;
};

struct spool_head {
	uint32_t magic, strands;
	uint64_t len;
	_Alignas(LINE) uint32_t idle;
	struct spool_strand strand[];
};

struct record {
	uint32_t len; /* of all of it, a multiple of 8 */
	uint32_t pad; /* and there is no more to it */
	struct spool_pkt pkt;
};

static size_t head_bytes(unsigned strands)
{
	return (sizeof(struct spool_head) + strands * sizeof(struct spool_strand) + 4095) & ~(size_t)4095;
}

size_t spool_bytes(unsigned strands, size_t len) { return head_bytes(strands) + strands * len; }

void spool_make(void *mem, unsigned strands, size_t len)
{
	struct spool_head *h = mem;

	h->magic = SPOOL_MAGIC;
	h->strands = strands;
	h->len = len;
}

static void attach(struct spool *s, void *mem, unsigned strand)
{
	struct spool_head *h = mem;

	*s = (struct spool){ .head = h, .strand = &h->strand[strand], .mask = h->len - 1 };
	s->data = (uint8_t *)mem + head_bytes(h->strands) + strand * h->len;
}

/* ---- daemon --------------------------------------------------------------------------- */

void spool_writer(struct spool *s, void *mem, unsigned strand) { attach(s, mem, strand); }

/* Contiguous room for len bytes at pos; NULL: not now. */
static struct record *room(struct spool *s, uint64_t len)
{
	uint64_t size = s->mask + 1, rest = size - (s->pos & s->mask), want = rest < len ? rest + len : len;
	struct record *r;

	if (s->pos - s->other > size || size - (s->pos - s->other) < want) {
		s->other = __atomic_load_n(&s->strand->cons, __ATOMIC_ACQUIRE);
		if (s->pos - s->other > size || size - (s->pos - s->other) < want)
			return NULL;
	}
	r = (struct record *)(s->data + (s->pos & s->mask));
	if (rest < len) {
		r->len = (uint32_t)rest;
		r->pad = 1;
		s->pos += rest;
		r = (struct record *)s->data;
	}
	return r;
}

bool spool_put(struct spool *s, const struct spool_pkt *p)
{
	uint64_t len = (sizeof(struct record) + p->caplen + p->text_n + 7) & ~7ull;
	struct spool_count *n = &s->strand->count[p->device];
	struct record *r = room(s, len);

	__atomic_store_n(&n->seen, n->seen + 1, __ATOMIC_RELAXED);
	if (!r) {
		__atomic_store_n(&n->lost, n->lost + 1, __ATOMIC_RELAXED);
		s->drops[p->device]++;
		return false;
	}
	r->len = (uint32_t)len;
	r->pad = 0;
	r->pkt = *p;
	r->pkt.data = NULL;
	r->pkt.text = NULL;
	r->pkt.drops = s->drops[p->device];
	s->drops[p->device] = 0;
	memcpy(r + 1, p->data, p->caplen);
	if (p->text_n)
		memcpy((uint8_t *)(r + 1) + p->caplen, p->text, p->text_n);
	s->pos += len;
	RING_SAY(&s->strand->prod, s->pos);
	return true;
}

bool spool_wake(struct spool *s)
{
	return __atomic_load_n(&s->head->idle, __ATOMIC_SEQ_CST) &&
	       __atomic_exchange_n(&s->head->idle, 0, __ATOMIC_SEQ_CST);
}

/* ---- reader --------------------------------------------------------------------------- */

unsigned spool_strands(const void *mem, size_t bytes)
{
	const struct spool_head *h = mem;

	if (bytes < sizeof(*h) || h->magic != SPOOL_MAGIC || !h->strands || h->strands > SPOOL_STRANDS ||
	    h->len < SPOOL_LEAST || h->len > SPOOL_MOST || h->len & (h->len - 1) ||
	    bytes < spool_bytes(h->strands, h->len))
		return 0;
	return h->strands;
}

void spool_reader(struct spool *s, void *mem, unsigned strand) { attach(s, mem, strand); }

bool spool_next(struct spool *s, struct spool_pkt *p)
{
	const struct record *r;
	uint64_t left;

	for (;;) {
		if (s->pos == s->other)
			s->other = __atomic_load_n(&s->strand->prod, __ATOMIC_SEQ_CST);
		left = s->other - s->pos;
		if (!left || left > s->mask + 1)
			return false;
		r = (const struct record *)(s->data + (s->pos & s->mask));
		if (r->len % 8 || !r->len || r->len > left || r->len > s->mask + 1 - (s->pos & s->mask))
			return false;
		s->taken = r->len;
		if (!r->pad)
			break;
		spool_done(s);
	}
	if (s->taken < sizeof(*r))
		return false;
	*p = r->pkt;
	if ((uint64_t)p->caplen + p->text_n > s->taken - sizeof(*r) || p->device >= SPOOL_DEVICES)
		return false;
	p->data = (const uint8_t *)(r + 1);
	p->text = (const char *)p->data + p->caplen;
	return true;
}

void spool_done(struct spool *s)
{
	s->pos += s->taken;
	s->taken = 0;
	__atomic_store_n(&s->strand->cons, s->pos, __ATOMIC_RELEASE);
}

void spool_sleep(void *mem)
{
	struct spool_head *h = mem;

	__atomic_store_n(&h->idle, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void spool_awake(void *mem)
{
	struct spool_head *h = mem;

	__atomic_store_n(&h->idle, 0, __ATOMIC_SEQ_CST);
}

struct spool_count spool_count(const struct spool *s, unsigned device)
{
	const struct spool_count *n = &s->strand->count[device];

	return (struct spool_count){ __atomic_load_n(&n->seen, __ATOMIC_RELAXED),
				     __atomic_load_n(&n->lost, __ATOMIC_RELAXED) };
}
