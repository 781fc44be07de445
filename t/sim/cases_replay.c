/* SPDX-License-Identifier: MIT */
/* cases_replay.c - what is asked for twice, and what other implementations answer
 * (protocol 4.2, 4.3, 4.6, 9.3). */
#include "proto/aeth.h"

#include "cases.h"

#define S      WR_SIGNALED
#define RC(op) (SVC_RC | OP_##op)

static uint8_t data[2048];

/* rxe sends sequence NAKs for what was on its way behind the refused packet: they must not cut the wait
 * short. */
static void nak_while_rnr(struct model *m)
{
	struct qp_attr attr = model_attr();
	struct burst x;
	struct duo d;

	attr.min_rnr_timer = 16; /* 2.56 ms */
	attr.retry_cnt = 1;
	d = duo_rc(m, &attr);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 100 });
	send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 100 });
	run_for(m, 100 * USEC);
	MUST(m, stat_of(d.a->node, HCA_STAT_RCVD_RNR_ERR) == 1);
	recv_ok(d.b, 100);
	x = burst_to(d.a, RC(ACKNOWLEDGE), d.a->attr.sq_psn);
	x.syndrome = aeth_nak(NAK_PSN_SEQ);
	for (unsigned i = 0; i < 3; i++)
		inject(d.a, &x, NULL, 0);
	run_for(m, 2 * MSEC);
	MUST(m, m->s.completions == 0 && m->s.link[0][1].pkt_n == 2);
	model_settle(m);
	MUST(m, m->seen[WC_SUCCESS] == 3);
}

/* With one place for READs: the old one is asked for again, and the next one right behind it (swarm seed
 * 1237). */
static void read_behind_replay(struct model *m)
{
	struct qp_attr attr = model_attr();
	struct piece *p = m->word[1][0];
	struct burst x;
	struct duo d;

	attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
	d = duo_rc(m, &attr);
	x = burst_to(d.b, RC(READ_REQUEST), psn_of(d.b));
	x.va = piece_iova(p);
	x.rkey = p->r->key;
	x.dma_len = 8;
	inject(d.b, &x, NULL, 0);
	hca_rx_burst(d.b->node->hca, &x, sim_now(&m->s));
	x.psn = psn_add(x.psn, 1);
	inject(d.b, &x, NULL, 0);
	MUST(m, !in_err(d.b) && stat_of(d.b->node, HCA_STAT_NAK_SENT) == 0);
	MUST(m, m->s.link[1][0].pkt_n >= 2);
}

/* rxe answers a READ that is asked for from its middle without a FIRST, and without an ONLY (protocol 4.6).
 */
static void read_resumed_as_rxe(struct model *m)
{
	for (unsigned last = 0; last < 2; last++) {
		struct duo d = duo_rc(m, NULL);
		const struct content *c;
		struct burst x;

		m->s.link[1][0].pkt_n = 0;
		send_ok(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 256 * 3 + (last ? 0 : 256) });
		c = d.a->sq->remote->c;
		/* FIRST and one more arrive, the rest does not; the retry is answered by hand */
		m->s.link[1][0].mask_n = 64;
		m->s.link[1][0].mask = ~3ull;
		run_for(m, 10 * MSEC);
		MUST(m, d.a->sq_n == 1);
		x = burst_to(d.a, last ? RC(READ_RESP_LAST) : RC(READ_RESP_MIDDLE), d.a->attr.sq_psn + 2);
		inject(d.a, &x, c->ver[0] + 512, 256);
		if (!last) {
			x = burst_to(d.a, RC(READ_RESP_LAST), d.a->attr.sq_psn + 3);
			inject(d.a, &x, c->ver[0] + 768, 256);
		}
		MUST(m, d.a->sq_n == 0 && m->seen[WC_SUCCESS] == last + 1);
		m->s.link[1][0].mask_n = 0;
	}
}

/* A burst of which some packets were seen and the rest is new: all of the rest counts. */
static void half_new_burst(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct piece *p = piece_new(&d.b->node->mem.region[REGION_ALL], &m->s.rng, PIECE_RECV, 2048, 0);
	struct burst x = burst_to(d.b, RC(WRITE_FIRST), psn_of(d.b)), part;
	uint32_t first = x.psn.v;
	struct span all = { NULL, (uintptr_t)data, 2048 }, spans[1];

	x.op_last = RC(WRITE_LAST);
	x.n = 8;
	x.mtu = 256;
	x.payload_len = x.dma_len = 2048;
	x.va = piece_iova(p);
	x.rkey = p->r->key;
	x.span = &all;
	x.span_n = 1;
	burst_slice(&x, 0, 3, &part, spans);
	hca_rx_burst(d.b->node->hca, &part, sim_now(&m->s));
	hca_rx_burst(d.b->node->hca, &x, sim_now(&m->s));
	sim_dirty(d.b->node);
	sim_turns(&m->s);
	MUST(m, psn_of(d.b) == ((first + 8) & PSN_MASK) && p->stored == 2048);
	MUST(m, stat_of(d.b->node, HCA_STAT_DUPLICATE_REQUEST) == 3);
}

/* The last response that left B. */
static struct burst heard;

static bool listen(struct sim *, const struct burst *b, uint64_t)
{
	heard = *b;
	return false;
}

/* MSN: messages executed so far, counted with the last packet of a SEND or WRITE and at the arrival of a READ
 * or atomic. */
static void msn(struct model *m)
{
	static const struct {
		uint8_t op;
		uint32_t len;
	} t[] = {
		{ WR_SEND, 600 },    { WR_WRITE, 1 }, { WR_READ, 700 }, { WR_FETCH_ADD, 8 },
		{ WR_WRITE_IMM, 0 }, { WR_READ, 0 },  { WR_SEND, 0 },
	};
	struct duo d = duo_rc(m, NULL);

	m->s.link[1][0].drop = listen;
	for (unsigned i = 0; i < 2 * sizeof t / sizeof t[0]; i++) {
		recv_ok(d.b, 1000);
		send_ok(d.a, &(struct post){ .op = t[i / 2].op, .flags = S, .len = t[i / 2].len });
		model_settle(m);
		MUST(m, heard.msn == i + 1);
	}
}

/* A SEND that comes again is acknowledged by no more than what lies before the READ that is not answered yet.
 */
static void ack_before_read(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct piece *p = m->word[1][0];
	uint32_t first = psn_of(d.b);
	struct burst send = burst_to(d.b, RC(WRITE_ONLY), first), read = burst_to(d.b, RC(READ_REQUEST), first + 1);

	read.va = piece_iova(p);
	read.rkey = p->r->key;
	read.dma_len = 8;
	inject(d.b, &send, data, 0);
	inject(d.b, &read, NULL, 0);
	m->s.link[1][0].drop = listen;
	inject(d.b, &send, data, 0);
	MUST(m, heard.op_first == RC(ACKNOWLEDGE) && psn_eq(heard.psn, psn(first)));
}

/* A READ asked for again is answered only inside of what it was: else silence. */
static void replay_inside(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct region *r = &d.b->node->mem.region[REGION_ALL];
	struct piece *p = piece_new(r, &m->s.rng, PIECE_RECV, 2048, 64);
	struct burst good = burst_to(d.b, RC(READ_REQUEST), psn_of(d.b)), x;
	uint64_t n;

	good.va = piece_iova(p);
	good.rkey = r->key;
	good.dma_len = 1000;
	inject(d.b, &good, NULL, 0);
	n = m->s.link[1][0].pkt_n;
	for (unsigned i = 0; i < 6; i++) {
		x = good;
		if (i == 0)
			x.rkey = d.b->node->mem.region[REGION_IOVA].key;
		else if (i == 1)
			x.va += 8;
		else if (i == 2)
			x.dma_len = 1001;
		else if (i == 3)
			x.psn = psn_add(x.psn, 1);
		else if (i == 4)
			x.op_first = x.op_last = RC(FETCH_ADD);
		else
			x.psn = psn_sub(x.psn, 1);
		inject(d.b, &x, NULL, 0);
		MUST(m, m->s.link[1][0].pkt_n == n);
	}
	x = good;
	x.psn = psn_add(x.psn, 2);
	x.va += 512;
	x.dma_len = 488;
	inject(d.b, &x, NULL, 0);
	MUST(m, m->s.link[1][0].pkt_n == n + 2);
}

const struct sim_case cases_replay[] = {
	{ "nak_while_rnr", nak_while_rnr },           /* conf: rule 4.5 */
	{ "read_behind_replay", read_behind_replay }, /* conf: C9-110, rule 4.2 */
	{ "read_resumed_as_rxe", read_resumed_as_rxe },
	{ "half_new_burst", half_new_burst },
	{ "msn", msn },                         /* conf: rule 4.3 */
	{ "ack_before_read", ack_before_read }, /* conf: C9-110, rule 4.3 */
	{ "replay_inside", replay_inside },     /* conf: rule 4.2 */
	{ NULL, NULL },
};
