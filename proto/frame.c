/* SPDX-License-Identifier: MIT */
/* frame.c - see frame.h.  RFC 791, 768, 793, 8200, 1071. */
#include "frame.h"

#include <string.h>

#include "bytes.h"

#define ETH_LEN   14u
#define TYPE_IP4  0x0800u
#define TYPE_IP6  0x86ddu
#define TYPE_VLAN 0x8100u
#define TCP_LEAST 20u
#define UDP_LEN   8u
#define TCP_FIN   0x01u
#define TCP_PSH   0x08u
#define TCP_CWR   0x80u

static void look_ip4(struct frame *f, const uint8_t *p, size_t len)
{
	uint32_t head, total;

	if (len < f->l3 + 20 || p[f->l3] >> 4 != 4)
		return;
	head = (p[f->l3] & 15u) * 4;
	total = be16_get(p + f->l3 + 2);
	if (head < 20 || total < head || len < f->l3 + total)
		return;
	f->ip = FRAME_IP4;
	f->l4 = f->l3 + head;
	f->end = f->l3 + total;
	if (!(be16_get(p + f->l3 + 6) & 0x3fff)) /* more fragments, and where this one is */
		f->proto = p[f->l3 + 9];
}

static void look_ip6(struct frame *f, const uint8_t *p, size_t len)
{
	if (len < f->l3 + 40 || p[f->l3] >> 4 != 6 || len < f->l3 + 40 + be16_get(p + f->l3 + 4))
		return;
	f->ip = FRAME_IP6;
	f->l4 = f->l3 + 40;
	f->end = f->l4 + be16_get(p + f->l3 + 4);
	f->proto = p[f->l3 + 6];
}

/* IP as the header says it, or, for headers that wait for their payload, as far as they go. */
static void look(struct frame *f, const uint8_t *p, size_t len)
{
	uint32_t at = 12, type;

	*f = (struct frame){ 0 };
	if (len < ETH_LEN)
		return;
	type = be16_get(p + at);
	if (type == TYPE_VLAN && len >= ETH_LEN + 4)
		type = be16_get(p + (at += 4));
	f->l3 = at + 2;
	if (type == TYPE_IP4)
		look_ip4(f, p, len);
	else if (type == TYPE_IP6)
		look_ip6(f, p, len);
}

void frame_look(struct frame *f, const uint8_t *p, size_t len)
{
	look(f, p, len);
	if (f->proto == FRAME_TCP && f->end >= f->l4 + TCP_LEAST)
		f->data = f->l4 + (p[f->l4 + 12] >> 4) * 4u;
	else if (f->proto == FRAME_UDP)
		f->data = f->l4 + UDP_LEN;
	if (f->data > f->end || f->data < f->l4 + UDP_LEN || (f->proto == FRAME_TCP && f->data < f->l4 + TCP_LEAST))
		f->proto = 0;
}

/* ---- checksums ----------------------------------------------------------- */

static uint64_t sum(uint64_t s, const uint8_t *p, uint32_t len)
{
	for (; len > 1; p += 2, len -= 2)
		s += be16_get(p);
	return len ? s + ((uint32_t)p[0] << 8) : s;
}

static uint16_t fold(uint64_t s)
{
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint16_t)~s;
}

/* Of the addresses, protocol and length of what is behind the IP header. */
static uint64_t pseudo(const struct frame *f, const uint8_t *p, uint32_t len)
{
	uint64_t s = (uint64_t)f->proto + len;

	return f->ip == FRAME_IP4 ? sum(s, p + f->l3 + 12, 8) : sum(s, p + f->l3 + 8, 32);
}

static uint32_t sum_at(const struct frame *f) { return f->l4 + (f->proto == FRAME_TCP ? 16 : 6); }

static void put_ip4_sum(const struct frame *f, uint8_t *p)
{
	if (f->ip != FRAME_IP4)
		return;
	be16_put(p + f->l3 + 10, 0);
	be16_put(p + f->l3 + 10, fold(sum(0, p + f->l3, f->l4 - f->l3)));
}

void frame_sum(uint8_t *p, size_t len)
{
	struct frame f;
	uint16_t s;

	frame_look(&f, p, len);
	put_ip4_sum(&f, p);
	if (f.proto != FRAME_TCP && f.proto != FRAME_UDP)
		return;
	be16_put(p + sum_at(&f), 0);
	s = fold(sum(pseudo(&f, p, f.end - f.l4), p + f.l4, f.end - f.l4));
	be16_put(p + sum_at(&f), !s && f.proto == FRAME_UDP ? 0xffff : s);
}

bool frame_sum_ok(const uint8_t *p, size_t len)
{
	struct frame f;

	frame_look(&f, p, len);
	if (f.ip != FRAME_IP4 || (f.proto != FRAME_TCP && f.proto != FRAME_UDP) || fold(sum(0, p + f.l3, f.l4 - f.l3)))
		return false;
	if (f.proto == FRAME_UDP && !be16_get(p + sum_at(&f)))
		return true; /* its sender made none */
	return !fold(sum(pseudo(&f, p, f.end - f.l4), p + f.l4, f.end - f.l4));
}

/* ---- segments -------------------------------------------------------------- */

/* Where things are in headers whose lengths of IP are not set yet. */
static void look_hdr(struct frame *f, const uint8_t *p, size_t len)
{
	uint32_t at = 12;

	*f = (struct frame){ 0 };
	if (len < ETH_LEN + 4)
		return;
	if (be16_get(p + at) == TYPE_VLAN)
		at += 4;
	f->l3 = at + 2;
	if (be16_get(p + at) == TYPE_IP4 && len >= f->l3 + 20 && p[f->l3] >> 4 == 4) {
		f->l4 = f->l3 + (p[f->l3] & 15u) * 4;
		f->proto = p[f->l3 + 9];
		f->ip = f->l4 >= f->l3 + 20 ? FRAME_IP4 : 0;
	} else if (be16_get(p + at) == TYPE_IP6 && len >= f->l3 + 40 && p[f->l3] >> 4 == 6) {
		f->l4 = f->l3 + 40;
		f->proto = p[f->l3 + 6];
		f->ip = FRAME_IP6;
	}
	if (!f->ip || f->proto != FRAME_TCP || len < f->l4 + TCP_LEAST)
		f->proto = 0;
	else
		f->data = f->l4 + (p[f->l4 + 12] >> 4) * 4u;
}

bool frame_tso_ok(const uint8_t *hdr, size_t len, uint32_t mss)
{
	struct frame f;

	look_hdr(&f, hdr, len);
	return f.proto == FRAME_TCP && f.data == len && f.data >= f.l4 + TCP_LEAST && mss &&
	       len - (f.ip == FRAME_IP4 ? f.l3 : f.l4) + mss <= 0xffff;
}

void frame_segment(uint8_t *out, const uint8_t *hdr, size_t len, unsigned i, uint32_t off, const uint8_t *data,
		   uint32_t n, bool last)
{
	struct frame f;
	uint8_t *tcp;
	uint32_t l4_len;

	memcpy(out, hdr, len);
	look_hdr(&f, hdr, len);
	tcp = out + f.l4;
	l4_len = (uint32_t)len - f.l4 + n;
	if (f.ip == FRAME_IP4) {
		be16_put(out + f.l3 + 2, (uint16_t)(len - f.l3 + n));
		be16_put(out + f.l3 + 4, (uint16_t)(be16_get(hdr + f.l3 + 4) + i));
		put_ip4_sum(&f, out);
	} else {
		be16_put(out + f.l3 + 4, (uint16_t)l4_len);
	}
	be32_put(tcp + 4, be32_get(hdr + f.l4 + 4) + off);
	if (!last)
		tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
	if (i)
		tcp[13] &= (uint8_t)~TCP_CWR;
	be16_put(tcp + 16, 0);
	be16_put(tcp + 16, fold(sum(sum(pseudo(&f, out, l4_len), tcp, (uint32_t)len - f.l4), data, n)));
}

/* ---- the hash -------------------------------------------------------------- */

uint32_t frame_hash(const uint8_t *p, size_t len, const uint8_t key[HASH_KEY], uint32_t fields)
{
	uint8_t in[HASH_KEY];
	uint32_t n = 0, hash = 0;
	struct frame f;

#define TAKE(bit, at, bytes)                             \
	do {                                             \
		if (fields & HASH_##bit) {               \
			memcpy(in + n, p + (at), bytes); \
			n += (bytes);                    \
		}                                        \
	} while (0)
	frame_look(&f, p, len);
	if (f.ip == FRAME_IP4) {
		TAKE(SRC_IP4, f.l3 + 12, 4);
		TAKE(DST_IP4, f.l3 + 16, 4);
	} else if (f.ip == FRAME_IP6) {
		TAKE(SRC_IP6, f.l3 + 8, 16);
		TAKE(DST_IP6, f.l3 + 24, 16);
	}
	if (f.proto == FRAME_TCP) {
		TAKE(SRC_TCP, f.l4, 2);
		TAKE(DST_TCP, f.l4 + 2, 2);
	} else if (f.proto == FRAME_UDP) {
		TAKE(SRC_UDP, f.l4, 2);
		TAKE(DST_UDP, f.l4 + 2, 2);
	}
#undef TAKE
	for (uint32_t i = 0; i < n; i++) {
		uint64_t window = (uint64_t)be32_get(key + i) << 8 | (i + 4 < HASH_KEY ? key[i + 4] : 0);

		for (unsigned b = 0; b < 8; b++)
			if (in[i] >> (7 - b) & 1)
				hash ^= (uint32_t)(window >> (8 - b));
	}
	return hash;
}
