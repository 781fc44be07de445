/* SPDX-License-Identifier: MIT */
/* core_mw.c - memory windows: binding, rights, bounds, whose they are, and how they end. */
#include <errno.h>

#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

#define ALL (ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC)

struct scene {
	struct rig r;
	uint32_t mw; /* of b, as allocated */
	uint64_t id;
};

static void scene_new(struct scene *s, enum link_mode mode, unsigned type)
{
	s->id = 1;
	rig_init(&s->r, mode);
	rig_connect(&s->r, &conf_rc);
	ck_assert_int_eq(hca_mw_alloc(s->r.b.h, s->r.b.pdn, type, &s->mw), 0);
	ck_assert_uint_ne(s->mw, 0);
}

/* b binds len bytes from off under key; its status. */
static unsigned bind(struct scene *s, uint32_t key, uint64_t off, uint32_t len, uint32_t access)
{
	ck_assert_int_eq(SEND_WR(&s->r, &s->r.b, .id = ++s->id, .op = WR_BIND_MW, .off = off, .len = len, .rkey = key,
				 .access = access),
			 0);
	rig_run(&s->r);
	return wc_status(&s->r.b, s->id);
}

static unsigned inv(struct scene *s, uint32_t key)
{
	SEND_WR(&s->r, &s->r.b, .id = ++s->id, .op = WR_LOCAL_INV, .imm = key);
	rig_run(&s->r);
	return wc_status(&s->r.b, s->id);
}

static unsigned use(struct scene *s, enum wr_op op, uint32_t key, uint64_t roff, uint32_t len)
{
	SEND_WR(&s->r, &s->r.a, .id = ++s->id, .op = op, .len = len, .rkey = key, .roff = roff);
	rig_run(&s->r);
	return wc_status(&s->r.a, s->id);
}

START_TEST(type1) /* conf: rule 6.1 */
{
	struct scene s;
	uint32_t key;

	scene_new(&s, LINK_WIRE, 1);
	key = s.mw ^ 1;
	fill(s.r.a.buf, 64, 3);
	ck_assert_uint_eq(bind(&s, key, 4096, 64, ALL), WC_SUCCESS);
	ck_assert_uint_eq(wc_of(&s.r.b, s.id)->op, WC_OP_BIND_MW);
	ck_assert_uint_eq(use(&s, WR_WRITE, key, 4096, 64), WC_SUCCESS);
	check_fill(s.r.b.buf + 4096, 64, 3);
	ck_assert_uint_eq(use(&s, WR_READ, key, 4100, 60), WC_SUCCESS);
	ck_assert_uint_eq(use(&s, WR_FETCH_ADD, key, 4104, 8), WC_SUCCESS);
	/* bound again elsewhere: a new key, and the old one is none */
	ck_assert_uint_eq(bind(&s, key ^ 3, 8192, 8, ALL), WC_SUCCESS);
	ck_assert_uint_eq(use(&s, WR_WRITE, key ^ 3, 8192, 8), WC_SUCCESS);
	ck_assert_uint_eq(use(&s, WR_WRITE, key, 4096, 8), WC_REM_ACCESS_ERR);
	rig_fini(&s.r);

	/* length 0 unbinds; it cannot be invalidated */
	scene_new(&s, LINK_WIRE, 1);
	key = s.mw ^ 1;
	ck_assert_uint_eq(bind(&s, key, 4096, 64, ALL), WC_SUCCESS);
	ck_assert_uint_eq(bind(&s, key ^ 2, 0, 0, 0), WC_SUCCESS);
	ck_assert_uint_eq(use(&s, WR_READ, key ^ 2, 4096, 8), WC_REM_ACCESS_ERR);
	rig_fini(&s.r);
	scene_new(&s, LINK_WIRE, 1);
	ck_assert_uint_eq(bind(&s, s.mw ^ 1, 4096, 64, ALL), WC_SUCCESS);
	ck_assert_uint_eq(inv(&s, s.mw ^ 1), WC_MW_BIND_ERR);
	rig_fini(&s.r);
}
END_TEST

START_TEST(type2) /* conf: o10-37.2.30, rule 6.1 */
{
	struct scene s;

	scene_new(&s, LINK_WIRE, 2);
	/* The key byte is the program's; the same again is right. */
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(bind(&s, s.mw, 4096, 64, ALL), WC_SUCCESS);
		ck_assert_uint_eq(use(&s, WR_WRITE, s.mw, 4096, 64), WC_SUCCESS);
		ck_assert_uint_eq(inv(&s, s.mw), WC_SUCCESS);
		ck_assert_uint_eq(wc_of(&s.r.b, s.id)->op, WC_OP_LOCAL_INV);
	}
	ck_assert_uint_eq(bind(&s, s.mw ^ 0x55, 4096, 64, ALL), WC_SUCCESS);
	ck_assert_uint_eq(bind(&s, s.mw ^ 0x56, 4096, 64, ALL), WC_MW_BIND_ERR); /* bound already */
	rig_fini(&s.r);
}
END_TEST

/* Every mistake that a bind can make. */
START_TEST(bad_binds) /* conf: C10-72, C10-73, C10-74, C10-75, o10-37.2.40 */
{
	static const struct {
		unsigned type;
		uint64_t off;
		uint32_t len, access, mr_access;
		bool other_pd;
	} t[] = {
		{ 1, BUF_LEN - 8, 9, ALL, 0x1f, false }, /* bounds */
		{ 2, BUF_LEN, 1, ALL, 0x1f, false },
		{ 2, 0, 0, ALL, 0x1f, false },                     /* type 2 of length 0 */
		{ 1, 0, 8, ALL, 0xf, false },                      /* no MW_BIND */
		{ 1, 0, 8, ACC_REMOTE_WRITE, ACC_MW_BIND, false }, /* no LOCAL_WRITE */
		{ 2, 0, 8, ACC_REMOTE_ATOMIC, ACC_MW_BIND, false },
		{ 2, 0, 8, ALL, 0x1f | ACC_ZERO_BASED, false },
		{ 2, 0, 8, 1 << 30, 0x1f, false },
		{ 1, 0, 8, ALL, 0x1f, true }, /* region of another PD */
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct scene s;
		struct mr_attr a;
		uint32_t key, pdn;

		scene_new(&s, LINK_WIRE, t[i].type);
		ck_assert_int_eq(hca_pd_alloc(s.r.b.h, &pdn), 0);
		a = (struct mr_attr){ .pdn = t[i].other_pd ? pdn : s.r.b.pdn,
				      .access = t[i].mr_access,
				      .len = BUF_LEN,
				      .addr = (uintptr_t)s.r.b.buf,
				      .iova = (uintptr_t)s.r.b.buf,
				      .region = &s.r.b.region };
		ck_assert_int_eq(hca_mr_reg(s.r.b.h, &a, &key), 0);
		SEND_WR(&s.r, &s.r.b, .id = 1, .op = WR_BIND_MW, .off = t[i].off, .len = t[i].len, .rkey = s.mw ^ 1,
			.access = t[i].access, .lkey = key);
		SEND_WR(&s.r, &s.r.b, .id = 2, .op = WR_WRITE, .len = 8);
		rig_run(&s.r);
		ck_assert_uint_eq(wc_status(&s.r.b, 1), WC_MW_BIND_ERR);
		ck_assert_uint_eq(wc_status(&s.r.b, 2), WC_WR_FLUSH_ERR);
		ck_assert_int_eq(hca_mr_dereg(s.r.b.h, key), 0);
		ck_assert_int_eq(hca_mw_dealloc(s.r.b.h, s.mw), 0);
		rig_fini(&s.r);
	}
	/* the same key twice; a window of another PD; none at all */
	for (unsigned i = 0; i < 3; i++) {
		struct scene s;
		uint32_t pdn;

		scene_new(&s, LINK_WIRE, 1);
		ck_assert_int_eq(hca_pd_alloc(s.r.b.h, &pdn), 0);
		if (i == 1)
			ck_assert_int_eq(hca_mw_alloc(s.r.b.h, pdn, 1, &s.mw), 0);
		ck_assert_uint_eq(bind(&s, i == 0 ? s.mw : i == 1 ? s.mw ^ 1 : s.r.b.key, 0, 8, ALL), WC_MW_BIND_ERR);
		rig_fini(&s.r);
	}
}
END_TEST

/* The rights are the window's own: more than the region's towards peers, or fewer. */
START_TEST(rights)
{
	static const struct {
		enum wr_op op;
		uint32_t need;
	} ops[] = { { WR_WRITE, ACC_REMOTE_WRITE }, { WR_READ, ACC_REMOTE_READ }, { WR_FETCH_ADD, ACC_REMOTE_ATOMIC } };

	for (unsigned i = 0; i < 9; i++) {
		struct scene s;
		struct mr_attr a;
		uint32_t key;

		scene_new(&s, i & 1 ? LINK_WIRE : LINK_LOCAL, 1 + i % 2);
		a = (struct mr_attr){ .pdn = s.r.b.pdn,
				      .access = ACC_LOCAL_WRITE | ACC_MW_BIND,
				      .len = BUF_LEN,
				      .addr = (uintptr_t)s.r.b.buf,
				      .iova = (uintptr_t)s.r.b.buf,
				      .region = &s.r.b.region };
		ck_assert_int_eq(hca_mr_reg(s.r.b.h, &a, &key), 0);
		SEND_WR(&s.r, &s.r.b, .id = 100, .op = WR_BIND_MW, .off = 64, .len = 64, .rkey = s.mw ^ 1, .lkey = key,
			.access = ops[i / 3].need);
		rig_run(&s.r);
		ck_assert_uint_eq(wc_status(&s.r.b, 100), WC_SUCCESS);
		ck_assert_uint_eq(use(&s, ops[i % 3].op, s.mw ^ 1, 64, 8),
				  i / 3 == i % 3 ? WC_SUCCESS : WC_REM_ACCESS_ERR);
		rig_fini(&s.r);
	}
}
END_TEST

START_TEST(bounds) /* conf: C10-75 */
{
	static const struct {
		uint64_t roff;
		uint32_t len;
		bool ok;
	} t[] = { { 4096, 100, true }, { 4095, 4, false }, { 4097, 100, false }, { 4196, 1, false },
		  { 4195, 1, true },   { 0, 8, false },    { 4096, 101, false } };

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct scene s;

		scene_new(&s, LINK_WIRE, 2);
		ck_assert_uint_eq(bind(&s, s.mw, 4096, 100, ALL), WC_SUCCESS);
		ck_assert_uint_eq(use(&s, WR_WRITE, s.mw, t[i].roff, t[i].len),
				  t[i].ok ? WC_SUCCESS : WC_REM_ACCESS_ERR);
		rig_fini(&s.r);
	}
}
END_TEST

START_TEST(zero_based) /* conf: o10-36.2.2 */
{
	struct scene s;

	scene_new(&s, LINK_WIRE, 2);
	fill(s.r.a.buf, 64, 9);
	ck_assert_uint_eq(bind(&s, s.mw ^ 1, 4096, 100, ALL | ACC_ZERO_BASED), WC_SUCCESS);
	/* (rig addresses are b's buffer and roff) */
	ck_assert_uint_eq(use(&s, WR_WRITE, s.mw ^ 1, -(uint64_t)(uintptr_t)s.r.b.buf + 36, 64), WC_SUCCESS);
	check_fill(s.r.b.buf + 4096 + 36, 64, 9);
	ck_assert_uint_eq(use(&s, WR_WRITE, s.mw ^ 1, -(uint64_t)(uintptr_t)s.r.b.buf + 37, 64), WC_REM_ACCESS_ERR);
	rig_fini(&s.r);
	/* Type 1 cannot be (o10-36.2.2). */
	scene_new(&s, LINK_WIRE, 1);
	ck_assert_uint_eq(bind(&s, s.mw ^ 1, 4096, 100, ALL | ACC_ZERO_BASED), WC_MW_BIND_ERR);
	rig_fini(&s.r);
}
END_TEST

/* Type 2 is for the QP it was bound on; type 1 for all of the PD. */
START_TEST(whose) /* conf: C10-72 */
{
	for (unsigned type = 1; type <= 2; type++) {
		struct scene s;
		uint32_t old, first;

		scene_new(&s, LINK_WIRE, type);
		ck_assert_uint_eq(bind(&s, s.mw ^ 1, 0, 64, ALL), WC_SUCCESS);
		old = s.r.b.qpn;
		first = s.r.a.qpn;
		rig_connect(&s.r, &conf_rc);
		ck_assert_uint_eq(use(&s, WR_WRITE, s.mw ^ 1, 0, 64), type == 1 ? WC_SUCCESS : WC_REM_ACCESS_ERR);
		s.r.a.qpn = first;
		s.r.b.qpn = old;
		ck_assert_uint_eq(use(&s, WR_WRITE, s.mw ^ 1, 0, 64), WC_SUCCESS);
		/* The QP goes, and with it what was bound for it. */
		ck_assert_int_eq(hca_mr_dereg(s.r.b.h, s.r.b.key), EBUSY);
		ck_assert_int_eq(hca_qp_destroy(s.r.b.h, old), 0);
		ck_assert_int_eq(hca_mr_dereg(s.r.b.h, s.r.b.key), type == 1 ? EBUSY : 0);
		rig_fini(&s.r);
	}
}
END_TEST

START_TEST(busy) /* conf: rule 6.1 */
{
	struct scene s;
	struct mr_attr a;

	scene_new(&s, LINK_WIRE, 1);
	a = (struct mr_attr){
		.pdn = s.r.b.pdn, .access = 0x1f, .len = 64, .addr = (uintptr_t)s.r.b.buf, .region = &s.r.b.region
	};
	ck_assert_uint_eq(bind(&s, s.mw ^ 1, 0, 64, ALL), WC_SUCCESS);
	ck_assert_int_eq(hca_mr_dereg(s.r.b.h, s.r.b.key), EBUSY);
	ck_assert_int_eq(hca_mr_rereg(s.r.b.h, s.r.b.key, &a), EBUSY);
	ck_assert_int_eq(hca_mw_dealloc(s.r.b.h, s.r.b.key), EINVAL);
	ck_assert_int_eq(hca_mw_dealloc(s.r.b.h, s.mw), 0);
	ck_assert_int_eq(hca_mw_dealloc(s.r.b.h, s.mw), EINVAL);
	ck_assert_uint_eq(use(&s, WR_WRITE, s.mw ^ 1, 0, 64), WC_REM_ACCESS_ERR);
	ck_assert_int_eq(hca_mr_dereg(s.r.b.h, s.r.b.key), 0);
	ck_assert_int_eq(hca_mw_alloc(s.r.b.h, s.r.b.pdn, 3, &s.mw), EINVAL);
	ck_assert_int_eq(hca_mw_alloc(s.r.b.h, 77, 1, &s.mw), EINVAL);
	rig_fini(&s.r);
}
END_TEST

/* SEND with invalidate, of one packet and of several. */
START_TEST(send_inv) /* conf: rule 6.1 */
{
	for (unsigned i = 0; i < 4; i++) {
		struct link_conf conf = conf_rc;
		uint32_t len = i & 1 ? 3000 : 10;
		const struct cqe *c;
		struct scene s;

		conf.type = i & 2 ? QPT_UC : QPT_RC;
		rig_init(&s.r, LINK_WIRE);
		rig_connect(&s.r, &conf);
		s.id = 1;
		ck_assert_int_eq(hca_mw_alloc(s.r.b.h, s.r.b.pdn, 2, &s.mw), 0);
		ck_assert_uint_eq(bind(&s, s.mw, 0, 64, ALL), WC_SUCCESS);
		rig_recv(&s.r, &s.r.b, 900, 8192, 4000);
		fill(s.r.a.buf, len, 4);
		SEND_WR(&s.r, &s.r.a, .id = 800, .op = WR_SEND_INV, .len = len, .imm = s.mw, .flags = WR_SOLICITED);
		rig_run(&s.r);
		ck_assert_uint_eq(wc_status(&s.r.a, 800), WC_SUCCESS);
		c = wc_of(&s.r.b, 900);
		ck_assert_ptr_nonnull(c);
		ck_assert_uint_eq(c->status, WC_SUCCESS);
		ck_assert_uint_eq(c->flags, WC_WITH_INV);
		ck_assert_uint_eq(c->imm, s.mw);
		ck_assert_uint_eq(c->solicited, 1);
		check_fill(s.r.b.buf + 8192, len, 4);
		ck_assert_int_eq(hca_mr_dereg(s.r.b.h, s.r.b.key), 0);
		rig_fini(&s.r);
	}
}
END_TEST

/* Keys that a peer may not invalidate: refused before the message is stored. */
START_TEST(send_inv_bad) /* conf: o10-37.2.26 */
{
	for (unsigned i = 0; i < 8; i++) {
		struct link_conf conf = conf_rc;
		struct scene s;
		uint32_t key;

		conf.type = i & 1 ? QPT_UC : QPT_RC;
		rig_init(&s.r, LINK_WIRE);
		rig_connect(&s.r, &conf);
		s.id = 1;
		ck_assert_int_eq(hca_mw_alloc(s.r.b.h, s.r.b.pdn, i / 2 == 0 ? 1 : 2, &s.mw), 0);
		key = s.mw ^ 1;
		if (i / 2 != 3) /* 0: type 1; 1: wrong key byte; 2: a region; 3: not bound */
			ck_assert_uint_eq(bind(&s, key, 0, 64, ALL), WC_SUCCESS);
		key = i / 2 == 1 ? key ^ 2 : i / 2 == 2 ? s.r.b.key : key;
		memset(s.r.a.buf, 1, 8);
		rig_recv(&s.r, &s.r.b, 900, 8192, 4000);
		SEND_WR(&s.r, &s.r.a, .id = 800, .op = WR_SEND_INV, .len = 8, .imm = key);
		rig_run(&s.r);
		ck_assert_uint_eq(s.r.b.buf[8192], 0);
		ck_assert_uint_eq(wc_status(&s.r.a, 800), i & 1 ? WC_SUCCESS : WC_REM_ACCESS_ERR);
		ck_assert_uint_eq(wc_status(&s.r.b, 900), i & 1 ? 255 : WC_LOC_ACCESS_ERR);
		ck_assert(has_event(&s.r.b, EV_QP_ACCESS_ERR) == !(i & 1));
		ck_assert_uint_eq(fault_n(&s.r.b, i & 1 ? "UC_INV" : "RESP_INV"), 1);
		rig_fini(&s.r);
	}
}
END_TEST

/* Nothing overtakes a bind or an invalidation, nor do they overtake: a READ through the window, posted before. */
START_TEST(order) /* conf: rule 4.8 */
{
	struct scene s;

	scene_new(&s, LINK_WIRE, 2);
	fill(s.r.a.buf, 4000, 1);
	for (unsigned i = 0; i < 5; i++) {
		SEND_WR(&s.r, &s.r.b, .id = 10 + i, .op = WR_WRITE, .len = 4000, .roff = 100000);
		SEND_WR(&s.r, &s.r.b, .id = 20 + i, .op = i & 1 ? WR_LOCAL_INV : WR_BIND_MW, .len = 64, .rkey = s.mw,
			.imm = s.mw, .access = ALL);
	}
	rig_run(&s.r);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(wc_status(&s.r.b, 20 + i), WC_SUCCESS);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(s.r.b.wc[i].wr_id, i & 1 ? 20 + i / 2 : 10 + i / 2);
	/* SEND_INV waits for the READs before it, whose answers may still need the window */
	rig_recv(&s.r, &s.r.b, 900, 8192, 64);
	SEND_WR(&s.r, &s.r.a, .id = 1, .op = WR_READ, .len = 64, .rkey = s.mw);
	SEND_WR(&s.r, &s.r.a, .id = 2, .op = WR_SEND_INV, .len = 8, .imm = s.mw);
	rig_run(&s.r);
	ck_assert_uint_eq(wc_status(&s.r.a, 1), WC_SUCCESS);
	ck_assert_uint_eq(wc_status(&s.r.a, 2), WC_SUCCESS);
	rig_fini(&s.r);
}
END_TEST

/* RESET is not the end of the QP: what is bound to it stays so, and whoever it is connected with next may use it. */
START_TEST(over_reset) /* conf: rule 6.2 */
{
	struct link_conf c = conf_rc;

	for (unsigned type = 1; type <= 2; type++) {
		struct scene s;

		scene_new(&s, LINK_WIRE, type);
		ck_assert_uint_eq(bind(&s, s.mw ^ 1, 4096, 64, ALL), WC_SUCCESS);
		rig_to_init(&s.r, &s.r.a, &c);
		rig_to_init(&s.r, &s.r.b, &c);
		rig_to_rtr(&s.r, &s.r.a, &s.r.b, &c);
		rig_to_rtr(&s.r, &s.r.b, &s.r.a, &c);
		rig_to_rts(&s.r, &s.r.a, &c);
		rig_to_rts(&s.r, &s.r.b, &c);
		ck_assert_uint_eq(use(&s, WR_WRITE, s.mw ^ 1, 4096, 64), WC_SUCCESS);
		ck_assert_int_eq(hca_mr_dereg(s.r.b.h, s.r.b.key), EBUSY);
		ck_assert_uint_eq(inv(&s, s.mw ^ 1), type == 2 ? WC_SUCCESS : WC_MW_BIND_ERR);
		rig_fini(&s.r);
	}
}
END_TEST

/* A window is no key for local memory; requests with sge or inline data are none. */
START_TEST(no_lkey)
{
	struct {
		struct send_wr wr;
		struct sge sge;
	} x = { .wr = { .op = WR_BIND_MW, .sge_n = 1 } };
	struct scene s;

	scene_new(&s, LINK_WIRE, 1);
	ck_assert_int_eq(hca_post_send(s.r.b.h, s.r.b.qpn, &x.wr, s.r.now), EINVAL);
	x.wr.op = WR_LOCAL_INV;
	ck_assert_int_eq(hca_post_send(s.r.b.h, s.r.b.qpn, &x.wr, s.r.now), EINVAL);
	ck_assert_uint_eq(bind(&s, s.mw ^ 1, 0, 64, ALL), WC_SUCCESS);
	SEND_WR(&s.r, &s.r.b, .id = 50, .op = WR_WRITE, .len = 8, .lkey = s.mw ^ 1);
	rig_run(&s.r);
	ck_assert_uint_eq(wc_status(&s.r.b, 50), WC_LOC_PROT_ERR);
	rig_fini(&s.r);
}
END_TEST

/* Packets lost meanwhile are sent again, and each bind happens once. */
static bool third_lost(struct rig *r, struct host *, const struct burst *) { return r->pkts % 3 == 0; }

START_TEST(losses)
{
	struct scene s;

	scene_new(&s, LINK_WIRE, 2);
	s.r.hook = third_lost;
	for (unsigned i = 0; i < 6; i++) {
		SEND_WR(&s.r, &s.r.b, .id = 10 + i, .op = WR_READ, .len = 700, .off = 4096);
		SEND_WR(&s.r, &s.r.b, .id = 20 + i, .op = i & 1 ? WR_LOCAL_INV : WR_BIND_MW, .len = 64, .rkey = s.mw,
			.imm = s.mw, .access = ALL);
	}
	rig_settle(&s.r, 60);
	for (unsigned i = 0; i < 6; i++)
		ck_assert_uint_eq(wc_status(&s.r.b, 20 + i), WC_SUCCESS);
	rig_fini(&s.r);
}
END_TEST

TEST_MAIN("core_mw", type1, type2, bad_binds, rights, bounds, zero_based, whose, busy, send_inv, send_inv_bad, order,
	  over_reset, no_lkey, losses)
