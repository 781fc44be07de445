/* SPDX-License-Identifier: MIT */
/* rule_apply.c - bytes spoilt, and answers forged. */
#include "rule.h"

#include <string.h>

#include "../proto/cnp.h"
#include "../proto/hdr.h"
#include "splitmix.h"

/* pay: with the bytes that fill it up to a multiple of four. */
static size_t without_pad(const uint8_t *pkt, size_t pay)
{
	size_t pad = (pkt[BTH_FLAGS] & BTH_PAD) >> BTH_PAD_SHIFT;

	return pay > pad ? pay - pad : 0;
}

/* From *at on *n bytes of the packet are meant.  Without a payload it is the header. */
static void damage_span(enum rule_where where, const uint8_t *pkt, size_t len, size_t *at, size_t *n)
{
	const struct opcode *op = opcode_get(pkt[BTH_OPCODE]);
	size_t hdr = op->name && op->hdr_len + ICRC_LEN <= len ? op->hdr_len : BTH_LEN;
	size_t pay = without_pad(pkt, len - hdr - ICRC_LEN);

	*at = 0;
	*n = len;
	if (where == WHERE_ICRC) {
		*at = len - ICRC_LEN;
		*n = ICRC_LEN;
	} else if (where == WHERE_HEADER || (where == WHERE_PAYLOAD && !pay)) {
		*n = hdr;
	} else if (where == WHERE_PAYLOAD) {
		*at = hdr;
		*n = pay;
	}
}

/* So many bits of n bytes, none twice, as two changes of one bit are none; or all of them. */
static void flip(uint8_t *bytes, size_t at, size_t n, unsigned bits, uint64_t state)
{
	uint8_t done[TAP_PKT_MAX] = { 0 }, bit;
	/* Damage to bytes that no ICRC covers would do no harm. */
	bool skips = at <= BTH_ECN && at + n > BTH_ECN;
	size_t left = (n - skips) * 8, i;

	while (bits && left) {
		i = splitmix(&state) % n;
		if (skips && at + i == BTH_ECN)
			continue;
		bit = (uint8_t)(1u << splitmix(&state) % 8);
		if (done[i] & bit)
			continue;
		done[i] |= bit;
		bytes[at + i] ^= bit;
		bits--;
		left--;
	}
}

static void corrupt(const struct rule_damage *d, const struct route *route, uint16_t sport, uint8_t *pkt, size_t len)
{
	const struct rule_act *a = d->act;
	size_t at, n;

	if (len < BTH_LEN + ICRC_LEN || len > TAP_PKT_MAX)
		return;
	damage_span(a->where, pkt, len, &at, &n);
	if (a->fix && a->where == WHERE_ANY)
		n -= ICRC_LEN; /* it is made anew */
	if (a->byte >= 0)
		pkt[at + (size_t)a->byte % n] ^= (uint8_t)a->n;
	else
		flip(pkt, at, n, a->n, d->dice);
	if (a->fix)
		tap_icrc(route, sport, pkt, len - ICRC_LEN);
}

bool rule_change(const struct rule_verdict *v, struct route *route, uint16_t sport, uint8_t *pkt, size_t len)
{
	if (v->ecn)
		route->tclass |= ECN_CE;
	for (unsigned i = 0; i < v->damage_n; i++)
		corrupt(&v->damage[i], route, sport, pkt, len);
	return v->corrupt;
}

size_t rule_answer(const struct rule_verdict *v, const struct tap_pkt *p, uint32_t to, struct route *back, uint8_t *pkt)
{
	struct burst b = {
		.op_first = (uint8_t)(SVC_OF(p->b->op_first) | OP_ACKNOWLEDGE),
		.migreq = true,
		.pkey = p->b->pkey,
		.dqpn = to,
		.psn = p->b->psn,
		.n = 1,
		.syndrome = v->syndrome,
	};
	size_t len;

	*back = *p->route;
	memcpy(back->sgid, p->route->dgid, 16);
	memcpy(back->dgid, p->route->sgid, 16);
	b.op_last = b.op_first;
	len = burst_hdr(&b, 0, pkt);
	tap_icrc(back, ROCE_PORT, pkt, len);
	return len + ICRC_LEN;
}
