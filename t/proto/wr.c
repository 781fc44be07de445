/* SPDX-License-Identifier: MIT */
/*
 * wr.c - the rows of wr.def agree with each other, with the packets of opcode.def and with what the core takes.
 */
#include <errno.h>

#include "proto/wr_kind.h"
#include "rig.h"
#include "t/suite.h"

static const struct row {
	const char *name;
	uint8_t op, kind, packet;
} rows[] = {
#define WR(name, code, kind, packet, on, data, len, right, wc, text) { #name, WR_##name, KIND_##kind, OP_##packet },
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC
};
#define ROWS (sizeof(rows) / sizeof(*rows))

/* A column that depends on the kind alone - the responder sees nothing else - is the same for all its work requests. */
START_TEST(kinds)
{
	for (unsigned i = 0; i < ROWS; i++) {
		const struct wr_row *w = wr_row(rows[i].op);

		ck_assert_ptr_nonnull(w);
		ck_assert_msg(w->right == kind_right(rows[i].kind), "%s: the right of its kind is another",
			      rows[i].name);
		ck_assert_msg(w->len == kind_len(rows[i].kind), "%s: the length of its kind is another", rows[i].name);
		ck_assert_msg(w->len == 0 || w->len == 8, "%s: of %u bytes", rows[i].name, w->len);
		for (unsigned k = 0; k < i; k++)
			ck_assert_str_ne(w->name, wr_row(rows[k].op)->name);
	}
	ck_assert_ptr_null(wr_row(11));
	ck_assert_ptr_null(wr_row(WR_CODES));
	ck_assert_ptr_null(wr_row(UINT32_MAX));
}
END_TEST

/* The packet that a message is if it fits into one has what the work request says, in each of its services. */
START_TEST(packets)
{
	static const struct {
		unsigned on, svc;
	} services[] = { { ON_RC, SVC_RC }, { ON_RC, SVC_XRC }, { ON_UC, SVC_UC }, { ON_UD, SVC_UD } };

	for (unsigned i = 0; i < ROWS; i++) {
		const struct wr_row *w = wr_row(rows[i].op);

		if (rows[i].packet == OP_NONE || !(w->on & ~ON_RAW))
			continue;
		for (unsigned s = 0; s < 4; s++) {
			const struct opcode *p = opcode_get((uint8_t)(services[s].svc | rows[i].packet));

			ck_assert_msg(!p->name == !(w->on & services[s].on), "%s: packet %#x", rows[i].name,
				      services[s].svc | rows[i].packet);
			if (!p->name)
				continue;
			ck_assert_msg(p->kind == rows[i].kind && p->place == PLACE_ONLY, "%s", p->name);
			ck_assert_msg(!w->right == !(p->hdrs & (HDR_RETH | HDR_ATOMIC)), "%s: whose memory?", p->name);
			ck_assert_msg((w->data == WR_DATA_OUT) == (p->pay != PAY_NONE), "%s: payload", p->name);
			ck_assert_msg((w->data == WR_DATA_OUT && w->len) == (p->pay == PAY_8), "%s: length", p->name);
			ck_assert_msg(p->role == (wr_kinds[rows[i].op].asks ? ROLE_ASK : ROLE_MESSAGE), "%s", p->name);
		}
	}
}
END_TEST

static int post(uint8_t type, uint8_t op, unsigned flags, uint32_t sge_len, uint32_t inline_len)
{
	struct link_conf c = conf_rc;
	struct {
		struct send_wr wr;
		struct sge sge;
	} x = { .wr = { .wr_id = 1, .op = op, .flags = (uint8_t)(flags | WR_SIGNALED), .inline_len = inline_len } };
	struct rig r;
	int err;

	c.type = type;
	rig_init(&r, LINK_WIRE);
	rig_connect(&r, &c);
	if (sge_len) {
		x.wr.sge_n = 1;
		x.sge = (struct sge){ (uintptr_t)r.a.buf, sge_len, r.a.key };
	}
	err = hca_post_send(r.a.h, r.a.qpn, &x.wr, r.now);
	rig_fini(&r);
	return err;
}

/* Each work request on each type of QP, with and without data, inline or not: what the table has is taken, and no more. */
START_TEST(posting)
{
	static const uint8_t types[] = { QPT_RC, QPT_UC, QPT_UD, QPT_XRC_SEND };

	for (unsigned i = 0; i < ROWS; i++) {
		const struct wr_row *w = wr_row(rows[i].op);

		for (unsigned t = 0; t < sizeof(types); t++) {
			bool has = w->on >> types[t] & 1;

			ck_assert_msg(post(types[t], rows[i].op, 0, 0, 0) == (has ? 0 : EINVAL), "%s", rows[i].name);
			ck_assert_msg(post(types[t], rows[i].op, 0, 8, 0) ==
					      (has && w->data != WR_DATA_NONE ? 0 : EINVAL),
				      "%s: an sge", rows[i].name);
			ck_assert_msg(post(types[t], rows[i].op, WR_INLINE, 0, 8) ==
					      (has && w->data == WR_DATA_OUT ? 0 : EINVAL),
				      "%s: inline", rows[i].name);
			ck_assert_msg(post(types[t], rows[i].op, WR_IP_CSUM, 0, 0) == EINVAL, "%s: checksum",
				      rows[i].name);
		}
	}
	ck_assert_int_eq(post(QPT_RC, 11, 0, 0, 0), EOPNOTSUPP); /* a number that verbs has, too */
	ck_assert_int_eq(post(QPT_RC, WR_CODES, 0, 0, 0), EINVAL);
}
END_TEST

TEST_MAIN("wr", kinds, packets, posting)
