/* SPDX-License-Identifier: MIT */
/* core_flush.c - FLUSH and atomic WRITE: what they do, the rights they need, and that they are done once. */
#include <errno.h>

#include "proto/hdr.h"
#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

#define GLOBAL     FETH_GLOBAL
#define PERSISTENT FETH_PERSISTENT

static const uint8_t types[] = { QPT_RC, QPT_XRC_SEND };

static void start(struct rig *r, enum link_mode mode, uint8_t type, uint32_t access)
{
	struct link_conf c = conf_rc;

	c.type = type;
	c.access = access;
	rig_init(r, mode);
	rig_connect(r, &c);
}

/* Two headers, in this order, and no payload; the answer is a read response without any. */
START_TEST(headers) /* conf: rule 3.2 */
{
	struct burst b = { .op_first = OP_FLUSH,
			   .op_last = OP_FLUSH,
			   .n = 1,
			   .dqpn = 5,
			   .feth = 0x12,
			   .va = 0x1122334455667788,
			   .rkey = 0xa1b2c3d4,
			   .dma_len = 0x100 },
		     back = { 0 };
	uint8_t d[PKT_HDR_MAX];
	struct span s;

	ck_assert_uint_eq(burst_hdr(&b, 0, d), 12 + 4 + 16);
	ck_assert_mem_eq(d + 12, "\0\0\0\x12\x11\x22\x33\x44\x55\x66\x77\x88\xa1\xb2\xc3\xd4\0\0\x01\0", 20);
	ck_assert_int_eq(burst_parse(&back, &s, d, 32), PARSE_OK);
	ck_assert_uint_eq(back.feth, 0x12);
	b.op_first = b.op_last = SVC_XRC | OP_ATOMIC_WRITE;
	ck_assert_uint_eq(burst_hdr(&b, 0, d), 12 + 4 + 16);
}
END_TEST

START_TEST(flush) /* conf: rule 3.4 */
{
	for (unsigned i = 0; i < 24; i++) {
		uint32_t place = 1 + i % 3, level = i / 3 & 1;
		struct rig r;

		start(&r, i & 1 ? LINK_WIRE : LINK_LOCAL, types[i / 6 & 1], i < 12 ? 0x30f : 0xf | ACC_FLUSH_GLOBAL);
		fill(r.a.buf, 3000, 3);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 3000, .roff = 4096);
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 2, .op = WR_FLUSH, .len = level ? 0 : 3000, .roff = 4096,
					 .access = place, .imm = level),
				 0);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
		ck_assert_uint_eq(wc_status(&r.a, 2), i >= 12 && place & PERSISTENT ? WC_REM_INV_REQ_ERR : WC_SUCCESS);
		if (wc_status(&r.a, 2) == WC_SUCCESS)
			ck_assert_uint_eq(wc_of(&r.a, 2)->op, WC_OP_FLUSH);
		rig_fini(&r);
	}
}
END_TEST

/* Rights of the key and bounds; with the whole region the range is not looked at. */
START_TEST(flush_keys) /* conf: oA19-13, rule 6.1 */
{
	static const struct {
		uint32_t access, place, level, len;
		uint64_t roff;
		unsigned wc;
	} t[] = {
		{ ACC_FLUSH_GLOBAL, GLOBAL, 0, 64, 0, WC_SUCCESS },
		{ ACC_FLUSH_GLOBAL, GLOBAL, 0, 0, 64, WC_SUCCESS },
		{ ACC_FLUSH_GLOBAL, GLOBAL, 0, 65, 0, WC_REM_ACCESS_ERR },
		{ ACC_FLUSH_GLOBAL, GLOBAL, 0, 1, 64, WC_REM_ACCESS_ERR },
		{ ACC_FLUSH_GLOBAL, GLOBAL, 1, 65, 9999, WC_SUCCESS },
		{ ACC_FLUSH_GLOBAL, PERSISTENT, 0, 64, 0, WC_REM_ACCESS_ERR },
		{ ACC_FLUSH_GLOBAL, PERSISTENT, 1, 64, 0, WC_REM_ACCESS_ERR },
		{ ACC_FLUSH_PERSISTENT, GLOBAL | PERSISTENT, 0, 64, 0, WC_REM_ACCESS_ERR },
		{ ACC_FLUSH_PERSISTENT, PERSISTENT, 1, 64, 0, WC_SUCCESS },
		{ ACC_REMOTE_READ, GLOBAL, 1, 64, 0, WC_REM_ACCESS_ERR },
	};

	for (size_t i = 0; i < 2 * sizeof(t) / sizeof(*t); i++) {
		bool window = i & 1;
		struct mr_attr a;
		uint32_t key;
		struct rig r;

		start(&r, LINK_WIRE, QPT_RC, 0x30f);
		a = (struct mr_attr){ .pdn = r.b.pdn,
				      .access = t[i / 2].access | ACC_LOCAL_WRITE,
				      .addr = (uintptr_t)r.b.buf,
				      .iova = (uintptr_t)r.b.buf,
				      .len = 64,
				      .region = &r.b.region };
		if (window) {
			ck_assert_int_eq(hca_mw_alloc(r.b.h, r.b.pdn, 2, &key), 0);
			SEND_WR(&r, &r.b, .id = 9, .op = WR_BIND_MW, .len = 64, .rkey = key, .access = t[i / 2].access);
			rig_run(&r);
			ck_assert_uint_eq(wc_status(&r.b, 9), WC_SUCCESS);
		} else {
			ck_assert_int_eq(hca_mr_reg(r.b.h, &a, &key), 0);
		}
		SEND_WR(&r, &r.a, .id = 1, .op = WR_FLUSH, .len = t[i / 2].len, .roff = t[i / 2].roff, .rkey = key,
			.access = t[i / 2].place, .imm = t[i / 2].level);
		rig_run(&r);
		ck_assert_msg(wc_status(&r.a, 1) == t[i / 2].wc, "row %zu: %u", i / 2, wc_status(&r.a, 1));
		rig_fini(&r);
	}
}
END_TEST

/* Requests that are none: no placement, unknown bits. */
/* Of the whole region: no length is too long (rdmad itself sends 0). */
START_TEST(flush_of_any_length) /* conf: rule 6.1 */
{
	struct burst b, answer;
	struct rig r;

	start(&r, LINK_WIRE, QPT_RC, 0xf | ACC_FLUSH_GLOBAL);
	b = pkt_from(&r, &r.a, OP_FLUSH, conf_rc.psn);
	b.feth = GLOBAL | 1u << FETH_SEL_SHIFT;
	b.rkey = r.b.key;
	b.dma_len = UINT32_MAX;
	pkt_give(&r, &r.b, &b, NULL, 0);
	ck_assert(take(&r, &r.b, &answer));
	ck_assert_uint_eq(answer.op_first, OP_READ_RESP_ONLY);
	ck_assert(!take(&r, &r.b, &answer));
	rig_fini(&r);
}
END_TEST

START_TEST(flush_nonsense)
{
	static const uint32_t feth[] = { 0, 4, 8, 0x10, 0x21, 0x31 };

	for (size_t i = 0; i < sizeof(feth) / sizeof(*feth); i++) {
		struct burst b;
		struct rig r;

		start(&r, LINK_WIRE, QPT_RC, 0x30f);
		b = pkt_from(&r, &r.a, OP_FLUSH, conf_rc.psn);
		b.feth = feth[i];
		pkt_give(&r, &r.b, &b, NULL, 0);
		ck_assert_uint_eq(fault_n(&r.b, "RESP_OP_UNSUP"), 1);
		rig_fini(&r);
	}
}
END_TEST

START_TEST(atomic_write) /* conf: rule 4.7 */
{
	for (unsigned i = 0; i < 8; i++) {
		uint64_t v = 0x0123456789abcdef;
		struct rig r;

		start(&r, i & 1 ? LINK_WIRE : LINK_LOCAL, types[i / 2 & 1], ACC_REMOTE_WRITE);
		memcpy(r.a.buf, &v, 8);
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_ATOMIC_WRITE, .len = 8, .roff = 64, .inl = i & 4),
				 0);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
		ck_assert_uint_eq(wc_of(&r.a, 1)->op, WC_OP_ATOMIC_WRITE);
		ck_assert_mem_eq(r.b.buf + 64, &v, 8);
		ck_assert_uint_eq(r.b.buf[72], 0);
		rig_fini(&r);
	}
}
END_TEST

/* A device without them takes neither, though the rights are there; a WRITE it takes. */
START_TEST(kinds_missing)
{
	struct rig r;

	rig_no_kinds = 1u << KIND_FLUSH | 1u << KIND_AWRITE;
	for (unsigned i = 0; i < 3; i++) {
		start(&r, i ? LINK_WIRE : LINK_LOCAL, QPT_RC, 0x30f);
		if (i == 0)
			SEND_WR(&r, &r.a, .id = 1, .op = WR_FLUSH, .len = 64, .roff = 0, .access = GLOBAL, .imm = 0);
		else if (i == 1)
			SEND_WR(&r, &r.a, .id = 1, .op = WR_ATOMIC_WRITE, .len = 8, .roff = 64);
		else
			SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 8, .roff = 64);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 1), i < 2 ? WC_REM_INV_REQ_ERR : WC_SUCCESS);
		rig_fini(&r);
	}
	rig_no_kinds = 0;
}
END_TEST

START_TEST(atomic_write_wrong) /* conf: oA19-28 */
{
	static const struct {
		uint32_t access, len, key;
		uint64_t roff;
		unsigned wc;
	} t[] = {
		{ ACC_REMOTE_READ | ACC_REMOTE_ATOMIC, 8, 0, 64, WC_REM_INV_REQ_ERR },
		{ ACC_REMOTE_WRITE, 8, 0, 68, WC_REM_INV_REQ_ERR },
		{ ACC_REMOTE_WRITE, 8, 0x1234, 64, WC_REM_ACCESS_ERR },
		{ ACC_REMOTE_WRITE, 8, 0, BUF_LEN, WC_REM_ACCESS_ERR },
		{ ACC_REMOTE_WRITE, 4, 0, 64, WC_LOC_LEN_ERR },
		{ ACC_REMOTE_WRITE, 16, 0, 64, WC_LOC_LEN_ERR },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct rig r;

		start(&r, LINK_WIRE, QPT_RC, t[i].access);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_ATOMIC_WRITE, .len = t[i].len, .roff = t[i].roff, .rkey = t[i].key);
		rig_run(&r);
		ck_assert_msg(wc_status(&r.a, 1) == t[i].wc, "row %zu: %u", i, wc_status(&r.a, 1));
		rig_fini(&r);
	}
}
END_TEST

/* They are not posted with what they do not take, nor where the service has none. */
START_TEST(posting)
{
	struct {
		struct send_wr wr;
		struct sge sge;
	} x = { .wr = { .op = WR_FLUSH, .sge_n = 1 } };
	struct rig r;

	start(&r, LINK_WIRE, QPT_RC, 0x30f);
	ck_assert_int_eq(hca_post_send(r.a.h, r.a.qpn, &x.wr, r.now), EINVAL);
	rig_fini(&r);
	for (uint8_t type = QPT_UC; type <= QPT_UD; type++) {
		start(&r, LINK_WIRE, type, 0xf);
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_FLUSH, .access = 1), EINVAL);
		ck_assert_int_eq(SEND_WR(&r, &r.a, .id = 1, .op = WR_ATOMIC_WRITE, .len = 8), EINVAL);
		rig_fini(&r);
	}
}
END_TEST

/* The answer is lost: asked again it is given again, and nothing is stored a second time. */
static bool response_lost(struct rig *r, struct host *, const struct burst *b)
{
	uint64_t other = 77;

	if (opcode_get(b->op_first)->kind != KIND_RESP || *(unsigned *)r->hook_arg)
		return false;
	++*(unsigned *)r->hook_arg;
	memcpy(r->b.buf + 64, &other, 8); /* the program writes there meanwhile */
	return true;
}

START_TEST(once)
{
	for (unsigned i = 0; i < 2; i++) {
		uint64_t v = 1;
		unsigned lost = 0;
		struct rig r;

		start(&r, LINK_WIRE, QPT_RC, 0x30f);
		r.hook = response_lost;
		r.hook_arg = &lost;
		memcpy(r.a.buf, &v, 8);
		SEND_WR(&r, &r.a, .id = 1, .op = i ? WR_FLUSH : WR_ATOMIC_WRITE, .len = 8, .roff = 64,
			.access = GLOBAL);
		rig_settle(&r, 3);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
		ck_assert_uint_eq(lost, 1);
		ck_assert_uint_eq(stat_n(&r.b, HCA_STAT_DUPLICATE_REQUEST), 1);
		memcpy(&v, r.b.buf + 64, 8);
		ck_assert_uint_eq(v, 77);
		rig_fini(&r);
	}
}
END_TEST

/* A packet of a; true: b answered. */
static bool asked(struct rig *r, uint8_t op, uint32_t psn)
{
	struct burst b = pkt_from(r, &r->a, op, psn);

	b.va += 64;
	b.feth = FETH_GLOBAL;
	b.dma_len = 8;
	b.swap_add = 1;
	b.ackreq = false;
	pkt_give(r, &r->b, &b, "12345678", op == OP_WRITE_ONLY || op == OP_ATOMIC_WRITE ? 8 : 0);
	return take(r, &r->b, &b);
}

/* A duplicate is answered if it is of that kind, at that PSN, and of this connection: else it is dropped. */
START_TEST(another_one) /* conf: rule 4.2 */
{
	static const uint8_t ops[] = { OP_FLUSH, OP_ATOMIC_WRITE, OP_FETCH_ADD, OP_READ_REQUEST };

	for (unsigned i = 0; i < sizeof(ops); i++) {
		struct link_conf c = conf_rc;
		struct rig r;

		start(&r, LINK_WIRE, QPT_RC, 0x30f);
		ck_assert(!asked(&r, OP_WRITE_ONLY, c.psn));
		ck_assert(asked(&r, ops[i], c.psn + 1));
		ck_assert(!asked(&r, OP_WRITE_ONLY, c.psn + 2));
		for (unsigned k = 0; k < sizeof(ops); k++) {
			ck_assert(!asked(&r, ops[k], c.psn));
			ck_assert(asked(&r, ops[k], c.psn + 1) == (k == i));
			ck_assert(!asked(&r, ops[k], c.psn + 2));
		}
		ck_assert_uint_eq(rig_state(&r.b), QPS_RTS);
		c.access = 0x30f;
		rig_to_init(&r, &r.b, &c);
		c.psn += 100;
		rig_to_rtr(&r, &r.b, &r.a, &c);
		ck_assert(!asked(&r, ops[i], c.psn - 99));
		rig_fini(&r);
	}
}
END_TEST

/* A wrong answer: with payload, or to something else. */
START_TEST(bad_answer)
{
	for (unsigned i = 0; i < 3; i++) {
		struct burst b, p;
		struct rig r;

		start(&r, LINK_WIRE, QPT_RC, 0x30f);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_FLUSH, .len = 8, .access = GLOBAL);
		ck_assert(take(&r, &r.a, &b));
		p = pkt_from(&r, &r.b,
			     i == 2 ? OP_ATOMIC_ACK
			     : i    ? OP_READ_RESP_FIRST
				    : OP_READ_RESP_ONLY,
			     conf_rc.psn);
		pkt_give(&r, &r.a, &p, r.b.buf, i == 2 ? 0 : i ? 512 : 4);
		ck_assert_uint_eq(wc_status(&r.a, 1), WC_BAD_RESP_ERR);
		rig_fini(&r);
	}
}
END_TEST

TEST_MAIN("core_flush", headers, flush, flush_keys, flush_of_any_length, flush_nonsense, atomic_write, kinds_missing,
	  atomic_write_wrong, posting, once, another_one, bad_answer)
