/* SPDX-License-Identifier: MIT */
/*
 * burst.c - fuzz target: datagrams from anybody through burst_parse(), burst_join(), burst_slice(), burst_hdr().
 *
 * Input: datagrams, each as a big-endian length of 16 bits and its bytes (UDP payload without the ICRC).
 * All that is accepted must come out again as it was, but for the bits that the protocol reserves; a joined
 * burst must give its packets back.
 */
#include "proto/burst.h"
#include "proto/hdr.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PKTS 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct packet {
	uint8_t *data; /* malloc'd to the byte, for AddressSanitizer */
	size_t len;
};

struct run {
	struct burst b;
	struct span spans[MAX_PKTS];
	struct packet of[MAX_PKTS];
};

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* The header as a sender that knows nothing of reserved bits would have written it. */
static void normalize(uint8_t *h, const struct opcode *op)
{
	h[BTH_ECN] = op->hdrs & HDR_CNP ? BTH_BECN : 0;
	h[BTH_ACK] &= BTH_ACKREQ;
	if (op->hdrs & HDR_DETH)
		h[BTH_LEN + 4] = 0;
	if (op->hdrs & HDR_XRCETH)
		h[BTH_LEN] = 0;
	if (op->hdrs & HDR_CNP)
		memset(h + BTH_LEN, 0, CNP_LEN);
}

/* Of all but the last packet of a joined burst: what moved to the end of it. */
static void drop_moved(uint8_t *h, const struct opcode *op)
{
	h[BTH_FLAGS] &= (uint8_t)~BTH_SE;
	h[BTH_ACK] = 0;
	if (op->hdrs & HDR_AETH)
		memset(h + BTH_LEN, 0, AETH_LEN);
}

static void compare(const struct run *t, uint32_t i)
{
	const struct packet *p = &t->of[i];
	const struct opcode *op = opcode_get(p->data[0]);
	uint8_t want[PKT_HDR_MAX], got[PKT_HDR_MAX];
	struct span spans[MAX_PKTS];
	struct burst one;
	bool asked = t->b.ackreq;

	must(burst_hdr(&t->b, i, got) == op->hdr_len);
	memcpy(want, p->data, op->hdr_len);
	normalize(want, op);
	if (i + 1 < t->b.n) {
		must(asked || !(want[BTH_ACK] & BTH_ACKREQ));
		drop_moved(want, op);
		drop_moved(got, op);
	} else if (t->b.n > 1) {
		want[BTH_ACK] = got[BTH_ACK];
	}
	must(!memcmp(want, got, op->hdr_len));

	burst_slice(&t->b, i, 1, &one, spans);
	must(one.payload_len == burst_pkt_len(&t->b, i));
	must(one.span_n == (one.payload_len != 0));
	if (one.span_n) {
		must(one.span[0].addr == (uintptr_t)p->data + op->hdr_len);
		must(one.span[0].len + pad_len(one.payload_len) == p->len - op->hdr_len);
	}
}

static void flush(struct run *t)
{
	for (uint32_t i = 0; i < t->b.n; i++)
		compare(t, i);
	for (uint32_t i = 0; i < t->b.n; i++)
		free(t->of[i].data);
	t->b.n = 0;
}

static void take(struct run *t, struct packet p)
{
	struct burst one = { 0 };
	struct span span;

	if (burst_parse(&one, &span, p.data, p.len) != PARSE_OK) {
		free(p.data);
		return;
	}
	if (!t->b.n || !burst_join(&t->b, &one, t->spans, MAX_PKTS)) {
		flush(t);
		t->b = one;
		t->spans[0] = span;
		t->b.span = t->spans;
	}
	t->of[t->b.n - 1] = p;
	if (t->b.n == MAX_PKTS)
		flush(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct run t;

	while (len >= 2) {
		struct packet p = { .len = be16_get(data) };

		data += 2;
		len -= 2;
		if (p.len > len)
			p.len = len;
		p.data = malloc(p.len ? p.len : 1);
		must(p.data);
		memcpy(p.data, data, p.len);
		data += p.len;
		len -= p.len;
		take(&t, p);
	}
	flush(&t);
	return 0;
}
