/* SPDX-License-Identifier: MIT */
/* frame.c - checksums, segments and the hash of frames, against numbers that others have published or that are made here the slow way. */
#include "proto/frame.h"

#include <string.h>

#include "proto/bytes.h"
#include "t/suite.h"

#define DATA 5000u

/* Key and results: the verification suite of receive side scaling (NDIS). */
static const uint8_t key[HASH_KEY] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
	0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

/* Headers without lengths and checksums; how many bytes. */
static size_t head(uint8_t *p, unsigned ip, unsigned proto, bool vlan)
{
	static const uint8_t v6[2][16] = { { 0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x1f, 0xff, [15] = 7 },
					   { 0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x00, 0x03, [15] = 1 } };
	static const uint8_t v4[8] = { 66, 9, 149, 187, 161, 142, 100, 80 };
	size_t at = 12;

	memset(p, 0, 128);
	memset(p, 2, 12);
	if (vlan) {
		be32_put(p + at, 0x81000005);
		at += 4;
	}
	be16_put(p + at, ip == 4 ? 0x0800 : 0x86dd);
	at += 2;
	if (ip == 4) {
		p[at] = 0x45;
		be16_put(p + at + 4, 0xfffe);
		p[at + 8] = 64;
		p[at + 9] = (uint8_t)proto;
		memcpy(p + at + 12, v4, 8);
		at += 20;
	} else {
		p[at] = 0x60;
		p[at + 6] = (uint8_t)proto;
		p[at + 7] = 64;
		memcpy(p + at + 8, v6, 32);
		at += 40;
	}
	be16_put(p + at, 2794);
	be16_put(p + at + 2, 1766);
	if (proto == FRAME_UDP)
		return at + 8;
	be32_put(p + at + 4, 0xffffff00);
	p[at + 12] = 0x80;                      /* 12 bytes of options */
	p[at + 13] = 0x80 | 0x10 | 0x08 | 0x01; /* CWR ACK PSH FIN */
	memset(p + at + 20, 1, 12);
	return at + 32;
}

static uint16_t slow_sum(const uint8_t *p, size_t len, uint32_t s)
{
	for (size_t i = 0; i < len; i++)
		s += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint16_t)s;
}

/* 0xffff: all is right. */
static uint16_t l4_sum(const uint8_t *p, size_t l3, unsigned ip, unsigned proto, size_t len)
{
	size_t l4 = l3 + (ip == 4 ? 20 : 40);
	uint32_t s = proto + (uint32_t)(len - l4);

	s += ip == 4 ? slow_sum(p + l3 + 12, 8, 0) : slow_sum(p + l3 + 8, 32, 0);
	return slow_sum(p + l4, len - l4, s);
}

static void lengths(uint8_t *p, size_t l3, unsigned ip, unsigned proto, size_t len)
{
	be16_put(p + l3 + (ip == 4 ? 2 : 4), (uint32_t)(len - l3 - (ip == 4 ? 0 : 40)));
	if (proto == FRAME_UDP)
		be16_put(p + l3 + (ip == 4 ? 20 : 40) + 4, (uint32_t)(len - l3 - (ip == 4 ? 20 : 40)));
}

START_TEST(checksums)
{
	uint8_t p[512];

	for (unsigned i = 0; i < 16; i++) {
		unsigned ip = i & 1 ? 4 : 6, proto = i & 2 ? FRAME_TCP : FRAME_UDP;
		size_t l3 = i & 4 ? 18 : 14, len = head(p, ip, proto, i & 4) + 100 + (i >> 3);

		for (size_t k = len - 100; k < sizeof(p); k++)
			p[k] = (uint8_t)(k * 7);
		lengths(p, l3, ip, proto, len);
		frame_sum(p, len + 9); /* what is behind the packet does not count */
		ck_assert_uint_eq(l4_sum(p, l3, ip, proto, len), 0xffff);
		ck_assert(frame_sum_ok(p, len + 9) == (ip == 4));
		if (ip == 4)
			ck_assert_uint_eq(slow_sum(p + l3, 20, 0), 0xffff);
		p[len - 1] ^= 1;
		ck_assert(!frame_sum_ok(p, len));
		p[len - 1] ^= 1;
		p[l3 + 8] ^= 1;
		ck_assert(!frame_sum_ok(p, len));
		p[l3 + 8] ^= 1;
		/* Cut short anywhere: looked at, and nothing found that is not there. */
		for (size_t k = 0; k < len; k++) {
			struct frame f;

			frame_look(&f, p, k);
			ck_assert(f.end <= k && f.l4 <= k && (!f.proto || f.data <= k));
			frame_sum(p, k);
		}
	}
	/* No checksum of UDP at all is none that is wrong; a fragment has none of its own. */
	lengths(p, 14, 4, FRAME_UDP, head(p, 4, FRAME_UDP, false) + 8);
	frame_sum(p, 50);
	ck_assert(frame_sum_ok(p, 50));
	be16_put(p + 40, 0);
	ck_assert(frame_sum_ok(p, 50));
	be16_put(p + 20, 0x2000);
	frame_sum(p, 50);
	ck_assert_uint_eq(be16_get(p + 40), 0);
	ck_assert(!frame_sum_ok(p, 50));
}
END_TEST

START_TEST(segments)
{
	uint8_t hdr[128], out[128 + DATA], data[DATA];

	for (unsigned i = 0; i < DATA; i++)
		data[i] = (uint8_t)(i * 13 + i / 256);
	for (unsigned i = 0; i < 4; i++) {
		unsigned ip = i & 1 ? 4 : 6, mss = 999, number = 0;
		size_t l3 = i & 2 ? 18 : 14, len = head(hdr, ip, FRAME_TCP, i & 2), l4 = l3 + (ip == 4 ? 20 : 40);

		ck_assert(frame_tso_ok(hdr, len, mss));
		for (uint32_t off = 0; off < DATA; off += mss, number++) {
			uint32_t n = DATA - off < mss ? DATA - off : mss;
			bool last = off + n == DATA;
			struct frame f;

			frame_segment(out, hdr, len, number, off, data + off, n, last);
			memcpy(out + len, data + off, n);
			frame_look(&f, out, len + n);
			ck_assert(f.ip == ip && f.proto == FRAME_TCP && f.data == len && f.end == len + n);
			ck_assert_uint_eq(l4_sum(out, l3, ip, FRAME_TCP, len + n), 0xffff);
			ck_assert(ip == 6 || (frame_sum_ok(out, len + n) &&
					      be16_get(out + l3 + 4) == ((0xfffe + number) & 0xffff)));
			ck_assert_uint_eq(be32_get(out + l4 + 4), (uint32_t)(0xffffff00u + off));
			ck_assert_uint_eq(out[l4 + 13], 0x10 | (number ? 0 : 0x80) | (last ? 0x09 : 0));
		}
		ck_assert(!frame_tso_ok(hdr, len - 1, mss) && !frame_tso_ok(hdr, len + 1, mss) &&
			  !frame_tso_ok(hdr, len, 0));
		ck_assert(!frame_tso_ok(hdr, len, 65536));
		head(hdr, ip, FRAME_UDP, i & 2);
		ck_assert(!frame_tso_ok(hdr, len, mss));
		for (size_t k = 0; k < 60; k++)
			ck_assert(!frame_tso_ok(hdr, k, mss));
	}
}
END_TEST

START_TEST(hash)
{
	uint8_t p[128];
	size_t len = head(p, 4, FRAME_TCP, false);

	lengths(p, 14, 4, FRAME_TCP, len);
	ck_assert_uint_eq(frame_hash(p, len, key, HASH_SRC_IP4 | HASH_DST_IP4), 0x323e8fc2);
	ck_assert_uint_eq(frame_hash(p, len, key, HASH_ALL), 0x51ccc178);
	ck_assert_uint_eq(frame_hash(p, len, key, HASH_SRC_IP6 | HASH_SRC_UDP), 0);
	len = head(p, 6, FRAME_TCP, true);
	lengths(p, 18, 6, FRAME_TCP, len);
	ck_assert_uint_eq(frame_hash(p, len, key, HASH_SRC_IP6 | HASH_DST_IP6), 0x2cc18cd5);
	ck_assert_uint_eq(frame_hash(p, len, key, HASH_ALL), 0x40207d3d);
	len = head(p, 4, FRAME_UDP, false);
	lengths(p, 14, 4, FRAME_UDP, len);
	ck_assert_uint_eq(frame_hash(p, len, key, HASH_ALL), 0x51ccc178);
	ck_assert_uint_eq(frame_hash(p, 20, key, HASH_ALL), 0);
}
END_TEST

TEST_MAIN("frame", checksums, segments, hash)
