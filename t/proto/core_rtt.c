/* SPDX-License-Identifier: MIT */
/* core_rtt.c - round trips: a way that is longer than the first wait, and one that becomes another. */
#include "proto/hca_in.h"
#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

static struct qp *qp_of(const struct host *s) { return qp_get(s->h, s->qpn); }

/* A message, whose ACK comes after so long; packets that its sender repeated meanwhile. */
static uint64_t message(struct rig *r, uint64_t id, uint64_t rtt_ns)
{
	uint64_t early = stat_n(&r->a, HCA_STAT_EARLY_RETRANS);
	mono_t end = mono_add(r->now, rtt_ns);
	psn_t last = psn(0);
	struct burst b;

	SEND_WR(r, &r->a, .id = id, .op = WR_WRITE, .len = 8);
	for (;;) {
		while (take(r, &r->a, &b))
			last = b.psn;
		if (mono_before(end, hca_deadline(r->a.h)))
			break;
		r->now = hca_deadline(r->a.h);
		hca_tick(r->a.h, r->now);
	}
	r->now = end;
	b = pkt_from(r, &r->b, OP_ACKNOWLEDGE, last.v);
	pkt_give(r, &r->a, &b, NULL, 0);
	ck_assert_uint_eq(wc_status(&r->a, id), WC_SUCCESS);
	return stat_n(&r->a, HCA_STAT_EARLY_RETRANS) - early;
}

/* 50 ms, where 8 are waited at first: it is found out, and nothing is sent twice any more. */
START_TEST(far_is_timed)
{
	uint64_t sum = 0;
	struct rig r;

	rig_init(&r, LINK_EARLY);
	rig_connect(&r, &conf_rc);
	ck_assert_uint_eq(message(&r, 0, 50 * MS), 2);
	for (unsigned i = 1; i <= 3; i++)
		sum += message(&r, i, 50 * MS);
	ck_assert_uint_le(sum, 3);
	ck_assert_uint_eq(qp_of(&r.a)->req.rtt_ns, 50 * MS + 1);
	for (unsigned i = 4; i < 20; i++)
		ck_assert_uint_eq(message(&r, i, 50 * MS), 0);
	ck_assert_uint_eq(stat_n(&r.a, HCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	rig_fini(&r);
}
END_TEST

/* A packet that is lost now and then is soon sent again, also behind a loss that took long. */
START_TEST(loss_is_forgotten)
{
	struct rig r;

	rig_init(&r, LINK_EARLY);
	rig_connect(&r, &conf_rc);
	for (unsigned i = 0; i < 20; i += 2) {
		ck_assert_uint_eq(message(&r, i, 100000), 0);
		ck_assert_uint_eq(message(&r, i + 1, 63 * MS), 5);
	}
	rig_fini(&r);
}
END_TEST

/* How long a's next message is waited for before it is repeated; it is answered at once then. */
static uint64_t first_wait(struct rig *r, uint64_t id)
{
	mono_t from = r->now;
	psn_t last = psn(0);
	struct burst b;

	SEND_WR(r, &r->a, .id = id, .op = WR_WRITE, .len = 8);
	while (!stat_n(&r->a, HCA_STAT_EARLY_RETRANS)) {
		while (take(r, &r->a, &b))
			last = b.psn;
		r->now = hca_deadline(r->a.h);
		hca_tick(r->a.h, r->now);
	}
	b = pkt_from(r, &r->b, OP_ACKNOWLEDGE, last.v);
	memcpy(b.route.sgid, qp_of(&r->a)->head.route.dgid, 16);
	pkt_give(r, &r->a, &b, NULL, 0);
	ck_assert_uint_eq(wc_status(&r->a, id), WC_SUCCESS);
	return r->now.ns - from.ns;
}

/* The address of the peer changes, or it is a device of the same daemon for a while: what was timed is of no use any more. */
START_TEST(another_way)
{
	struct qp_attr sqd = { .state = QPS_SQD }, rts = { .state = QPS_RTS };
	struct rig r;

	for (unsigned i = 0; i < 3; i++) {
		rig_init(&r, LINK_EARLY);
		rig_connect(&r, &conf_rc);
		for (unsigned k = 0; k < 5; k++)
			ck_assert_uint_eq(message(&r, k, 100000), 0);
		if (i == 1) {
			sqd.av.sgid_index = 1;
			memcpy(sqd.av.dgid, r.b.gid, 16);
			sqd.av.dgid[15] = 99;
			ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &sqd, QPA_STATE, r.now), 0);
			ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &sqd, QPA_STATE | QPA_AV, r.now), 0);
			ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &rts, QPA_STATE, r.now), 0);
		} else if (i == 2) {
			hca_local_set(r.a.h, r.b.gid, true);
			hca_local_set(r.a.h, r.b.gid, false);
		}
		ck_assert_uint_eq(first_wait(&r, 9), i ? 8 * MS : 2 * MS);
		rig_fini(&r);
	}
}
END_TEST

TEST_MAIN("core_rtt", far_is_timed, loss_is_forgotten, another_way)
