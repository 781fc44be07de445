/* SPDX-License-Identifier: MIT */
/* cases_xrc.c - XRC: all operations, what is wrong with them, SRQs that go. */
#include "cases.h"

#define BIT(status) (1u << (status))
#define S           WR_SIGNALED

static void xrc_move(struct model *m)
{
	struct duo d = duo_xrc(m, NULL);

	for (unsigned i = 0; i < 4; i++) {
		recv_ok(d.b, 4000);
		recv_ok(d.b, 64);
		send_ok(d.a, &(struct post){ .op = WR_SEND_IMM, .flags = S | WR_SOLICITED, .len = i * 1000 });
		send_ok(d.a, &(struct post){ .op = WR_WRITE, .len = 3000 });
		send_ok(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 3000, .again = true });
		send_ok(d.a, &(struct post){ .op = WR_WRITE_IMM, .flags = S, .len = 500 });
		send_ok(d.a, &(struct post){ .op = WR_FETCH_ADD, .flags = S, .len = 8 });
		send_ok(d.a, &(struct post){ .op = WR_CMP_SWP, .flags = S | WR_FENCE, .len = 8 });
		model_settle(m);
		run_for(m, MSEC);
	}
	MUST(m, m->seen[WC_SUCCESS] == 4 * 7 && d.b->events == 0);
}

/* COMM_EST, as with RC: the first request finds it in RTR. */
static void xrc_established(struct model *m)
{
	struct duo e = duo_new(m, QPT_XRC_SEND);
	struct qp_attr a = model_attr(), rtr;

	model_connect(e.a, e.b, &a, false, 0);
	MUST(m, model_state(e.b, QPS_RESET) == 0);
	model_to_init(e.b);
	rtr = e.b->attr;
	rtr.state = QPS_RTR;
	MUST(m, model_modify(e.b, &rtr,
			     QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
				     QPA_MIN_RNR_TIMER) == 0);
	send_ok(e.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 8 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, e.b->events == BIT(EV_COMM_EST));
}

static void xrc_wrong(struct model *m)
{
	static const uint8_t ops[] = { WR_SEND, WR_WRITE, WR_READ };

	for (unsigned i = 0; i < 3; i++)
		for (enum bad bad = i ? BAD_RKEY : BAD_LKEY; bad <= BAD_LBOUNDS; bad++) {
			struct duo d = duo_xrc(m, NULL);

			recv_ok(d.b, 4096);
			send_ok(d.a, &(struct post){ .op = ops[i], .flags = S, .len = 700, .bad = bad });
			model_settle(m);
			run_for(m, SEC);
			MUST(m, in_err(d.a));
			MUST(m, in_err(d.b) == (bad < BAD_LKEY));
			model_destroy(d.a);
			model_destroy(d.b);
			model_srq_gone(d.b->srq);
		}
}

/* The SRQ is not there (any more): invalid request; the receiving QP is in ERR. */
static void xrc_srq_gone(struct model *m)
{
	for (unsigned i = 0; i < 2; i++) {
		struct duo d = duo_xrc(m, NULL);

		recv_ok(d.b, 4096);
		d.a->cause = d.b->cause = true;
		if (i) { /* in the middle of a message */
			m->s.link[0][1].rate = 1000000;
			send_ok(d.a,
				&(struct post){
					.op = WR_SEND, .flags = S, .len = 4000, .expect = BIT(WC_REM_INV_REQ_ERR) });
			run_for(m, 2 * MSEC);
		}
		model_srq_gone(d.b->srq);
		if (!i)
			send_ok(d.a, &(struct post){
					     .op = WR_READ, .flags = S, .len = 40, .expect = BIT(WC_REM_INV_REQ_ERR) });
		model_settle(m);
		MUST(m, in_err(d.b) && m->seen[WC_REM_INV_REQ_ERR] == i + 1);
		run_for(m, SEC);
	}
}

const struct sim_case cases_xrc[] = {
	{ "xrc_move", xrc_move },
	{ "xrc_established", xrc_established },
	{ "xrc_wrong", xrc_wrong },
	{ "xrc_srq_gone", xrc_srq_gone },
	{ NULL, NULL },
};
