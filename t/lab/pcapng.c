/* SPDX-License-Identifier: MIT */
/* pcapng.c - captures made and read again, by us and by libpcap; those of others, in both byte orders. */
#include "lab/pcapng.h"
#include "proto/bytes.h"
#include "t/pcap.h"
#include "t/suite.h"

#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct pcapng_reader reader;
static uint8_t buf[1 << 20];
static size_t buf_n, off;
static struct pcapng_item it;

static void setup(void)
{
	memset(&reader, 0, sizeof(reader));
	buf_n = off = 0;
}

static enum pcapng_kind next(void)
{
	enum pcapng_kind k = pcapng_next(&reader, buf + off, buf_n - off, &it);

	off += it.used;
	return k;
}

static void text_eq(unsigned i, const char *s)
{
	ck_assert_uint_lt(i, it.comments);
	ck_assert_uint_eq(it.comment[i].len, strlen(s));
	ck_assert_mem_eq(it.comment[i].s, s, strlen(s));
}

static void make(void)
{
	struct pcapng_item p = { .iface = 1,
				 .ns = 1700000000123456789u,
				 .data = (const uint8_t *)"0123456789abcde",
				 .caplen = 15,
				 .flags = PCAPNG_OUT,
				 .drops = 3,
				 .comments = 2,
				 .comment = { { "retransmission 2 of PSN 17", 26 }, { "x", 1 } } };
	struct pcapng_item s = { .iface = 1,
				 .ns = 1700000001000000000u,
				 .received = 5,
				 .dropped = 3,
				 .comments = 1,
				 .comment = { { "end", 3 } } };

	buf_n = pcapng_put_section(buf, sizeof(buf), "rdmactl", "all of it");
	buf_n += pcapng_put_iface(buf + buf_n, sizeof(buf) - buf_n, "rdmad0", "a device");
	buf_n += pcapng_put_iface(buf + buf_n, sizeof(buf) - buf_n, "rdmad1", NULL);
	buf_n += pcapng_put_packet(buf + buf_n, sizeof(buf) - buf_n, &p);
	p.comments = 0;
	p.iface = 0;
	p.flags = PCAPNG_IN;
	p.drops = 0;
	p.caplen = 4;
	p.len = 9000;
	buf_n += pcapng_put_packet(buf + buf_n, sizeof(buf) - buf_n, &p);
	buf_n += pcapng_put_stats(buf + buf_n, sizeof(buf) - buf_n, &s);
}

START_TEST(there_and_back)
{
	setup();
	make();
	ck_assert_int_eq(next(), PCAPNG_SECTION);
	text_eq(0, "all of it");
	ck_assert_int_eq(next(), PCAPNG_IFACE);
	ck_assert_int_eq(next(), PCAPNG_IFACE);
	ck_assert_uint_eq(it.iface, 1);
	ck_assert_str_eq(reader.iface[0].name, "rdmad0");
	ck_assert_str_eq(reader.iface[1].name, "rdmad1");
	ck_assert_uint_eq(reader.iface[1].link, PCAPNG_ETHERNET);
	ck_assert_int_eq(next(), PCAPNG_PACKET);
	ck_assert_uint_eq(it.iface, 1);
	ck_assert(it.timed && it.ns == 1700000000123456789u);
	ck_assert_uint_eq(it.caplen, 15);
	ck_assert_uint_eq(it.len, 15);
	ck_assert_mem_eq(it.data, "0123456789abcde", 15);
	ck_assert_uint_eq(it.flags, PCAPNG_OUT);
	ck_assert_uint_eq(it.drops, 3);
	ck_assert_uint_eq(it.comments, 2);
	text_eq(0, "retransmission 2 of PSN 17");
	text_eq(1, "x");
	ck_assert_int_eq(next(), PCAPNG_PACKET);
	ck_assert_uint_eq(it.caplen, 4);
	ck_assert_uint_eq(it.len, 9000);
	ck_assert_uint_eq(it.flags & PCAPNG_DIR, PCAPNG_IN);
	ck_assert_uint_eq(it.comments, 0);
	ck_assert_int_eq(next(), PCAPNG_STATS);
	ck_assert_uint_eq(it.received, 5);
	ck_assert_uint_eq(it.dropped, 3);
	text_eq(0, "end");
	ck_assert_int_eq(next(), PCAPNG_MORE);
	ck_assert_uint_eq(off, buf_n);
}
END_TEST

START_TEST(room)
{
	struct pcapng_item p = {
		.data = buf, .caplen = 101, .flags = 1, .drops = 1, .comments = 1, .comment = { { "abcde", 5 } }
	};
	static uint8_t out[512];
	size_t n = pcapng_packet_len(&p);

	for (size_t k = 0; k < n; k++)
		ck_assert_uint_eq(pcapng_put_packet(out, k, &p), 0);
	ck_assert_uint_eq(pcapng_put_packet(out, n, &p), n);
	ck_assert_uint_eq(pcapng_put_section(out, 27, "x", NULL), 0);
	ck_assert_uint_eq(pcapng_put_iface(out, 20, "x", NULL), 0);
	ck_assert_uint_eq(pcapng_put_stats(out, 20, &p), 0);
}
END_TEST

/* Cut anywhere it waits for more, and then goes on. */
START_TEST(piecemeal)
{
	size_t whole;
	unsigned n = 0;

	setup();
	make();
	whole = buf_n;
	for (buf_n = 0; buf_n < whole; buf_n++) {
		enum pcapng_kind k = next();

		if (k != PCAPNG_MORE) {
			ck_assert_int_ne(k, PCAPNG_BAD);
			n++;
			buf_n--;
		} else {
			ck_assert_uint_gt(it.want, buf_n - off);
		}
	}
	ck_assert_uint_eq(n, 5); /* the sixth is one byte short */
	ck_assert_int_eq(next(), PCAPNG_STATS);
}
END_TEST

START_TEST(libpcap)
{
	char name[] = "/tmp/pcapng-XXXXXX", err[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *h;
	const uint8_t *data;
	int fd = mkstemp(name);
	pcap_t *p;

	setup();
	make();
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, buf, buf_n), (ssize_t)buf_n);
	p = pcap_open_offline_with_tstamp_precision(name, PCAP_TSTAMP_PRECISION_NANO, err);
	unlink(name);
	close(fd);
	ck_assert_msg(p != NULL, "%s", err);
	ck_assert_int_eq(pcap_datalink(p), DLT_EN10MB);
	ck_assert_int_eq(pcap_next_ex(p, &h, &data), 1);
	ck_assert_int_eq(h->ts.tv_sec, 1700000000);
	ck_assert_int_eq(h->ts.tv_usec, 123456789);
	ck_assert_mem_eq(data, "0123456789abcde", 15);
	ck_assert_int_eq(pcap_next_ex(p, &h, &data), 1);
	ck_assert_uint_eq(h->len, 9000);
	ck_assert_int_eq(pcap_next_ex(p, &h, &data), PCAP_ERROR_BREAK);
	pcap_close(p);
}
END_TEST

/* ---- what others write ------------------------------------------------------------ */

static void b32(uint32_t v)
{
	be32_put(buf + buf_n, v);
	buf_n += 4;
}

static void b_bytes(const char *s, size_t n)
{
	memcpy(buf + buf_n, s, n);
	memset(buf + buf_n + n, 0, -n & 3);
	buf_n += (n + 3) & ~3u;
}

/* Big-endian: microseconds by default, 2^-10 seconds, picoseconds with an offset. */
START_TEST(big_endian)
{
	setup();
	b32(0x0a0d0d0a), b32(28), b32(0x1a2b3c4d), b32(0x00010000), b32(~0u), b32(~0u), b32(28);
	b32(1), b32(20), b32(0x00010000), b32(0), b32(20);
	b32(1), b32(40), b32(0x00710000), b32(96), b32(0x00020003), b_bytes("eth", 3), b32(0x00090001),
		b_bytes("\x8a", 1), b32(0), b32(40);
	b32(1), b32(44), b32(0x00010000), b32(0), b32(0x00090001), b_bytes("\x0c", 1), b32(0x000e0008), b32(0),
		b32(100), b32(0), b32(44);
	b32(6), b32(36), b32(0), b32(1), b32(5), b32(1), b32(1), b_bytes("z", 1), b32(36);
	b32(6), b32(56), b32(1), b32(0), b32(1024 * 7 + 512), b32(1), b32(1), b_bytes("z", 1);
	b32(0x00010006), b_bytes("dup of", 6), b32(0x00020004), b32(2), b32(56);
	b32(6), b32(36), b32(2), b32(0), b32(5000), b32(1), b32(1), b_bytes("z", 1), b32(36);
	b32(3), b32(20), b32(2), b_bytes("yz", 2), b32(20);
	b32(0x0bad), b32(16), b32(0), b32(16);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(next(), i ? PCAPNG_IFACE : PCAPNG_SECTION);
	ck_assert_str_eq(reader.iface[0].name, "");
	ck_assert_str_eq(reader.iface[1].name, "eth");
	ck_assert_uint_eq(reader.iface[1].link, 0x71);
	ck_assert_uint_eq(reader.iface[1].snaplen, 96);
	ck_assert_int_eq(next(), PCAPNG_PACKET);
	ck_assert_uint_eq(it.ns, ((1ull << 32) + 5) * 1000);
	ck_assert_int_eq(next(), PCAPNG_PACKET);
	ck_assert_uint_eq(it.ns, 7500000000u);
	ck_assert_uint_eq(it.flags, PCAPNG_OUT);
	text_eq(0, "dup of");
	ck_assert_int_eq(next(), PCAPNG_PACKET);
	ck_assert_uint_eq(it.ns, 100000000005u);
	ck_assert_int_eq(next(), PCAPNG_PACKET);
	ck_assert(!it.timed && it.caplen == 2 && !memcmp(it.data, "yz", 2));
	ck_assert_int_eq(next(), PCAPNG_OTHER);
	ck_assert_int_eq(next(), PCAPNG_MORE);
	ck_assert_uint_eq(off, buf_n);
}
END_TEST

START_TEST(old)
{
	struct pcap p;
	size_t len, n = 0;
	uint8_t *file = data_read("rc-write.pcap", &len);

	pcap_read(&p, "rc-write.pcap");
	setup();
	memcpy(buf, file, len);
	buf_n = len;
	le32_put(buf + 20, PCAPNG_ETHERNET | 0x54000000); /* frames end with an FCS, 5 * 16 bits long */
	ck_assert_int_eq(next(), PCAPNG_SECTION);
	ck_assert_int_eq(next(), PCAPNG_IFACE);
	ck_assert_uint_eq(it.used, 0);
	ck_assert_uint_eq(reader.iface[0].link, PCAPNG_ETHERNET);
	for (; next() == PCAPNG_PACKET; n++) {
		ck_assert_uint_eq(it.caplen, p.start[n + 1] - p.start[n]);
		ck_assert_mem_eq(it.data, p.data + p.start[n], it.caplen);
		ck_assert_uint_eq(it.ns / 1000000000, le32_get(it.data - 16));
	}
	ck_assert_uint_eq(n, p.n);
	ck_assert_uint_eq(off, len);
	pcap_free(&p);
	free(file);
}
END_TEST

START_TEST(damaged)
{
	static const struct {
		size_t at;
		uint32_t v;
		const char *why;
	} cases[] = {
		{ 0, 5, "neither" },         { 8, 5, "not a section" }, { 4, 10, "no sense" },
		{ 4, 0x7ffffffc, "16 MiB" }, { 12, 2, "version" },      { 24, 28, "two lengths" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setup();
		buf_n = pcapng_put_section(buf, sizeof(buf), NULL, NULL);
		ck_assert_uint_eq(buf_n, 32);
		le32_put(buf + cases[i].at + (cases[i].at == 24 ? 4 : 0), cases[i].v);
		ck_assert_int_eq(next(), PCAPNG_BAD);
		ck_assert_msg(strstr(it.why, cases[i].why) != NULL, "%zu: %s", i, it.why);
	}
	setup();
	buf_n = pcapng_put_section(buf, sizeof(buf), NULL, NULL);
	buf_n += pcapng_put_packet(buf + buf_n, 100, &(struct pcapng_item){ .iface = 0, .data = buf, .caplen = 8 });
	ck_assert_int_eq(next(), PCAPNG_SECTION);
	ck_assert_int_eq(next(), PCAPNG_BAD);
	ck_assert_ptr_nonnull(strstr(it.why, "not described"));
}
END_TEST

TEST_MAIN("pcapng", there_and_back, room, piecemeal, libpcap, big_endian, old, damaged)
