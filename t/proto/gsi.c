/* SPDX-License-Identifier: MIT */
/* gsi.c - QP1: MADs from HCA to HCA, and what is no MAD. */
#include "t/proto/rig.h"
#include "t/suite.h"

static struct rig rig;
static struct host *const a = &rig.a, *const b = &rig.b;

static struct gsi mad_from(const struct host *from, const struct host *to, unsigned seed)
{
	struct gsi g = { .route = { .flow_label = 0x54321, .tclass = 0x20, .hop_limit = 64 } };

	memcpy(g.route.sgid, from->gid, 16);
	memcpy(g.route.dgid, to->gid, 16);
	fill(g.mad, MAD_LEN, seed);
	return g;
}

static struct burst seen;

static bool look(struct rig *, struct host *, const struct burst *p)
{
	seen = *p;
	return false;
}

static void there_and_back(enum link_mode mode)
{
	struct gsi g, got;

	rig_init(&rig, mode);
	ck_assert(!hca_gsi_rx(a->h, &got));
	for (unsigned k = 0; k < 700; k++) {
		struct host *from = k & 1 ? a : b, *to = k & 1 ? b : a;

		g = mad_from(from, to, k);
		ck_assert_int_eq(hca_gsi_send(from->h, &g), 0);
		rig_run(&rig);
		ck_assert(hca_gsi_rx(to->h, &got));
		check_fill(got.mad, MAD_LEN, k);
		ck_assert_uint_eq(got.sqpn, 1);
		ck_assert(gid_same(got.route.sgid, from->gid) && gid_same(got.route.dgid, to->gid));
		ck_assert(!hca_gsi_rx(to->h, &got) && !hca_gsi_rx(from->h, &got));
	}
	rig_fini(&rig);
}

START_TEST(both_ways) /* conf: rule 7.1 */
{
	there_and_back(LINK_WIRE);
	there_and_back(LINK_LOCAL);
}
END_TEST

/* Rule 7.1, field by field. */
START_TEST(on_the_wire) /* conf: rule 7.1 */
{
	struct gsi g;

	rig_init(&rig, LINK_WIRE);
	rig.hook = look;
	for (unsigned k = 0; k < 3; k++) {
		g = mad_from(a, b, k);
		ck_assert_int_eq(hca_gsi_send(a->h, &g), 0);
		rig_run(&rig);
		ck_assert_uint_eq(seen.psn.v, k);
	}
	ck_assert(seen.op_first == 0x64 && seen.dqpn == 1 && seen.sqpn == 1 && seen.qkey == 0x80010000);
	ck_assert(seen.pkey == 0xffff && seen.payload_len == 256 && seen.n == 1 && !seen.se);
	ck_assert(seen.route.flow_label == 0x54321 && seen.route.tclass == 0x20 && seen.route.hop_limit == 64);
	rig_fini(&rig);
}
END_TEST

START_TEST(full)
{
	struct gsi g, got;
	unsigned n = 0;

	rig_init(&rig, LINK_WIRE);
	g = mad_from(a, b, 1);
	while (!hca_gsi_send(a->h, &g))
		ck_assert_uint_lt(n++, 10000);
	ck_assert_int_eq(hca_gsi_send(a->h, &g), ENOMEM);
	rig_run(&rig);
	ck_assert_int_eq(hca_gsi_send(a->h, &g), 0);
	rig_run(&rig);
	ck_assert_uint_eq(stat_n(b, HCA_STAT_UD_DROPPED), 1);
	while (hca_gsi_rx(b->h, &got))
		n--;
	ck_assert_uint_eq(n, 0);
	rig_fini(&rig);
}
END_TEST

START_TEST(not_a_mad) /* conf: C9-42, rule 7.1, rule 1.5 */
{
	static const struct {
		uint8_t op;
		uint32_t qkey, sqpn, len;
		uint16_t pkey;
		enum hca_stat counted;
	} bad[] = {
		{ 0x64, 0x80010001, 1, 256, 0xffff, HCA_STAT_BAD_QKEY },
		{ 0x64, 0x80010000, 17, 256, 0xffff, HCA_STAT_BAD_QPN },
		{ 0x64, 0x80010000, 1, 255, 0xffff, HCA_STAT_MALFORMED },
		{ 0x64, 0x80010000, 1, 257, 0xffff, HCA_STAT_MALFORMED },
		{ 0x65, 0x80010000, 1, 256, 0xffff, HCA_STAT_BAD_QPN },
		{ 0x04, 0x80010000, 1, 256, 0xffff, HCA_STAT_BAD_QPN },
		{ 0x64, 0x80010000, 1, 256, 0x8001, HCA_STAT_BAD_PKEY },
	};
	uint8_t payload[300] = { 1 };
	struct gsi got;

	rig_init(&rig, LINK_WIRE);
	for (unsigned k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
		struct span span = { NULL, (uint64_t)(uintptr_t)payload, bad[k].len };
		struct burst p = { .op_first = bad[k].op,
				   .op_last = bad[k].op,
				   .pkey = bad[k].pkey,
				   .dqpn = 1,
				   .n = 1,
				   .mtu = 1024,
				   .qkey = bad[k].qkey,
				   .sqpn = bad[k].sqpn,
				   .payload_len = bad[k].len,
				   .span = &span,
				   .span_n = 1 };
		uint64_t before = stat_n(b, bad[k].counted);

		memcpy(p.route.sgid, a->gid, 16);
		memcpy(p.route.dgid, b->gid, 16);
		hca_rx_burst(b->h, &p, rig.now);
		ck_assert_uint_eq(stat_n(b, bad[k].counted), before + 1);
		ck_assert(!hca_gsi_rx(b->h, &got));
	}
	rig_fini(&rig);
}
END_TEST

TEST_MAIN("gsi", both_ways, on_the_wire, full, not_a_mad)
