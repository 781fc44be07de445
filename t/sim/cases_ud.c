/* SPDX-License-Identifier: MIT */
/* cases_ud.c - datagrams and unreliable connections: what may be lost is lost whole, and nobody else notices.
 */
#include "cases.h"

#define S WR_SIGNALED

/* ---- UD ---------------------------------------------------------------------- */

static uint16_t ip4_sum(const uint8_t *h)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < 20; i += 2)
		sum += (uint32_t)h[i] << 8 | h[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* The 40 bytes in front of a datagram (protocol 1.6): what ibv_init_ah_from_wc() wants to find. */
static void grh(struct model *m)
{
	for (unsigned gid = 0; gid < 2; gid++) {
		struct duo d = duo_ud(m);
		static const uint8_t zero[20];
		const uint8_t *h;

		recv_ok(d.b, 140);
		h = piece_bytes(d.b->rq->loc[0]);
		send_ok(d.a, &(struct post){
				     .op = WR_SEND_IMM, .flags = S | WR_SOLICITED, .len = 100, .to = d.b, .gid = gid });
		model_settle(m);
		run_for(m, MSEC);
		MUST(m, m->seen_op[WC_OP_RECV] == gid + 1);
		if (gid == 0) {
			MUST(m, !memcmp(h, zero, 20));
			MUST(m, h[20] == 0x45 && h[29] == 17 && ip4_sum(h + 20) == 0xffff);
			MUST(m,
			     !memcmp(h + 32, d.a->node->gid[0] + 12, 4) && !memcmp(h + 36, d.b->node->gid[0] + 12, 4));
		} else {
			MUST(m, h[0] >> 4 == 6 && h[6] == 17);
			MUST(m, !memcmp(h + 8, d.a->node->gid[1], 16) && !memcmp(h + 24, d.b->node->gid[1], 16));
		}
	}
}

static void qkey(struct model *m)
{
	struct duo d = duo_ud(m);
	const struct mqp_cfg c = { .type = QPT_UD, .max_send_wr = 16, .max_recv_wr = 16, .max_sge = 4 };
	struct mqp *same = model_qp(m, 1, &c);

	model_ready(same, 0x11111111);
	recv_ok(d.b, 200);
	recv_ok(same, 200);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 9, .to = d.b, .qkey = 0x22222223 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, stat_of(d.b->node, HCA_STAT_BAD_QKEY) == 1);
	/* bit 31: the sender's own Q_Key is meant */
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 9, .to = same, .qkey = 0x80000000 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, stat_of(d.b->node, HCA_STAT_BAD_QKEY) == 1 && m->seen_op[WC_OP_RECV] == 1);
}

static void ud_no_room(struct model *m)
{
	struct duo d = duo_ud(m);

	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 100, .to = d.b });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, stat_of(d.b->node, HCA_STAT_UD_DROPPED) == 1);
	d.b->rq_may = 1u << WC_LOC_LEN_ERR;
	recv_ok(d.b, 139); /* one byte too short */
	recv_ok(d.b, 140);
	recv_ok(d.b, 140);
	for (unsigned i = 0; i < 3; i++)
		send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = i == 1 ? 50 : 100, .to = d.b });
	model_settle(m);
	run_for(m, MSEC);
	model_watch(d.b);
	MUST(m, d.b->state == QPS_RTS);
	MUST(m, m->seen_op[WC_OP_RECV] == (m->seen[WC_LOC_LEN_ERR] ? 2 : 2));
}

/* Longer than the port's MTU: the sender's fault; its send queue stops until it is put right. */
static void ud_too_long(struct model *m)
{
	struct duo d = duo_ud(m);

	recv_ok(d.b, 5000);
	send_ok(d.a,
		&(struct post){ .op = WR_SEND, .flags = S, .len = 4097, .to = d.b, .expect = 1u << WC_LOC_LEN_ERR });
	send_ok(d.a, &(struct post){ .op = WR_SEND, .len = 1, .to = d.b });
	model_settle(m);
	model_watch(d.a);
	MUST(m, m->seen[WC_LOC_LEN_ERR] == 1 && m->seen[WC_WR_FLUSH_ERR] == 1 && d.a->state == QPS_SQE);
	MUST(m, model_state(d.a, QPS_RTS) == 0);
	d.a->sq_err = false;
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 4096, .to = d.b });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, m->seen_op[WC_OP_RECV] == 1);
}

static void ud_unmapped(struct model *m)
{
	struct duo d = duo_ud(m);

	d.a->cause = true;
	recv_ok(d.b, 200);
	send_ok(d.a,
		&(struct post){ .op = WR_SEND, .flags = S, .len = 100, .to = d.b, .expect = 1u << WC_LOC_PROT_ERR });
	for (unsigned i = 0; i < 5; i++)
		d.a->node->mem.region[i].gone = true;
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, m->seen[WC_LOC_PROT_ERR] == 1 && m->seen_op[WC_OP_RECV] == 0);
}

static void ud_local(struct model *m)
{
	struct link local = { .local = true };
	struct duo d = duo_ud(m);

	sim_link(&m->s, 0, 1, &local);
	recv_ok(d.b, 1000);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 960, .to = d.b });
	model_settle(m);
	MUST(m, m->seen_op[WC_OP_RECV] == 1);
}

static void mcast(struct model *m)
{
	const struct mqp_cfg c = { .type = QPT_UD, .max_send_wr = 16, .max_recv_wr = 16, .max_sge = 4 };
	const uint8_t mgid[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
	struct duo d = duo_ud(m);
	struct mqp *b2 = model_qp(m, 1, &c), *rc = duo_new(m, QPT_RC).a;

	model_ready(b2, 0x22222222);
	MUST(m, hca_mcast_attach(rc->node->hca, rc->qpn, mgid) == EINVAL);
	MUST(m, hca_mcast_attach(d.b->node->hca, d.b->qpn, d.b->node->gid[0]) == EINVAL);
	MUST(m, hca_mcast_attach(d.b->node->hca, d.b->qpn, mgid) == 0);
	MUST(m, hca_mcast_attach(b2->node->hca, b2->qpn, mgid) == 0);
	for (unsigned i = 0; i < 2; i++) {
		recv_ok(d.b, 200);
		recv_ok(b2, 200);
	}
	d.b->group = b2->group = 1;
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 100, .to = d.b, .mgid = mgid });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, m->seen_op[WC_OP_RECV] == 2);
	MUST(m, hca_mcast_detach(b2->node->hca, b2->qpn, mgid) == 0);
	MUST(m, hca_mcast_detach(b2->node->hca, b2->qpn, mgid) == EINVAL);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 100, .to = d.b, .mgid = mgid });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, m->seen_op[WC_OP_RECV] == 3);
}

/* ---- UC ------------------------------------------------------------------------ */

static bool drop_third(struct sim *, const struct burst *, uint64_t n) { return n == 2; }

/* A hole in a message: it vanishes, and its receive serves the next one. */
static void uc_hole(struct model *m)
{
	struct duo d = duo_uc(m);

	recv_ok(d.b, 2000);
	m->s.link[0][1].drop = drop_third;
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 1500 });
	send_ok(d.a, &(struct post){ .op = WR_SEND_IMM, .flags = S, .len = 700 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, m->seen_op[WC_OP_RECV] == 1 && stat_of(d.b->node, HCA_STAT_UC_DROPPED) == 1);
}

static bool drop_last(struct sim *, const struct burst *, uint64_t n) { return n == 5; }

static void uc_hole_at_end(struct model *m)
{
	struct duo d = duo_uc(m);

	recv_ok(d.b, 2000);
	m->s.link[0][1].drop = drop_last;
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 1500 });
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 1 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, m->seen_op[WC_OP_RECV] == 1);
}

static void uc_no_recv(struct model *m)
{
	struct duo d = duo_uc(m);

	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 1500 });
	send_ok(d.a, &(struct post){ .op = WR_WRITE_IMM, .flags = S, .len = 1500 });
	model_settle(m);
	run_for(m, MSEC);
	recv_ok(d.b, 2000);
	recv_ok(d.b, 0);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 1500 });
	send_ok(d.a, &(struct post){ .op = WR_WRITE_IMM, .flags = S, .len = 1500 });
	model_settle(m);
	run_for(m, MSEC);
	model_watch(d.b);
	MUST(m, m->seen_op[WC_OP_RECV] == 1 && m->seen_op[WC_OP_RECV_IMM] == 1 && d.b->state == QPS_RTS);
	MUST(m, stat_of(d.b->node, HCA_STAT_UC_DROPPED) == 2);
}

/* Errors of a UC request drop its message; the QP goes on (protocol 4.10). */
static void uc_wrong(struct model *m)
{
	struct duo d = duo_uc(m);
	static const enum bad bads[] = { BAD_RKEY, BAD_BOUNDS, BAD_PERM, BAD_PD };

	for (unsigned i = 0; i < 4; i++) {
		m->quiet_bad = true;
		send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 600, .bad = bads[i] });
		m->quiet_bad = false;
		model_settle(m);
		run_for(m, MSEC);
		model_watch(d.b);
		MUST(m, d.b->state == QPS_RTS);
	}
	recv_ok(d.b, 99);
	d.b->rq_may = 1u << WC_LOC_LEN_ERR;
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 100 });
	model_settle(m);
	run_for(m, MSEC);
	recv_ok(d.b, 100);
	if (d.b->state == QPS_RTS) {
		send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 99 });
		model_settle(m);
		run_for(m, MSEC);
		MUST(m, m->seen_op[WC_OP_RECV] == 1);
	}
}

static void uc_reads_nothing(struct model *m)
{
	struct duo d = duo_uc(m);

	MUST(m, model_send(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 8 }) == EINVAL);
	MUST(m, model_send(d.a, &(struct post){ .op = WR_FETCH_ADD, .flags = S, .len = 8 }) == EINVAL);
	MUST(m, model_send(d.a, &(struct post){ .op = WR_ATOMIC_WRITE, .flags = S, .len = 8 }) == EINVAL);
}

const struct sim_case cases_ud[] = {
	{ "grh", grh },                 /* conf: rule 1.6 */
	{ "qkey", qkey },               /* conf: rule 1.5 */
	{ "ud_no_room", ud_no_room },   /* conf: C9-92, rule 4.11 */
	{ "ud_too_long", ud_too_long }, /* conf: C10-93.1.1, rule 4.11 */
	{ "ud_unmapped", ud_unmapped },
	{ "ud_local", ud_local },
	{ "mcast", mcast },     /* conf: rule 7.12 */
	{ "uc_hole", uc_hole }, /* conf: rule 4.10 */
	{ "uc_hole_at_end", uc_hole_at_end },
	{ "uc_no_recv", uc_no_recv }, /* conf: rule 4.10 */
	{ "uc_wrong", uc_wrong },
	{ "uc_reads_nothing", uc_reads_nothing },
	{ NULL, NULL },
};
