/* SPDX-License-Identifier: MIT */
/* tap.c - the bytes of a packet that so far is only a burst; and who looks at it. */
#include "tap.h"

#include <errno.h>
#include <string.h>

#include "../proto/hdr.h"
#include "../proto/icrc.h"

void tap_icrc(const struct route *route, uint16_t sport, uint8_t *pkt, size_t len)
{
	struct icrc_flow flow;

	icrc_flow_init(&flow, route->sgid, route->dgid, sport, ROCE_PORT, true);
	icrc_put(pkt + len, icrc_pkt(&flow, 0, pkt, len));
}

int tap_bytes(struct tap_pkt *p)
{
	uint32_t pay, pad;
	struct span to;
	size_t len;
	int err;

	if (p->data)
		return 0;
	len = burst_hdr(p->b, 0, p->room);
	pay = burst_pkt_len(p->b, 0);
	pad = pad_len(pay);
	if (len + pay + pad + ICRC_LEN > TAP_PKT_MAX)
		return EMSGSIZE;
	to = (struct span){ .addr = (uintptr_t)p->room + len, .len = pay };
	err = pay ? p->mem->copy(p->mem_host, &to, 1, p->b->span, p->b->span_n, 0) : 0;
	if (err)
		return err;
	memset(p->room + len + pay, 0, pad);
	len += pay + pad;
	tap_icrc(p->route, p->sport, p->room, len);
	p->data = p->room;
	p->len = len + ICRC_LEN;
	return 0;
}

void tap_see(struct tap_listener *const *listener, unsigned n, struct tap_pkt *p, const struct tap_fate *fate)
{
	for (unsigned i = 0; i < n; i++)
		if (listener[i]->devices >> p->device & 1)
			listener[i]->see(listener[i], p, fate);
}

void tap_after(struct tap_listener *const *listener, unsigned n, struct tap_pkt *p, const struct tap_fate *fate)
{
	for (unsigned i = 0; i < n; i++)
		if (listener[i]->after && listener[i]->devices >> p->device & 1)
			listener[i]->after(listener[i], p, fate);
}
