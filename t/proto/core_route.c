/* SPDX-License-Identifier: MIT */
/* core_route.c - item 18, path: traffic class, flow label and hop limit as asked, and marks where nothing was. */
#include "proto/hca_in.h"
#include "proto/route.h"
#include "rig.h"
#include "t/suite.h"

static const struct marks marks = { .ect = 2, .tclass = { [0] = 0, [3] = 0x60, [15] = 0x81 } };

static struct route route_of(struct rig *r, struct av av, bool slowed)
{
	struct route to = { 0 };

	av.sgid_index = 1;
	memcpy(av.dgid, r->b.gid, 16);
	r->a.h->cfg.marks = marks;
	route_set(r->a.h, &to, &av, slowed);
	ck_assert_mem_eq(to.sgid, r->a.gid, 16);
	ck_assert_mem_eq(to.dgid, r->b.gid, 16);
	return to;
}

START_TEST(as_asked)
{
	struct rig r;
	struct route to;

	rig_init(&r, LINK_WIRE);
	to = route_of(&r, (struct av){ .flow_label = 0xabcde, .hop_limit = 5, .tclass = 0x69, .sl = 3 }, true);
	ck_assert_uint_eq(to.flow_label, 0xabcde);
	ck_assert_uint_eq(to.hop_limit, 5);
	ck_assert_uint_eq(to.tclass, 0x69);
	ck_assert_uint_eq(to.sl, 3);
	to = route_of(&r, (struct av){ .hop_limit = 0 }, true);
	ck_assert_uint_eq(to.hop_limit, 64);
	rig_fini(&r);
}
END_TEST

START_TEST(marked_where_open)
{
	static const struct {
		uint8_t tclass, sl;
		bool slowed;
		uint8_t want;
	} v[] = {
		{ 0, 0, true, 2 },       { 0, 0, false, 0 },      { 0, 3, true, 0x62 },     { 0, 3, false, 0x60 },
		{ 0, 15, true, 0x81 },   { 0x68, 3, true, 0x6a }, { 0x68, 3, false, 0x68 }, { 0x69, 0, true, 0x69 },
		{ 0x6b, 0, true, 0x6b }, { 0, 19, false, 0x60 },
	};
	struct rig r;

	rig_init(&r, LINK_WIRE);
	for (unsigned i = 0; i < sizeof(v) / sizeof(*v); i++)
		ck_assert_uint_eq(route_of(&r, (struct av){ .tclass = v[i].tclass, .sl = v[i].sl }, v[i].slowed).tclass,
				  v[i].want);
	rig_fini(&r);
}
END_TEST

/* Requests and ACKs of a connection, by the way of ibv_modify_qp(). */
START_TEST(packets)
{
	struct rig r;
	struct burst b;

	rig_init(&r, LINK_WIRE);
	r.a.h->cfg.marks = r.b.h->cfg.marks = marks;
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(b.route.tclass, 2);
	hca_rx_burst(r.b.h, &b, r.now);
	ck_assert(take(&r, &r.b, &b));
	ck_assert_uint_eq(b.route.tclass, 2);
	rig_fini(&r);
}
END_TEST

/* Packets in flight when the address changes are sent again to the new one: nobody may be at the old one. */
START_TEST(in_flight) /* conf: section 5 */
{
	struct qp_attr sqd = { .state = QPS_SQD, .av.sgid_index = 1 };
	struct rig r;
	struct burst b;

	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8);
	ck_assert(take(&r, &r.a, &b));
	memcpy(sqd.av.dgid, r.b.gid, 16);
	sqd.av.dgid[15] = 99;
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &sqd, QPA_STATE, r.now), 0);
	ck_assert(!take(&r, &r.a, &b));
	ck_assert_int_eq(hca_qp_modify(r.a.h, r.a.qpn, &sqd, QPA_AV, r.now), 0);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(b.psn.v, conf_rc.psn);
	ck_assert_uint_eq(b.route.dgid[15], 99);
	ck_assert(b.ackreq);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_route", as_asked, marked_where_open, packets, in_flight)
