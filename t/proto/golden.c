/* SPDX-License-Identifier: MIT */
/*
 * golden.c - real packets: two Linux kernels' rdma_rxe talking to each other, and a few of ConnectX.
 * Each is decoded and made again from what was decoded; not a byte may differ.
 */
#include "proto/burst.h"
#include "proto/icrc.h"
#include "t/pcap.h"
#include "t/suite.h"

#include <string.h>

/* How many RoCEv2 packets each file has, and in how many bursts these arrive when packets are joined. */
static const struct {
	const char *name;
	size_t packets, bursts;
} files[] = {
	{ "cm-reject.pcap", 2, 2 },      { "cm-ud.pcap", 6, 6 },          { "ipv6-rc.pcap", 24, 12 },
	{ "rc-atomic-cs.pcap", 10, 10 }, { "rc-atomic-fa.pcap", 10, 10 }, { "rc-pingpong.pcap", 24, 12 },
	{ "rc-read.pcap", 30, 10 },      { "rc-rping.pcap", 29, 29 },     { "rc-write.pcap", 30, 10 },
	{ "rsocket.pcap", 184, 184 },    { "uc-pingpong.pcap", 18, 6 },   { "ud-pingpong.pcap", 6, 6 },
	{ "vectors.txt", 23, 0 },
};
#define FILES (int)(sizeof(files) / sizeof(*files))

static void flow_of(struct icrc_flow *f, const struct roce *r)
{
	icrc_flow_init(f, r->sgid, r->dgid, r->sport, r->dport, r->df);
}

START_TEST(icrc_of_every_packet) /* conf: CA17-22 */
{
	static struct icrc_rx rx;
	struct pcap p;

	icrc_rx_init(&rx);
	for (int k = 0; k < FILES; k++) {
		size_t n = 0;

		pcap_read(&p, files[k].name);
		for (size_t i = 0; i < p.n; i++) {
			struct icrc_flow f;
			struct roce r;
			uint16_t id;

			if (!pcap_roce(&p, i, &r))
				continue;
			n++;
			flow_of(&f, &r);
			ck_assert_uint_eq(icrc_pkt(&f, r.ip_id, r.pkt, r.len - ICRC_LEN),
					  le32_get(r.pkt + r.len - ICRC_LEN));
			ck_assert_msg(icrc_check(&rx, &f, r.pkt, r.len, &id), "%s %zu", files[k].name, i);
			ck_assert_uint_eq(id, r.ip_id);

			r.pkt[r.len - 1] ^= 0x10;
			ck_assert_msg(!icrc_check(&rx, &f, r.pkt, r.len, &id), "%s %zu", files[k].name, i);
		}
		ck_assert_msg(n == files[k].packets, "%s: %zu packets", files[k].name, n);
		pcap_free(&p);
	}
}
END_TEST

/* The bytes of packet i of b, as an edge would send them; their number. */
static size_t packet_make(const struct burst *b, uint32_t i, const struct roce *r, uint8_t *out)
{
	struct burst one;
	struct span span[64];
	struct icrc_flow f;
	uint32_t len = burst_pkt_len(b, i), pad = pad_len(len), crc;
	size_t hdr_len = burst_hdr(b, i, out), at = hdr_len;

	flow_of(&f, r);
	crc = icrc_head(&f, r->ip_id, hdr_len + len + pad + ICRC_LEN, out, hdr_len);
	burst_slice(b, i, 1, &one, span);
	for (unsigned k = 0; k < one.span_n; k++) {
		const void *piece = (const void *)(uintptr_t)one.span[k].addr;

		memcpy(out + at, piece, one.span[k].len);
		crc = icrc_data(crc, piece, one.span[k].len);
		at += one.span[k].len;
	}
	memset(out + at, 0, pad);
	icrc_put(out + at + pad, icrc_pad(crc, pad));
	return at + pad + ICRC_LEN;
}

static void same_bytes(const char *name, size_t i, const struct burst *b, uint32_t k, const struct roce *r)
{
	uint8_t out[8192];
	size_t len = packet_make(b, k, r, out);

	ck_assert_msg(len == r->len && !memcmp(out, r->pkt, len), "%s: frame %zu differs", name, i);
}

START_TEST(every_packet_again) /* conf: CA17-2, rule 3.1, rule 3.2 */
{
	struct pcap p;

	for (int k = 0; k < FILES; k++) {
		size_t cnp = 0;

		pcap_read(&p, files[k].name);
		for (size_t i = 0; i < p.n; i++) {
			struct burst b = { 0 };
			struct span span;
			struct roce r;

			if (!pcap_roce(&p, i, &r))
				continue;
			ck_assert_int_eq(burst_parse(&b, &span, r.pkt, r.len - ICRC_LEN), PARSE_OK);
			if (b.op_first == OPCODE_CNP) {
				ck_assert_uint_eq(b.dqpn, 0x000118);
				cnp++;
			}
			same_bytes(files[k].name, i, &b, 0, &r);
		}
		ck_assert_uint_eq(cnp, strcmp(files[k].name, "vectors.txt") == 0);
		pcap_free(&p);
	}
}
END_TEST

/* A burst that grows, of one direction. */
struct lane {
	struct burst b;
	struct span spans[64];
	struct roce of[64];
	size_t frame[64];
};

static size_t lane_flush(struct lane *l, const char *name)
{
	if (!l->b.n)
		return 0;
	for (uint32_t i = 0; i < l->b.n; i++)
		same_bytes(name, l->frame[i], &l->b, i, &l->of[i]);
	l->b.n = 0;
	return 1;
}

static size_t lane_take(struct lane *l, const char *name, size_t i, const struct roce *r)
{
	struct burst one = { 0 };
	struct span span;
	size_t flushed = 0;

	memcpy(one.route.sgid, r->sgid, 16);
	memcpy(one.route.dgid, r->dgid, 16);
	ck_assert_int_eq(burst_parse(&one, &span, r->pkt, r->len - ICRC_LEN), PARSE_OK);
	if (!l->b.n || !burst_join(&l->b, &one, l->spans, 64)) {
		flushed = lane_flush(l, name);
		l->b = one;
		l->spans[0] = span;
		l->b.span = l->spans;
	}
	l->of[l->b.n - 1] = *r;
	l->frame[l->b.n - 1] = i;
	return flushed;
}

START_TEST(joined_and_again)
{
	static struct lane lane[2];
	struct pcap p;

	for (int k = 0; k < FILES; k++) {
		size_t bursts = 0;

		if (!files[k].bursts)
			continue;
		pcap_read(&p, files[k].name);
		for (size_t i = 0; i < p.n; i++) {
			struct roce r;

			if (pcap_roce(&p, i, &r))
				bursts += lane_take(&lane[memcmp(r.sgid, r.dgid, 16) > 0], files[k].name, i, &r);
		}
		bursts += lane_flush(&lane[0], files[k].name) + lane_flush(&lane[1], files[k].name);
		ck_assert_msg(bursts == files[k].bursts, "%s: %zu bursts", files[k].name, bursts);
		pcap_free(&p);
	}
}
END_TEST

TEST_MAIN("golden", icrc_of_every_packet, every_packet_again, joined_and_again)
