/* SPDX-License-Identifier: MIT */
/*
 * cm_golden.c - how Linux connects: every CM message of the recordings is decoded and made again, and each
 * exchange is played twice, an agent of ours in the place of either kernel.  Not a byte of what it sends may
 * differ.
 */
#include "proto/bytes.h"
#include "proto/cm.h"
#include "t/pcap.h"
#include "t/suite.h"

#include <stddef.h>
#include <string.h>

#define BTH_DETH 20u /* bytes in front of the MAD */
#define MADS     16
#define MAD_HDR  24u

static const struct {
	const char *name;
	size_t mads;
} files[] = {
	{ "cm-reject.pcap", 2 }, { "cm-ud.pcap", 2 },   { "rc-rping.pcap", 5 },
	{ "rsocket.pcap", 4 },   { "ipv6-rc.pcap", 0 }, { "vectors.txt", 8 },
};
#define FILES (int)(sizeof(files) / sizeof(*files))

struct frame {
	struct gsi g;
	struct cm_msg m;
};

static size_t frames_read(const char *name, struct frame *f)
{
	struct pcap p;
	size_t n = 0;

	pcap_read(&p, name);
	for (size_t i = 0; i < p.n; i++) {
		struct roce r;

		if (!pcap_roce(&p, i, &r) || r.pkt[0] != 0x64 || be24_get(r.pkt + 5) != QPN_GSI)
			continue;
		ck_assert_uint_eq(r.len, BTH_DETH + MAD_LEN + 4);
		ck_assert_uint_eq(be32_get(r.pkt + 12), QKEY_GSI);
		ck_assert_uint_lt(n, MADS);
		memcpy(f[n].g.mad, r.pkt + BTH_DETH, MAD_LEN);
		memcpy(f[n].g.route.sgid, r.sgid, 16);
		memcpy(f[n].g.route.dgid, r.dgid, 16);
		f[n].g.sqpn = QPN_GSI;
		ck_assert(cm_msg_get(&f[n].m, f[n].g.mad));
		n++;
	}
	pcap_free(&p);
	return n;
}

START_TEST(every_message_again) /* conf: rule 7.2 */
{
	struct frame f[MADS];
	uint8_t mad[MAD_LEN];

	for (int k = 0; k < FILES; k++) {
		size_t n = frames_read(files[k].name, f);

		ck_assert_msg(n == files[k].mads, "%s: %zu", files[k].name, n);
		for (size_t i = 0; i < n; i++) {
			memset(mad, 0xa5, sizeof(mad));
			cm_msg_put(mad, &f[i].m);
			ck_assert_msg(!memcmp(mad, f[i].g.mad, MAD_LEN), "%s: %s", files[k].name,
				      cm_attr_name(f[i].m.attr));
		}
	}
}
END_TEST

/*
 * Where each field stands, as rule 7.2 has it.  Alone, with all bits set, it sets these and no others, and is read from there.
 * The mask is that of its last byte.
 */
#define PLACE(attr, member, off, n, mask)                                                                      \
	{                                                                                                      \
		CM_##attr, offsetof(struct cm_msg, member), sizeof(((struct cm_msg *)0)->member), off, n, mask \
	}
#define BYTES(attr, member, off, n)   PLACE(attr, member, off, n, 0xff)
#define BITS(attr, member, off, mask) PLACE(attr, member, off, 1, mask)
#define IDS(attr, m)                  BYTES(attr, m.local_id, 0, 4), BYTES(attr, m.remote_id, 4, 4)
#define PATH(p, off)                                                                                     \
	BYTES(REQ, p.slid, off, 2), BYTES(REQ, p.dlid, (off) + 2, 2), BYTES(REQ, p.sgid, (off) + 4, 16), \
		BYTES(REQ, p.dgid, (off) + 20, 16), PLACE(REQ, p.flow_label, (off) + 36, 3, 0xf0),       \
		BITS(REQ, p.rate, (off) + 39, 0x3f), BYTES(REQ, p.tclass, (off) + 40, 1),                \
		BYTES(REQ, p.hop_limit, (off) + 41, 1), BITS(REQ, p.sl, (off) + 42, 0xf0),               \
		BITS(REQ, p.subnet_local, (off) + 42, 0x08), BITS(REQ, p.ack_timeout, (off) + 43, 0xf8)

static const struct {
	uint16_t attr;
	size_t at, size;
	unsigned off, n;
	uint8_t mask;
} places[] = {
	BYTES(REQ, req.local_id, 0, 4),
	BYTES(REQ, req.vendor_id, 5, 3),
	BYTES(REQ, req.service_id, 8, 8),
	BYTES(REQ, req.ca_guid, 16, 8),
	BYTES(REQ, req.qkey, 28, 4),
	BYTES(REQ, req.qpn, 32, 3),
	BYTES(REQ, req.resp_res, 35, 1),
	BYTES(REQ, req.local_eecn, 36, 3),
	BYTES(REQ, req.init_depth, 39, 1),
	BYTES(REQ, req.remote_eecn, 40, 3),
	BITS(REQ, req.remote_timeout, 43, 0xf8),
	BITS(REQ, req.transport, 43, 0x06),
	BITS(REQ, req.flow_ctrl, 43, 0x01),
	BYTES(REQ, req.psn, 44, 3),
	BITS(REQ, req.local_timeout, 47, 0xf8),
	BITS(REQ, req.retry_cnt, 47, 0x07),
	BYTES(REQ, req.pkey, 48, 2),
	BITS(REQ, req.mtu, 50, 0xf0),
	BITS(REQ, req.rdc, 50, 0x08),
	BITS(REQ, req.rnr_retry, 50, 0x07),
	BITS(REQ, req.max_retries, 51, 0xf0),
	BITS(REQ, req.srq, 51, 0x08),
	BITS(REQ, req.ext_transport, 51, 0x07),
	PATH(req.path, 52),
	PATH(req.alt, 96),
	BYTES(REQ, req.data, 140, 92),
	IDS(MRA, mra),
	BITS(MRA, mra.msg, 8, 0xc0),
	BITS(MRA, mra.timeout, 9, 0xf8),
	BYTES(MRA, mra.data, 10, 222),
	IDS(REJ, rej),
	BITS(REJ, rej.msg, 8, 0xc0),
	BITS(REJ, rej.ari_len, 9, 0xfe),
	BYTES(REJ, rej.reason, 10, 2),
	BYTES(REJ, rej.ari, 12, 72),
	BYTES(REJ, rej.data, 84, 148),
	IDS(REP, rep),
	BYTES(REP, rep.qkey, 8, 4),
	BYTES(REP, rep.qpn, 12, 3),
	BYTES(REP, rep.eecn, 16, 3),
	BYTES(REP, rep.psn, 20, 3),
	BYTES(REP, rep.resp_res, 24, 1),
	BYTES(REP, rep.init_depth, 25, 1),
	BITS(REP, rep.ack_delay, 26, 0xf8),
	BITS(REP, rep.failover, 26, 0x06),
	BITS(REP, rep.flow_ctrl, 26, 0x01),
	BITS(REP, rep.rnr_retry, 27, 0xe0),
	BITS(REP, rep.srq, 27, 0x10),
	BYTES(REP, rep.ca_guid, 28, 8),
	BYTES(REP, rep.data, 36, 196),
	IDS(RTU, rtu),
	BYTES(RTU, rtu.data, 8, 224),
	IDS(DREQ, dreq),
	BYTES(DREQ, dreq.qpn, 8, 3),
	BYTES(DREQ, dreq.data, 12, 220),
	IDS(DREP, drep),
	BYTES(DREP, drep.data, 8, 224),
	BYTES(SIDR_REQ, sidr_req.request_id, 0, 4),
	BYTES(SIDR_REQ, sidr_req.pkey, 4, 2),
	BYTES(SIDR_REQ, sidr_req.service_id, 8, 8),
	BYTES(SIDR_REQ, sidr_req.data, 16, 216),
	BYTES(SIDR_REP, sidr_rep.request_id, 0, 4),
	BYTES(SIDR_REP, sidr_rep.status, 4, 1),
	BYTES(SIDR_REP, sidr_rep.info_len, 5, 1),
	BYTES(SIDR_REP, sidr_rep.qpn, 8, 3),
	BYTES(SIDR_REP, sidr_rep.service_id, 12, 8),
	BYTES(SIDR_REP, sidr_rep.qkey, 20, 4),
	BYTES(SIDR_REP, sidr_rep.info, 24, 72),
	BYTES(SIDR_REP, sidr_rep.data, 96, 136),
};

START_TEST(every_field_alone) /* conf: rule 7.2 */
{
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		struct cm_msg m = { .attr = places[i].attr }, got;
		uint8_t mad[MAD_LEN], want[MAD_LEN - MAD_HDR] = { 0 }, again[MAD_LEN];

		memset((char *)&m + places[i].at, 0xff, places[i].size);
		memset(want + places[i].off, 0xff, places[i].n);
		want[places[i].off + places[i].n - 1] = places[i].mask;
		cm_msg_put(mad, &m);
		ck_assert_msg(!memcmp(mad + MAD_HDR, want, sizeof(want)), "%s, byte %u", cm_attr_name(m.attr),
			      places[i].off);
		ck_assert(cm_msg_get(&got, mad));
		/* Neither is anything else read from there. */
		memset((char *)&m + places[i].at, 0, places[i].size);
		ck_assert_mem_ne((char *)&got + places[i].at, (char *)&m + places[i].at, places[i].size);
		cm_msg_put(again, &got);
		ck_assert_mem_eq(again, mad, MAD_LEN);
		memset((char *)&got + places[i].at, 0, places[i].size);
		ck_assert_mem_eq(&got, &m, sizeof(m));
	}
}
END_TEST

/* The annotated exchange, rule 7.13. */
START_TEST(rping_read)
{
	struct frame f[MADS];
	struct cm_ip ip;
	uint8_t data[CM_IP_LEN];
	const struct cm_req *q = &f[0].m.req;
	const struct cm_rep *p = &f[1].m.rep;

	ck_assert_uint_eq(frames_read("rc-rping.pcap", f), 5);
	ck_assert_uint_eq(q->local_id, 0x1d0cbbc6);
	ck_assert_uint_eq(q->service_id, cm_service_id(CM_PS_TCP, 7174));
	ck_assert_uint_eq(q->ca_guid, 0x00000afffe4d0065);
	ck_assert(q->qpn == 0x1a && q->resp_res == 1 && q->init_depth == 1 && q->psn == 0x79151d);
	ck_assert(q->remote_timeout == 20 && q->local_timeout == 20 && q->transport == CM_RC && !q->flow_ctrl);
	ck_assert(q->retry_cnt == 7 && q->rnr_retry == 7 && q->pkey == 0xffff && q->mtu == 3 && q->max_retries == 15);
	ck_assert(!q->srq && !q->rdc && !q->ext_transport && !q->qkey);
	ck_assert(q->path.slid == 0xffff && q->path.dlid == 0xffff && q->path.hop_limit == 64);
	ck_assert(gid_same(q->path.sgid, f[0].g.route.sgid) && gid_same(q->path.dgid, f[0].g.route.dgid));
	ck_assert_uint_eq(q->path.flow_label, cm_flow_label(36522, 7174));
	ck_assert_uint_eq(q->path.ack_timeout, cm_ack_timeout(15, 18));
	ck_assert(cm_ip_get(&ip, q->data) && ip.version == 4 && ip.sport == 36522);
	ck_assert(gid_same(ip.src, q->path.sgid) && gid_same(ip.dst, q->path.dgid));
	cm_ip_put(data, &ip);
	ck_assert(!memcmp(data, q->data, CM_IP_LEN));

	ck_assert(p->local_id == 0xd5ae4093 && p->remote_id == q->local_id && p->qpn == 0x1a && p->psn == 0xbd43c3);
	ck_assert(p->resp_res == 1 && p->init_depth == 1 && p->ack_delay == 15 && p->rnr_retry == 7 && !p->srq);
	ck_assert_uint_eq(f[3].m.dreq.qpn, 0x1a);
}
END_TEST

/* ---- in the place of one ------------------------------------------------------------ */

struct role {
	struct cm *cm;
	uint32_t id;
	mono_t now;
	struct cm_event ev; /* the last */
};

/* The program's action that made the kernel send this. */
static void say(struct role *r, const struct frame *f)
{
	struct cm_connect a = { .req = f->m.req, .route = f->g.route, .plt = 18 };
	int err = 0;

	switch (f->m.attr) {
	case CM_REQ: err = cm_connect(r->cm, &a, NULL, &r->id, r->now); break;
	case CM_REP: err = cm_accept(r->cm, r->id, &f->m.rep, r->now); break;
	case CM_RTU: err = cm_rtu(r->cm, r->id, f->m.rtu.data, r->now); break;
	case CM_DREQ: err = cm_disconnect(r->cm, r->id, f->m.dreq.data, r->now); break;
	case CM_DREP: err = cm_disconnect(r->cm, r->id, NULL, r->now); break;
	case CM_SIDR_REQ: err = cm_sidr(r->cm, &f->m.sidr_req, &f->g.route, NULL, &r->id, r->now); break;
	case CM_SIDR_REP: err = cm_sidr_reply(r->cm, r->id, &f->m.sidr_rep, r->now); break;
	case CM_REJ: break; /* nobody listened */
	default: ck_abort_msg("%s is in no recording", cm_attr_name(f->m.attr));
	}
	ck_assert_int_eq(err, 0);
}

static void hear(struct role *r, const struct frame *f, uint16_t next)
{
	static const enum cm_event_type means[] = {
		[CM_REQ] = CM_EV_REQ,           [CM_REP] = CM_EV_REP,           [CM_RTU] = CM_EV_RTU,
		[CM_REJ] = CM_EV_REJ,           [CM_DREQ] = CM_EV_DREQ,         [CM_DREP] = CM_EV_DREP,
		[CM_SIDR_REQ] = CM_EV_SIDR_REQ, [CM_SIDR_REP] = CM_EV_SIDR_REP,
	};

	cm_rx(r->cm, &f->g, r->now);
	if (next == CM_REJ) {
		ck_assert(!cm_event(r->cm, &r->ev));
		return;
	}
	ck_assert(cm_event(r->cm, &r->ev));
	ck_assert_int_eq(r->ev.type, means[f->m.attr]);
	ck_assert_int_eq(r->ev.msg.attr, f->m.attr);
	ck_assert(gid_same(r->ev.route.sgid, f->g.route.dgid));
	r->id = r->ev.id;
	ck_assert(!cm_event(r->cm, &r->ev));
}

/* Our comm id is the one that the kernel had: it is in what it sent. */
static void role_new(struct role *r, const struct frame *f, bool active)
{
	const struct frame *first = &f[active ? 0 : 1];
	struct cm_cfg cfg = { .seed = 1 };
	uint32_t listener;

	if (first->m.attr == CM_REQ)
		cfg.ca_guid = first->m.req.ca_guid;
	if (first->m.attr == CM_REP)
		cfg.ca_guid = first->m.rep.ca_guid;
	*r = (struct role){ .cm = cm_new(&cfg), .now = { 1 } };
	if (!active && first->m.attr != CM_REJ)
		ck_assert_int_eq(cm_listen(r->cm,
					   f[0].m.attr == CM_REQ ? f[0].m.req.service_id : f[0].m.sidr_req.service_id,
					   NULL, &listener),
				 0);
	if (active || first->m.attr == CM_REP)
		cm_next_id(r->cm, first->m.rtu.local_id);
}

static void qp_check(const struct role *r, const struct frame *f, bool active)
{
	struct cm_qp q;

	ck_assert(cm_qp_get(r->cm, r->id, &q));
	ck_assert_uint_eq(q.dest_qpn, active ? f[1].m.rep.qpn : f[0].m.req.qpn);
	ck_assert_uint_eq(q.rq_psn, active ? f[0].m.req.psn : f[1].m.rep.psn);
	ck_assert_uint_eq(q.sq_psn, active ? f[1].m.rep.psn : f[0].m.req.psn);
	ck_assert_uint_eq(q.max_rd_atomic, active ? f[1].m.rep.resp_res : f[1].m.rep.init_depth);
	ck_assert_uint_eq(q.max_dest_rd_atomic, active ? f[1].m.rep.init_depth : f[1].m.rep.resp_res);
	ck_assert(q.mtu == 3 && q.timeout == 19 && q.retry_cnt == 7 && q.rnr_retry == 7 && q.min_rnr_timer == 12);
	ck_assert(gid_same(q.route.sgid, f[active ? 0 : 1].g.route.sgid));
	ck_assert(gid_same(q.route.dgid, f[active ? 0 : 1].g.route.dgid));
	ck_assert_uint_eq(q.route.flow_label, f[0].m.req.path.flow_label);
}

static void same(const char *name, const struct gsi *g, const struct frame *f)
{
	for (unsigned k = 0; k < MAD_LEN; k++)
		ck_assert_msg(g->mad[k] == f->g.mad[k], "%s: %s differs at %d: %02x, not %02x", name,
			      cm_attr_name(f->m.attr), (int)k - 24, g->mad[k], f->g.mad[k]);
	ck_assert(gid_same(g->route.sgid, f->g.route.sgid));
	ck_assert(gid_same(g->route.dgid, f->g.route.dgid));
}

static void play(const char *name, bool active)
{
	struct frame f[MADS];
	size_t n = frames_read(name, f), said = 0;
	struct role r;
	struct gsi g;

	role_new(&r, f, active);
	for (size_t i = 0; i < n; i++) {
		bool ours = !memcmp(f[i].g.route.sgid, f[0].g.route.sgid, 16) == active;

		r.now = mono_add(r.now, 1000000);
		if (ours) {
			say(&r, &f[i]);
			ck_assert_msg(cm_tx(r.cm, &g), "%s: no %s", name, cm_attr_name(f[i].m.attr));
			ck_assert_msg(!cm_tx(r.cm, &(struct gsi){ 0 }), "%s: more than %s", name,
				      cm_attr_name(f[i].m.attr));
			same(name, &g, &f[i]);
			said++;
		} else {
			hear(&r, &f[i], i + 1 < n ? f[i + 1].m.attr : 0);
		}
		if (f[i].m.attr == CM_RTU)
			qp_check(&r, f, active);
		cm_verify(r.cm);
	}
	ck_assert_uint_ge(said, 1);
	cm_free(r.cm);
}

START_TEST(every_exchange_in_both_roles) /* conf: rule 7.2, rule 7.5 */
{
	for (int k = 0; k < 4; k++) {
		play(files[k].name, true);
		play(files[k].name, false);
	}
}
END_TEST

START_TEST(times) /* conf: rule 7.5 */
{
	ck_assert_uint_eq(cm_ack_timeout(15, 18), 19);
	ck_assert_uint_eq(cm_ack_timeout(15, 16), 17);
	ck_assert_uint_eq(cm_ack_timeout(15, 14), 16);
	ck_assert_uint_eq(cm_ack_timeout(15, 2), 15);
	ck_assert_uint_eq(cm_ack_timeout(15, 31), 31);
	ck_assert_uint_eq(cm_timeout_ns(20), 4096000000ull);
	ck_assert_uint_eq(cm_timeout_ns(0), 1000000ull);
}
END_TEST

START_TEST(ip_header) /* conf: rule 7.4 */
{
	struct cm_ip ip = { .version = 6, .sport = 0x1234 }, got;
	uint8_t data[CM_IP_LEN];

	for (unsigned i = 0; i < 16; i++) {
		ip.src[i] = (uint8_t)i;
		ip.dst[i] = (uint8_t)(0x80 + i);
	}
	cm_ip_put(data, &ip);
	ck_assert(data[0] == 0 && data[1] == 0x60 && be16_get(data + 2) == 0x1234);
	memset(&got, 0xff, sizeof(got));
	ck_assert(cm_ip_get(&got, data));
	ck_assert(got.version == 6 && got.sport == 0x1234);
	ck_assert(!memcmp(got.src, ip.src, 16) && !memcmp(got.dst, ip.dst, 16));
	data[1] = 0x50;
	ck_assert(!cm_ip_get(&got, data));
	data[1] = 0x60;
	data[0] = 0x10;
	ck_assert(!cm_ip_get(&got, data));
}
END_TEST

/* Bytes that are no CM message at all. */
/* Enhanced connection establishment: a vendor in reserved bytes, its options in the attribute modifier. */
START_TEST(ece)
{
	struct cm_msg m = { .attr = CM_REQ, .req = { .vendor_id = 0x123456, .ece = 0x89abcdef } }, back;
	uint8_t mad[MAD_LEN];

	cm_msg_put(mad, &m);
	ck_assert_uint_eq(be32_get(mad + 20), 0x89abcdef);
	ck_assert_uint_eq(be32_get(mad + 24 + 4), 0x123456);
	ck_assert(cm_msg_get(&back, mad));
	ck_assert_mem_eq(&m, &back, sizeof(m));
	m = (struct cm_msg){ .attr = CM_REP,
			     .rep = { .vendor = { 0x12, 0x34, 0x56 }, .ece = 0xfedcba98, .psn = 0xffffff } };
	cm_msg_put(mad, &m);
	ck_assert_uint_eq(be32_get(mad + 20), 0xfedcba98);
	ck_assert(mad[24 + 15] == 0x12 && mad[24 + 19] == 0x34 && mad[24 + 23] == 0x56);
	ck_assert(cm_msg_get(&back, mad));
	ck_assert_mem_eq(&m, &back, sizeof(m));
}
END_TEST

START_TEST(not_ours)
{
	static const struct {
		unsigned at;
		uint8_t v;
	} wrong[] = { { 0, 2 }, { 1, 4 }, { 2, 1 }, { 3, 1 }, { 17, 0x0f }, { 17, 0x1b }, { 16, 1 } };
	struct cm_msg m = { .attr = CM_DREP, .tid = 7 }, got;
	uint8_t mad[MAD_LEN];

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		cm_msg_put(mad, &m);
		ck_assert(cm_msg_get(&got, mad) && got.attr == CM_DREP && got.tid == 7);
		mad[wrong[i].at] = wrong[i].v;
		ck_assert(!cm_msg_get(&got, mad));
	}
	ck_assert_str_eq(cm_attr_name(CM_LAP), "LAP");
	ck_assert_str_eq(cm_attr_name(5), "?");
}
END_TEST

TEST_MAIN("cm_golden", every_message_again, every_field_alone, rping_read, every_exchange_in_both_roles, times,
	  ip_header, ece, not_ours)
