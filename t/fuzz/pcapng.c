/* SPDX-License-Identifier: MIT */
/*
 * pcapng.c - fuzz target: any bytes read as a capture.  All that is handed out lies within the bytes; the same
 * comes out if they arrive piece by piece; packets made again from what was read, read the same.
 */
#include "lab/pcapng.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void within(const uint8_t *data, size_t len, const void *p, size_t n)
{
	must(!n || ((const uint8_t *)p >= data && n <= len && (size_t)((const uint8_t *)p - data) <= len - n));
}

static bool comments_same(const struct pcapng_item *a, const struct pcapng_item *b)
{
	if (a->comments != b->comments)
		return false;
	for (unsigned i = 0; i < a->comments; i++)
		if (a->comment[i].len != b->comment[i].len ||
		    memcmp(a->comment[i].s, b->comment[i].s, a->comment[i].len))
			return false;
	return true;
}

/* Into a capture of our own, and out again. */
static void again(const struct pcapng_item *it)
{
	static struct pcapng_reader r;
	size_t room = 256 + (size_t)PCAPNG_IFACES * 64 + pcapng_packet_len(it), n, off = 0;
	uint8_t *out = malloc(room);
	struct pcapng_item back;
	enum pcapng_kind k;

	must(out != NULL);
	memset(&r, 0, sizeof(r));
	n = pcapng_put_section(out, room, "fuzz", NULL);
	for (unsigned i = 0; i <= it->iface; i++)
		n += pcapng_put_iface(out + n, room - n, "", NULL);
	must(!pcapng_put_packet(out + n, 36, it));
	n += pcapng_put_packet(out + n, pcapng_packet_len(it), it);
	do {
		k = pcapng_next(&r, out + off, n - off, &back);
		off += back.used;
	} while (k == PCAPNG_SECTION || k == PCAPNG_IFACE);
	must(k == PCAPNG_PACKET && off == n && back.iface == it->iface && back.ns == it->ns);
	must(back.caplen == it->caplen && !memcmp(back.data, it->data, it->caplen));
	must(back.len == (it->len ? it->len : it->caplen) && back.flags == it->flags);
	must(back.drops == (it->drops == PCAPNG_NO_COUNT ? 0 : it->drops)); /* which is not written */
	must(comments_same(it, &back));
	free(out);
}

/* Reads all; step: so many bytes more each time that some are wanted. */
static unsigned read_all(const uint8_t *data, size_t len, size_t step)
{
	static struct pcapng_reader r;
	size_t off = 0, have = step ? 0 : len;
	struct pcapng_item it;
	enum pcapng_kind k;
	unsigned n = 0;

	memset(&r, 0, sizeof(r));
	for (;;) {
		k = pcapng_next(&r, data + off, have - off, &it);
		must(it.used <= have - off && it.comments <= PCAPNG_COMMENTS);
		if (k == PCAPNG_BAD) {
			must(it.why && !it.used);
			return n;
		}
		if (k == PCAPNG_MORE) {
			must(it.want > have - off && !it.used);
			if (have == len)
				return n;
			have = len - have < step ? len : have + step;
			continue;
		}
		within(data + off, it.used, it.data, it.caplen);
		for (unsigned i = 0; i < it.comments; i++)
			within(data + off, it.used, it.comment[i].s, it.comment[i].len);
		if (k == PCAPNG_PACKET && !step && it.caplen)
			again(&it);
		off += it.used;
		n++;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	unsigned n = read_all(data, len, 0);

	must(read_all(data, len, 1) == n);
	must(read_all(data, len, 7) == n);
	return 0;
}
