/* SPDX-License-Identifier: MIT */
/* api_inline.c - as much inline data as was granted, out of as many pieces, on every type of QP; and not a byte more. */
#include "fixture.h"

enum { RC, UC, UD, XRC, TYPES };

static const enum ibv_qp_type types[TYPES] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND };

struct scene {
	struct fix f;
	struct ibv_qp *a, *b; /* b: what receives */
	struct ibv_ah *ah;
	struct fix_xrc x;
	uint32_t sge_n, inline_len; /* as granted */
};

static void qps_make(struct scene *s, unsigned t, uint32_t sge_n, uint32_t inline_len)
{
	struct ibv_qp_init_attr a = { .send_cq = s->f.cq,
				      .recv_cq = s->f.cq,
				      .qp_type = types[t],
				      .cap = { 4, t == XRC ? 0 : 4, sge_n, t == XRC ? 0 : 1, inline_len } };

	s->a = ibv_create_qp(s->f.pd, &a);
	ck_assert_msg(s->a != NULL, "%u sge, %u inline: %s", sge_n, inline_len, strerror(errno));
	s->sge_n = a.cap.max_send_sge;
	s->inline_len = a.cap.max_inline_data;
	ck_assert(s->sge_n >= sge_n && s->inline_len >= inline_len);
	s->b = t == XRC ? s->x.recv : fix_qp(&s->f, types[t], 4, NULL);
	if (t == XRC)
		ck_assert_int_eq(fix_state(s->b, IBV_QPS_RESET), 0);
	fix_connect(&s->f, s->a, s->b);
}

static void recv_ready(struct scene *s)
{
	ck_assert_int_eq(s->a->qp_type == IBV_QPT_XRC_SEND ? fix_srq_recv(&s->f, s->x.srq, 1, 4096, 2048)
							   : fix_recv(&s->f, s->b, 1, 4096, 2048),
			 0);
}

/* len bytes from the start of the buffer, in n pieces as equal as can be; the errno of the post. */
static int send_pieces(struct scene *s, unsigned n, unsigned len)
{
	struct ibv_send_wr *bad, wr = { .wr_id = 2,
					.opcode = IBV_WR_SEND,
					.num_sge = (int)n,
					.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
					.qp_type.xrc.remote_srqn = s->x.srqn };
	struct ibv_sge sge[64];
	unsigned at = 0;

	for (unsigned i = 0; i < n; i++) { /* inline data needs no lkey */
		sge[i] = (struct ibv_sge){ (uintptr_t)s->f.buf + at, (len - at) / (n - i), 0x1234 };
		at += sge[i].length;
	}
	wr.sg_list = sge;
	if (s->a->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = s->b->qp_num;
		wr.wr.ud.remote_qkey = 0x1111;
	}
	return ibv_post_send(s->a, &wr, &bad);
}

static void pieces(struct scene *s, unsigned n, unsigned len)
{
	unsigned grh = s->a->qp_type == IBV_QPT_UD ? 40 : 0;

	recv_ready(s);
	fix_fill(s->f.buf, len, n + len);
	ck_assert_msg(!send_pieces(s, n, len), "type %d: %u bytes of %u in %u pieces of %u", (int)s->a->qp_type, len,
		      s->inline_len, n, s->sge_n);
	memset(s->f.buf, 0, 2048); /* the post has taken it */
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = fix_wait_ok(s->f.cq);

		if (wc.wr_id == 1)
			ck_assert_uint_eq(wc.byte_len, len + grh);
	}
	ck_assert_msg(fix_filled(s->f.buf + 4096 + grh, len, n + len), "type %d: %u bytes in %u pieces",
		      (int)s->a->qp_type, len, n);
}

START_TEST(granted)
{
	static const uint32_t asked[] = { 0, 1, 63, 512, 1023, 1024 }, sges[] = { 1, 2, 3, 32 };
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 };
	struct scene s;

	memset(&s, 0, sizeof(s));
	fix_open(&s.f);
	fix_xrc_open(&s.f, &s.x);
	ah.grh.dgid = s.f.gid;
	s.ah = ibv_create_ah(s.f.pd, &ah);
	ck_assert(s.ah != NULL);
	for (unsigned t = 0; t < TYPES; t++)
		for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
			for (size_t k = 0; k < sizeof(sges) / sizeof(*sges); k++) {
				qps_make(&s, t, sges[k], asked[i]);
				for (unsigned n = 1; n <= s.sge_n; n += n < 3 || n == s.sge_n ? 1 : s.sge_n - n) {
					unsigned most = s.inline_len < 1024 ? s.inline_len : 1024;

					pieces(&s, n, most);
					pieces(&s, n, most / 2);
					pieces(&s, n, 0);
					ck_assert_int_eq(send_pieces(&s, n, s.inline_len + 1), EINVAL);
				}
				ck_assert_int_eq(ibv_destroy_qp(s.a), 0);
				if (t != XRC)
					ck_assert_int_eq(ibv_destroy_qp(s.b), 0);
			}
	ck_assert_int_eq(ibv_destroy_ah(s.ah), 0);
	fix_xrc_close(&s.x);
	fix_close(&s.f);
}
END_TEST

void api_inline(Suite *s) { SUITE_ADD(s, granted); }
