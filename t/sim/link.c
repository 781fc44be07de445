/* SPDX-License-Identifier: MIT */
/*
 * link.c - what a burst meets between two HCAs.
 *
 *	burst -> packet 0..n-1: burst_hdr() + payload + ICRC -> [mask, loss, queue, rate, delay, jitter] ->
 *	inbox: ICRC checked, burst_parse(), burst_join() by chance -> hca_rx_burst()
 *
 * A local link is only: hca_rx_burst() of the very burst.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/icrc.h"

#include "sim.h"

#define JOIN_MAX 64u

/* ---- packets ----------------------------------------------------------- */

struct pkt *pkt_get(struct sim *s)
{
	struct pkt *p = s->spare;

	if (p)
		s->spare = p->next;
	else if (!(p = malloc(sizeof *p)))
		abort();
	return p;
}

void pkt_put(struct sim *s, struct pkt *p)
{
	p->next = s->spare;
	s->spare = p;
}

static struct node *node_by_gid(struct sim *s, const uint8_t *gid)
{
	for (unsigned i = 0; i < s->node_n; i++)
		for (unsigned g = 0; g < 2; g++)
			if (gid_same(s->node[i].gid[g], gid))
				return &s->node[i];
	return NULL;
}

/* The very bytes that a socket would send, ICRC included. */
static int pkt_write(struct sim *s, struct pkt *p, const struct burst *b, uint32_t i)
{
	uint32_t len = burst_pkt_len(b, i), pad = -len & 3, crc;
	size_t hdr_len = burst_hdr(b, i, p->data);
	struct icrc_flow flow;
	int e;

	if (hdr_len + len + pad + 4 > SIM_PKT_MAX)
		sim_fail(s, "a packet of %zu bytes", hdr_len + len + pad + 4);
	e = arena_gather(s, b->span, b->span_n, burst_pkt_off(b, i), len, p->data + hdr_len);
	if (e)
		return e;
	memset(p->data + hdr_len + len, 0, pad);
	p->len = (uint32_t)(hdr_len + len + pad + 4);
	p->route = b->route;
	p->corrupt = p->ruled = false;
	p->said[0] = '\0';
	p->ip_id = (uint16_t)rng_next(&s->rng);
	icrc_flow_init(&flow, b->route.sgid, b->route.dgid, 4791, 4791, true);
	if (flow.ipv6)
		p->ip_id = 0;
	crc = icrc_head(&flow, p->ip_id, p->len, p->data, hdr_len);
	crc = icrc_data(crc, p->data + hdr_len, len);
	icrc_put(p->data + hdr_len + len + pad, icrc_pad(crc, pad));
	return 0;
}

/* ---- sending ----------------------------------------------------------- */

static bool link_loses(struct sim *s, struct link *l, const struct burst *pkt, uint64_t n)
{
	return l->dark || (n < l->mask_n && (l->mask >> n & 1)) || (l->drop && l->drop(s, pkt, n)) ||
	       rng_ppm(&s->rng, l->loss);
}

static void pkt_flip(struct sim *s, struct pkt *p)
{
	for (unsigned n = 1 + rng_below(&s->rng, 4); n; n--) {
		uint8_t bit = (uint8_t)(1u << rng_below(&s->rng, 8));

		p->data[rng_below(&s->rng, p->len)] ^= bit;
	}
	p->corrupt = true;
}

/* When a packet that is offered now arrives; false: the queue is full. */
static bool link_delay(struct sim *s, struct link *l, uint32_t len, uint64_t *at)
{
	uint64_t start = l->busy_ns > s->now ? l->busy_ns : s->now, cost = l->rate ? len * SEC / l->rate : 0;

	if (l->queue_len && l->rate && (start - s->now) * l->rate / SEC > l->queue_len)
		return false;
	l->busy_ns = start + cost;
	*at = l->busy_ns + l->delay_ns + rng_ns(&s->rng, l->jitter_ns);
	if (rng_ppm(&s->rng, l->reorder)) {
		*at += rng_ns(&s->rng, l->reorder_ns);
		l->harm_n++;
	}
	return true;
}

static void pkt_offer(struct sim *s, struct node *from, struct node *to, struct pkt *p, const struct burst *b)
{
	struct link *l = &s->link[from->i][to->i];
	uint64_t n = l->pkt_n++, at, delay = 0;

	p->from = from;
	p->to = to;
	if (s->rules && !impair_pkt(s, p, b, TAP_OUT, &delay)) {
		capture_pkt(s, p, p->said);
		pkt_put(s, p);
		return;
	}
	if (rng_ppm(&s->rng, l->ce))
		p->route.tclass |= 3;
	trace_mix(s, p->data, p->len);
	if (link_loses(s, l, b, n) || !link_delay(s, l, p->len, &at)) {
		trace_burst(s, from, to, b, "LOST");
		capture_pkt(s, p, "dropped by the link");
		l->harm_n++;
		pkt_put(s, p);
		return;
	}
	capture_pkt(s, p, p->said);
	if (rng_ppm(&s->rng, l->dup)) {
		struct pkt *q = pkt_get(s);

		memcpy(q, p, sizeof *p);
		l->harm_n++;
		trace_burst(s, from, to, b, "TWICE");
		sim_push(s, at + rng_ns(&s->rng, l->reorder_ns + 2000), SIM_ARRIVE, to, q);
	} else {
		trace_burst(s, from, to, b, "");
	}
	if (rng_ppm(&s->rng, l->corrupt)) {
		l->harm_n++;
		pkt_flip(s, p);
	}
	sim_push(s, at + delay, SIM_ARRIVE, to, p);
}

/* The packets of a burst, up to the first whose payload cannot be read; how many.  Some of these may have gone when that is seen. */
static uint32_t pkts_write(struct sim *s, struct pkt **pkt, const struct burst *b)
{
	uint32_t n = 0, go;

	for (; n < b->n; n++) {
		pkt[n] = pkt_get(s);
		if (pkt_write(s, pkt[n], b, n))
			break;
	}
	if (n == b->n)
		return n;
	go = (uint32_t)rng_below(&s->rng, n + 1);
	for (uint32_t k = go; k <= n; k++)
		pkt_put(s, pkt[k]);
	return go;
}

static void link_tx_wire(struct sim *s, struct node *from, const struct burst *b)
{
	struct node *to = node_by_gid(s, b->route.dgid);
	bool mcast = gid_is_group(b->route.dgid);
	struct span spans[RD_MAX_SGE + 1];
	struct burst one;
	struct pkt **pkt;
	uint32_t n;

	pkt = calloc(b->n, sizeof(*pkt));
	if (!pkt)
		abort();
	n = pkts_write(s, pkt, b);
	for (uint32_t i = 0; i < n; i++) {
		burst_slice(b, i, 1, &one, spans);
		if (to) {
			pkt_offer(s, from, to, pkt[i], &one);
			continue;
		}
		for (unsigned k = 0; mcast && k < s->node_n; k++) {
			struct pkt *q = pkt_get(s);

			memcpy(q, pkt[i], sizeof *q);
			pkt_offer(s, from, &s->node[k], q, &one);
		}
		pkt_put(s, pkt[i]);
	}
	free(pkt);
	if (n < b->n) {
		trace_burst(s, from, to, b, "EFAULT");
		hca_tx_fault(from->hca, b, n, sim_now(s));
	}
}

static void burst_sane(struct sim *s, const struct burst *b)
{
	uint64_t len = 0;

	if (!b->n || b->span_n > RD_MAX_SGE + 1)
		sim_fail(s, "hca_tx: a burst of %u packets, %u spans", b->n, b->span_n);
	for (unsigned i = 0; i < b->span_n; i++)
		len += b->span[i].len;
	if (len < b->payload_len)
		sim_fail(s, "hca_tx: %llu bytes of spans, payload %llu", (unsigned long long)len,
			 (unsigned long long)b->payload_len);
	len = burst_pkt_off(b, b->n - 1) + burst_pkt_len(b, b->n - 1);
	if (len != b->payload_len)
		sim_fail(s, "hca_tx: the packets hold %llu bytes, payload %llu", (unsigned long long)len,
			 (unsigned long long)b->payload_len);
}

void link_tx(struct sim *s, struct node *from, const struct burst *b)
{
	struct node *to = node_by_gid(s, b->route.dgid);
	struct link *l;
	uint64_t before;

	burst_sane(s, b);
	if (!to || !s->link[from->i][to->i].local) {
		link_tx_wire(s, from, b);
		return;
	}
	l = &s->link[from->i][to->i];
	l->pkt_n += b->n;
	trace_mix(s, &b->psn, sizeof b->psn);
	trace_burst(s, from, to, b, "local");
	hca_count(from->hca, HCA_STAT_LOCAL_TRAINS, 1);
	before = from->mem.refused;
	hca_rx_burst(to->hca, b, sim_now(s));
	sim_dirty(to);
	/* A host that saw it may say that the source was not readable; else it counts as lost. */
	if (from->mem.refused != before && from != to && rng_one_in(&s->rng, 2))
		hca_tx_fault(from->hca, b, 0, sim_now(s));
}

/* ---- receiving --------------------------------------------------------- */

/* false: it is not there yet, or will never be. */
static bool rules_let(struct sim *s, struct pkt *p)
{
	struct burst b = { .route = p->route };
	struct span span;
	uint64_t delay;

	if (!s->rules || p->ruled || p->corrupt || burst_parse(&b, &span, p->data, p->len - 4) != PARSE_OK)
		return true;
	p->ruled = true;
	if (!impair_pkt(s, p, &b, TAP_IN, &delay)) {
		pkt_put(s, p);
		return false;
	}
	if (delay)
		sim_push(s, s->now + delay, SIM_ARRIVE, p->to, p);
	return !delay;
}

void link_arrive(struct sim *s, struct pkt *p)
{
	struct node *n = p->to;

	if (!rules_let(s, p))
		return;
	p->next = NULL;
	if (!n->inbox)
		n->inbox_tail = &n->inbox;
	*n->inbox_tail = p;
	n->inbox_tail = &p->next;
	if (n->rx_due)
		return;
	n->rx_due = true;
	sim_push(s, s->now + rng_ns(&s->rng, n->gro_ns + 1), SIM_RX, n, NULL);
}

static bool pkt_good(struct sim *s, const struct pkt *p)
{
	static struct icrc_rx rx;
	static bool ready;
	struct icrc_flow flow;
	uint16_t id;
	bool good;

	if (!ready)
		icrc_rx_init(&rx);
	ready = true;
	icrc_flow_init(&flow, p->route.sgid, p->route.dgid, 4791, 4791, true);
	good = icrc_check(&rx, &flow, p->data, p->len, &id) && id == p->ip_id;
	if (!p->corrupt && !good)
		sim_fail(s, "the ICRC of a good packet is refused");
	return good;
}

/* BTH byte 4 is not covered: a bit flipped there only arrives, and must not matter. */
static void rx_flush(struct sim *s, struct node *n, struct burst *b)
{
	if (b->n)
		hca_rx_burst(n->hca, b, sim_now(s));
	b->n = 0;
}

static void rx_one(struct sim *s, struct node *n, struct pkt *p, struct burst *run, struct span *spans)
{
	struct span span;
	struct burst b;

	memset(&b, 0, sizeof b);
	b.route = p->route;
	if (burst_parse(&b, &span, p->data, p->len - 4) != PARSE_OK) {
		rx_flush(s, n, run);
		hca_rx(n->hca, &p->route, p->data, p->len - 4, sim_now(s));
		return;
	}
	if (run->n && rng_ppm(&s->rng, n->join) && burst_join(run, &b, spans, JOIN_MAX))
		return;
	rx_flush(s, n, run);
	if (!n->join) {
		hca_rx(n->hca, &p->route, p->data, p->len - 4, sim_now(s));
		return;
	}
	*run = b;
	spans[0] = span;
	run->span = spans;
}

void link_rx(struct sim *s, struct node *n)
{
	struct pkt *list = n->inbox, *p;
	struct span spans[JOIN_MAX];
	struct burst run = { 0 };

	n->inbox = NULL;
	n->inbox_tail = &n->inbox;
	for (p = list; p; p = p->next) {
		if (!pkt_good(s, p)) {
			hca_count(n->hca, HCA_STAT_ICRC_ERR, 1);
			continue;
		}
		rx_one(s, n, p, &run, spans);
	}
	rx_flush(s, n, &run);
	while ((p = list)) {
		list = p->next;
		pkt_put(s, p);
	}
}
