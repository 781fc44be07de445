/* SPDX-License-Identifier: MIT */
/* cases_mw.c - memory windows and invalidation. */
#include "cases.h"

#define BIT(status) (1u << (status))
#define S           WR_SIGNALED

static void bind_ok(struct mmw *mw)
{
	send_ok(mw->of, &(struct post){ .op = WR_BIND_MW, .flags = S, .mw = mw });
	model_settle(mw->of->m);
	must(mw->of->m, mw->state == MMW_BOUND, "the window is bound");
}

/* Everything through a window, ended by its owner and by its user in turn, and bound again. */
static void move(struct model *m, uint8_t type)
{
	struct duo d = type == QPT_RC ? duo_rc(m, NULL) : duo_uc(m);
	struct mmw *mw[2] = { model_mw(d.b, 1), model_mw(d.b, 2) };

	for (unsigned i = 0; i < 6; i++) {
		struct mmw *w = mw[i & 1];

		bind_ok(w);
		send_ok(d.a, &(struct post){ .op = WR_WRITE, .len = 3000, .mw = w });
		recv_ok(d.b, 64);
		send_ok(d.a, &(struct post){ .op = WR_WRITE_IMM, .flags = S, .len = 500, .mw = w });
		if (type == QPT_RC) {
			send_ok(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 3000, .again = true, .mw = w });
			send_ok(d.a, &(struct post){ .op = WR_FETCH_ADD, .flags = S, .len = 8, .mw = w });
			send_ok(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 5000, .mw = w });
		}
		if (w->type == 2 && i < 4) {
			recv_ok(d.b, 4000);
			send_ok(d.a, &(struct post){ .op = WR_SEND_INV, .flags = S, .len = i * 1000, .mw = w });
		}
		model_settle(m);
		run_for(m, MSEC);
		if (type == QPT_UC && w->type == 2)
			break; /* the model does not count on what may be lost */
	}
	if (type == QPT_RC && mw[1]->state == MMW_BOUND) {
		send_ok(d.b, &(struct post){ .op = WR_LOCAL_INV, .flags = S, .mw = mw[1] });
		model_settle(m);
		bind_ok(mw[1]);
	}
	MUST(m, !in_err(d.a) && !in_err(d.b));
}

static void mw_rc(struct model *m) { move(m, QPT_RC); }
static void mw_uc(struct model *m) { move(m, QPT_UC); }

static void mw_wrong(struct model *m)
{
	static const uint8_t ops[] = { WR_WRITE,    WR_READ,    WR_FETCH_ADD, WR_WRITE_IMM,
				       WR_SEND_INV, WR_BIND_MW, WR_LOCAL_INV };

	for (size_t i = 0; i < sizeof ops; i++) {
		struct duo d = duo_rc(m, NULL);
		struct mmw *mw = model_mw(op_is_local(ops[i]) ? d.a : d.b, 2);

		recv_ok(d.b, 4096);
		if (ops[i] != WR_BIND_MW)
			bind_ok(mw);
		send_ok(d.a, &(struct post){ .op = WR_WRITE, .len = 40 });
		send_ok(d.a, &(struct post){ .op = ops[i], .flags = S, .len = 8, .mw = mw, .bad = BAD_MW });
		send_ok(d.a, &(struct post){ .op = WR_SEND, .len = 100 });
		model_settle(m);
		run_for(m, MSEC);
		MUST(m, in_err(d.a) && in_err(d.b) == !op_is_local(ops[i]));
	}
}

/* UC: the receiver drops the message and goes on. */
static void uc_wrong(struct model *m)
{
	struct duo d = duo_uc(m);
	struct mmw *mw = model_mw(d.b, 2);

	m->quiet_bad = true;
	bind_ok(mw);
	recv_ok(d.b, 4096);
	send_ok(d.a, &(struct post){ .op = WR_SEND_INV, .flags = S, .len = 8, .mw = mw, .bad = BAD_MW });
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = S, .len = 800 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, stat_of(d.b->node, HCA_STAT_UC_DROPPED) == 1 && m->seen_op[WC_OP_RECV] == 1);
}

/* A bind that fails on UC leaves it in SQE, and the window as it was. */
static void uc_bind_wrong(struct model *m)
{
	struct duo d = duo_uc(m);
	struct mmw *mw = model_mw(d.a, 1);

	send_ok(d.a, &(struct post){ .op = WR_BIND_MW, .flags = S, .mw = mw, .bad = BAD_MW });
	model_settle(m);
	model_watch(d.a);
	MUST(m, d.a->state == QPS_SQE && m->seen[WC_MW_BIND_ERR] == 1);
}

/* An old copy of a READ request arrives when the window is no more: no answer, and no harm. */
static void late_read(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct mmw *mw = model_mw(d.b, 2);
	uint32_t key, psn;
	struct burst b;

	bind_ok(mw);
	key = mw->key;
	send_ok(d.a, &(struct post){ .op = WR_READ, .flags = S, .len = 100, .mw = mw });
	model_settle(m);
	psn = (psn_of(d.b) - 1) & PSN_MASK;
	b = burst_to(d.b, OP_READ_REQUEST, psn);
	b.rkey = key;
	b.dma_len = 100;
	send_ok(d.b, &(struct post){ .op = WR_LOCAL_INV, .flags = S, .mw = mw });
	model_settle(m);
	for (uint64_t va = 0; va < 2; va++) {
		b.va = va;
		inject(d.b, &b, NULL, 0);
	}
	send_ok(d.a, &(struct post){ .op = WR_WRITE, .flags = S, .len = 100 });
	model_settle(m);
	MUST(m, !in_err(d.b) && m->seen[WC_SUCCESS] == 4);
}

/* Regions under a window stay as they are; what goes with the QP. */
static void mw_busy(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct mmw *mw = model_mw(d.b, 2);
	struct region *r = &d.b->node->mem.region[REGION_ALL];
	struct mr_attr a = {
		.pdn = r->pdn, .access = r->access, .addr = r->va, .len = r->len, .iova = r->iova, .region = r
	};

	bind_ok(mw);
	MUST(m, hca_mr_dereg(r->node->hca, r->key) == EBUSY);
	MUST(m, hca_mr_rereg(r->node->hca, r->key, &a) == EBUSY);
	model_destroy(d.b);
	MUST(m, hca_mr_rereg(r->node->hca, r->key, &a) == 0);
}

const struct sim_case cases_mw[] = {
	{ "mw_rc", mw_rc },
	{ "mw_uc", mw_uc },
	{ "mw_wrong", mw_wrong },
	{ "mw_uc_wrong", uc_wrong },
	{ "mw_uc_bind_wrong", uc_bind_wrong },
	{ "mw_late_read", late_read },
	{ "mw_busy", mw_busy },
	{ NULL, NULL },
};
