/* SPDX-License-Identifier: MIT */
/*
 * api_offload.c - what adapters do for RAW_PACKET QPs: segments, checksums, counters of flows, frames spread over WQs.  On the
 * loopback interface of a network namespace of our own; t/e2e/raw.test looks at the frames from another host.
 */
#include "fixture.h"
#include "../fds_left.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>

#define MSS  1000u
#define HDR  54u   /* Ethernet, IPv4, TCP */
#define SLOT 2048u /* of a received frame */

struct scene {
	struct fix f;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2]; /* 0 sends */
	unsigned char *in;    /* 16 slots */
	struct ibv_mr *in_mr;
};

static struct ibv_qp *raw_qp(struct scene *s, unsigned i, unsigned max_tso)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RAW_PACKET,
					 .send_cq = s->cq[i],
					 .recv_cq = s->cq[i],
					 .cap = { 8, 16, 2, 2, 64 },
					 .pd = s->f.pd,
					 .max_tso_header = (uint16_t)max_tso,
					 .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO,
					 .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
						      IBV_QP_INIT_ATTR_MAX_TSO_HEADER };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp_ex(s->f.ctx, &a);

	ck_assert_msg(qp != NULL, "%s", strerror(errno));
	ck_assert_int_eq(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT), 0);
	ck_assert_int_eq(fix_state(qp, IBV_QPS_RTR), 0);
	ck_assert_int_eq(fix_state(qp, IBV_QPS_RTS), 0);
	return qp;
}

static void in_post(struct scene *s, unsigned slot)
{
	struct ibv_sge sge = { (uintptr_t)s->in + slot * SLOT, SLOT, s->in_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	ck_assert_int_eq(ibv_post_recv(s->qp[1], &wr, &bad), 0);
}

static void scene_open(struct scene *s)
{
	fix_open(&s->f);
	s->in = calloc(16, SLOT);
	s->in_mr = ibv_reg_mr(s->f.pd, s->in, 16 * SLOT, IBV_ACCESS_LOCAL_WRITE);
	ck_assert(s->in_mr != NULL);
	for (unsigned i = 0; i < 2; i++) {
		s->cq[i] = ibv_create_cq(s->f.ctx, 64, NULL, NULL, 0);
		s->qp[i] = raw_qp(s, i, i ? 0 : 64);
	}
	for (unsigned i = 0; i < 16; i++)
		in_post(s, i);
}

static void scene_close(struct scene *s)
{
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(ibv_destroy_qp(s->qp[i]), 0);
		ck_assert_int_eq(ibv_destroy_cq(s->cq[i]), 0);
	}
	ck_assert_int_eq(ibv_dereg_mr(s->in_mr), 0);
	free(s->in);
	fix_close(&s->f);
}

/* Headers of TCP from 192.0.2.n, addressed to nobody: the host's own stack drops the frame. */
static void head_make(unsigned char *p, unsigned n, bool udp)
{
	static const unsigned char head[HDR] = {
		2,    0,    0,    0, 0,    9, 2, 0, 0,   0, 0,    8,    0x08, 0x00, 0x45, 0,  0,    0,
		0,    7,    0x40, 0, 64,   6, 0, 0, 192, 0, 2,    1,    192,  0,    2,    99, 0x10, 0x20,
		0x30, 0x40, 0,    0, 0x10, 0, 0, 0, 0,   0, 0x50, 0x19, 1,    0,    0,    0,  0,    0,
	};

	memcpy(p, head, HDR);
	p[29] = (unsigned char)n;
	if (udp)
		p[23] = 17;
}

static void put16(unsigned char *p, unsigned v)
{
	p[0] = (unsigned char)(v >> 8);
	p[1] = (unsigned char)v;
}

static unsigned get16(const unsigned char *p) { return (unsigned)p[0] << 8 | p[1]; }

/* A frame of UDP of len bytes at the start of the buffer, no checksums. */
static void udp_make(struct scene *s, unsigned n, unsigned len)
{
	fix_fill(s->f.buf, len, 5);
	head_make(s->f.buf, n, true);
	put16(s->f.buf + 16, len - 14);
	put16(s->f.buf + 38, len - 34);
	put16(s->f.buf + 40, 0);
}

static void buf_send(struct scene *s, unsigned len, unsigned flags)
{
	ck_assert_int_eq(fix_send(&s->f, s->qp[0], 1, 0, len, IBV_SEND_SIGNALED | flags), 0);
	fix_wait_ok(s->cq[0]);
}

static struct ibv_flow *flow_all(struct ibv_qp *qp)
{
	struct ibv_flow *f = ibv_create_flow(qp,
					     &(struct ibv_flow_attr){ .type = IBV_FLOW_ATTR_ALL_DEFAULT, .port = 1 });

	ck_assert_msg(f != NULL, "%s", strerror(errno));
	return f;
}

/* ---- segments -------------------------------------------------------------------- */

static void tso_post(struct scene *s, bool ex, unsigned len, unsigned hdr)
{
	struct ibv_sge sge[2] = { { (uintptr_t)s->f.buf + 128, 100, s->f.mr->lkey },
				  { (uintptr_t)s->f.buf + 228, len - 100, s->f.mr->lkey } };
	struct ibv_send_wr *bad, wr = { .wr_id = 3,
					.opcode = IBV_WR_TSO,
					.send_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM,
					.sg_list = sge,
					.num_sge = 2,
					.tso = { s->f.buf, (uint16_t)hdr, MSS } };
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(s->qp[0]);

	if (!ex) {
		ck_assert_int_eq(ibv_post_send(s->qp[0], &wr, &bad), 0);
		return;
	}
	ibv_wr_start(x);
	x->wr_id = 3;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_tso(x, s->f.buf, (uint16_t)hdr, MSS);
	ibv_wr_set_sge_list(x, 2, sge);
	ck_assert_int_eq(ibv_wr_complete(x), 0);
}

static void tso_check(struct scene *s, unsigned total)
{
	unsigned off = 0;

	for (unsigned i = 0; off < total; i++) {
		struct ibv_wc wc = fix_wait_ok(s->cq[1]);
		unsigned n = total - off < MSS ? total - off : MSS;
		const unsigned char *p = s->in + wc.wr_id * SLOT;

		ck_assert_uint_eq(wc.byte_len, HDR + n);
		ck_assert(wc.wc_flags & IBV_WC_IP_CSUM_OK);
		ck_assert_uint_eq(get16(p + 16), HDR - 14 + n);
		ck_assert_uint_eq(get16(p + 18), 7 + i);
		ck_assert_uint_eq(get16(p + 40), 0x1000 + off);
		ck_assert_uint_eq(p[47], off + n == total ? 0x19 : 0x10);
		ck_assert_int_eq(memcmp(p + HDR, s->f.buf + 128 + off, n), 0);
		in_post(s, (unsigned)wc.wr_id);
		off += n;
	}
}

START_TEST(tso)
{
	struct ibv_device_attr_ex d;
	struct ibv_flow *all;
	struct scene s;

	scene_open(&s);
	all = flow_all(s.qp[1]);
	ck_assert_int_eq(ibv_query_device_ex(s.f.ctx, NULL, &d), 0);
	ck_assert(d.tso_caps.supported_qpts == 1u << IBV_QPT_RAW_PACKET && d.tso_caps.max_tso >= 65535);
	for (unsigned round = 0; round < 4; round++) {
		unsigned len = round < 2 ? 7500 : 900;

		fix_fill(s.f.buf, BUF_LEN, round);
		head_make(s.f.buf, 1, false);
		tso_post(&s, round & 1, len, HDR);
		ck_assert_int_eq((int)fix_wait_ok(s.cq[0]).opcode, IBV_WC_TSO);
		tso_check(&s, len);
	}
	ck_assert_int_eq(ibv_destroy_flow(all), 0);
	scene_close(&s);
}
END_TEST

START_TEST(tso_refused)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RAW_PACKET,
					 .cap = { 1, 1, 1, 1, 0 },
					 .max_tso_header = 1000,
					 .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_TSO };
	struct scene s;

	scene_open(&s);
	head_make(s.f.buf, 1, false);
	wr.tso.hdr = s.f.buf;
	wr.tso.mss = MSS;
	for (unsigned len = 0; len <= 65; len += 65) { /* none; more than the QP was made for */
		wr.tso.hdr_sz = (uint16_t)len;
		ck_assert_int_eq(ibv_post_send(s.qp[0], &wr, &bad), EINVAL);
	}
	wr.tso.hdr_sz = HDR;
	ck_assert_int_eq(ibv_post_send(s.qp[1], &wr, &bad), EINVAL);
	wr.tso.mss = 0;
	ck_assert_int_eq(ibv_post_send(s.qp[0], &wr, &bad), EINVAL);
	wr.tso.mss = MSS;
	wr.send_flags = IBV_SEND_INLINE;
	ck_assert_int_eq(ibv_post_send(s.qp[0], &wr, &bad), EINVAL);
	a.send_cq = a.recv_cq = s.cq[0];
	a.pd = s.f.pd;
	ck_assert(!ibv_create_qp_ex(s.f.ctx, &a) && errno == EINVAL);
	a.qp_type = IBV_QPT_UD;
	ck_assert(!ibv_create_qp_ex(s.f.ctx, &a) && errno == EOPNOTSUPP);
	/* Headers that are not: found when it is executed. */
	tso_post(&s, false, 500, HDR - 1);
	ck_assert_int_eq(fix_wait(s.cq[0]).status, IBV_WC_LOC_QP_OP_ERR);
	scene_close(&s);
}
END_TEST

/* ---- checksums -------------------------------------------------------------------- */

START_TEST(checksums)
{
	struct ibv_device_attr_ex d;
	struct ibv_flow *all;
	struct ibv_qp *rc;
	struct ibv_wc wc;
	struct scene s;

	scene_open(&s);
	all = flow_all(s.qp[1]);
	ck_assert_int_eq(ibv_query_device_ex(s.f.ctx, NULL, &d), 0);
	ck_assert(d.raw_packet_caps == IBV_RAW_PACKET_CAP_IP_CSUM &&
		  d.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM);
	ck_assert(!(d.orig_attr.device_cap_flags & (IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_RC_IP_CSUM)));
	udp_make(&s, 1, 301);
	buf_send(&s, 301, IBV_SEND_IP_CSUM);
	wc = fix_wait_ok(s.cq[1]);
	ck_assert(wc.byte_len == 301 && wc.wc_flags & IBV_WC_IP_CSUM_OK);
	ck_assert_uint_ne(get16(s.in + wc.wr_id * SLOT + 40), 0);
	ck_assert_uint_ne(get16(s.in + wc.wr_id * SLOT + 24), 0);
	ck_assert_int_eq(memcmp(s.in + wc.wr_id * SLOT + 42, s.f.buf + 42, 301 - 42), 0);
	/* Not asked for: as it is, and it is wrong. */
	buf_send(&s, 301, 0);
	wc = fix_wait_ok(s.cq[1]);
	ck_assert(!(wc.wc_flags & IBV_WC_IP_CSUM_OK));
	ck_assert_int_eq(memcmp(s.in + wc.wr_id * SLOT, s.f.buf, 301), 0);
	ck_assert_int_eq(ibv_destroy_flow(all), 0);
	/* Refused where it is not offered. */
	rc = fix_qp(&s.f, IBV_QPT_RC, 4, NULL);
	fix_init(rc);
	fix_rtr(&s.f, rc, rc);
	fix_rts(rc);
	ck_assert_int_eq(fix_send(&s.f, rc, 1, 0, 8, IBV_SEND_IP_CSUM), EINVAL);
	ck_assert_int_eq(ibv_destroy_qp(rc), 0);
	scene_close(&s);
}
END_TEST

/* ---- counters -------------------------------------------------------------------- */

/* Frames from 192.0.2.n; n 0: all. */
static struct ibv_flow *flow_counted(struct ibv_qp *qp, struct ibv_counters *c, unsigned n, bool drop)
{
	struct {
		struct ibv_flow_attr a;
		struct ibv_flow_spec_ipv4 ip;
		char rest[sizeof(struct ibv_flow_spec_counter_action) + sizeof(struct ibv_flow_spec_action_drop)];
	} u = { .a = { .num_of_specs = drop ? 3 : 2, .port = 1, .priority = (uint16_t)(n ? 0 : 1) },
		.ip = { .type = IBV_FLOW_SPEC_IPV4,
			.size = sizeof(u.ip),
			.val.src_ip = htonl(0xc0000200 + n),
			.mask.src_ip = n ? UINT32_MAX : 0 } };
	struct ibv_flow_spec_counter_action count = { .type = IBV_FLOW_SPEC_ACTION_COUNT,
						      .size = sizeof(count),
						      .counters = c };
	struct ibv_flow_spec_action_drop dropped = { .type = IBV_FLOW_SPEC_ACTION_DROP, .size = sizeof(dropped) };
	struct ibv_flow *f;

	u.a.size = sizeof(u);
	memcpy(u.rest, &count, sizeof(count));
	memcpy(u.rest + sizeof(count), &dropped, sizeof(dropped));
	f = ibv_create_flow(qp, &u.a);
	ck_assert_msg(f != NULL, "%s", strerror(errno));
	return f;
}

static struct ibv_counters *counters_new(struct scene *s)
{
	struct ibv_counters_init_attr ia = { 0 };
	struct ibv_counter_attach_attr packets = { IBV_COUNTER_PACKETS, 0, 0 }, bytes = { IBV_COUNTER_BYTES, 2, 0 };
	struct ibv_counters *c = ibv_create_counters(s->f.ctx, &ia);

	ck_assert(c != NULL);
	ck_assert_int_eq(ibv_attach_counters_point_flow(c, &packets, NULL), 0);
	ck_assert_int_eq(ibv_attach_counters_point_flow(c, &bytes, NULL), 0);
	return c;
}

static void counted(struct ibv_counters *c, uint64_t packets, uint64_t bytes)
{
	uint64_t v[3] = { 9, 9, 9 };

	ck_assert_int_eq(ibv_read_counters(c, v, 3, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
	ck_assert_msg(v[0] == packets && !v[1] && v[2] == bytes, "%lu packets and %lu bytes instead of %lu and %lu",
		      v[0], v[2], packets, bytes);
}

/* A frame from each of the first n, and then from 192.0.2.7, whose arrival says that all have been looked at. */
static void frames_from(struct scene *s, unsigned n, unsigned len)
{
	struct ibv_wc wc;

	for (unsigned i = 1; i <= n; i++) {
		udp_make(s, i, len);
		buf_send(s, len, 0);
	}
	udp_make(s, 7, 60);
	buf_send(s, 60, 0);
	do {
		wc = fix_wait_ok(s->cq[1]);
		in_post(s, (unsigned)wc.wr_id);
	} while (wc.byte_len != 60);
}

START_TEST(counters)
{
	struct ibv_counter_attach_attr bad = { IBV_COUNTER_PACKETS, 0, 1 };
	struct ibv_flow *one, *two, *rest;
	struct ibv_counters *c, *all;
	struct rlimit old;
	uint64_t v[3];
	struct scene s;
	int err;

	scene_open(&s);
	c = counters_new(&s);
	all = counters_new(&s);
	ck_assert_int_eq(ibv_attach_counters_point_flow(c, &bad, NULL), EOPNOTSUPP);
	bad.comp_mask = 0;
	one = flow_counted(s.qp[1], c, 1, false);
	rest = flow_counted(s.qp[1], all, 0, false);
	ck_assert_int_eq(ibv_attach_counters_point_flow(c, &bad, one), ENOTSUP);
	ck_assert_int_eq(ibv_attach_counters_point_flow(c, &bad, NULL), EBUSY);
	ck_assert_int_eq(ibv_destroy_counters(c), EBUSY);
	ck_assert_int_eq(ibv_read_counters(c, v, 2, 0), EINVAL);
	counted(c, 0, 0);
	frames_from(&s, 3, 200);
	counted(c, 1, 200);
	counted(all, 3, 460);
	/* Two flows add up, a dropped frame counts, and what was counted stays. */
	two = flow_counted(s.qp[1], c, 2, true);
	frames_from(&s, 2, 300);
	counted(c, 3, 800);
	counted(all, 4, 520);
	/* Without a descriptor for that a flow is not destroyed, and is as it was. */
	old = fds_left(0);
	err = ibv_destroy_flow(one);
	ok(setrlimit(RLIMIT_NOFILE, &old));
	ck_assert_int_eq(err, EMFILE);
	frames_from(&s, 1, 100);
	counted(c, 4, 900);
	counted(all, 5, 580);
	ck_assert_int_eq(ibv_destroy_flow(one), 0);
	frames_from(&s, 2, 100);
	counted(c, 5, 1000);
	counted(all, 7, 740);
	ck_assert_int_eq(ibv_destroy_flow(two), 0);
	frames_from(&s, 2, 100);
	counted(c, 5, 1000);
	ck_assert_int_eq(ibv_destroy_flow(rest), 0);
	ck_assert_int_eq(ibv_destroy_counters(c), 0);
	ck_assert_int_eq(ibv_destroy_counters(all), 0);
	scene_close(&s);
}
END_TEST

void api_offload(Suite *s)
{
	if (getenv("API_OWN_NET"))
		SUITE_ADD(s, tso, tso_refused, checksums, counters);
	else
		printf("# skipped: offloads of raw packets: there is no network namespace of our own\n");
}
