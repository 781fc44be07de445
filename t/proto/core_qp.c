/* SPDX-License-Identifier: MIT */
/* core_qp.c - objects and states: what the verbs grant and refuse, and what each state does with traffic. */
#include <errno.h>

#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

static struct qp_attr attr_of(const struct host *x)
{
	struct qp_attr a;
	struct qp_init i;

	ck_assert_int_eq(hca_qp_query(x->h, x->qpn, &a, &i), 0);
	return a;
}

static int to_state(struct rig *r, struct host *x, uint8_t state)
{
	struct qp_attr a = { .state = state };

	return hca_qp_modify(x->h, x->qpn, &a, QPA_STATE, r->now);
}

/* ---- objects ---------------------------------------------------------------- */

START_TEST(busy_and_gone) /* conf: C11-17 */
{
	struct link_conf c = conf_rc;
	struct hca_live n;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect_srq(&r, &c, (struct srq_init){ .max_wr = 4, .max_sge = 2 });
	ck_assert_int_eq(hca_pd_free(r.b.h, r.b.pdn), EBUSY);
	ck_assert_int_eq(hca_cq_destroy(r.b.h, r.b.cqn), EBUSY);
	ck_assert_int_eq(hca_srq_destroy(r.b.h, c.srqn_b), EBUSY);
	ck_assert_int_eq(hca_qp_destroy(r.b.h, r.b.qpn), 0);
	ck_assert_int_eq(hca_qp_destroy(r.b.h, r.b.qpn), EINVAL);
	ck_assert_int_eq(hca_srq_destroy(r.b.h, c.srqn_b), 0);
	ck_assert_int_eq(hca_cq_destroy(r.b.h, r.b.cqn), 0);
	ck_assert_int_eq(hca_pd_free(r.b.h, r.b.pdn), EBUSY);
	ck_assert_int_eq(hca_mr_dereg(r.b.h, r.b.key), 0);
	ck_assert_int_eq(hca_mr_dereg(r.b.h, r.b.key), EINVAL);
	ck_assert_int_eq(hca_pd_free(r.b.h, r.b.pdn), 0);
	hca_objects(r.b.h, &n);
	ck_assert_uint_eq(n.pd + n.mr + n.cq + n.srq + n.qp, 0);
	rig_fini(&r);
}
END_TEST

START_TEST(qpns_rise)
{
	struct hca_cfg cfg = { .seed = 5, .qpn_low = 3, .qpn_low_bits = 9, .mtu = 5 };
	struct hca *h = hca_new(&cfg);
	struct qp_init init = { .type = QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	uint32_t qpn[300], list[400];
	struct qp_info info;

	ck_assert_int_eq(hca_pd_alloc(h, &init.pdn), 0);
	ck_assert_int_eq(hca_cq_create(h, 1, &init.send_cqn), 0);
	init.recv_cqn = init.send_cqn;
	for (unsigned i = 0; i < 300; i++) {
		ck_assert_int_eq(hca_qp_create(h, &init, &qpn[i]), 0);
		ck_assert_uint_eq(qpn[i] & 0x1ff, 3);
		ck_assert_uint_ge(qpn[i], 16);
		ck_assert_uint_lt(qpn[i], 0xffffff);
	}
	hca_verify(h);
	ck_assert_uint_eq(hca_qp_list(h, list, 10), 10);
	ck_assert_uint_eq(hca_qp_list(h, list, 400), 300);
	for (unsigned i = 0; i < 300; i++) {
		ck_assert(i == 0 || list[i] > list[i - 1]);
		ck_assert(hca_qp_info(h, list[i], &info));
		ck_assert_uint_eq(info.qpn, list[i]);
	}
	ck_assert(!hca_qp_info(h, list[299] + 1, &info));
	/* One number is not given again while the others are not used up. */
	for (unsigned i = 0; i < 5000; i++) {
		uint32_t n;

		ck_assert_int_eq(hca_qp_destroy(h, qpn[i % 300]), 0);
		ck_assert_int_eq(hca_qp_create(h, &init, &n), 0);
		ck_assert_uint_ne(n, qpn[i % 300]);
		qpn[i % 300] = n;
	}
	hca_verify(h);
	hca_free(h);
}
END_TEST

/* ---- states ------------------------------------------------------------------- */

START_TEST(attributes_refused) /* conf: rule 1.7, rule 1.8, section 5 */
{
	static const struct {
		uint32_t mask;
		struct qp_attr a;
	} bad[] = { { QPA_PORT, { .port = 2 } },
		    { QPA_PKEY_INDEX, { .pkey_index = RIG_PKEYS, .port = 1 } },
		    { QPA_ACCESS_FLAGS, { .access = 1 << 20, .port = 1 } } };
	struct link_conf c = conf_rc;
	struct rig r;
	struct qp_attr a;
	uint32_t mask;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	ck_assert_int_eq(to_state(&r, &r.a, QPS_RESET), 0);
	for (unsigned i = 0; i < 3; i++) {
		a = bad[i].a;
		a.state = QPS_INIT;
		ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a,
					       QPA_STATE | QPA_PORT | QPA_PKEY_INDEX | QPA_ACCESS_FLAGS, r.now),
				 EINVAL);
	}
	ck_assert_uint_eq(attr_of(&r.a).state, QPS_RESET);
	a = (struct qp_attr){ .state = QPS_INIT, .port = 1, .access = 7 };
	ck_assert_int_eq(
		hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_STATE | QPA_PORT | QPA_PKEY_INDEX | QPA_ACCESS_FLAGS, r.now), 0);
	mask = QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
	       QPA_MIN_RNR_TIMER;
	for (unsigned i = 0; i < 7; i++) {
		a = (struct qp_attr){ .state = QPS_RTR, .av = { .sgid_index = 1 }, .path_mtu = 3, .dest_qpn = 7 };
		memcpy(a.av.dgid, r.b.gid, 16);
		switch (i) {
		case 0: a.path_mtu = 0; break;
		case 1: a.path_mtu = 6; break;
		case 2: a.av.sgid_index = 2; break; /* an empty row */
		case 3: a.av.sgid_index = 200; break;
		case 4: a.min_rnr_timer = 32; break;
		case 5: a.max_dest_rd_atomic = 129; break;
		case 6: a.dest_qpn = 1 << 24; break;
		}
		ck_assert_msg(hca_qp_modify(r.a.h, r.a.qpn, &a, mask, r.now) == EINVAL, "case %u", i);
	}
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_STATE, r.now), EINVAL);
	ck_assert_uint_eq(attr_of(&r.a).state, QPS_INIT);
	a = (struct qp_attr){ .state = QPS_RTR, .av = { .sgid_index = 1 }, .path_mtu = 5, .dest_qpn = 0xffffff };
	memcpy(a.av.dgid, r.b.gid, 16);
	a.min_rnr_timer = 31;
	a.max_dest_rd_atomic = 128;
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, mask, r.now), 0);
	mask = QPA_STATE | QPA_SQ_PSN | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC;
	for (unsigned i = 0; i < 5; i++) {
		a = (struct qp_attr){ .state = QPS_RTS, .timeout = 31 + (i == 0), .retry_cnt = 7 + (i == 1) };
		a.rnr_retry = 7 + (i == 2);
		a.max_rd_atomic = 128 + (i == 3);
		ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, mask, r.now), i < 4 ? EINVAL : 0);
	}
	rig_fini(&r);
}
END_TEST

START_TEST(posting_by_state) /* conf: rule 4.13 */
{
	struct link_conf c = conf_rc;
	struct rig r;
	struct {
		struct recv_wr wr;
		struct sge sge;
	} rw = { { .wr_id = 5, .sge_n = 1 }, { 0 } };

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	ck_assert_int_eq(to_state(&r, &r.a, QPS_RESET), 0);
	ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 4), EINVAL);
	ck_assert_int_eq(hca_post_recv(r.a.h, r.a.qpn, &rw.wr, r.now), EINVAL);
	/* INIT: receives may be posted, packets are dropped. */
	{
		struct qp_attr a = { .state = QPS_INIT, .port = 1, .access = c.access };
		struct burst b = pkt_from(&r, &r.b, OP_SEND_ONLY, c.psn + 77);

		ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a,
					       QPA_STATE | QPA_PORT | QPA_PKEY_INDEX | QPA_ACCESS_FLAGS, r.now),
				 0);
		ck_assert_int_eq(hca_post_recv(r.a.h, r.a.qpn, &rw.wr, r.now), 0);
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 4), EINVAL);
		pkt_give(&r, &r.a, &b, NULL, 0);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_BAD_STATE), 1);
	}
	/* RTR: receives and answers; the first packet is an event; sends are refused. */
	rig_to_rtr(&r, &r.a, &r.b, &c);
	ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 4), EINVAL);
	ck_assert(!has_event(&r.a, EV_COMM_EST));
	SEND_WR(&r, &r.b, .id = 9, .op = WR_SEND, .len = 0);
	SEND_WR(&r, &r.b, .id = 10, .op = WR_WRITE, .len = 0);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.b, 9), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 5), WC_SUCCESS);
	ck_assert(has_event(&r.a, EV_COMM_EST));
	ck_assert_uint_eq(r.a.ev_n, 1);
	rig_to_rts(&r, &r.a, &c);
	ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4), 0);
	ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_TSO, .len = 4), EINVAL);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* SQD: what was begun ends, what was not waits; then the event; RTS goes on. */
START_TEST(drained) /* conf: rule 4.13, rule 4.14 */
{
	struct rig r;
	struct burst b;
	struct qp_attr a = { .state = QPS_SQD, .en_sqd_async_notify = 1 };

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 200000);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 4);
	ck_assert(take(&r, &r.a, &b)); /* a first burst; it is lost */
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_STATE | QPA_EN_SQD_ASYNC_NOTIFY, r.now), 0);
	ck_assert_uint_eq(attr_of(&r.a).sq_draining, 1);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_WRITE, .len = 4);
	rig_settle(&r, 3);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 2), 255);
	ck_assert(has_event(&r.a, EV_SQ_DRAINED));
	ck_assert_uint_eq(attr_of(&r.a).sq_draining, 0);
	/* It still receives. */
	rig_recv(&r, &r.a, 70, 0, 16);
	SEND_WR(&r, &r.b, .id = 71, .op = WR_SEND, .len = 3);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 70), WC_SUCCESS);
	ck_assert_int_eq(to_state(&r, &r.a, QPS_RTS), 0);
	rig_run(&r);
	ck_assert_uint_eq(wc_status(&r.a, 2), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&r.a, 3), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* Another timeout counts for what is in flight: with none before time is watched from now on, with none now it is not any more. */
START_TEST(timeout_in_sqd) /* conf: rule 4.5, rule 4.13 */
{
	for (unsigned on = 0; on < 2; on++) {
		struct qp_attr a = { .timeout = on ? 14 : 0 };
		struct link_conf c = conf_rc;
		struct burst b;
		struct rig r;

		c.timeout = on ? 0 : 14;
		rig_init(&r, LINK_WIRE);
		rig_connect(&r, &c);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 4);
		ck_assert(take(&r, &r.a, &b)); /* lost */
		ck_assert_int_eq(to_state(&r, &r.a, QPS_SQD), 0);
		ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &a, QPA_TIMEOUT, r.now), 0);
		hca_verify(r.a.h);
		rig_settle(&r, 3);
		ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_LOCAL_ACK_TIMEOUT), on);
		ck_assert_uint_eq(wc_status(&r.a, 1), on ? WC_SUCCESS : 255);
		rig_fini(&r);
	}
}
END_TEST

/* READs that have not been answered are not forgotten for a smaller depth; those that have been are. */
START_TEST(depth_in_sqd) /* conf: rule 4.13 */
{
	struct qp_attr a = { .max_dest_rd_atomic = 2 };
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 3; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_READ, .len = 4);
	while (take(&r, &r.a, &b))
		hca_rx_burst(r.b.h, &b, r.now);
	ck_assert_int_eq(to_state(&r, &r.b, QPS_SQD), 0);
	ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a, QPA_MAX_DEST_RD_ATOMIC, r.now), EBUSY);
	ck_assert_uint_eq(attr_of(&r.b).max_dest_rd_atomic, conf_rc.dest_rd_atomic);
	ck_assert(take(&r, &r.b, &b));
	hca_rx_burst(r.a.h, &b, r.now);
	ck_assert_int_eq(hca_qp_modify(r.b.h, r.b.qpn, &a, QPA_MAX_DEST_RD_ATOMIC, r.now), 0);
	rig_run(&r);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(wc_status(&r.a, i), WC_SUCCESS);
	rig_fini(&r);
}
END_TEST

/* RESET forgets everything, also completions not yet handed out; the QP works again after it. */
START_TEST(reset_clears)
{
	struct link_conf c = conf_rc;
	struct rig r;
	struct burst b;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	for (unsigned i = 0; i < c.sq_depth; i++)
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = 4), 0);
	ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 99, .op = WR_WRITE, .len = 4), ENOMEM);
	rig_recv(&r, &r.a, 50, 0, 64);
	ck_assert(hca_tx(r.a.h, &b, r.now));
	ck_assert_int_eq(to_state(&r, &r.a, QPS_ERR), 0);
	ck_assert_int_eq(to_state(&r, &r.a, QPS_RESET), 0);
	rig_run(&r);
	ck_assert_uint_eq(r.a.wc_n, 0);
	rig_recv(&r, &r.b, 51, 0, 4096); /* in use */
	b = pkt_from(&r, &r.a, OP_SEND_FIRST, c.psn);
	pkt_give(&r, &r.b, &b, r.b.buf, 512);
	ck_assert_int_eq(to_state(&r, &r.b, QPS_RESET), 0);
	for (struct host *x = &r.a; x; x = x == &r.a ? &r.b : NULL) {
		struct qp_attr a = { .state = QPS_INIT, .port = 1, .access = c.access };

		ck_assert_int_eq(hca_qp_modify(x->h, x->qpn, &a,
					       QPA_STATE | QPA_PORT | QPA_PKEY_INDEX | QPA_ACCESS_FLAGS, r.now),
				 0);
		rig_to_rtr(&r, x, x == &r.a ? &r.b : &r.a, &c);
		rig_to_rts(&r, x, &c);
	}
	for (unsigned i = 0; i < c.rq_depth; i++)
		rig_recv(&r, &r.b, 1000 + i, 0, 64);
	for (unsigned i = 0; i < c.sq_depth; i++)
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 100 + i, .op = WR_WRITE, .len = 4), 0);
	rig_run(&r);
	ck_assert_uint_eq(r.a.wc_n, c.sq_depth);
	ck_assert_uint_eq(r.a.wc[0].wqe, c.sq_depth + 1);
	ck_assert_uint_eq(attr_of(&r.a).sq_psn, (c.psn + c.sq_depth) & PSN_MASK);
	ck_assert_uint_eq(attr_of(&r.b).rq_psn, (c.psn + c.sq_depth) & PSN_MASK);
	rig_fini(&r);
}
END_TEST

/* ERR by modify: all flushes, in order; the last WQE event if there is an SRQ. */
START_TEST(err_flushes) /* conf: rule 4.13, rule 4.14 */
{
	struct rig r;
	struct burst b;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 5; i++) {
		SEND_WR(&r, &r.a, .id = i, .op = i & 1 ? WR_READ : WR_WRITE, .len = 4, .quiet = true);
		rig_recv(&r, &r.a, 10 + i, 0, 64);
	}
	ck_assert(take(&r, &r.a, &b));
	ck_assert_int_eq(to_state(&r, &r.a, QPS_ERR), 0);
	ck_assert(!take(&r, &r.a, &b));
	ck_assert_uint_eq(r.a.wc_n, 10);
	for (unsigned i = 0; i < 10; i++) {
		ck_assert_uint_eq(r.a.wc[i].wr_id, i < 5 ? i : 10 + i - 5);
		ck_assert_uint_eq(r.a.wc[i].status, WC_WR_FLUSH_ERR);
		ck_assert_uint_eq(r.a.wc[i].solicited, 1);
	}
	ck_assert_int_eq(to_state(&r, &r.a, QPS_ERR), 0);
	ck_assert_int_eq(to_state(&r, &r.a, QPS_RTS), EINVAL);
	rig_fini(&r);
}
END_TEST

/* ---- what else an SRQ is ----------------------------------------------------------- */

START_TEST(srq)
{
	struct link_conf c = conf_rc;
	struct srq_init q;
	struct recv_wr own = { 0 };
	struct rig r;
	uint32_t srqn, done = 0;

	rig_init(&r, LINK_WIRE);
	rig_connect_srq(&r, &c, (struct srq_init){ .max_wr = 8, .max_sge = 1, .done = &done });
	srqn = c.srqn_b;
	ck_assert_int_eq(hca_post_recv(r.b.h, r.b.qpn, &own, r.now), EINVAL);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_int_eq(rig_srq_recv(&r, srqn, 50 + i, 0, 64), 0);
	ck_assert_int_eq(rig_srq_recv(&r, srqn, 58, 0, 64), ENOMEM);
	ck_assert_int_eq(hca_srq_resize(r.b.h, srqn, 7), EINVAL);
	ck_assert_int_eq(hca_srq_resize(r.b.h, srqn, 16), 0);
	ck_assert_int_eq(hca_srq_limit(r.b.h, srqn, 17), EINVAL);
	ck_assert_int_eq(hca_srq_limit(r.b.h, srqn, 7), 0);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 5);
	rig_run(&r);
	ck_assert(!has_event(&r.b, EV_SRQ_LIMIT));
	SEND_WR(&r, &r.a, .id = 2, .op = WR_SEND, .len = 5);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_SEND, .len = 5);
	rig_run(&r);
	ck_assert(has_event(&r.b, EV_SRQ_LIMIT));
	ck_assert_uint_eq(r.b.ev_n, 1);
	ck_assert_uint_eq(r.b.ev[0].number, srqn);
	ck_assert_int_eq(hca_srq_query(r.b.h, srqn, &q), 0);
	ck_assert_uint_eq(q.limit, 0);
	ck_assert_uint_eq(q.max_wr, 16);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(wc_status(&r.b, 50 + i), WC_SUCCESS);
		ck_assert_uint_eq(wc_of(&r.b, 50 + i)->srq, 1);
	}
	ck_assert_uint_eq(done, 3);
	/* In ERR the QP has its last one behind it; those of the SRQ stay for others. */
	ck_assert_int_eq(to_state(&r, &r.b, QPS_ERR), 0);
	rig_run(&r);
	ck_assert(has_event(&r.b, EV_QP_LAST_WQE));
	ck_assert_uint_eq(r.b.wc_n, 3);
	rig_fini(&r);
}
END_TEST

/* ---- who may speak to a QP ----------------------------------------------------------- */

START_TEST(strangers_are_dropped) /* conf: CA17-23, CA17-33, C9-43, rule 1.5 */
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	b.route.sgid[15] ^= 8;
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_ROUTE), 1);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	b.route.dgid[15] ^= 8;
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_ROUTE), 2);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	b.pkey = 0x8001;
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_PKEY), 1);
	b = pkt_from(&r, &r.a, SVC_UC | OP_WRITE_ONLY, conf_rc.psn);
	pkt_give(&r, &r.b, &b, NULL, 0);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	b.dqpn += 2;
	pkt_give(&r, &r.b, &b, NULL, 0);
	b.dqpn = 0; /* which RoCE has not */
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_QPN), 3);
	ck_assert(!take(&r, &r.b, &b));
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, conf_rc.psn);
	b.pkey = 0x7fff; /* a limited member may speak to a full one */
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert(take(&r, &r.b, &b));
	rig_fini(&r);
}
END_TEST

static const uint8_t mgid[16] = { 0xff, 0x0e, [15] = 7 };

/* Two QPs of UD; what that of b is made of. */
static void group_open(struct rig *r, struct qp_attr *a, struct qp_init *init)
{
	struct link_conf c = conf_rc;

	c.type = QPT_UD;
	rig_init(r, LINK_WIRE);
	rig_connect(r, &c);
	ck_assert_int_eq(hca_qp_query(r->b.h, r->b.qpn, a, init), 0);
}

static struct burst group_pkt(struct rig *r)
{
	struct burst b = pkt_from(r, &r->a, SVC_UD | OP_SEND_ONLY, 0);

	b.dqpn = QPN_MCAST;
	memcpy(b.route.dgid, mgid, 16);
	return b;
}

START_TEST(multicast) /* conf: rule 7.12 */
{
	struct qp_init init;
	struct qp_attr a;
	struct burst b;
	struct rig r;
	uint32_t other;

	group_open(&r, &a, &init);
	ck_assert_int_eq(hca_qp_create(r.b.h, &init, &other), 0);
	ck_assert_int_eq(hca_mcast_attach(r.b.h, r.b.qpn, mgid), 0);
	ck_assert_int_eq(hca_mcast_attach(r.b.h, other, mgid), 0);
	ck_assert_int_eq(hca_mcast_detach(r.b.h, other, r.a.gid), EINVAL);
	rig_recv(&r, &r.b, 1, 0, 100);
	b = group_pkt(&r);
	pkt_give(&r, &r.b, &b, "hello", 5);
	ck_assert_uint_eq(wc_status(&r.b, 1), WC_SUCCESS);
	ck_assert_mem_eq(r.b.buf + 40, "hello", 5);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_STATE), 1); /* other is in RESET */
	ck_assert_int_eq(hca_qp_destroy(r.b.h, other), 0);
	ck_assert_int_eq(hca_mcast_detach(r.b.h, r.b.qpn, mgid), 0);
	pkt_give(&r, &r.b, &b, "hello", 5);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_BAD_QPN), 1);
	rig_fini(&r);
}
END_TEST

/* A QP made so does not get what it sends to a group itself, and gets what others send, also those of its number. */
START_TEST(multicast_not_own)
{
	struct qp_init init;
	struct qp_attr a;
	struct burst b;
	struct rig r;
	uint32_t own;

	group_open(&r, &a, &init);
	ck_assert(!init.not_own);
	init.not_own = true;
	ck_assert_int_eq(hca_qp_create(r.b.h, &init, &own), 0);
	a.state = QPS_INIT;
	ck_assert_int_eq(hca_qp_modify(r.b.h, own, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY, (mono_t){ 1 }),
			 0);
	a.state = QPS_RTR;
	ck_assert_int_eq(hca_qp_modify(r.b.h, own, &a, QPA_STATE, (mono_t){ 1 }), 0);
	ck_assert_int_eq(hca_mcast_attach(r.b.h, own, mgid), 0);
	b = group_pkt(&r);
	b.sqpn = own;
	pkt_give(&r, &r.b, &b, "hello", 5);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_UD_DROPPED), 1); /* of the other host: it has no receive */
	memcpy(b.route.sgid, r.b.gid, 16);
	b.sqpn = r.b.qpn;
	pkt_give(&r, &r.b, &b, "hello", 5);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_UD_DROPPED), 2);
	b.sqpn = own;
	pkt_give(&r, &r.b, &b, "hello", 5);
	ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_UD_DROPPED), 2);
	rig_fini(&r);
}
END_TEST

/* A Q_Key with bit 31 in the WR: the QP's own is sent. */
START_TEST(controlled_qkey) /* conf: rule 4.11 */
{
	struct link_conf c = conf_rc;
	struct {
		struct send_wr wr;
	} w = { .wr = { .op = WR_SEND, .ud = { .dqpn = 1, .av = { .sgid_index = 1 } } } };
	struct burst b;
	struct rig r;

	c.type = QPT_UD;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	for (unsigned i = 0; i < 2; i++) {
		w.wr.ud.qkey = i ? 0x80000000 : 0x7fffffff;
		ck_assert_int_eq(hca_post_send(r.a.h, r.a.qpn, &w.wr, r.now), 0);
		ck_assert(take(&r, &r.a, &b));
		ck_assert_uint_eq(b.qkey, i ? 0x1234 : 0x7fffffff);
	}
	rig_fini(&r);
}
END_TEST

/* READ, atomic, then a fenced WRITE: it does not leave before they are answered. */
START_TEST(fence) /* conf: rule 4.8 */
{
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 4);
	SEND_WR(&r, &r.a, .id = 2, .op = WR_WRITE, .len = 4);
	SEND_WR(&r, &r.a, .id = 3, .op = WR_WRITE, .len = 4, .flags = WR_FENCE);
	ck_assert(take(&r, &r.a, &b));
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(b.op_first, OP_WRITE_ONLY);
	ck_assert(!take(&r, &r.a, &b));
	b = pkt_from(&r, &r.b, OP_READ_RESP_ONLY, conf_rc.psn);
	pkt_give(&r, &r.a, &b, "abcd", 4);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(b.psn.v, conf_rc.psn + 2);
	rig_fini(&r);
}
END_TEST

/* No more READs under way than max_rd_atomic. */
START_TEST(rd_atomic_window) /* conf: rule 4.6 */
{
	struct link_conf c = conf_rc;
	struct burst b;
	struct rig r;

	c.rd_atomic = 2;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	for (unsigned i = 1; i <= 3; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_READ, .len = 4);
	SEND_WR(&r, &r.a, .id = 4, .op = WR_WRITE, .len = 4);
	ck_assert(take(&r, &r.a, &b) && take(&r, &r.a, &b));
	ck_assert(!take(&r, &r.a, &b));
	b = pkt_from(&r, &r.b, OP_READ_RESP_ONLY, c.psn);
	pkt_give(&r, &r.a, &b, "abcd", 4);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(b.op_first, OP_READ_REQUEST);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(b.op_first, OP_WRITE_ONLY);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_qp", busy_and_gone, qpns_rise, attributes_refused, posting_by_state, drained, timeout_in_sqd,
	  depth_in_sqd, reset_clears, err_flushes, srq, strangers_are_dropped, multicast, multicast_not_own,
	  controlled_qkey, fence, rd_atomic_window)
