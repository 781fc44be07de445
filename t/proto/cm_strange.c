/* SPDX-License-Identifier: MIT */
/*
 * cm_strange.c - messages about connections that are not, or no longer, and from who has no business with
 * them.
 */
#include <errno.h>

#include "proto/bytes.h"
#include "t/proto/cm_duo.h"

#include <string.h>

static void give(struct cm_end *to, const struct cm_msg *m)
{
	struct gsi g = { .route = net_route(&net.end[to == a]) };

	cm_msg_put(g.mad, m);
	cm_rx(to->cm, &g, net.now);
}

START_TEST(unknown_connections) /* conf: CA17-36, rule 7.7 */
{
	struct cm_msg m = { .attr = CM_DREQ, .tid = 77, .dreq = { .local_id = 5, .remote_id = 6, .qpn = 7 } };
	struct cm_count n;
	struct gsi g;

	begin();
	give(b, &m);
	ck_assert(cm_tx(b->cm, &g) && cm_msg_get(&m, g.mad));
	ck_assert(m.attr == CM_DREP && m.tid == 77 && m.drep.local_id == 6 && m.drep.remote_id == 5);
	for (unsigned attr = CM_MRA; attr <= CM_APR; attr++) {
		if (attr == CM_DREQ || attr == CM_SIDR_REQ || attr == CM_REP || attr == CM_RTU)
			continue;
		m = (struct cm_msg){ .attr = (uint16_t)attr, .rtu = { .local_id = 5, .remote_id = 6 } };
		give(b, &m);
		ck_assert(!cm_tx(b->cm, &g));
	}
	for (unsigned attr = CM_REP; attr <= CM_RTU; attr++) {
		m = (struct cm_msg){ .attr = (uint16_t)attr, .tid = 78, .rtu = { .local_id = 5, .remote_id = 6 } };
		give(b, &m);
		ck_assert(cm_tx(b->cm, &g) && cm_msg_get(&m, g.mad));
		ck_assert(m.attr == CM_REJ && m.tid == 78 && m.rej.local_id == 6 && m.rej.remote_id == 5);
		ck_assert(m.rej.reason == REJ_COMM_ID && m.rej.msg == (attr == CM_REP ? REJ_OF_REP : REJ_OF_OTHER));
	}
	m = (struct cm_msg){ .attr = CM_REQ, .req = { .service_id = SERVICE } }; /* comm id 0 */
	give(b, &m);
	m = (struct cm_msg){ .attr = CM_REJ, .rej = { .reason = REJ_CONSUMER } };
	give(b, &m);
	ck_assert(!cm_tx(b->cm, &g));
	ck_assert_uint_eq(ids(b), 1);
	cm_counts(b->cm, &n);
	ck_assert_uint_eq(n.dropped, 8);
	ck_assert_uint_eq(n.rx[CM_LAP - CM_REQ], 1);
	end();

	begin(); /* nor has one that nobody has answered been answered by these */
	lose[0] = 1;
	called();
	for (unsigned attr = CM_RTU; attr <= CM_DREQ; attr++) {
		m = (struct cm_msg){ .attr = (uint16_t)attr, .rtu = { .local_id = 5, .remote_id = ida } };
		give(a, &m);
		ck_assert(cm_tx(a->cm, &g) && cm_msg_get(&m, g.mad));
		ck_assert_uint_eq(m.attr, attr == CM_RTU ? CM_REJ : CM_DREP);
	}
	ck_assert_int_eq(sa(), CM_REQ_SENT);
	end();
}
END_TEST

/* The attribute of the end's answer to m; 0: there was none. */
static unsigned answer_to(struct cm_end *to, const struct cm_msg *m, struct cm_msg *got)
{
	struct gsi g;

	give(to, m);
	if (!cm_tx(to->cm, &g))
		return 0;
	ck_assert(cm_msg_get(got, g.mad));
	ck_assert(!cm_tx(to->cm, &g));
	return got->attr;
}

START_TEST(repetitions_answered) /* conf: rule 7.7 */
{
	struct cm_msg req = { .attr = CM_REQ, .tid = 5 }, rep = { .attr = CM_REP }, rej = { .attr = CM_REJ };
	struct cm_msg dreq = { .attr = CM_DREQ, .tid = 9 }, got;

	begin();
	called();
	req.req = net_req(a, 0x11).req;
	req.req.local_id = ida;
	req.req.ca_guid = a->guid;
	rep.rep = (struct cm_rep){ .local_id = idb, .remote_id = ida, .qpn = 0x22, .ca_guid = b->guid };
	dreq.dreq = (struct cm_dreq){ .local_id = ida, .remote_id = idb, .qpn = 0x22 };
	ck_assert_uint_eq(answer_to(b, &req, &got), 0);
	net.now = mono_add(net.now, 2048 * MS_NS); /* half the time for an answer */
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_MRA);
	ck_assert(got.mra.msg == REJ_OF_REQ && got.mra.timeout == 24 && got.mra.remote_id == ida);
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_MRA);
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_REP);
	ck_assert_uint_eq(answer_to(a, &rep, &got), 0);
	net.now = mono_add(net.now, 2048 * MS_NS);
	ck_assert_uint_eq(answer_to(a, &rep, &got), CM_MRA);
	ck_assert(got.mra.msg == REJ_OF_REP && got.mra.remote_id == idb);
	ck_assert_uint_eq(answer_to(a, &rep, &got), CM_MRA);
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_uint_eq(answer_to(b, &req, &got), 0);
	ck_assert_uint_eq(answer_to(a, &rep, &got), CM_RTU);
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_uint_eq(answer_to(b, &dreq, &got), 0);
	ck_assert_int_eq(cm_disconnect(b->cm, idb, (const uint8_t[CM_DREQ_DATA]){ 7 }, net.now), 0);
	net_run(&net);
	ck_assert_uint_eq(answer_to(b, &dreq, &got), CM_DREP);
	ck_assert_uint_eq(got.drep.data[0], 7);
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_REJ);
	ck_assert(got.rej.reason == REJ_STALE && got.rej.remote_id == ida);
	ck_assert(got.rej.msg == REJ_OF_REQ && !got.rej.local_id);
	ck_assert_int_eq(sb(), CM_TIMEWAIT);
	end();

	begin(); /* who closed is asked to close */
	connected();
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_uint_eq(answer_to(b,
				    &(struct cm_msg){ .attr = CM_DREQ,
						      .tid = 9,
						      .dreq = { .local_id = ida, .remote_id = idb, .qpn = 0x22 } },
				    &got),
			  CM_DREP);
	ck_assert(got.tid == 9 && got.drep.local_id == idb && got.drep.remote_id == ida);
	end();

	begin();
	connected();
	lose[0] = 1;
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	rej.rej = (struct cm_rej){ .local_id = idb, .remote_id = ida, .msg = REJ_OF_OTHER, .reason = 6 };
	ck_assert_uint_eq(answer_to(a, &rej, &got), 0);
	ck_assert_int_eq(sa(), CM_TIMEWAIT);
	net_run(&net);
	ck_assert_int_eq(note_last(a), CM_EV_DREP);
	ck_assert_uint_eq(a->note[a->notes - 1].msg.attr, CM_REJ);
	end();
}
END_TEST

/* Two connections without QPs have nothing to do with each other. */
START_TEST(no_qp)
{
	struct cm_connect req;
	uint32_t id[2];

	begin();
	req = net_req(a, 0);
	for (unsigned k = 0; k < 2; k++) {
		ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &id[k], net.now), 0);
		net_run(&net);
		ck_assert_int_eq(note_last(b), CM_EV_REQ);
		idb = b->note[b->notes - 1].id;
		ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ 0 }, net.now), 0);
		net_run(&net);
		ck_assert_int_eq(cm_state(a->cm, id[k]), CM_REP_RCVD);
	}
	ck_assert_uint_eq(a->notes, 2);
	cm_id_free(a->cm, id[0], net.now);
	cm_id_free(a->cm, id[1], net.now);
	net_run(&net);
	cm_id_free(b->cm, b->note[0].id, net.now);
	end();
}
END_TEST

/* XRC: the QPN of the REP stands where that of an EEC would. */
START_TEST(xrc) /* conf: rule 7.2 */
{
	struct cm_connect req;
	struct cm_qp q;
	struct gsi g;
	uint64_t tid;

	begin();
	req = net_req(a, 0x11);
	req.req.transport = CM_XRC;
	req.req.ext_transport = 1;
	req.req.path.hop_limit = 1; /* of the data: the answers go as far as they have to */
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	idb = b->note[0].id;
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .eecn = 0x22 }, net.now), 0);
	ck_assert(cm_tx(b->cm, &g) && g.route.hop_limit == 64);
	cm_rx(a->cm, &g, net.now);
	ck_assert(cm_qp_get(a->cm, ida, &q) && q.dest_qpn == 0x22);
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(cm_disconnect(a->cm, ida, (const uint8_t[CM_DREQ_DATA]){ 7 }, net.now), 0);
	net_run(&net);
	ck_assert_uint_eq(net.last.dreq.qpn, 0x22);
	tid = net.last.tid;
	ck_assert_int_eq(note_last(b), CM_EV_DREQ);
	ck_assert_uint_eq(b->note[b->notes - 1].msg.dreq.data[0], 7);
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	net_run(&net);
	ck_assert(net.last.attr == CM_DREP && net.last.tid == tid);
	end();
}
END_TEST

/* A path that begins elsewhere than the REQ is from: the addresses of both ends have to be right. */
START_TEST(other_source) /* conf: rule 7.9 */
{
	struct cm_connect req;

	begin();
	req = net_req(a, 0x11);
	req.req.path.sgid[15] ^= 1;
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(a), CM_EV_REJ);
	ck_assert_int_eq(a->note[0].msg.rej.reason, REJ_GID);
	end();
}
END_TEST

/* LIDs mean nothing on Ethernet: whatever they are, it is a REQ. */
START_TEST(lids) /* conf: CA17-34, rule 7.2 */
{
	struct cm_connect req;

	begin();
	req = net_req(a, 0x11);
	req.req.path.slid = req.req.alt.dlid = 1;
	req.req.path.dlid = req.req.alt.slid = 0;
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(b), CM_EV_REQ);
	idb = b->note[b->notes - 1].id;
	cm_id_free(a->cm, ida, net.now);
	end();
}
END_TEST

/* Right ids, but from elsewhere, of another peer, or about another QP. */
START_TEST(forgeries) /* conf: rule 7.3 */
{
	struct cm_msg m = { .attr = CM_DREQ };
	struct gsi g = { 0 };

	begin();
	connected();
	m.dreq = (struct cm_dreq){ .local_id = ida, .remote_id = idb, .qpn = 0x23 };
	give(b, &m);
	m.dreq = (struct cm_dreq){ .local_id = ida + 1, .remote_id = idb, .qpn = 0x22 };
	give(b, &m);
	m.dreq = (struct cm_dreq){ .local_id = ida, .remote_id = idb, .qpn = 0x22 };
	g.route = net_route(a);
	g.route.sgid[15] = 99;
	cm_msg_put(g.mad, &m);
	cm_rx(b->cm, &g, net.now);
	while (cm_tx(b->cm, &g))
		;
	m = (struct cm_msg){ .attr = CM_REP, .rep = { .local_id = ida, .remote_id = idb, .qpn = 0x11 } };
	give(b, &m); /* who was connected to gets no REP */
	ck_assert(!cm_tx(b->cm, &g));
	m = (struct cm_msg){ .attr = CM_MRA, .mra = { .local_id = ida, .remote_id = listener } };
	give(b, &m);
	m = (struct cm_msg){ .attr = CM_SIDR_REP, .sidr_rep = { .request_id = idb } };
	give(b, &m);
	m = (struct cm_msg){ .attr = CM_REJ, .rej = { .remote_id = idb, .reason = REJ_CONSUMER } };
	give(b, &m);
	/* Only of a peer that gave up waiting the GUID is enough. */
	m = (struct cm_msg){ .attr = CM_REJ, .rej = { .local_id = ida, .reason = REJ_CONSUMER, .ari_len = 8 } };
	m.rej.remote_id = idb + 1;
	be64_put(m.rej.ari, a->guid);
	give(b, &m);
	ck_assert_int_eq(sb(), CM_ESTABLISHED);
	ck_assert_int_eq(note_last(b), CM_EV_RTU);
	/* A DREQ that crosses ours: about another QP, too, it is none. */
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	ck_assert(cm_tx(b->cm, &g));
	m = (struct cm_msg){ .attr = CM_DREQ, .dreq = { .local_id = ida, .remote_id = idb, .qpn = 0x23 } };
	give(b, &m);
	ck_assert(!cm_tx(b->cm, &g));
	ck_assert_int_eq(sb(), CM_DREQ_SENT);
	m = (struct cm_msg){ .attr = CM_DREQ, .tid = 77, .dreq = { .local_id = ida, .remote_id = idb, .qpn = 0x22 } };
	give(b, &m);
	ck_assert(cm_tx(b->cm, &g) && cm_msg_get(&m, g.mad) && m.attr == CM_DREP && m.tid == 77);
	end();

	begin();
	accepted(); /* likewise before the RTU */
	m = (struct cm_msg){ .attr = CM_DREQ, .dreq = { .local_id = ida, .remote_id = idb, .qpn = 0x23 } };
	give(b, &m);
	m = (struct cm_msg){ .attr = CM_MRA, .mra = { .local_id = ida, .remote_id = idb, .msg = REJ_OF_REQ } };
	give(b, &m); /* patience with what b never sent */
	ck_assert_int_eq(sb(), CM_REP_SENT);
	end();
}
END_TEST

/* A request for a QP of UD has the number of one to connect, and the CA no GUID: they are two all the same. */
START_TEST(request_id)
{
	struct cm_msg req = { .attr = CM_REQ }, sidr = { .attr = CM_SIDR_REQ };

	for (unsigned k = 0; k < 2; k++) {
		begin();
		req.req = net_req(a, 0x11).req;
		req.req.local_id = 5;
		sidr.sidr_req = (struct cm_sidr_req){ .request_id = 5, .service_id = SERVICE };
		give(b, k ? &sidr : &req);
		give(b, k ? &req : &sidr);
		net_run(&net);
		ck_assert_int_eq(b->note[k].type, CM_EV_REQ);
		ck_assert_int_eq(b->note[!k].type, CM_EV_SIDR_REQ);
		cm_id_free(b->cm, b->note[0].id, net.now);
		idb = b->note[1].id;
		ida = 0;
		end();
	}
}
END_TEST

static void restarted(void)
{
	cm_free(a->cm);
	a->cm = cm_new(&(struct cm_cfg){ .seed = 77, .ca_guid = a->guid });
}

/* a was restarted: it knows nothing, and has the same QP number again. */
START_TEST(stale) /* conf: rule 7.7 */
{
	struct cm_connect req;
	uint32_t old;

	begin();
	connected();
	restarted();
	req = net_req(a, 0x11);
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(a), CM_EV_REJ);
	ck_assert_int_eq(a->note[a->notes - 1].msg.rej.reason, REJ_STALE);
	ck_assert_uint_eq(seen[1][CM_DREQ], 1);
	ck_assert_int_eq(note_last(b), CM_EV_DREP); /* a knows nothing, and says so */
	ck_assert_int_eq(sb(), CM_TIMEWAIT);
	cm_id_free(a->cm, ida, net.now);
	old = idb;
	connected(); /* that it has just forgotten one is no matter */
	cm_id_free(b->cm, old, net.now);
	end();
}
END_TEST

/* Of a connection that is over the QP is free, though packets may be under way; and of one that b has let go, before a knows. */
START_TEST(qp_again) /* conf: rule 7.7 */
{
	struct cm_qp qp;
	uint32_t old;

	begin();
	connected();
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	net_run(&net);
	ck_assert(sa() == CM_TIMEWAIT && sb() == CM_TIMEWAIT && !cm_qp_get(b->cm, idb, &qp));
	cm_id_free(a->cm, ida, net.now);
	old = idb;
	connected();
	lose[1] = 1000; /* its DREQs */
	cm_id_free(b->cm, idb, net.now);
	net_run(&net);
	lose[1] = 0;
	cm_id_free(b->cm, old, net.now);
	restarted();
	connected();
	end();
}
END_TEST

/* The same before b has answered; and b itself in the REP. */
START_TEST(stale_early)
{
	struct cm_connect req;
	uint32_t other, idb2;

	begin();
	called();
	lose[0] = 1;
	cm_id_free(a->cm, ida, net.now); /* its REJ is lost */
	req = net_req(a, 0x11);
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(b), CM_EV_REJ);
	ck_assert_int_eq(b->note[b->notes - 1].msg.rej.reason, REJ_STALE);
	ck_assert_int_eq(sb(), CM_DEAD);
	ck_assert_int_eq(a->note[a->notes - 1].msg.rej.reason, REJ_STALE);
	end();

	begin();
	connected();
	req = net_req(a, 0x12);
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &other, net.now), 0);
	net_run(&net);
	idb2 = b->note[b->notes - 1].id;
	ck_assert_int_eq(cm_accept(b->cm, idb2, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(b->note[b->notes - 2].msg.rej.reason, REJ_STALE);
	ck_assert_int_eq(b->note[b->notes - 2].id, idb2);
	ck_assert_int_eq(note_last(b), CM_EV_DREQ); /* of the first connection */
	ck_assert_int_eq(cm_state(a->cm, other), CM_REQ_SENT);
	cm_id_free(b->cm, idb2, net.now);
	cm_id_free(a->cm, other, net.now);
	end();
}
END_TEST

/* a's REQ, which b may have heard before. */
static struct cm_msg req_of(uint32_t local_id, uint32_t qpn)
{
	struct cm_msg m = { .attr = CM_REQ, .tid = 5 };

	m.req = net_req(a, qpn).req;
	m.req.local_id = local_id;
	m.req.ca_guid = a->guid;
	return m;
}

/* A REQ that is heard again when it was refused, or when its connection is over, is no new one - for a second. */
START_TEST(past_requests)
{
	const uint8_t data[CM_REJ_DATA] = { 3, 2, 1 };
	struct cm_msg req, got;
	mono_t t0;

	begin(); /* refused by the program: in its words */
	called();
	req = req_of(ida, 0x11);
	ck_assert_int_eq(cm_reject(b->cm, idb, REJ_CONSUMER, NULL, 0, data, net.now), 0);
	net_run(&net);
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_REJ);
	ck_assert(got.rej.reason == REJ_CONSUMER && got.rej.remote_id == ida && got.rej.data[2] == 1);
	cm_id_free(b->cm, idb, net.now);
	t0 = net.now;
	net.now = mono_add(t0, 900 * MS_NS);
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_REJ);
	net.now = mono_add(t0, 1800 * MS_NS); /* since it was last heard */
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_REJ);
	ck_assert_uint_eq(note_count(b, CM_EV_REQ), 1);
	net.now = mono_add(t0, 2800 * MS_NS);
	ck_assert_uint_eq(answer_to(b, &req, &got), 0);
	net_run(&net);
	ck_assert_uint_eq(note_count(b, CM_EV_REQ), 2);
	cm_id_free(b->cm, b->note[b->notes - 1].id, net.now);
	end();

	begin(); /* over: b is out of timewait, and has forgotten the id */
	connected();
	req = req_of(ida, 0x11);
	cm_id_free(b->cm, idb, net.now);
	net_run(&net);
	cm_id_free(a->cm, ida, net.now);
	net_settle(&net);
	ck_assert_uint_eq(ids(b), 1);
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_REJ);
	ck_assert(got.rej.reason == REJ_STALE && got.rej.remote_id == ida && !got.rej.local_id);
	ck_assert_uint_eq(note_count(b, CM_EV_REQ), 1);
	end();

	begin(); /* given up by who asked */
	called();
	req = req_of(ida, 0x11);
	cm_id_free(a->cm, ida, net.now);
	net_run(&net);
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_REJ);
	ck_assert_uint_eq(got.rej.reason, REJ_STALE);
	end();
}
END_TEST

/* Nobody listens; a listener that comes then is not told of who was sent away.  The oldest is forgotten first. */
START_TEST(past_strangers)
{
	enum { MORE = 300 };
	struct cm_msg req, got;
	uint32_t late;
	struct gsi g;

	begin();
	for (uint32_t i = 1; i <= MORE; i++) {
		req = req_of(i, 0);
		req.req.service_id++;
		ck_assert_uint_eq(answer_to(b, &req, &got), CM_REJ);
		ck_assert_uint_eq(got.rej.reason, REJ_SERVICE_ID);
	}
	ck_assert_int_eq(cm_listen(b->cm, SERVICE + 1, NULL, &late), 0);
	ck_assert_uint_eq(answer_to(b, &req, &got), CM_REJ);
	ck_assert_uint_eq(got.rej.reason, REJ_SERVICE_ID);
	ck_assert_uint_eq(got.rej.remote_id, MORE);
	req.req.ca_guid++; /* another peer's, of that number */
	ck_assert_uint_eq(answer_to(b, &req, &got), 0);
	req.req.ca_guid--; /* or that of one at another address */
	req.req.path.sgid[15]++;
	g.route = net_route(a);
	g.route.sgid[15]++;
	cm_msg_put(g.mad, &req);
	cm_rx(b->cm, &g, net.now);
	ck_assert(!cm_tx(b->cm, &g));
	req = req_of(1, 0);
	req.req.service_id++;
	ck_assert_uint_eq(answer_to(b, &req, &got), 0);
	cm_id_free(b->cm, late, net.now);
	while (cm_tx(b->cm, &g)) /* to those who called */
		;
	net_run(&net);
	end();
}
END_TEST

/* An id that its host has freed is kept for its peer's sake, as long as there is room. */
START_TEST(gives_way)
{
	struct cm_connect req;
	uint32_t id;

	begin();
	cm_free(b->cm);
	b->cm = cm_new(&(struct cm_cfg){ .seed = 3, .ca_guid = b->guid, .max_ids = 2 });
	ck_assert_int_eq(cm_listen(b->cm, SERVICE, &listener, &listener), 0);
	connected();
	req = net_req(b, 0x77);
	ck_assert_int_eq(cm_connect(b->cm, &req, NULL, &id, net.now), ENOMEM);
	lose[1] = 1000;
	cm_id_free(b->cm, idb, net.now);
	net_run(&net);
	ck_assert_uint_eq(ids(b), 2);
	ck_assert_int_eq(cm_connect(b->cm, &req, NULL, &id, net.now), 0);
	cm_verify(b->cm);
	ck_assert_uint_eq(ids(b), 2);
	ck_assert_int_eq(cm_connect(b->cm, &req, NULL, &idb, net.now), ENOMEM);
	cm_id_free(b->cm, id, net.now);
	lose[1] = 0;
	end();
}
END_TEST

TEST_MAIN("cm_strange", gives_way, unknown_connections, repetitions_answered, no_qp, xrc, other_source, lids, forgeries,
	  request_id, stale, stale_early, qp_again, past_requests, past_strangers)
