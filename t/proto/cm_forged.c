/* SPDX-License-Identifier: MIT */
/* cm_forged.c - requests in another one's name: they end no connection, and the other one is not flooded with answers. */
#include "t/proto/cm_duo.h"

#include <string.h>

#define FORGED_QPN 0x11u /* a's, as connected() has it */

/* A REQ as if a had sent it; from elsewhere: with another address. */
static void forge(uint32_t local_id, bool elsewhere)
{
	struct cm_connect c = net_req(a, FORGED_QPN);
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

/* Whoever a is, it asked once, or a few times, and never shows that it has got anything. */
static void amplified(unsigned reqs)
{
	struct cm_rep rep = net_rep(0x22);
	unsigned sent;

	begin();
	lose[1] = 1000;
	for (unsigned i = 0; i < reqs; i++)
		forge(77, false);
	net_run(&net);
	ck_assert_int_eq(note_last(b), CM_EV_REQ);
	idb = b->note[b->notes - 1].id;
	ck_assert_int_eq(cm_accept(b->cm, idb, &rep, net.now), 0);
	net_until(&net, mono_add(net.now, 90 * MS_NS));
	ck_assert_int_eq(sb(), CM_REP_SENT); /* however short a time the peer set */
	for (unsigned i = 0; i < reqs; i++)
		forge(77, false);
	net_settle(&net);
	sent = 0;
	for (unsigned attr = CM_REQ; attr <= CM_APR; attr++)
		sent += seen[1][attr];
	ck_assert_uint_le(sent, 3 * 2 * reqs);
	ck_assert_uint_ge(seen[1][CM_REP], reqs);
	ck_assert_int_eq(note_last(b), CM_EV_TIMEOUT);
	lose[1] = 0;
	end();
}

START_TEST(asked_once) { amplified(1); }
END_TEST
START_TEST(asked_twice) { amplified(2); }
END_TEST

/* A peer that has answered before is answered as often as agreed: its RTUs may get lost. */
START_TEST(proven)
{
	struct cm_rep rep = net_rep(0x22);

	begin();
	connected();
	cm_id_free(a->cm, ida, net.now);
	cm_id_free(b->cm, idb, net.now);
	net_settle(&net);
	memset(seen, 0, sizeof(seen));
	called();
	lose[0] = lose[1] = 1000;
	ck_assert_int_eq(cm_accept(b->cm, idb, &rep, net.now), 0);
	net_settle(&net);
	ck_assert_uint_eq(seen[1][CM_REP], 16);
	lose[0] = lose[1] = 0;
	end();
}
END_TEST

/* A full listener refuses by itself. */
START_TEST(full)
{
	begin();
	ck_assert_int_eq(cm_listen_full(b->cm, listener, true), 0);
	called();
	ck_assert_int_eq(note_last(b), -1);
	ck_assert_int_eq(note_last(a), CM_EV_REJ);
	ck_assert_uint_eq(a->note[a->notes - 1].msg.rej.reason, REJ_CONSUMER);
	cm_id_free(a->cm, ida, net.now);
	net_settle(&net);
	ck_assert_int_eq(cm_listen_full(b->cm, listener, false), 0);
	connected();
	end();
}
END_TEST

TEST_MAIN("cm_forged", from_elsewhere, asked_once, asked_twice, proven, full)
