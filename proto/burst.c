/* SPDX-License-Identifier: MIT */
/*
 * burst.c - bursts and their packets: headers written and read, packets joined, bursts cut.
 *
 *	burst  --burst_hdr(i)-->  BTH | ext. headers [| payload | pad | ICRC: the edge]
 *	burst <--burst_parse---   UDP payload; burst_join() couples the next one on
 *
 * The extended headers of a packet are told by its row of opcode.def; the two functions
 * hdr_put() and hdr_get() walk them in the one order of hdr.h.
 */
#include "burst.h"

#include <assert.h>
#include <string.h>

#include "hdr.h"

_Static_assert(PKT_HDR_MAX >= BTH_LEN + FETH_LEN + RETH_LEN && PKT_HDR_MAX >= BTH_LEN + ATOMIC_LEN,
	       "room for the longest headers");

static uint8_t middle_of(uint8_t opcode)
{
	switch (opcode_get(opcode)->kind) {
	case KIND_SEND: return SVC_OF(opcode) | OP_SEND_MIDDLE;
	case KIND_WRITE: return SVC_OF(opcode) | OP_WRITE_MIDDLE;
	default: assert(opcode_get(opcode)->kind == KIND_RESP); return SVC_OF(opcode) | OP_READ_RESP_MIDDLE;
	}
}

uint8_t burst_opcode(const struct burst *b, uint32_t i)
{
	assert(i < b->n);
	if (i == 0)
		return b->op_first;
	if (i == b->n - 1)
		return b->op_last;
	return middle_of(b->op_first);
}

/* ---- extended headers ---------------------------------------------------- */

static uint8_t *hdr_put(uint8_t *p, unsigned hdrs, const struct burst *b)
{
	if (!hdrs) /* most have none */
		return p;
	if (hdrs & HDR_XRCETH) {
		p[0] = 0;
		be24_put(p + XRCETH_SRQN, b->srqn);
		p += XRCETH_LEN;
	}
	if (hdrs & HDR_DETH) {
		be32_put(p + DETH_QKEY, b->qkey);
		p[4] = 0;
		be24_put(p + DETH_SQPN, b->sqpn);
		p += DETH_LEN;
	}
	if (hdrs & HDR_FETH) {
		be32_put(p, b->feth);
		p += FETH_LEN;
	}
	if (hdrs & HDR_RETH) {
		be64_put(p + RETH_VA, b->va);
		be32_put(p + RETH_RKEY, b->rkey);
		be32_put(p + RETH_DMA_LEN, b->dma_len);
		p += RETH_LEN;
	}
	if (hdrs & HDR_ATOMIC) {
		be64_put(p + ATOMIC_VA, b->va);
		be32_put(p + ATOMIC_RKEY, b->rkey);
		be64_put(p + ATOMIC_SWAP_ADD, b->swap_add);
		be64_put(p + ATOMIC_COMPARE, b->compare);
		p += ATOMIC_LEN;
	}
	if (hdrs & HDR_AETH) {
		p[AETH_SYNDROME] = b->syndrome;
		be24_put(p + AETH_MSN, b->msn);
		p += AETH_LEN;
	}
	if (hdrs & HDR_ATOMIC_ACK) {
		be64_put(p, b->orig);
		p += ATOMIC_ACK_LEN;
	}
	if (hdrs & HDR_IMM) {
		memcpy(p, &b->imm, IMM_LEN); /* opaque: never swapped */
		p += IMM_LEN;
	}
	if (hdrs & HDR_IETH) {
		be32_put(p, b->inv_rkey);
		p += IETH_LEN;
	}
	if (hdrs & HDR_CNP) {
		memset(p, 0, CNP_LEN);
		p += CNP_LEN;
	}
	return p;
}

static const uint8_t *hdr_get(const uint8_t *p, unsigned hdrs, struct burst *b)
{
	if (!hdrs)
		return p;
	if (hdrs & HDR_XRCETH) {
		b->srqn = be24_get(p + XRCETH_SRQN);
		p += XRCETH_LEN;
	}
	if (hdrs & HDR_DETH) {
		b->qkey = be32_get(p + DETH_QKEY);
		b->sqpn = be24_get(p + DETH_SQPN);
		p += DETH_LEN;
	}
	if (hdrs & HDR_FETH) {
		b->feth = be32_get(p);
		p += FETH_LEN;
	}
	if (hdrs & HDR_RETH) {
		b->va = be64_get(p + RETH_VA);
		b->rkey = be32_get(p + RETH_RKEY);
		b->dma_len = be32_get(p + RETH_DMA_LEN);
		p += RETH_LEN;
	}
	if (hdrs & HDR_ATOMIC) {
		b->va = be64_get(p + ATOMIC_VA);
		b->rkey = be32_get(p + ATOMIC_RKEY);
		b->swap_add = be64_get(p + ATOMIC_SWAP_ADD);
		b->compare = be64_get(p + ATOMIC_COMPARE);
		p += ATOMIC_LEN;
	}
	if (hdrs & HDR_AETH) {
		b->syndrome = p[AETH_SYNDROME];
		b->msn = be24_get(p + AETH_MSN);
		p += AETH_LEN;
	}
	if (hdrs & HDR_ATOMIC_ACK) {
		b->orig = be64_get(p);
		p += ATOMIC_ACK_LEN;
	}
	if (hdrs & HDR_IMM) {
		memcpy(&b->imm, p, IMM_LEN);
		p += IMM_LEN;
	}
	if (hdrs & HDR_IETH) {
		b->inv_rkey = be32_get(p);
		p += IETH_LEN;
	}
	if (hdrs & HDR_CNP)
		p += CNP_LEN;
	return p;
}

/* ---- packets ------------------------------------------------------------- */

size_t burst_hdr(const struct burst *b, uint32_t i, uint8_t *hdr)
{
	uint8_t opcode = burst_opcode(b, i);
	const struct opcode *op = opcode_get(opcode);
	bool last = i == b->n - 1;
	uint8_t *end;

	assert(op->name);
	hdr[BTH_OPCODE] = opcode;
	hdr[BTH_FLAGS] = (uint8_t)((last && b->se ? BTH_SE : 0) | (b->migreq ? BTH_MIGREQ : 0) |
				   pad_len(burst_pkt_len(b, i)) << BTH_PAD_SHIFT);
	be16_put(hdr + BTH_PKEY, b->pkey);
	hdr[BTH_ECN] = op->kind == KIND_CNP ? BTH_BECN : 0;
	be24_put(hdr + BTH_DQPN, b->dqpn);
	hdr[BTH_ACK] = last && b->ackreq ? BTH_ACKREQ : 0;
	be24_put(hdr + BTH_PSN, psn_add(b->psn, i).v);
	end = hdr_put(hdr + BTH_LEN, op->hdrs, b);
	assert(end == hdr + op->hdr_len);
	return (size_t)(end - hdr);
}

/* Is a payload of len bytes, followed by pad, what the row allows to every QP? */
static enum parse_err payload_check(const struct opcode *op, size_t len, uint32_t pad)
{
	switch ((enum op_pay)op->pay) {
	case PAY_NONE: return len ? PARSE_PAYLOAD : PARSE_OK;
	case PAY_FULL:
		if (!len)
			return PARSE_PAYLOAD;
		return pad ? PARSE_PAYLOAD : PARSE_OK; /* every PMTU is a multiple of 4 */
	case PAY_SOME: return len ? PARSE_OK : PARSE_PAYLOAD;
	case PAY_8: return len == 8 ? PARSE_OK : PARSE_PAYLOAD;
	case PAY_ANY: break;
	}
	return PARSE_OK;
}

enum parse_err burst_parse(struct burst *b, struct span *span, const uint8_t *data, size_t len)
{
	const struct opcode *op;
	const uint8_t *body;
	uint32_t pad;
	size_t body_len;
	enum parse_err err;

	if (len < BTH_LEN)
		return PARSE_SHORT;
	b->op_first = b->op_last = data[BTH_OPCODE];
	b->se = data[BTH_FLAGS] & BTH_SE;
	b->ackreq = data[BTH_ACK] & BTH_ACKREQ;
	b->migreq = data[BTH_FLAGS] & BTH_MIGREQ;
	b->pkey = (uint16_t)be16_get(data + BTH_PKEY);
	b->dqpn = be24_get(data + BTH_DQPN);
	b->psn = psn(be24_get(data + BTH_PSN));
	if (data[BTH_FLAGS] & BTH_TVER)
		return PARSE_TVER;
	if (b->dqpn == 0)
		return PARSE_QPN0;
	op = opcode_get(b->op_first);
	if (!op->name)
		return PARSE_OPCODE;
	if (len < op->hdr_len)
		return PARSE_SHORT;

	b->sqpn = 0;
	body = hdr_get(data + BTH_LEN, op->hdrs, b);
	body_len = len - op->hdr_len;
	pad = (data[BTH_FLAGS] & BTH_PAD) >> BTH_PAD_SHIFT;
	if (body_len & 3 || body_len < pad)
		return PARSE_PAD;
	err = payload_check(op, body_len - pad, pad);
	if (err)
		return err;

	b->n = 1;
	b->payload_len = body_len - pad;
	b->mtu = (uint32_t)b->payload_len;
	*span = (struct span){ .region = NULL, .addr = (uintptr_t)body, .len = b->mtu };
	b->span = span;
	b->span_n = b->mtu != 0;
	return PARSE_OK;
}

/* ---- bursts -------------------------------------------------------------- */

static bool route_same(const struct route *a, const struct route *b)
{
	return gid_same(a->sgid, b->sgid) && gid_same(a->dgid, b->dgid) && a->flow_label == b->flow_label &&
	       a->tclass == b->tclass && a->hop_limit == b->hop_limit;
}

static bool join_fits(const struct burst *b, const struct burst *p)
{
	const struct opcode *last = opcode_get(b->op_last), *next = opcode_get(p->op_first);

	if (b->dqpn != p->dqpn || !psn_eq(psn_add(b->psn, b->n), p->psn) || p->n != 1)
		return false;
	if (SVC_OF(b->op_last) != SVC_OF(p->op_first) || last->kind != next->kind || b->srqn != p->srqn)
		return false;
	if (last->place != PLACE_FIRST && last->place != PLACE_MIDDLE)
		return false;
	if (b->payload_len != burst_pkt_off(b, b->n))
		return false;
	if (next->place == PLACE_MIDDLE ? p->payload_len != b->mtu
					: next->place != PLACE_LAST || p->payload_len > b->mtu)
		return false;
	return b->pkey == p->pkey && b->migreq == p->migreq && route_same(&b->route, &p->route);
}

bool burst_join(struct burst *b, const struct burst *p, struct span *spans, unsigned max)
{
	unsigned hdrs;

	if (!join_fits(b, p) || b->span_n + p->span_n > max)
		return false;
	if (b->span != spans)
		memmove(spans, b->span, b->span_n * sizeof(*spans));
	if (p->span != spans + b->span_n)
		memmove(spans + b->span_n, p->span, p->span_n * sizeof(*spans));
	b->span = spans;
	b->span_n += p->span_n;
	b->payload_len += p->payload_len;
	b->n++;
	b->op_last = p->op_last;
	b->se = p->se;
	b->ackreq |= p->ackreq;

	hdrs = opcode_get(p->op_last)->hdrs;
	if (hdrs & HDR_AETH) {
		b->syndrome = p->syndrome;
		b->msn = p->msn;
	}
	if (hdrs & HDR_IMM)
		b->imm = p->imm;
	if (hdrs & HDR_IETH)
		b->inv_rkey = p->inv_rkey;
	return true;
}

bool burst_continue(struct burst *b, const uint8_t *prev, const uint8_t *data, size_t len, struct span *spans,
		    unsigned max)
{
	const struct opcode *op = opcode_get(b->op_last);

	/* A MIDDLE of XRC has one more header. */
	if (len != BTH_LEN + b->mtu || b->span_n == max || op->place != PLACE_MIDDLE || op->hdr_len != BTH_LEN)
		return false;
	/* Opcode, flags, P_Key, ECN, QPN: nothing else is in front of the payload. */
	if (memcmp(prev, data, BTH_ACK) || be24_get(data + BTH_PSN) != psn_add(b->psn, b->n).v)
		return false;
	spans[b->span_n++] = (struct span){ .region = NULL, .addr = (uintptr_t)data + BTH_LEN, .len = b->mtu };
	b->payload_len += b->mtu;
	b->n++;
	b->ackreq |= !!(data[BTH_ACK] & BTH_ACKREQ);
	return true;
}

void burst_slice(const struct burst *b, uint32_t from, uint32_t n, struct burst *out, struct span *spans)
{
	uint64_t off = burst_pkt_off(b, from), len, left;
	bool to_end = from + n == b->n;
	unsigned k = 0;

	assert(n && from < b->n && n <= b->n - from);
	left = (to_end ? b->payload_len : burst_pkt_off(b, from + n)) - off;
	*out = *b;
	out->op_first = burst_opcode(b, from);
	out->op_last = burst_opcode(b, from + n - 1);
	out->psn = psn_add(b->psn, from);
	out->n = n;
	out->payload_len = left;
	if (!to_end)
		out->se = out->ackreq = false;

	for (unsigned i = 0; left; i++) {
		assert(i < b->span_n);
		if (off >= b->span[i].len) {
			off -= b->span[i].len;
			continue;
		}
		len = b->span[i].len - off < left ? b->span[i].len - off : left;
		spans[k++] = (struct span){ b->span[i].region, b->span[i].addr + off, (uint32_t)len };
		off = 0;
		left -= len;
	}
	out->span = spans;
	out->span_n = k;
}
