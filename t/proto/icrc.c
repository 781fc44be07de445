/* SPDX-License-Identifier: MIT */
/*
 * icrc.c - against a CRC that is computed bit by bit over a packet that is really built, masks and all; and
 * the recovery of the identification, for all 65536 of them.  Golden packets are in golden.c.
 */
#include "proto/crc.h"
#include "proto/icrc.h"
#include "t/suite.h"

#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static uint32_t rnd(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 32);
}

static void fill(uint8_t *p, size_t n)
{
	while (n--)
		*p++ = (uint8_t)rnd();
}

static uint32_t crc_bitwise(const uint8_t *p, size_t n)
{
	uint32_t r = 0xffffffff;

	while (n--) {
		r ^= *p++;
		for (int k = 0; k < 8; k++)
			r = r & 1 ? r >> 1 ^ 0xedb88320 : r >> 1;
	}
	return ~r;
}

static const uint8_t v4a[16] = { [10] = 0xff, [11] = 0xff, 10, 77, 0, 101 };
static const uint8_t v4b[16] = { [10] = 0xff, [11] = 0xff, 192, 168, 255, 3 };
static const uint8_t v6a[16] = { 0xfe, 0x80, [8] = 2, 0, 0x0a, 0xff, 0xfe, 0x4d, 0, 0x65 };
static const uint8_t v6b[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 };

/* The ICRC by the book: the packet with its headers, ones where the specification masks. */
static uint32_t by_the_book(bool ipv6, uint16_t id, uint16_t sport, const uint8_t *pkt, size_t len)
{
	static uint8_t buf[70000];
	uint8_t *p = buf;
	size_t udp = 8 + len + 4;

	memset(p, 0xff, 8);
	p += 8;
	if (ipv6) {
		const uint8_t h[8] = { 0x6f, 0xff, 0xff, 0xff, (uint8_t)(udp >> 8), (uint8_t)udp, 17, 0xff };

		memcpy(p, h, 8);
		memcpy(p + 8, v6a, 16);
		memcpy(p + 24, v6b, 16);
		p += 40;
	} else {
		size_t total = udp + 20;
		const uint8_t h[20] = { 0x45,
					0xff,
					(uint8_t)(total >> 8),
					(uint8_t)total,
					(uint8_t)(id >> 8),
					(uint8_t)id,
					0x40,
					0,
					0xff,
					17,
					0xff,
					0xff,
					10,
					77,
					0,
					101,
					192,
					168,
					255,
					3 };

		memcpy(p, h, 20);
		p += 20;
	}
	const uint8_t u[8] = { (uint8_t)(sport >> 8), (uint8_t)sport, 0x12, 0xb7,
			       (uint8_t)(udp >> 8),   (uint8_t)udp,   0xff, 0xff };
	memcpy(p, u, 8);
	p += 8;
	memcpy(p, pkt, len);
	p[4] = 0xff;
	return crc_bitwise(buf, (size_t)(p - buf) + len);
}

START_TEST(by_the_book_in_pieces) /* conf: CA17-22 */
{
	static uint8_t pkt[5000];

	for (int round = 0; round < 300; round++) {
		bool ipv6 = round & 1;
		uint16_t id = (uint16_t)rnd(), sport = (uint16_t)rnd();
		size_t hdr = 12 + rnd() % 49, pad = rnd() % 4, data = round < 20 ? 0 : rnd() % 4200;
		size_t len = hdr + data + pad, at = hdr;
		struct icrc_flow f;
		uint32_t crc, want;

		fill(pkt, hdr + data);
		memset(pkt + hdr + data, 0, pad);
		want = by_the_book(ipv6, id, sport, pkt, len);
		icrc_flow_init(&f, ipv6 ? v6a : v4a, ipv6 ? v6b : v4b, sport, 4791, true);
		ck_assert_uint_eq(icrc_pkt(&f, id, pkt, len), want);

		crc = icrc_head(&f, id, len + 4, pkt, hdr);
		while (at < hdr + data) {
			size_t n = rnd() % (hdr + data - at + 1);

			crc = icrc_data(crc, pkt + at, n);
			at += n;
		}
		ck_assert_uint_eq(icrc_pad(crc, (unsigned)pad), want);
	}
}
END_TEST

/* Every length of a payload at every odd place, behind headers of every length. */
START_TEST(copied_in_one_pass)
{
	static uint8_t from[4600], to[4800], same[4800];

	fill(from, sizeof(from));
	for (size_t len = 0; len < 4400; len++) {
		size_t front = 12 + 4 * (rnd() % 17), at = rnd() % 64, off = rnd() % 64;
		uint32_t crc = rnd();
		uint8_t *p = to + at;

		fill(p, front);
		memcpy(same, p, front);
		memcpy(same + front, from + off, len);
		p[front + len] = 0x5a;
		ck_assert_uint_eq(crc_copy(crc, p, front, from + off, len), crc_more(crc, same, front + len));
		ck_assert_mem_eq(p, same, front + len);
		ck_assert_uint_eq(p[front + len], 0x5a);
	}
}
END_TEST

START_TEST(packets_copied_in_one_pass) /* conf: CA17-22 */
{
	static uint8_t from[4200], pkt[4400];
	struct icrc_flow f;

	fill(from, sizeof(from));
	for (int round = 0; round < 2000; round++) {
		size_t hdr = 12 + 4 * (rnd() % 8), pay = rnd() % 4097, len = hdr + ((pay + 3) & ~(size_t)3);
		uint16_t id = (uint16_t)rnd();
		uint32_t crc;

		if (round % 100 == 0)
			icrc_flow_init(&f, v4a, v4b, 4791, 4791, true);
		fill(pkt, hdr);
		pkt[4] = round % 3 ? 0 : (uint8_t)rnd();
		memset(pkt + hdr + pay, 0, len - hdr - pay);
		crc = icrc_pkt_copy(&f, id, pkt, hdr, from, pay, len);
		ck_assert_mem_eq(pkt + hdr, from, pay);
		ck_assert_uint_eq(crc, by_the_book(false, id, 4791, pkt, len));
	}
}
END_TEST

START_TEST(one_mapped_gid_is_ipv6) /* conf: CA17-22, rule 1.3 */
{
	struct icrc_flow f;

	icrc_flow_init(&f, v4a, v4b, 1, 4791, true);
	ck_assert(!f.ipv6);
	icrc_flow_init(&f, v6a, v4b, 1, 4791, true);
	ck_assert(f.ipv6);
	icrc_flow_init(&f, v4a, v6b, 1, 4791, true);
	ck_assert(f.ipv6);
}
END_TEST

START_TEST(stored_little_endian) /* conf: CA17-22 */
{
	uint8_t b[4];

	icrc_put(b, 0x11223344);
	ck_assert(b[0] == 0x44 && b[1] == 0x33 && b[2] == 0x22 && b[3] == 0x11);
}
END_TEST

/* The shortest packet, one whose distance is a multiple of 256, a full one, the longest that UDP has. */
static const size_t lens[] = { 16, 260, 1052, 4124, 65504 };
#define LENS (sizeof(lens) / sizeof(*lens))

START_TEST(every_identification) /* conf: CA17-22, rule 2.1 */
{
	static struct icrc_rx rx;
	static uint8_t pkt[65536];
	struct icrc_flow f;

	icrc_rx_init(&rx);
	icrc_flow_init(&f, v4a, v4b, 49152, 4791, true);
	fill(pkt, sizeof(pkt));
	for (size_t k = 0; k < LENS; k++) {
		uint32_t step = lens[k] > 1000 ? 251 : 1;

		for (uint32_t id = 0; id < 65536; id += step) {
			uint16_t got;

			icrc_put(pkt + lens[k] - 4, icrc_pkt(&f, (uint16_t)id, pkt, lens[k] - 4));
			ck_assert(icrc_check(&rx, &f, pkt, lens[k], &got));
			ck_assert_uint_eq(got, id);
		}
	}
}
END_TEST

/* Every length that a packet can have, in a mixed order, so that remembered matrices are evicted and found. */
START_TEST(every_length)
{
	static struct icrc_rx rx;
	static uint8_t pkt[8192];
	struct icrc_flow f;

	icrc_rx_init(&rx);
	icrc_flow_init(&f, v4a, v4b, 49152, 4791, true);
	fill(pkt, sizeof(pkt));
	for (size_t i = 0; i < 4 * 1040; i++) {
		size_t len = 16 + 4 * (i % 2 ? i / 4 : i * 7 % 1040);
		uint16_t id = (uint16_t)rnd(), got;
		uint8_t keep[4];

		memcpy(keep, pkt + len - 4, 4);
		icrc_put(pkt + len - 4, icrc_pkt(&f, id, pkt, len - 4));
		ck_assert(icrc_check(&rx, &f, pkt, len, &got));
		ck_assert_uint_eq(got, id);
		memcpy(pkt + len - 4, keep, 4);
	}
}
END_TEST

/* 16 bits of strength: of 200000 damaged packets about three may pass; of those over IPv6 none. */
START_TEST(damage_is_seen) /* conf: CA17-24 */
{
	static struct icrc_rx rx;
	static uint8_t pkt[1052];
	struct icrc_flow f4, f6;
	unsigned passed = 0, flips = 0;
	uint16_t id;

	icrc_rx_init(&rx);
	icrc_flow_init(&f4, v4a, v4b, 49152, 4791, true);
	icrc_flow_init(&f6, v6a, v6b, 49152, 4791, true);
	fill(pkt, sizeof(pkt));
	for (int i = 0; i < 200000; i++) {
		le32_put(pkt + 80 - 4, rnd());
		passed += icrc_check(&rx, &f4, pkt, 80, &id);
		ck_assert(!icrc_check(&rx, &f6, pkt, 80, &id));
	}
	ck_assert_uint_ge(passed, 1); /* else this test does not test what it says */
	ck_assert_uint_le(passed, 12);

	icrc_put(pkt + sizeof(pkt) - 4, icrc_pkt(&f4, 7, pkt, sizeof(pkt) - 4));
	for (size_t bit = 0; bit < sizeof(pkt) * 8; bit++) {
		if (bit / 8 == 4)
			continue; /* outside of the ICRC */
		pkt[bit / 8] ^= (uint8_t)(1 << bit % 8);
		flips += icrc_check(&rx, &f4, pkt, sizeof(pkt), &id);
		pkt[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ck_assert_uint_le(flips, 1);
	pkt[4] ^= 0xff;
	ck_assert(icrc_check(&rx, &f4, pkt, sizeof(pkt), &id));
	ck_assert_uint_eq(id, 7);
}
END_TEST

START_TEST(no_length_is_too_wild)
{
	static struct icrc_rx rx;
	static uint8_t pkt[70000];
	struct icrc_flow f;
	uint16_t id;

	icrc_rx_init(&rx);
	icrc_flow_init(&f, v4a, v4b, 49152, 4791, false);
	for (size_t len = 0; len < 16; len++)
		ck_assert(!icrc_check(&rx, &f, pkt, len, &id));
	for (size_t len = 65000; len < sizeof(pkt); len++)
		icrc_check(&rx, &f, pkt, len, &id);
	ck_assert(!icrc_check(&rx, &f, pkt, 65536, &id));
}
END_TEST

TEST_MAIN("icrc", by_the_book_in_pieces, copied_in_one_pass, packets_copied_in_one_pass, one_mapped_gid_is_ipv6,
	  stored_little_endian, every_identification, every_length, damage_is_seen, no_length_is_too_wild)
