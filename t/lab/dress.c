/* SPDX-License-Identifier: MIT */
/* dress.c - headers made for the payloads of recorded packets are those that were recorded, but for the MACs. */
#include "lab/dress.h"
#include "proto/bytes.h"
#include "t/pcap.h"
#include "t/suite.h"

#include <string.h>

static const char *const files[] = { "rc-write.pcap", "rc-read.pcap", "ud-pingpong.pcap", "ipv6-rc.pcap",
				     "rc-rping.pcap" };

static struct route route_of(const uint8_t *frame, const struct roce *p)
{
	const uint8_t *ip = frame + 14;
	struct route r = { .tclass = ip[1], .hop_limit = ip[8] };

	if (p->ipv6) {
		r.tclass = (uint8_t)(be16_get(ip) >> 4);
		r.flow_label = be24_get(ip + 1) & 0xfffff;
		r.hop_limit = ip[7];
	}
	memcpy(r.sgid, p->sgid, 16);
	memcpy(r.dgid, p->dgid, 16);
	return r;
}

/* The checksums of recorded packets may have been left to an adapter that was none. */
static uint16_t udp_rest(const uint8_t *udp, const uint8_t *addrs, size_t n, size_t len)
{
	uint32_t s = (uint32_t)dress_sum(addrs, n) + dress_sum(udp, len) + 17 + (uint32_t)len;

	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint16_t)s;
}

START_TEST(as_recorded)
{
	unsigned seen = 0;

	for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
		struct pcap pcap;

		pcap_read(&pcap, files[f]);
		for (size_t i = 0; i < pcap.n; i++) {
			const uint8_t *frame = pcap.data + pcap.start[i];
			size_t ip_len, n;
			uint8_t out[9500];
			struct roce p;
			struct route r;
			struct dress d;

			if (!pcap_roce(&pcap, i, &p))
				continue;
			r = route_of(frame, &p);
			d = (struct dress){ .route = &r,
					    .sport = p.sport,
					    .ip_id = p.ip_id,
					    .data = p.pkt,
					    .caplen = p.len,
					    .len = p.len };
			n = dress_put(out, &d);
			ip_len = p.ipv6 ? 40 : 20;
			ck_assert_uint_eq(n, pcap.start[i + 1] - pcap.start[i]);
			ck_assert_mem_eq(out + 12, frame + 12, 2 + ip_len + 6);
			ck_assert_mem_eq(out + 14 + ip_len + 8, p.pkt, p.len);
			ck_assert_uint_eq(
				udp_rest(out + 14 + ip_len, p.ipv6 ? out + 22 : out + 26, p.ipv6 ? 32 : 8, 8 + p.len),
				0xffff);
			/* The same, with the end of it cut off. */
			d.sum = dress_sum(p.pkt, p.len);
			d.caplen = 12;
			memset(out + 200, 0xee, 100);
			ck_assert_uint_eq(dress_put(out, &d), 14 + ip_len + 8 + 12);
			d.caplen = p.len;
			{
				uint8_t whole[9500];

				dress_put(whole, &d);
				ck_assert_mem_eq(out, whole, 14 + ip_len + 8 + 12);
			}
			seen++;
		}
		pcap_free(&pcap);
	}
	ck_assert_uint_gt(seen, 50);
}
END_TEST

START_TEST(macs)
{
	struct route r = { 0 };
	uint8_t out[128], again[128];
	struct dress d = { .route = &r, .data = (const uint8_t *)"0123456789ab", .caplen = 12, .len = 12 };

	r.sgid[10] = r.sgid[11] = r.dgid[10] = r.dgid[11] = 0xff;
	memcpy(r.sgid + 12, "\x0a\x00\x00\x01", 4);
	memcpy(r.dgid + 12, "\xe0\x81\x02\x03", 4);
	dress_put(out, &d);
	ck_assert_mem_eq(out, "\x01\x00\x5e\x01\x02\x03\x02\x00\x0a\x00\x00\x01\x08\x00", 14);
	r.sgid[10] = 0x20; /* one of two is no IPv4 */
	dress_put(out, &d);
	ck_assert_mem_eq(out + 12, "\x86\xdd", 2);
	ck_assert_uint_eq(out[6], 6);
	ck_assert_uint_eq(out[0], 6);
	r.sgid[0] = 1;
	dress_put(again, &d);
	ck_assert_mem_eq(out, again, 6);
	ck_assert_mem_ne(out + 6, again + 6, 6);
	r.dgid[0] = 0xff;
	dress_put(out, &d);
	ck_assert_mem_eq(out, "\x33\x33\xe0\x81\x02\x03", 6);
}
END_TEST

START_TEST(sums)
{
	uint8_t d[64];

	for (unsigned i = 0; i < sizeof(d); i++)
		d[i] = (uint8_t)(i * 37 + 200);
	for (size_t n = 0; n <= sizeof(d); n++) {
		uint32_t s = 0;

		for (size_t i = 0; i < n; i++)
			s += (uint32_t)d[i] << (i % 2 ? 0 : 8);
		while (s >> 16)
			s = (s & 0xffff) + (s >> 16);
		ck_assert_uint_eq(dress_sum(d, n), s);
	}
}
END_TEST

TEST_MAIN("dress", as_recorded, macs, sums)
