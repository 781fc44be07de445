/* SPDX-License-Identifier: MIT */
/* conv.c - streams and the requests in them. */
#include "conv.h"

#include <stdlib.h>
#include <string.h>

#define SEQ_BEGIN ((uint64_t)4 << 24) /* room for what is older than the first packet seen */
#define SILENT_NS 2000000000u
#define BLOCK     8u  /* bits: PSNs of a block of askers */
#define BLOCKS    4u  /* of one READ: its first responses are in the capture, or nothing is known of it */
#define ASKERS    64u /* that are looked at, the newest first: time is not to grow with the square of the streams */
#define KEPT      (1u << 17) /* requests that are kept behind the last acknowledged */

static unsigned bucket_of(const uint8_t *sgid, const uint8_t *dgid, uint32_t dqpn)
{
	uint32_t h = 2166136261u ^ dqpn;

	for (unsigned i = 0; i < 16; i++)
		h = (h ^ sgid[i] ^ (uint32_t)dgid[i] << 8) * 16777619u;
	return (h ^ h >> 16) % CONV_BUCKETS;
}

struct stream *conv_find(struct conv *c, const uint8_t *sgid, const uint8_t *dgid, uint8_t svc, uint32_t dqpn)
{
	struct stream *s = c->bucket[bucket_of(sgid, dgid, dqpn)];

	while (s && (s->dqpn != dqpn || s->svc != svc || !gid_same(s->sgid, sgid) || !gid_same(s->dgid, dgid)))
		s = s->next;
	return s;
}

struct stream *conv_stream(struct conv *c, const struct frame *f, uint8_t svc, uint32_t dqpn)
{
	struct stream *s = conv_find(c, f->sgid, f->dgid, svc, dqpn), **b;

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	memcpy(s->sgid, f->sgid, 16);
	memcpy(s->dgid, f->dgid, 16);
	s->svc = svc;
	s->dqpn = dqpn;
	b = &c->bucket[bucket_of(s->sgid, s->dgid, dqpn)];
	s->next = *b;
	*b = s;
	s->id = c->streams++;
	return s;
}

void conv_marry(struct stream *a, struct stream *b)
{
	if (a->mate)
		a->mate->mate = NULL;
	if (b->mate)
		b->mate->mate = NULL;
	a->mate = b;
	b->mate = a;
	if (!a->mtu)
		a->mtu = b->mtu;
	if (!b->mtu)
		b->mtu = a->mtu;
}

/* May m have asked for an answer of this kind with this PSN? */
static bool asked(struct stream *m, uint8_t kind, psn_t p)
{
	uint64_t seq = seq_near(p, m->next_seq);
	const struct sent *u = stream_at(m, seq, NULL), *last = m->n ? &m->v[m->n - 1] : NULL;
	uint8_t asking;

	if (!u && last && !last->n && seq >= last->seq)
		u = last; /* a READ of unknown MTU */
	if (!u || kind == KIND_ACK)
		return u;
	asking = opcode_get(u->op)->kind;
	return kind == KIND_ATOMIC_ACK ? asking == KIND_ATOMIC : sent_waits(u) && asking != KIND_ATOMIC;
}

/* Of the other direction, nobody's yet, and an answer in s may be for it? */
static bool may_be_mate(struct stream *m, const struct stream *s, uint8_t kind, psn_t p)
{
	return !m->mate && m->begun && m->svc == s->svc && gid_same(m->sgid, s->dgid) && gid_same(m->dgid, s->sgid) &&
	       asked(m, kind, p);
}

static struct asker **askers_of(struct conv *c, const struct stream *s, bool back, uint32_t block)
{
	const uint8_t *from = back ? s->dgid : s->sgid, *to = back ? s->sgid : s->dgid;

	return &c->asker[bucket_of(from, to, block << 8 | s->svc)];
}

bool conv_asked(struct conv *c, struct stream *s, const struct sent *u)
{
	uint32_t first = seq_psn(u->seq).v >> BLOCK, last = seq_psn(u->seq + (u->n ? u->n - 1 : 0)).v >> BLOCK;
	uint32_t n = ((last - first) & ((1u << (24 - BLOCK)) - 1)) + 1;
	struct asker *a, **at;

	for (uint32_t i = 0; i < n && i < BLOCKS && !s->mate; i++) {
		uint32_t block = (first + i) & ((1u << (24 - BLOCK)) - 1);

		if (s->block == block + 1)
			continue;
		a = malloc(sizeof(*a));
		if (!a)
			return false;
		at = askers_of(c, s, false, block);
		*a = (struct asker){ *at, s };
		*at = a;
		s->block = block + 1;
	}
	return true;
}

struct stream *conv_mate(struct conv *c, struct stream *s, uint8_t kind, psn_t p)
{
	struct stream *found[2] = { NULL }; /* the one with the newest requests, and the next */
	struct asker **at = askers_of(c, s, true, p.v >> BLOCK), *a;

	for (unsigned i = 0; i < ASKERS && (a = *at);) {
		struct stream *m = a->stream;

		if (m->mate) {
			*at = a->next;
			m->block = 0; /* should it be alone again, it will be noted again */
			free(a);
			continue;
		}
		i++;
		at = &a->next;
		if (m == s || m == found[0] || m == found[1] || !may_be_mate(m, s, kind, p))
			continue;
		if (!found[0] || m->v[m->n - 1].ns > found[0]->v[found[0]->n - 1].ns) {
			found[1] = found[0];
			found[0] = m;
		} else if (!found[1] || m->v[m->n - 1].ns > found[1]->v[found[1]->n - 1].ns) {
			found[1] = m;
		}
	}
	/* Within one address it may be a queue pair that is connected to itself. */
	if (!found[0] && may_be_mate(s, s, kind, p))
		return s;
	/* One that has been silent for long is not meant. */
	if (found[1] && ns_since(found[0]->v[found[0]->n - 1].ns, found[1]->v[found[1]->n - 1].ns) < SILENT_NS)
		return NULL;
	return found[0];
}

void conv_free(struct conv *c)
{
	struct stream *s;
	struct asker *a;

	for (unsigned i = 0; i < CONV_BUCKETS; i++)
		while ((s = c->bucket[i])) {
			c->bucket[i] = s->next;
			free(s->v);
			free(s);
		}
	for (unsigned i = 0; i < CONV_BUCKETS; i++)
		while ((a = c->asker[i])) {
			c->asker[i] = a->next;
			free(a);
		}
}

bool stream_silent(const struct stream *s, uint64_t now) { return ns_since(now, s->sent_ns) > SILENT_NS; }

void stream_reset(struct stream *s)
{
	struct stream old = *s;

	if (s->mate)
		s->mate->mate = NULL;
	free(s->v);
	*s = (struct stream){ .next = old.next, .dqpn = old.dqpn, .svc = old.svc, .id = old.id };
	memcpy(s->sgid, old.sgid, 16);
	memcpy(s->dgid, old.dgid, 16);
}

uint64_t seq_near(psn_t p, uint64_t ref)
{
	if (!ref)
		ref = SEQ_BEGIN + p.v;
	return ref + (uint64_t)(int64_t)psn_diff(p, seq_psn(ref));
}

struct sent *stream_at(struct stream *s, uint64_t seq, size_t *at)
{
	size_t lo = 0, hi = s->n, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (s->v[mid].seq <= seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (at)
		*at = lo;
	return lo && seq < s->v[lo - 1].seq + s->v[lo - 1].n ? &s->v[lo - 1] : NULL;
}

void stream_trim(struct stream *s)
{
	size_t gone;

	if (s->una_i < 2 * KEPT)
		return;
	gone = s->una_i - KEPT;
	memmove(s->v, s->v + gone, (s->n - gone) * sizeof(*s->v));
	s->n -= gone;
	s->una_i -= gone;
	s->floor = s->v[0].seq;
}

struct sent *stream_put(struct stream *s, size_t i, const struct sent *u)
{
	size_t cap = s->cap ? 2 * s->cap : 64;
	struct sent *v;

	if (s->n == s->cap) {
		v = realloc(s->v, cap * sizeof(*v));
		if (!v)
			return NULL;
		s->v = v;
		s->cap = cap;
	}
	memmove(s->v + i + 1, s->v + i, (s->n - i) * sizeof(*s->v));
	s->v[i] = *u;
	s->n++;
	if (i < s->una_i)
		s->una_i++;
	return &s->v[i];
}
