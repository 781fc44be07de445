/* SPDX-License-Identifier: MIT */
/* cm_state.c - each step that a connection can take, each time it waits, and each way it can end. */
#include "t/proto/cm_duo.h"

#include <string.h>

static void both_out_of_timewait(void)
{
	mono_t before = net.now;

	ck_assert_int_eq(sa(), CM_TIMEWAIT);
	ck_assert_int_eq(sb(), CM_TIMEWAIT);
	net_settle(&net);
	ck_assert_uint_eq(net.now.ns - before.ns, 512 * MS_NS); /* ACK timeout 17 */
	ck_assert_int_eq(note_last(a), CM_EV_TIMEWAIT_EXIT);
	ck_assert_int_eq(note_last(b), CM_EV_TIMEWAIT_EXIT);
	ck_assert_int_eq(sa(), CM_DEAD);
	ck_assert_int_eq(sb(), CM_DEAD);
}

/* ---- the straight way -------------------------------------------------------------- */

START_TEST(connect_disconnect) /* conf: rule 7.7 */
{
	begin();
	connected();
	ck_assert_int_eq(cm_disconnect(a->cm, ida, (const uint8_t[CM_DREQ_DATA]){ 1 }, net.now), 0);
	ck_assert_int_eq(sa(), CM_DREQ_SENT);
	net_run(&net);
	ck_assert_int_eq(note_last(b), CM_EV_DREQ);
	ck_assert_int_eq(sb(), CM_DREQ_RCVD);
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), EINVAL);
	net_run(&net);
	ck_assert_int_eq(note_last(a), CM_EV_DREP);
	both_out_of_timewait();
	end();
}
END_TEST

START_TEST(passive_disconnects)
{
	begin();
	connected();
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(a), CM_EV_DREQ);
	ck_assert_uint_eq(a->note[a->notes - 1].msg.dreq.qpn, 0x11);
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(b), CM_EV_DREP);
	both_out_of_timewait();
	end();
}
END_TEST

START_TEST(crossing_disconnects)
{
	begin();
	connected();
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(a), CM_EV_DREP);
	ck_assert_int_eq(note_last(b), CM_EV_DREP);
	both_out_of_timewait();
	end();
}
END_TEST

START_TEST(qp_attributes) /* conf: rule 7.8 */
{
	struct cm_qp q;

	begin();
	ck_assert(!cm_qp_get(a->cm, 1, &q));
	called();
	ck_assert(!cm_qp_get(a->cm, ida, &q));
	ck_assert(cm_qp_get(b->cm, idb, &q));
	ck_assert(q.dest_qpn == 0x11 && q.sq_psn == 0x100011 && q.max_rd_atomic == 4 && q.max_dest_rd_atomic == 3);
	ck_assert_int_eq(cm_accept(b->cm, idb,
				   &(struct cm_rep){ .qpn = 0x22,
						     .psn = 0x200022,
						     .resp_res = 2,
						     .init_depth = 1,
						     .ack_delay = 18,
						     .rnr_retry = 6,
						     .srq = 1 },
				   net.now),
			 0);
	net_run(&net);
	ck_assert(cm_qp_get(b->cm, idb, &q));
	ck_assert(q.rq_psn == 0x200022 && q.max_rd_atomic == 1 && q.max_dest_rd_atomic == 2 && q.rnr_retry == 7);
	ck_assert(q.timeout == 17 && q.retry_cnt == 7 && q.mtu == 3 && !q.srq);
	ck_assert_uint_eq(q.min_rnr_timer, 0); /* a tries 6 times: 655 ms each */
	ck_assert(gid_same(q.route.sgid, b->gid) && gid_same(q.route.dgid, a->gid));
	ck_assert(cm_qp_get(a->cm, ida, &q));
	ck_assert(q.dest_qpn == 0x22 && q.rq_psn == 0x100011 && q.sq_psn == 0x200022);
	ck_assert(q.max_rd_atomic == 2 && q.max_dest_rd_atomic == 1 && q.rnr_retry == 6 && q.srq);
	ck_assert_uint_eq(q.min_rnr_timer, 12); /* b tries for ever: 0.64 ms */
	ck_assert_uint_eq(q.timeout, cm_ack_timeout(18, 16));
	ck_assert_uint_eq(q.route.flow_label, 0x12345);
	end();
}
END_TEST

/* Data, or a DREQ, in place of the RTU. */
START_TEST(up_without_rtu) /* conf: rule 7.7 */
{
	begin();
	accepted();
	lose[0] = 1;
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(sb(), CM_REP_SENT);
	ck_assert_int_eq(cm_established(b->cm, idb, net.now), 0);
	ck_assert_int_eq(cm_established(b->cm, idb, net.now), 0);
	ck_assert_int_eq(sb(), CM_ESTABLISHED);
	net_run(&net);
	ck_assert_uint_eq(note_count(b, CM_EV_RTU), 1);
	end();

	begin();
	accepted();
	lose[0] = 1;
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(b->note[b->notes - 2].type, CM_EV_RTU);
	ck_assert_int_eq(note_last(b), CM_EV_DREQ);
	end();
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------- */

START_TEST(rejects)
{
	const uint8_t data[CM_REJ_DATA] = { 3, 2, 1 }, ari[2] = { 9, 9 };

	begin();
	called();
	ck_assert_int_eq(cm_reject(b->cm, idb, REJ_CONSUMER, ari, 2, data, net.now), 0);
	ck_assert_int_eq(sb(), CM_DEAD);
	net_run(&net);
	ck_assert_uint_eq(net.last.rej.local_id, 0);
	ck_assert_int_eq(note_last(a), CM_EV_REJ);
	ck_assert_int_eq(a->note[a->notes - 1].msg.rej.reason, REJ_CONSUMER);
	ck_assert_int_eq(a->note[a->notes - 1].msg.rej.data[2], 1);
	ck_assert_int_eq(a->note[a->notes - 1].msg.rej.ari[1], 9);
	ck_assert_int_eq(sa(), CM_DEAD);
	ck_assert_int_eq(cm_reject(a->cm, ida, 28, NULL, 0, NULL, net.now), EINVAL);
	end();

	begin(); /* the REP */
	accepted();
	ck_assert_int_eq(cm_reject(a->cm, ida, REJ_CONSUMER, NULL, 0, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(net.last.rej.msg, REJ_OF_REP);
	ck_assert_int_eq(note_last(b), CM_EV_REJ);
	ck_assert_int_eq(sb(), CM_DEAD);
	end();

	begin(); /* who asked gives up */
	called();
	ck_assert_int_eq(cm_reject(a->cm, ida, REJ_CONSUMER, NULL, 0, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(net.last.rej.reason, REJ_TIMEOUT);
	ck_assert(sa() == CM_DEAD && sb() == CM_DEAD);
	end();
}
END_TEST

START_TEST(nobody_listens) /* conf: rule 7.9, rule 7.10 */
{
	struct cm_connect req;

	begin();
	req = net_req(a, 0x11);
	req.req.service_id++;
	ck_assert_int_eq(cm_listen(b->cm, SERVICE, NULL, &idb), EADDRINUSE);
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(a), CM_EV_REJ);
	ck_assert_int_eq(a->note[0].msg.rej.reason, REJ_SERVICE_ID);
	end();
}
END_TEST

START_TEST(bad_requests) /* conf: rule 7.9 */
{
	struct cm_connect req;

	begin();
	req = net_req(a, 0x11);
	req.req.path.dgid[15] ^= 1;
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(a->note[0].msg.rej.reason, REJ_GID);
	ck_assert(a->note[0].msg.rej.ari_len == 16 && !memcmp(a->note[0].msg.rej.ari, b->gid, 16));
	cm_id_free(a->cm, ida, net.now);
	req = net_req(a, 0x11);
	req.req.transport = CM_RD;
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(a->note[1].msg.rej.reason, REJ_TRANSPORT);
	end();
}
END_TEST

START_TEST(too_many)
{
	struct cm_connect req = { 0 };
	uint32_t id[4];

	begin();
	cm_free(b->cm);
	b->cm = cm_new(&(struct cm_cfg){ .seed = 3, .ca_guid = b->guid, .max_ids = 3 });
	ck_assert_int_eq(cm_listen(b->cm, SERVICE, NULL, &listener), 0);
	for (unsigned k = 0; k < 4; k++) {
		req = net_req(a, 0x11 + k);
		ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &id[k], net.now), 0);
	}
	net_run(&net);
	ck_assert_uint_eq(ids(b), 3);
	ck_assert_uint_eq(note_count(b, CM_EV_REQ), 2);
	ck_assert_uint_eq(note_count(a, CM_EV_REJ), 2);
	ck_assert_int_eq(a->note[0].msg.rej.reason, REJ_NO_RESOURCES);
	ck_assert_int_eq(cm_connect(b->cm, &req, NULL, &idb, net.now), ENOMEM);
	for (unsigned k = 0; k < 4; k++)
		cm_id_free(a->cm, id[k], net.now);
	net_run(&net);
	ck_assert_uint_eq(note_count(b, CM_EV_REJ), 2);
	cm_id_free(b->cm, b->note[0].id, net.now);
	cm_id_free(b->cm, b->note[1].id, net.now);
	end();
}
END_TEST

/* ---- times ------------------------------------------------------------------------------- */

START_TEST(req_unanswered) /* conf: rule 7.6 */
{
	mono_t t0;

	begin();
	t0 = net.now;
	lose[0] = 1000;
	called();
	net_settle(&net);
	ck_assert_uint_eq(seen[0][CM_REQ], 16);
	ck_assert_uint_eq(net.now.ns - t0.ns, 16 * 4608 * MS_NS);
	ck_assert_int_eq(note_last(a), CM_EV_TIMEOUT);
	ck_assert_uint_eq(a->note[a->notes - 1].sent, 16);
	ck_assert_int_eq(sa(), CM_DEAD);
	end();
}
END_TEST

/*
 * b gives up first, a goes on asking for a moment, which is no new call to b.  If a gives up before there is a REP it
 * says so by its GUID, as it knows no id of b's.
 */
START_TEST(rep_never_arrives)
{
	begin();
	lose[1] = 1000;
	accepted();
	net_settle(&net);
	ck_assert_int_eq(note_last(a), CM_EV_TIMEOUT);
	ck_assert_int_eq(sb(), CM_DEAD);
	ck_assert_uint_eq(note_count(b, CM_EV_TIMEOUT), 1);
	ck_assert_uint_ge(seen[1][CM_REP], 16);
	ck_assert_uint_eq(seen[0][CM_REJ], 1);
	ck_assert_uint_eq(note_count(b, CM_EV_REQ), 1);
	ck_assert_int_eq(note_last(b), CM_EV_TIMEOUT);
	end();

	begin();
	called();
	lose[1] = 1000;
	cm_id_free(a->cm, ida, net.now);
	net_run(&net);
	ck_assert_int_eq(note_last(b), CM_EV_REJ);
	ck_assert_int_eq(b->note[b->notes - 1].msg.rej.reason, REJ_TIMEOUT);
	ck_assert_int_eq(sb(), CM_DEAD);
	end();
}
END_TEST

START_TEST(rtu_never_arrives)
{
	mono_t t0;

	begin();
	lose[0] = 0;
	called();
	lose[0] = 1000; /* from the REQ on a is not heard */
	t0 = net.now;
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_until(&net, mono_add(t0, 16 * 4096 * MS_NS - 1));
	ck_assert_int_eq(sb(), CM_REP_SENT);
	net_until(&net, mono_add(t0, 16 * 4096 * MS_NS));
	ck_assert_int_eq(note_last(b), CM_EV_TIMEOUT);
	net_run(&net);
	ck_assert_uint_eq(seen[1][CM_REP], 3);          /* to one who may never have asked */
	ck_assert_uint_eq(seen[0][CM_RTU], 3 + 15);     /* one for each, and of its own accord */
	net_until(&net, mono_add(net.now, 100 * S_NS)); /* no more of them */
	ck_assert_uint_eq(seen[0][CM_RTU], 3 + 15);
	ck_assert_int_eq(sa(), CM_ESTABLISHED);
	lose[0] = 0;
	end();
}
END_TEST

START_TEST(dreq_unanswered)
{
	mono_t t0;

	begin();
	connected();
	lose[0] = 1000;
	t0 = net.now;
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_until(&net, mono_add(t0, 16 * 4608 * MS_NS));
	ck_assert_uint_eq(seen[0][CM_DREQ], 16);
	ck_assert_int_eq(note_last(a), CM_EV_DREQ_TIMEOUT);
	ck_assert_int_eq(sa(), CM_TIMEWAIT);
	net_settle(&net);
	ck_assert_int_eq(note_last(a), CM_EV_TIMEWAIT_EXIT);
	lose[0] = 0;
	end();
}
END_TEST

START_TEST(patience) /* conf: rule 7.6 */
{
	mono_t t0;

	begin(); /* as peers ask for it at once */
	t0 = net.now;
	called();
	asks(24);
	net_until(&net, mono_add(t0, 65536 * MS_NS));
	ck_assert_uint_eq(seen[0][CM_REQ], 1 + 65536 / 4608); /* in the rhythm agreed on, and not counted: */
	lose[1] = 1000;
	net_until(&net, mono_add(t0, (65536 + 15 * 4608) * MS_NS));
	ck_assert_uint_eq(seen[0][CM_REQ], 1 + 65536 / 4608 + 15);
	ck_assert_int_eq(sa(), CM_MRA_REQ_RCVD);
	lose[1] = 0;
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(sa(), CM_REP_RCVD);
	end();

	begin(); /* by the agent, when the peer repeats itself: REQ, then REP */
	called();
	net_until(&net, mono_add(net.now, 5 * S_NS));
	ck_assert_int_eq(sa(), CM_MRA_REQ_RCVD);
	ck_assert_int_eq(sb(), CM_MRA_REQ_SENT);
	ck_assert_uint_eq(note_count(b, CM_EV_REQ), 1);
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_until(&net, mono_add(net.now, 5 * S_NS));
	ck_assert_int_eq(sa(), CM_MRA_REP_SENT);
	ck_assert_int_eq(sb(), CM_MRA_REP_RCVD);
	ck_assert_uint_eq(note_count(a, CM_EV_REP), 1);
	ck_assert_uint_eq(seen[1][CM_REP], 8);
	net_until(&net, mono_add(net.now, 75 * S_NS));
	ck_assert_uint_eq(seen[1][CM_REP], 8 + 18);
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(sb(), CM_ESTABLISHED);
	end();
}
END_TEST

static struct cm_connect req_short(void)
{
	struct cm_connect req = net_req(a, 0x11);

	req.req.local_timeout = 14;
	req.req.remote_timeout = 16;
	req.req.max_retries = 3;
	return req;
}

/*
 * How long each end waits is what a's REQ says, not what we are used to: a answers within 64 ms, gives b 256 ms and the way there
 * and back as much again, and asks 3 times more.  b's REP goes by the same numbers.
 */
START_TEST(times_of_the_peer) /* conf: rule 7.6 */
{
	struct cm_connect req;
	mono_t t0;

	begin(); /* b does not answer: it is slow, then it is not heard */
	req = req_short();
	t0 = net.now;
	ck_assert_int_eq(cm_connect(a->cm, &req, &ida, &ida, net.now), 0);
	net_until(&net, mono_add(t0, 1045 * MS_NS)); /* repeated after 32 ms, then at a third of what is left */
	ck_assert_uint_eq(seen[0][CM_REQ], 2);
	ck_assert_uint_eq(seen[1][CM_MRA], 0);
	net_until(&net, mono_add(t0, 1046 * MS_NS));
	ck_assert_uint_eq(seen[0][CM_REQ], 3);
	ck_assert_uint_eq(seen[1][CM_MRA], 1); /* more than half of 256 ms is over */
	ck_assert_int_eq(sa(), CM_MRA_REQ_RCVD);
	idb = b->note[0].id;
	lose[1] = 1000;
	t0 = net.now;
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_until(&net, mono_add(t0, 4 * 64 * MS_NS - 1));
	ck_assert_int_eq(sb(), CM_REP_SENT);
	net_until(&net, mono_add(t0, 4 * 64 * MS_NS));
	ck_assert_int_eq(note_last(b), CM_EV_TIMEOUT);
	ck_assert_uint_eq(b->note[b->notes - 1].sent, 4);
	end();

	begin(); /* nobody hears a */
	req = req_short();
	t0 = net.now;
	lose[0] = 1000;
	ck_assert_int_eq(cm_connect(a->cm, &req, &ida, &ida, net.now), 0);
	net_until(&net, mono_add(t0, 4 * (256 + 2 * 256) * MS_NS - 1));
	ck_assert_int_eq(sa(), CM_REQ_SENT);
	net_until(&net, mono_add(t0, 4 * (256 + 2 * 256) * MS_NS));
	ck_assert_int_eq(note_last(a), CM_EV_TIMEOUT);
	ck_assert_uint_eq(a->note[a->notes - 1].sent, 4);
	end();

	begin(); /* b says how long it will take: no sooner than that, and three times more, a gives up */
	req = req_short();
	ck_assert_int_eq(cm_connect(a->cm, &req, &ida, &ida, net.now), 0);
	net_run(&net);
	idb = b->note[0].id;
	t0 = net.now;
	asks(20);
	lose[1] = 1000;
	net_until(&net, mono_add(t0, (4096 + 4 * 768) * MS_NS - 1));
	ck_assert_int_eq(sa(), CM_MRA_REQ_RCVD);
	net_until(&net, mono_add(t0, (4096 + 4 * 768) * MS_NS));
	ck_assert_int_eq(note_last(a), CM_EV_TIMEOUT);
	end();
}
END_TEST

/* ---- repetitions ---------------------------------------------------------------------------- */

/* A program that waits a second for its connection gets six tries, and the peer, which thinks, is not asked for patience. */
START_TEST(repeated_soon) /* conf: rule 7.6 */
{
	static const unsigned at[] = { 0, 32, 96, 224, 480, 992, 2016, 4064 };
	mono_t t0;

	begin();
	t0 = net.now;
	lose[0] = 1000;
	called();
	for (unsigned i = 1; i < sizeof(at) / sizeof(*at); i++) {
		net_until(&net, mono_add(t0, at[i] * MS_NS - 1));
		ck_assert_uint_eq(seen[0][CM_REQ], i);
		net_until(&net, mono_add(t0, at[i] * MS_NS));
		ck_assert_uint_eq(seen[0][CM_REQ], i + 1);
	}
	end();

	begin();
	called();
	net_until(&net, mono_add(net.now, 2047 * MS_NS));
	ck_assert_uint_eq(seen[0][CM_REQ], 7);
	ck_assert_uint_eq(seen[1][CM_MRA], 0);
	ck_assert_int_eq(sb(), CM_REQ_RCVD);
	net_until(&net, mono_add(net.now, 2018 * MS_NS)); /* now it is late */
	ck_assert_uint_eq(seen[1][CM_MRA], 1);
	end();
}
END_TEST

/* b accepts what a has given up, and a's REJ is lost: the REP is refused, too. */
START_TEST(rej_lost)
{
	begin();
	called();
	lose[0] = 1;
	cm_id_free(a->cm, ida, net.now);
	net_run(&net);
	ck_assert_int_eq(sb(), CM_REQ_RCVD);
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(b), CM_EV_REJ);
	ck_assert_int_eq(b->note[b->notes - 1].msg.rej.reason, REJ_COMM_ID);
	ck_assert_int_eq(sb(), CM_DEAD);
	end();
}
END_TEST

START_TEST(each_message_lost_once)
{
	begin();
	lose[0] = 1;
	called();
	ck_assert_int_eq(sa(), CM_REQ_SENT);
	net_until(&net, mono_add(net.now, 32 * MS_NS));
	idb = b->note[0].id;
	lose[1] = 1; /* the REP */
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(sa(), CM_REQ_SENT);
	net_until(&net, mono_add(net.now, 32 * MS_NS));
	ck_assert_int_eq(sa(), CM_REP_RCVD);
	lose[0] = 1; /* the RTU */
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(sb(), CM_REP_SENT);
	net_until(&net, mono_add(net.now, 64 * MS_NS)); /* the REP's second repetition */
	ck_assert_int_eq(sb(), CM_ESTABLISHED);
	lose[1] = 1; /* the DREP, to a side that has gone on */
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(sa(), CM_DREQ_SENT);
	net_until(&net, mono_add(net.now, 32 * MS_NS));
	ck_assert_uint_eq(seen[1][CM_DREP], 2);
	ck_assert_uint_eq(note_count(a, CM_EV_DREP), 1);
	ck_assert_uint_eq(note_count(b, CM_EV_DREQ), 1);
	end();
}
END_TEST

/* A copy of every message that was sent, after each step: nothing happens twice. */
static struct gsi copy[64];
static unsigned copies;

static struct fate keep(struct cm_net *n, unsigned from, const struct cm_msg *m)
{
	if (copies < 64) {
		copy[copies].route = net_route(&n->end[from]);
		cm_msg_put(copy[copies++].mad, m);
	}
	return (struct fate){ 0 };
}

static void repeat_all(void)
{
	unsigned n = copies, notes = a->notes + b->notes;
	enum cm_state was[2] = { sa(), sb() };

	for (unsigned k = 0; k < n; k++) {
		cm_rx(!gid_same(copy[k].route.sgid, a->gid) ? a->cm : b->cm, &copy[k], net.now);
		net.fate = NULL;
		net_run(&net);
		net.fate = keep;
	}
	ck_assert_uint_eq(a->notes + b->notes, notes);
	/* A repeated first message may say: be patient. */
	ck_assert(sa() == was[0] || sa() == CM_MRA_REQ_RCVD || sa() == CM_MRA_REP_SENT);
	ck_assert(sb() == was[1] || sb() == CM_MRA_REQ_SENT || sb() == CM_MRA_REP_RCVD);
}

START_TEST(nothing_happens_twice)
{
	begin();
	copies = 0;
	net.fate = keep;
	called();
	repeat_all();
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	repeat_all();
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	repeat_all();
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	repeat_all();
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	net_run(&net);
	repeat_all();
	ck_assert_uint_ge(copies, 5);
	net.fate = NULL;
	end();
}
END_TEST

TEST_MAIN("cm_state", connect_disconnect, passive_disconnects, crossing_disconnects, qp_attributes, up_without_rtu,
	  rejects, nobody_listens, bad_requests, too_many, req_unanswered, rep_never_arrives, rtu_never_arrives,
	  dreq_unanswered, patience, times_of_the_peer, repeated_soon, rej_lost, each_message_lost_once,
	  nothing_happens_twice)
