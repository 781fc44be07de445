/* SPDX-License-Identifier: MIT */
/* cases_state.c - QP states: every legal change and every illegal one, and what each state does with work. */
#include "proto/qp_state.h"

#include "cases.h"

static const uint8_t types[] = { QPT_RC, QPT_UC, QPT_UD, QPT_XRC_SEND, QPT_XRC_RECV };

/* Attributes that a change to this state needs. */
static uint32_t needs(uint8_t type, uint8_t from, uint8_t to)
{
	uint32_t mask = QPA_STATE;

	if (from == QPS_RESET && to == QPS_INIT)
		mask |= QPA_PKEY_INDEX | QPA_PORT | (type == QPT_UD ? QPA_QKEY : QPA_ACCESS_FLAGS);
	if (from == QPS_INIT && to == QPS_RTR && type != QPT_UD)
		mask |= QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN;
	if (from == QPS_INIT && to == QPS_RTR && (type == QPT_RC || type == QPT_XRC_RECV))
		mask |= QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
	if (from == QPS_RTR && to == QPS_RTS)
		mask |= QPA_SQ_PSN;
	if (from == QPS_RTR && to == QPS_RTS && type == QPT_XRC_RECV)
		mask |= QPA_TIMEOUT;
	if (from == QPS_RTR && to == QPS_RTS && (type == QPT_RC || type == QPT_XRC_SEND))
		mask |= QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC;
	return mask;
}

static int change(struct mqp *q, uint8_t to)
{
	struct qp_attr a = q->attr;

	a.state = to;
	return model_modify(q, &a, needs(q->type, q->state, to));
}

/* Brings a QP in RESET to any state. */
static void bring(struct mqp *q, uint8_t state)
{
	static const uint8_t way[] = { QPS_INIT, QPS_RTR, QPS_RTS };
	struct model *m = q->m;
	struct post bad = { .op = WR_SEND, .flags = WR_SIGNALED, .len = 64, .bad = BAD_LKEY, .to = q };

	q->attr = model_attr();
	q->attr.dest_qpn = 0x1234;
	memcpy(q->attr.av.dgid, q->node->gid[0], 16);
	if (state == QPS_RESET)
		return;
	for (unsigned i = 0; i < 3; i++) {
		MUST(m, change(q, way[i]) == 0);
		if (way[i] == state)
			return;
	}
	if (state == QPS_SQE) {
		send_ok(q, &bad);
		model_settle(m);
		model_watch(q);
		q->sq_err = false;
	} else {
		MUST(m, change(q, state) == 0);
	}
	MUST(m, q->state == state);
}

static void every_edge(struct model *m)
{
	struct mqp_cfg c = { .max_send_wr = 4, .max_recv_wr = 4, .max_sge = 1 };
	struct qp_attr got;
	struct qp_init init;

	model_xsrq(m, 0, 4, 0);
	for (size_t t = 0; t < sizeof types; t++)
		for (uint8_t from = 0; from < QP_STATES; from++)
			for (uint8_t to = 0; to < QP_STATES; to++) {
				bool legal = qp_state_edge(types[t], from, to);
				struct mqp *q;

				if (from == QPS_SQE && types[t] != QPT_UC && types[t] != QPT_UD)
					continue; /* never in this state */
				c.type = types[t];
				c.srq = c.type == QPT_XRC_RECV ? m->srq : NULL;
				q = model_qp(m, 0, &c);
				bring(q, from);
				if ((change(q, to) == 0) != legal)
					sim_fail(&m->s, "type %u: %s to %s must be %s", q->type, qp_state_name(from),
						 qp_state_name(to), legal ? "legal" : "refused");
				MUST(m, !hca_qp_query(q->node->hca, q->qpn, &got, &init));
				MUST(m, got.state == (legal ? to : from));
				MUST(m, init.type == q->type && (c.srq || init.cap.max_send_wr >= 4));
				model_destroy(q);
				model_forget(q);
				m->qp_n--;
			}
}

/* A required attribute missing, or one that the change does not know, is EINVAL and changes nothing. */
static void attributes(struct model *m)
{
	struct mqp_cfg c = { .type = QPT_RC, .max_send_wr = 4, .max_recv_wr = 4, .max_sge = 1 };
	static const uint8_t way[] = { QPS_INIT, QPS_RTR, QPS_RTS };
	struct mqp *q = model_qp(m, 0, &c);

	q->attr = model_attr();
	q->attr.dest_qpn = 77;
	memcpy(q->attr.av.dgid, q->node->gid[0], 16);
	for (unsigned i = 0; i < 3; i++) {
		uint32_t mask = needs(QPT_RC, q->state, way[i]);
		struct qp_attr a = q->attr;

		a.state = way[i];
		for (unsigned bit = 1; bit < 26; bit++)
			if (mask & 1u << bit)
				MUST(m, model_modify(q, &a, mask & ~(1u << bit)) == EINVAL);
		MUST(m, model_modify(q, &a, mask | QPA_QKEY) == EINVAL);
		MUST(m, model_modify(q, &a, mask | QPA_ALT_PATH) == EINVAL);
		MUST(m, model_modify(q, &a, mask) == 0);
	}
}

static void values(struct model *m)
{
	struct duo d = duo_new(m, QPT_RC);
	uint32_t mask = needs(QPT_RC, QPS_INIT, QPS_RTR);
	struct qp_attr a = model_attr();

	model_to_init(d.a);
	a.state = QPS_RTR;
	a.dest_qpn = d.b->qpn;
	memcpy(a.av.dgid, d.b->node->gid[0], 16);
	a.path_mtu = 6;
	MUST(m, model_modify(d.a, &a, mask) == EINVAL);
	a.path_mtu = 0;
	MUST(m, model_modify(d.a, &a, mask) == EINVAL);
	a.path_mtu = 1;
	a.av.sgid_index = 9;
	MUST(m, model_modify(d.a, &a, mask) == EINVAL);
	a.av.sgid_index = 0;
	MUST(m, model_modify(d.a, &a, mask) == 0);
	MUST(m, hca_qp_modify(d.a->node->hca, 0xabcd00, &a, mask, sim_now(&m->s)) == EINVAL ||
			hca_qp_modify(d.a->node->hca, 0xabcd00, &a, mask, sim_now(&m->s)) == ENOENT);
}

/* RESET and INIT: no sends; INIT: receives are taken. */
static void posts_by_state(struct model *m)
{
	struct duo d = duo_new(m, QPT_RC);
	const struct post p = { .op = WR_SEND, .flags = WR_SIGNALED, .len = 8 };
	struct qp_attr attr = model_attr();

	MUST(m, model_send(d.a, &p) == EINVAL);
	MUST(m, model_recv(d.a, 64, 1) == EINVAL);
	model_to_init(d.a);
	model_to_init(d.b);
	MUST(m, model_send(d.a, &p) == EINVAL);
	recv_ok(d.b, 64);
	model_connect(d.a, d.b, &attr, true, 0);
	send_ok(d.a, &p);
	model_settle(m);
	MUST(m, m->seen_op[WC_OP_RECV] == 1);
}

/* ERR: what is there is flushed in order, what comes is flushed at once. */
static void err_flushes(struct model *m)
{
	struct duo d = duo_rc(m, NULL);

	m->s.link[0][1].dark = true;
	for (unsigned i = 0; i < 3; i++) {
		recv_ok(d.a, 64);
		send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = i & 1 ? WR_SIGNALED : 0, .len = 100 });
	}
	MUST(m, model_state(d.a, QPS_ERR) == 0);
	sim_turns(&m->s);
	MUST(m, m->seen[WC_WR_FLUSH_ERR] == 6);
	recv_ok(d.a, 64);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .len = 100 });
	sim_turns(&m->s);
	MUST(m, m->seen[WC_WR_FLUSH_ERR] == 8);
}

/* RESET drops everything silently; the QP works again afterwards. */
static void reset_reuse(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct qp_attr attr = model_attr();

	m->s.link[0][1].dark = true;
	recv_ok(d.a, 64);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = WR_SIGNALED, .len = 100 });
	run_for(m, 100 * USEC);
	m->s.link[0][1].dark = false;
	MUST(m, model_state(d.a, QPS_RESET) == 0);
	MUST(m, model_state(d.b, QPS_RESET) == 0);
	run_for(m, SEC);
	MUST(m, m->seen[WC_WR_FLUSH_ERR] == 0);
	model_connect(d.a, d.b, &attr, true, 1);
	recv_ok(d.b, 64);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = WR_SIGNALED, .len = 33 });
	model_settle(m);
	MUST(m, m->seen[WC_SUCCESS] == 2);
}

/* SQD: what was begun ends, what comes waits; the event says when it is so; RTS goes on. */
static void drain(struct model *m)
{
	struct duo d = duo_rc(m, NULL);
	struct qp_attr a = { .state = QPS_SQD, .en_sqd_async_notify = 1 };

	for (unsigned i = 0; i < 4; i++)
		recv_ok(d.b, 4096);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = WR_SIGNALED, .len = 4000 });
	sim_turns(&m->s);
	d.a->asked_drain = true;
	MUST(m, model_modify(d.a, &a, QPA_STATE | QPA_EN_SQD_ASYNC_NOTIFY) == 0);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = WR_SIGNALED, .len = 10 });
	run_for(m, SEC);
	MUST(m, d.a->drained);
	MUST(m, m->seen[WC_SUCCESS] == 2);
	MUST(m, model_state(d.a, QPS_SQD) == 0);
	MUST(m, model_state(d.a, QPS_RTS) == 0);
	model_settle(m);
	MUST(m, m->seen[WC_SUCCESS] == 4);
}

/* The send queue of a UC QP fails, its receive queue does not notice. */
static void sqe_uc(struct model *m)
{
	struct duo d = duo_uc(m);

	recv_ok(d.a, 512);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = WR_SIGNALED, .len = 64, .bad = BAD_LKEY });
	send_ok(d.a, &(struct post){ .op = WR_SEND, .len = 64 });
	model_settle(m);
	model_watch(d.a);
	MUST(m, d.a->state == QPS_SQE && m->seen[WC_LOC_PROT_ERR] == 1 && m->seen[WC_WR_FLUSH_ERR] == 1);
	send_ok(d.b, &(struct post){ .op = WR_SEND_IMM, .flags = WR_SIGNALED, .len = 300 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, m->seen_op[WC_OP_RECV] == 1);
	MUST(m, model_state(d.a, QPS_RTS) == 0);
	d.a->sq_err = false;
	recv_ok(d.b, 64);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = WR_SIGNALED, .len = 64 });
	model_settle(m);
	run_for(m, MSEC);
	MUST(m, m->seen_op[WC_OP_RECV] == 2);
}

/* The first packet tells a QP in RTR that the connection stands. */
static void comm_est(struct model *m)
{
	struct duo d = duo_new(m, QPT_RC);
	struct qp_attr attr = model_attr();

	model_connect(d.a, d.b, &attr, false, 0);
	MUST(m, model_state(d.b, QPS_RESET) == 0);
	d.a->cause = false;
	model_to_init(d.b);
	attr = d.b->attr;
	attr.state = QPS_RTR;
	MUST(m, model_modify(d.b, &attr, needs(QPT_RC, QPS_INIT, QPS_RTR)) == 0);
	recv_ok(d.b, 64);
	send_ok(d.a, &(struct post){ .op = WR_SEND, .flags = WR_SIGNALED, .len = 64 });
	model_settle(m);
	MUST(m, d.b->events & 1u << EV_COMM_EST);
	MUST(m, m->seen[WC_SUCCESS] == 2);
}

const struct sim_case cases_state[] = {
	{ "every_edge", every_edge }, /* conf: section 5 */
	{ "attributes", attributes }, /* conf: section 5 */
	{ "values", values },
	{ "posts_by_state", posts_by_state }, /* conf: rule 4.13 */
	{ "err_flushes", err_flushes },
	{ "reset_reuse", reset_reuse },
	{ "drain", drain },       /* conf: rule 4.13 */
	{ "sqe_uc", sqe_uc },     /* conf: rule 4.13 */
	{ "comm_est", comm_est }, /* conf: rule 4.14 */
	{ NULL, NULL },
};
