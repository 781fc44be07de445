/* SPDX-License-Identifier: MIT */
/*
 * keys.c - every way in which a key can be wrong, against every operation that uses one.
 *
 * A region or a window of 64 bytes; for each operation one request that is right, and one for each wrong: none of these
 * reads or writes a byte, and each ends as the specification says.
 */

#include "proto/hdr.h"
#include "rig.h"
#include "t/suite.h"

#define AT  4096u /* where it begins in the buffer */
#define LEN 64u
#define ALL (ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC | ACC_FLUSH_GLOBAL)

enum wrong { RIGHT, OTHER_PD, KEY_BYTE, KEY_INDEX, NO_RIGHT, BEFORE, BEHIND, WRAPS, GONE, WRONGS };

struct use {
	enum wr_op op;
	uint32_t need; /* the right of the key */
	uint32_t len;
	bool aligned;
};

static const struct use ops[] = {
	{ WR_WRITE, ACC_REMOTE_WRITE, 64, false },    { WR_WRITE_IMM, ACC_REMOTE_WRITE, 64, false },
	{ WR_READ, ACC_REMOTE_READ, 64, false },      { WR_CMP_SWP, ACC_REMOTE_ATOMIC, 8, true },
	{ WR_FETCH_ADD, ACC_REMOTE_ATOMIC, 8, true }, { WR_ATOMIC_WRITE, ACC_REMOTE_WRITE, 8, true },
	{ WR_FLUSH, ACC_FLUSH_GLOBAL, 64, false },
};

static void start(struct rig *r, uint8_t type)
{
	struct link_conf c = conf_rc;

	c.type = type;
	c.access = ALL;
	rig_init(r, LINK_WIRE);
	rig_connect(r, &c);
	fill(r->a.buf, 2 * AT, 1);
	fill(r->b.buf, 2 * AT, 2);
}

static uint32_t region(struct host *x, uint32_t access, bool other_pd)
{
	struct mr_attr a = { .pdn = x->pdn,
			     .access = access,
			     .addr = (uintptr_t)x->buf + AT,
			     .iova = (uintptr_t)x->buf + AT,
			     .len = LEN,
			     .region = &x->region };
	uint32_t key;

	if (other_pd)
		ck_assert_int_eq(hca_pd_alloc(x->h, &a.pdn), 0);
	ck_assert_int_eq(hca_mr_reg(x->h, &a, &key), 0);
	return key;
}

/* A window of b.  (Of another PD it could not be bound here.) */
static uint32_t window(struct rig *r, unsigned type, uint32_t access)
{
	uint32_t key;

	ck_assert_int_eq(hca_mw_alloc(r->b.h, r->b.pdn, type, &key), 0);
	key ^= 1;
	SEND_WR(r, &r->b, .id = 1000, .op = WR_BIND_MW, .off = AT, .len = LEN, .rkey = key,
		.access = access & ~(uint32_t)ACC_LOCAL_WRITE);
	rig_run(r);
	ck_assert_uint_eq(wc_status(&r->b, 1000), WC_SUCCESS);
	return key;
}

static void end(struct rig *r, uint32_t key, unsigned type)
{
	if (!type)
		ck_assert_int_eq(hca_mr_dereg(r->b.h, key), 0);
	else if (type == 1)
		ck_assert_int_eq(hca_mw_dealloc(r->b.h, key), 0);
	else
		SEND_WR(r, &r->b, .id = 1001, .op = WR_LOCAL_INV, .imm = key);
	rig_run(r);
}

/* Offsets that are wrong by one, or by what the operation's alignment allows. */
static uint64_t offset(enum wrong w, const struct use *op, uint64_t buf)
{
	uint64_t step = op->aligned ? 8 : 1;

	switch (w) {
	case BEFORE: return AT - step;
	case BEHIND: return AT + LEN - op->len + step;
	case WRAPS: return -buf - 8; /* the last 8 bytes of the address space */
	default: return AT;
	}
}

/* type: 0 a region, 1 or 2 a window. */
static void remote(uint8_t qp_type, unsigned type, const struct use *op, enum wrong w)
{
	uint32_t access = w == NO_RIGHT ? ALL & ~op->need : ALL, key;
	static uint8_t before[2 * AT];
	struct rig r;

	start(&r, qp_type);
	key = type ? window(&r, type, access) : region(&r.b, access, w == OTHER_PD);
	if (w == GONE)
		end(&r, key, type);
	if (op->op == WR_WRITE_IMM)
		rig_recv(&r, &r.b, 9, 50000, 8);
	memcpy(before, r.b.buf, sizeof(before));
	SEND_WR(&r, &r.a, .id = 1, .op = op->op, .len = op->len, .roff = offset(w, op, (uintptr_t)r.b.buf),
		.access = FETH_GLOBAL,
		.rkey = w == KEY_BYTE    ? key ^ 0x80
			: w == KEY_INDEX ? key ^ 0x100
					 : key);
	rig_run(&r);
	ck_assert_msg(wc_status(&r.a, 1) == (w ? WC_REM_ACCESS_ERR : WC_SUCCESS), "op %d, type %u, wrong %d: WC %u",
		      op->op, type, w, wc_status(&r.a, 1));
	if (w) {
		ck_assert_mem_eq(before, r.b.buf, sizeof(before));
		check_fill(r.a.buf, 2 * AT, 1);
		ck_assert_uint_eq(fault_n(&r.b, "RESP_RKEY"), 1);
		ck_assert(has_event(&r.b, EV_QP_ACCESS_ERR));
	}
	rig_fini(&r);
}

START_TEST(remote_keys) /* conf: rule 6.1 */
{
	const struct use *op = &ops[_i];

	for (unsigned type = 0; type <= 2; type++)
		for (enum wrong w = RIGHT; w < WRONGS; w++)
			if (!type || w != OTHER_PD)
				remote(QPT_RC, type, op, w);
	for (enum wrong w = RIGHT; w < WRONGS; w++)
		remote(QPT_XRC_SEND, 0, op, w);
}
END_TEST

/* UC does not answer: the message is gone, nothing is written, and the QP lives. */
START_TEST(uc_keys) /* conf: rule 4.10 */
{
	for (unsigned k = 0; k < 2; k++)
		for (enum wrong w = OTHER_PD; w < WRONGS; w++) {
			static uint8_t before[2 * AT];
			uint32_t key;
			struct rig r;

			start(&r, QPT_UC);
			key = region(&r.b, w == NO_RIGHT ? ALL & ~ACC_REMOTE_WRITE : ALL, w == OTHER_PD);
			if (w == GONE)
				end(&r, key, 0);
			rig_recv(&r, &r.b, 9, 50000, 8);
			memcpy(before, r.b.buf, sizeof(before));
			SEND_WR(&r, &r.a, .id = 1, .op = ops[k].op, .len = ops[k].len,
				.roff = offset(w, &ops[k], (uintptr_t)r.b.buf),
				.rkey = w == KEY_BYTE    ? key ^ 0x80
					: w == KEY_INDEX ? key ^ 0x100
							 : key);
			rig_run(&r);
			ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
			ck_assert_mem_eq(before, r.b.buf, sizeof(before));
			ck_assert_uint_eq(fault_n(&r.b, "UC_RKEY"), 1);
			ck_assert_uint_eq(wc_status(&r.b, 9), 255);
			rig_fini(&r);
		}
}
END_TEST

/* Local keys, of what is read and of what is written to; NO_RIGHT is LOCAL_WRITE, which only the latter needs. */
static void local(const struct use *op, enum wrong w)
{
	bool written = op->op == WR_READ || op->op == WR_CMP_SWP || op->op == WR_FETCH_ADD;
	uint32_t key;
	struct rig r;
	bool bad = w && (w != NO_RIGHT || written);

	start(&r, QPT_RC);
	key = region(&r.a, w == NO_RIGHT ? 0 : ALL, w == OTHER_PD);
	if (w == GONE)
		ck_assert_int_eq(hca_mr_dereg(r.a.h, key), 0);
	rig_recv(&r, &r.b, 9, 50000, 64);
	SEND_WR(&r, &r.a, .id = 1, .op = op->op, .len = op->len, .off = offset(w, op, (uintptr_t)r.a.buf), .roff = 8192,
		.lkey = w == KEY_BYTE    ? key ^ 0x80
			: w == KEY_INDEX ? key ^ 0x100
					 : key);
	rig_run(&r);
	ck_assert_msg(wc_status(&r.a, 1) == (bad ? WC_LOC_PROT_ERR : WC_SUCCESS), "op %d, wrong %d: WC %u", op->op, w,
		      wc_status(&r.a, 1));
	if (bad)
		ck_assert_uint_eq(r.pkts, 0);
	rig_fini(&r);
}

START_TEST(local_keys)
{
	static const struct use sends[] = { { WR_SEND, 0, 64, false }, { WR_SEND_IMM, 0, 64, false } };

	for (enum wrong w = RIGHT; w < WRONGS; w++) {
		for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
			if (ops[i].op != WR_FLUSH)
				local(&ops[i], w);
		for (unsigned i = 0; i < 2; i++)
			local(&sends[i], w);
	}
}
END_TEST

/* Receive WRs: the receiver's fault, which the sender is told. */
START_TEST(recv_keys) /* conf: rule 4.9 */
{
	static const struct use recv = { WR_SEND, 0, 64, false };

	for (enum wrong w = RIGHT; w < WRONGS; w++) {
		struct {
			struct recv_wr wr;
			struct sge sge;
		} x = { { .wr_id = 9, .sge_n = 1 }, { .len = LEN } };
		uint32_t key;
		struct rig r;

		start(&r, QPT_RC);
		key = region(&r.b, w == NO_RIGHT ? 0 : ALL, w == OTHER_PD);
		x.sge.addr = (uintptr_t)r.b.buf + offset(w, &recv, (uintptr_t)r.b.buf);
		x.sge.lkey = w == KEY_BYTE ? key ^ 0x80 : w == KEY_INDEX ? key ^ 0x100 : key;
		ck_assert_int_eq(hca_post_recv(r.b.h, r.b.qpn, &x.wr, r.now), 0);
		if (w == GONE)
			end(&r, key, 0);
		SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = LEN);
		rig_run(&r);
		ck_assert_uint_eq(wc_status(&r.a, 1), w ? WC_REM_OP_ERR : WC_SUCCESS);
		ck_assert_uint_eq(wc_status(&r.b, 9), w ? WC_LOC_PROT_ERR : WC_SUCCESS);
		if (w)
			check_fill(r.b.buf, 2 * AT, 2);
		rig_fini(&r);
	}
}
END_TEST

/* Far from each other, with every bit in use: nothing in them tells where another one lies.  Regions and windows have 31 each. */
static void scattered(uint32_t (*make)(struct rig *), uint32_t fixed)
{
	enum { MANY = 4000, BITS = 31 };
	static uint32_t key[MANY];
	unsigned near = 0, set[BITS] = { 0 };
	struct rig r;

	rig_init(&r, LINK_WIRE);
	for (unsigned i = 0; i < MANY; i++) {
		key[i] = make(&r);
		ck_assert_uint_eq(key[i] & (1u << BITS), fixed);
		near += i && key[i] - key[i - 1] + (1u << 16) < 1u << 17;
		for (unsigned k = 0; k < BITS; k++)
			set[k] += key[i] >> k & 1;
	}
	ck_assert_uint_lt(near, 10); /* 0.25 are to be expected */
	for (unsigned k = 0; k < BITS; k++)
		ck_assert_msg(set[k] > MANY * 2 / 5 && set[k] < MANY * 3 / 5, "bit %u is set in %u of %u", k, set[k],
			      (unsigned)MANY);
	rig_fini(&r);
}

static uint32_t any_region(struct rig *r) { return region(&r->b, ACC_LOCAL_WRITE, false); }

static uint32_t any_window(struct rig *r)
{
	uint32_t key;

	ck_assert_int_eq(hca_mw_alloc(r->b.h, r->b.pdn, 2, &key), 0);
	return key;
}

START_TEST(unguessable)
{
	scattered(any_region, 0);
	scattered(any_window, 1u << 31);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("keys");
	TCase *t = tcase_create("keys");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, remote_keys, 0, (int)(sizeof(ops) / sizeof(*ops)));
	tcase_add_test(t, uc_keys);
	tcase_add_test(t, local_keys);
	tcase_add_test(t, recv_keys);
	tcase_add_test(t, unguessable);
	suite_add_tcase(s, t);
	return suite_run(s);
}
