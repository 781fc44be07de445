/* SPDX-License-Identifier: MIT */
/* cm_forged.c - requests in another one's name: they end no connection, and the other one is not flooded with answers. */
#include "t/proto/cm_duo.h"

#include <string.h>

#define FORGED_QPN 0x11u /* a's, as connected() has it */

/* A REQ as if a had sent it; from elsewhere: with another address. */
static void forge_from(uint32_t local_id, uint32_t qpn, bool elsewhere)
{
	struct cm_connect c = net_req(a, qpn);
	struct cm_msg m = { .attr = CM_REQ, .tid = 1, .req = c.req };
	struct gsi g = { .route = c.route };

	m.req.local_id = local_id;
	m.req.ca_guid = a->guid;
	m.req.local_timeout = 0; /* as short as can be */
	if (elsewhere) {
		g.route.sgid[15] ^= 0x55;
		memcpy(m.req.path.sgid, g.route.sgid, 16);
	}
	cm_msg_put(g.mad, &m);
	cm_rx(b->cm, &g, net.now);
}

static void forge(uint32_t local_id, bool elsewhere) { forge_from(local_id, FORGED_QPN, elsewhere); }
static void forge_qp(uint32_t local_id, uint32_t qpn) { forge_from(local_id, qpn, false); }

/* The answer to it is a message like others, and goes nowhere that the net knows. */
static void is_request(void)
{
	struct cm_event ev;
	struct cm_msg m;
	struct gsi g;

	while (cm_event(b->cm, &ev)) {
		ck_assert_int_eq(ev.type, CM_EV_REQ);
		cm_id_free(b->cm, ev.id, net.now);
	}
	while (cm_tx(b->cm, &g)) {
		ck_assert(cm_msg_get(&m, g.mad));
		ck_assert_uint_eq(m.attr, CM_REJ);
		ck_assert_int_ne(memcmp(g.route.dgid, a->gid, 16), 0);
	}
}

START_TEST(from_elsewhere)
{
	begin();
	connected();
	forge(ida, true); /* looks like the one that was repeated */
	is_request();
	forge(ida + 1, true);
	is_request();
	ck_assert_int_eq(sb(), CM_ESTABLISHED);
	ck_assert_int_eq(sa(), CM_ESTABLISHED);
	ck_assert_uint_eq(seen[1][CM_DREQ], 0);
	forge(ida + 2, false); /* a itself has forgotten it */
	net_run(&net);
	ck_assert_uint_eq(seen[1][CM_DREQ], 1);
	ck_assert_int_eq(sb(), CM_DREQ_SENT);
	end();
}
END_TEST

static unsigned sent_by_b(void)
{
	unsigned sent = 0;

	for (unsigned attr = CM_REQ; attr <= CM_APR; attr++)
		sent += seen[1][attr];
	return sent;
}

/*
 * Whoever a is, it asked for many connections, once or twice for each, and never shows that it has got anything: three MADs for
 * each of its own.
 */
static void amplified(unsigned reqs)
{
	enum { CALLS = 40 };

	begin();
	lose[1] = 10000;
	for (unsigned k = 0; k < CALLS; k++)
		for (unsigned i = 0; i < reqs; i++)
			forge_qp(77 + k, FORGED_QPN + k);
	net_run(&net);
	ck_assert_uint_eq(note_count(b, CM_EV_REQ), CALLS);
	for (unsigned k = 0; k < CALLS; k++) {
		struct cm_rep rep = net_rep(0x22 + k);

		ck_assert_int_eq(cm_accept(b->cm, b->note[k].id, &rep, net.now), 0);
	}
	net_until(&net, mono_add(net.now, 90 * MS_NS));
	ck_assert_int_eq(cm_state(b->cm, b->note[0].id), CM_REP_SENT); /* however short a time the peer set */
	ck_assert_uint_eq(sent_by_b(), 2 * CALLS);                     /* and once after 32 ms */
	net_settle(&net);
	ck_assert_uint_eq(sent_by_b(), 3 * reqs * CALLS);
	ck_assert_uint_eq(note_count(b, CM_EV_TIMEOUT), CALLS);
	for (unsigned k = 0; k < CALLS; k++)
		cm_id_free(b->cm, b->note[k].id, net.now);
	lose[1] = 0;
	end();
}

START_TEST(asked_once) { amplified(1); } /* conf: rule 7.6 */
END_TEST
START_TEST(asked_twice) { amplified(2); }
END_TEST

/* One who connects is not dependent on being asked: its RTUs are lost as often as a message may be. */
START_TEST(rtus_lost) /* conf: rule 7.6 */
{
	begin();
	accepted();
	lose[0] = 15;
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_until(&net, mono_add(net.now, 50 * S_NS));
	ck_assert_int_eq(sb(), CM_REP_SENT);
	net_until(&net, mono_add(net.now, 15 * S_NS));
	ck_assert_int_eq(sb(), CM_ESTABLISHED);
	ck_assert_uint_eq(sent_by_b(), 3);
	end();
}
END_TEST

/* b has said all that it may, and is gone without a word; it says so to the first RTU that arrives. */
START_TEST(rtu_too_late)
{
	begin();
	accepted();
	lose[0] = 3;
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_until(&net, mono_add(net.now, S_NS));
	cm_id_free(b->cm, idb, net.now);
	net_run(&net);
	ck_assert_uint_eq(seen[1][CM_REJ], 0);
	ck_assert_int_eq(sa(), CM_ESTABLISHED);
	net_until(&net, mono_add(net.now, 3200 * MS_NS));
	ck_assert_int_eq(note_last(a), CM_EV_REJ);
	ck_assert_int_eq(sa(), CM_TIMEWAIT);
	ck_assert_uint_eq(sent_by_b(), 4);
	end();
}
END_TEST

/* Data in place of the RTU are proof enough to be told of the end. */
START_TEST(data_proves)
{
	begin();
	accepted();
	lose[0] = 1000;
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_until(&net, mono_add(net.now, S_NS));
	ck_assert_uint_eq(seen[1][CM_REP], 3);
	ck_assert_int_eq(cm_established(b->cm, idb, net.now), 0);
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(note_last(a), CM_EV_DREQ);
	lose[0] = 0;
	end();
}
END_TEST

/* How many REPs b sends to a call, where nothing of either gets to the other any more. */
static unsigned unanswered(void)
{
	struct cm_rep rep = net_rep(0x22);

	memset(seen, 0, sizeof(seen));
	called();
	lose[0] = lose[1] = 1000;
	ck_assert_int_eq(cm_accept(b->cm, idb, &rep, net.now), 0);
	net_settle(&net);
	lose[0] = lose[1] = 0;
	return seen[1][CM_REP];
}

/* A peer that has answered before is answered as often as agreed: its RTUs may get lost. */
START_TEST(proven)
{
	begin();
	connected();
	cm_id_free(a->cm, ida, net.now);
	cm_id_free(b->cm, idb, net.now);
	net_settle(&net);
	ck_assert_uint_eq(unanswered(), 16);
	cm_id_free(a->cm, ida, net.now);
	cm_id_free(b->cm, idb, net.now);
	net_until(&net, mono_add(net.now, 600 * S_NS)); /* for ten minutes */
	ck_assert_uint_eq(unanswered(), 3);
	end();
}
END_TEST

static void called_in_haste(void)
{
	struct cm_connect req = net_req(a, 0x11);

	req.req.remote_timeout = 12;
	a->notes = 0;
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
}

static void refused(void)
{
	ck_assert_int_eq(note_last(a), CM_EV_REJ);
	ck_assert_uint_eq(a->note[a->notes - 1].msg.rej.reason, REJ_CONSUMER);
	cm_id_free(a->cm, ida, net.now);
}

/* A listener that is full does not hear: a REQ comes again, and finds room then.  One in haste is answered. */
START_TEST(full)
{
	begin();
	ck_assert_int_eq(cm_listen_full(b->cm, listener, true), 0);
	called_in_haste();
	ck_assert_int_eq(note_last(b), -1);
	refused();
	called();
	ck_assert_int_eq(sa(), CM_REQ_SENT);
	net_until(&net, mono_add(net.now, 20 * S_NS));
	ck_assert_int_eq(note_last(b), -1);
	ck_assert_int_eq(cm_listen_full(b->cm, listener, false), 0);
	net_until(&net, mono_add(net.now, 10 * S_NS));
	ck_assert_int_eq(note_last(b), CM_EV_REQ);
	/* Its host has no room after all. */
	cm_request_drop(b->cm, b->note[b->notes - 1].id, net.now);
	net_until(&net, mono_add(net.now, 10 * S_NS));
	ck_assert_uint_eq(note_count(b, CM_EV_REQ), 2);
	cm_request_drop(b->cm, b->note[b->notes - 1].id, net.now);
	cm_id_free(a->cm, ida, net.now);
	called_in_haste();
	cm_request_drop(b->cm, b->note[b->notes - 1].id, net.now);
	net_run(&net);
	refused();
	net_settle(&net);
	connected();
	end();
}
END_TEST

enum { IDS = 1000 };

/* The comm ids of an agent with that secret. */
static void ids_of(uint64_t seed, uint64_t seed_hi, uint32_t *id)
{
	struct cm *cm = cm_new(&(struct cm_cfg){ .seed = seed, .seed_hi = seed_hi, .ca_guid = 1, .max_ids = IDS });

	ck_assert_ptr_nonnull(cm);
	for (unsigned i = 0; i < IDS; i++)
		ck_assert_int_eq(cm_listen(cm, 100 + i, NULL, &id[i]), 0);
	cm_free(cm);
}

/* Some comm ids tell nothing of others: they are far from each other, and both halves of the secret decide on each. */
START_TEST(unguessable) /* conf: rule 7.3 */
{
	static const uint64_t secret[][2] = { { 5, 6 }, { 5, 7 }, { 6, 6 } };
	static uint32_t id[3][IDS];
	unsigned near = 0;

	for (unsigned k = 0; k < 3; k++)
		ids_of(secret[k][0], secret[k][1], id[k]);
	for (unsigned i = 0; i < IDS; i++) {
		near += i && id[0][i] - id[0][i - 1] + (1u << 16) < 1u << 17;
		ck_assert_uint_ne(id[0][i], id[1][i]);
		ck_assert_uint_ne(id[0][i], id[2][i]);
	}
	ck_assert_uint_lt(near, 5); /* 0.03 are to be expected */
}
END_TEST

enum { STRANGERS = 10000 };

static void stranger_asks(struct cm *cm, const struct cm_msg *m, unsigned k)
{
	struct gsi g = { .route = { .hop_limit = 64 } };
	struct cm_msg own = *m;
	struct cm_event ev;

	g.route.dgid[15] = 1;
	memcpy(&g.route.sgid[8], &k, sizeof(k));
	memcpy(own.req.path.sgid, g.route.sgid, 16);
	memcpy(own.req.path.dgid, g.route.dgid, 16);
	cm_msg_put(g.mad, m->attr == CM_REQ ? &own : m);
	cm_rx(cm, &g, (mono_t){ 0 });
	ck_assert(cm_event(cm, &ev));
}

/* The hash was once without a key, and anybody could say which of its 1024 places. */
static bool had_place_0(uint32_t number) { return !(number * 0x9e3779b97f4a7c15u >> 40 & 1023); }

/* Whatever numbers and addresses strangers choose, their ids do not come to one place, and none of them costs much to find. */
START_TEST(scattered)
{
	struct cm_msg sidr = { .attr = CM_SIDR_REQ, .sidr_req = { .service_id = 7 } };
	struct cm_msg req = { .attr = CM_REQ, .req = { .service_id = 7, .local_id = 1, .ca_guid = 2, .qpn = 3 } };
	struct cm *cm = cm_new(&(struct cm_cfg){ .seed = 5, .seed_hi = 6, .ca_guid = 1 });
	uint32_t id;

	ck_assert_ptr_nonnull(cm);
	ck_assert_int_eq(cm_listen(cm, 7, NULL, &id), 0);
	for (unsigned n = 0; n < STRANGERS; n++) {
		while (!had_place_0(++sidr.sidr_req.request_id))
			;
		stranger_asks(cm, &sidr, 0);
	}
	ck_assert_uint_lt(cm_chain_max(cm), 32); /* 2.4 on average */
	for (unsigned n = 0; n < STRANGERS; n++)
		stranger_asks(cm, &sidr, n + 1);
	for (unsigned n = 0; n < STRANGERS; n++)
		stranger_asks(cm, &req, n);
	req.req.qpn = 0;
	for (unsigned n = 0; n < STRANGERS; n++, req.req.local_id++)
		stranger_asks(cm, &req, STRANGERS);
	ck_assert_uint_lt(cm_chain_max(cm), 64); /* 10 */
	cm_verify(cm);
	cm_free(cm);
}
END_TEST

TEST_MAIN("cm_forged", scattered, unguessable, from_elsewhere, asked_once, asked_twice, rtus_lost, rtu_too_late,
	  data_proves, proven, full)
