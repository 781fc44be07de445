/* SPDX-License-Identifier: MIT */
/* cm_end.c - programs that let go, in every state and without a word; listeners; UD (SIDR). */
#include "proto/cm_in.h"
#include "t/cm_net.h"
#include "t/suite.h"

#include <string.h>

static struct cm_net net;
static struct cm_end *const a = &net.end[0], *const b = &net.end[1];
static uint32_t ida, idb, listener;
static bool deaf[2]; /* what is sent to the end gets lost */
static unsigned mads[2];

static struct fate fate(struct cm_net *, unsigned from, const struct cm_msg *)
{
	mads[from]++;
	return (struct fate){ .lost = deaf[!from] };
}

/* Brings both ends as far as the state of one demands. */
static void reach(enum cm_state state)
{
	struct cm_connect req;
	bool slow;

	net_init(&net, state);
	net.fate = fate;
	deaf[0] = deaf[1] = false;
	idb = 0;
	ck_assert_int_eq(cm_listen(b->cm, SERVICE, NULL, &listener), 0);
	req = net_req(a, 0x11);
	deaf[1] = state == CM_REQ_SENT;
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	deaf[1] = false;
	if (state == CM_REQ_SENT)
		return;
	idb = b->note[0].id;
	if (state == CM_REQ_RCVD)
		return;
	slow = state == CM_MRA_REQ_SENT || state == CM_MRA_REQ_RCVD || state == CM_MRA_REP_SENT ||
	       state == CM_MRA_REP_RCVD;
	if (slow) /* until each has repeated itself, and the other asked for patience */
		net_until(&net, mono_add(net.now, 5 * S_NS));
	if (state == CM_MRA_REQ_SENT || state == CM_MRA_REQ_RCVD)
		return;
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	if (slow)
		net_until(&net, mono_add(net.now, 5 * S_NS));
	if (slow || state == CM_REP_SENT || state == CM_REP_RCVD)
		return;
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	if (state == CM_ESTABLISHED)
		return;
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	if (state == CM_DREQ_SENT || state == CM_DREQ_RCVD)
		return;
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	net_run(&net);
	if (state == CM_TIMEWAIT)
		return;
	net_settle(&net);
}

static void nothing_left(void)
{
	net_settle(&net);
	ck_assert_uint_eq(ids(a), 0);
	cm_id_free(b->cm, listener, net.now);
	ck_assert_uint_eq(ids(b), 0);
	net_fini(&net);
}

/* The message sent (attr 0: none), and the last event at the other end. */
static const struct {
	enum cm_state state;
	bool active;
	uint16_t attr, reason;
	enum cm_event_type told;
	enum cm_rej_msg of;
} frees[] = {
	{ CM_REQ_SENT, true, CM_REJ, REJ_TIMEOUT, 0, REJ_OF_OTHER },
	{ CM_MRA_REQ_RCVD, true, CM_REJ, REJ_TIMEOUT, CM_EV_REJ, REJ_OF_OTHER },
	{ CM_REP_RCVD, true, CM_REJ, REJ_CONSUMER, CM_EV_REJ, REJ_OF_REP },
	{ CM_MRA_REP_SENT, true, CM_REJ, REJ_CONSUMER, CM_EV_REJ, REJ_OF_REP },
	{ CM_REQ_RCVD, false, CM_REJ, REJ_CONSUMER, CM_EV_REJ, REJ_OF_REQ },
	{ CM_MRA_REQ_SENT, false, CM_REJ, REJ_CONSUMER, CM_EV_REJ, REJ_OF_REQ },
	{ CM_REP_SENT, false, CM_REJ, REJ_CONSUMER, CM_EV_REJ, REJ_OF_OTHER },
	{ CM_MRA_REP_RCVD, false, CM_REJ, REJ_CONSUMER, CM_EV_REJ, REJ_OF_OTHER },
	{ CM_ESTABLISHED, true, CM_DREQ, 0, CM_EV_DREQ, 0 },
	{ CM_ESTABLISHED, false, CM_DREQ, 0, CM_EV_DREQ, 0 },
	{ CM_DREQ_SENT, true, 0, 0, CM_EV_DREQ, 0 },
	{ CM_DREQ_RCVD, false, CM_DREP, 0, CM_EV_DREP, 0 },
	{ CM_TIMEWAIT, true, 0, 0, CM_EV_DREQ, 0 },
	{ CM_TIMEWAIT, false, 0, 0, CM_EV_DREP, 0 },
	{ CM_DEAD, true, 0, 0, CM_EV_TIMEWAIT_EXIT, 0 },
};

START_TEST(freed_in_each_state)
{
	for (unsigned k = 0; k < sizeof(frees) / sizeof(*frees); k++) {
		struct cm_end *me, *other;
		uint64_t sent;
		uint32_t id;

		reach(frees[k].state);
		me = frees[k].active ? a : b;
		other = frees[k].active ? b : a;
		id = frees[k].active ? ida : idb;
		ck_assert_msg(cm_state(me->cm, id) == frees[k].state, "%s, not %s", cm_state_name(cm_state(me->cm, id)),
			      cm_state_name(frees[k].state));
		sent = net.sent;
		me->notes = 0;
		cm_id_free(me->cm, id, net.now);
		ck_assert_int_eq(cm_state(me->cm, id), CM_NONE);
		cm_id_free(me->cm, id, net.now);
		ck_assert_int_eq(cm_disconnect(me->cm, id, NULL, net.now), EINVAL);
		net_run(&net);
		if (frees[k].attr) {
			ck_assert_uint_eq(net.sent, sent + 1);
			ck_assert_int_eq(net.last.attr, frees[k].attr);
			if (frees[k].attr == CM_REJ) {
				ck_assert_int_eq(net.last.rej.reason, frees[k].reason);
				ck_assert_int_eq(net.last.rej.msg, frees[k].of);
			}
		} else {
			ck_assert_uint_eq(net.sent, sent);
		}
		if (frees[k].state != CM_REQ_SENT)
			ck_assert_msg(note_last(other) == (int)frees[k].told, "%s: %s", cm_state_name(frees[k].state),
				      cm_event_name(other->note[other->notes - 1].type));
		cm_id_free(other->cm, frees[k].active ? idb : ida, net.now);
		net_settle(&net);
		ck_assert_uint_eq(me->notes, 0);
		nothing_left();
	}
}
END_TEST

/* The DREQ of a program that has ended is repeated without it. */
START_TEST(freed_and_unheard)
{
	reach(CM_ESTABLISHED);
	deaf[1] = true;
	cm_id_free(a->cm, ida, net.now);
	net_until(&net, mono_add(net.now, 10 * S_NS));
	ck_assert_uint_eq(note_count(b, CM_EV_DREQ), 0);
	deaf[1] = false;
	net_until(&net, mono_add(net.now, 5 * S_NS));
	ck_assert_uint_eq(note_count(b, CM_EV_DREQ), 1);
	cm_id_free(b->cm, idb, net.now);
	nothing_left();
}
END_TEST

/* Events of an id that is freed are not told. */
START_TEST(freed_with_events)
{
	struct cm_connect req;
	struct cm_event ev;
	struct gsi g;

	reach(CM_REQ_SENT);
	cm_id_free(a->cm, ida, net.now);
	net_run(&net);
	req = net_req(a, 0x12);
	req.req.service_id++; /* refused at once */
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	ck_assert(cm_tx(a->cm, &g));
	cm_rx(b->cm, &g, net.now);
	ck_assert(cm_tx(b->cm, &g));
	cm_rx(a->cm, &g, net.now);
	cm_id_free(a->cm, ida, net.now);
	ck_assert(!cm_event(a->cm, &ev));
	nothing_left();
}
END_TEST

/* Calls that nobody has looked at are refused when the listener goes; the others are the program's. */
START_TEST(listener_freed)
{
	struct cm_connect req;
	struct cm_sidr_req sidr = { .service_id = SERVICE, .pkey = 0xffff };
	struct route route;
	struct cm_event ev;
	uint32_t id[4], udp, other;
	struct gsi g;

	reach(CM_REQ_RCVD);
	route = net_route(a);
	ck_assert_int_eq(cm_listen(b->cm, SERVICE + 1, NULL, &other), 0);
	for (unsigned k = 0; k < 4; k++) {
		req = net_req(a, 0x12 + k);
		req.req.service_id += k == 3;
		ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &id[k], net.now), 0);
	}
	ck_assert_int_eq(cm_sidr(a->cm, &sidr, &route, NULL, &udp, net.now), 0);
	while (cm_tx(a->cm, &g))
		cm_rx(b->cm, &g, net.now);
	ck_assert_uint_eq(ids(b), 8);
	cm_id_free(b->cm, listener, net.now);
	ck_assert(cm_event(b->cm, &ev)); /* another one's */
	ck_assert_uint_eq(ev.listen_id, other);
	ck_assert(!cm_event(b->cm, &ev));
	cm_id_free(a->cm, id[3], net.now);
	net_run(&net);
	cm_id_free(b->cm, ev.id, net.now);
	cm_id_free(b->cm, other, net.now);
	net_run(&net);
	ck_assert_uint_eq(note_count(a, CM_EV_REJ), 3);
	ck_assert_int_eq(a->note[a->notes - 1].type, CM_EV_SIDR_REP);
	ck_assert_int_eq(a->note[a->notes - 1].msg.sidr_rep.status, SIDR_REJECT);
	ck_assert_int_eq(cm_state(b->cm, idb), CM_REQ_RCVD);
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(cm_state(a->cm, ida), CM_REP_RCVD);
	for (unsigned k = 0; k < 3; k++)
		cm_id_free(a->cm, id[k], net.now);
	cm_id_free(a->cm, udp, net.now);
	cm_id_free(a->cm, ida, net.now);
	net_run(&net);
	cm_id_free(b->cm, idb, net.now);
	ck_assert_int_eq(cm_listen(b->cm, SERVICE, NULL, &listener), 0);
	nothing_left();
}
END_TEST

/* A device that calls itself: one agent has both ends. */
START_TEST(oneself)
{
	static const enum cm_event_type want[] = { CM_EV_REQ,  CM_EV_REP,           CM_EV_RTU,          CM_EV_DREQ,
						   CM_EV_DREP, CM_EV_TIMEWAIT_EXIT, CM_EV_TIMEWAIT_EXIT };
	struct cm_connect req;
	struct cm_event ev;
	struct gsi g;

	net_init(&net, 1);
	req = net_req(a, 0x11);
	memcpy(req.route.dgid, a->gid, 16);
	memcpy(req.req.path.dgid, a->gid, 16);
	ck_assert_int_eq(cm_listen(a->cm, SERVICE, NULL, &listener), 0);
	ck_assert_int_eq(cm_connect(a->cm, &req, &ida, &ida, net.now), 0);
	for (unsigned k = 0; k < sizeof(want) / sizeof(*want); k++) {
		while (cm_tx(a->cm, &g))
			cm_rx(a->cm, &g, net.now);
		cm_verify(a->cm);
		if (want[k] == CM_EV_TIMEWAIT_EXIT) {
			net.now = mono_add(net.now, S_NS);
			cm_tick(a->cm, net.now);
		}
		ck_assert(cm_event(a->cm, &ev));
		ck_assert_msg(ev.type == want[k], "%s, not %s", cm_event_name(ev.type), cm_event_name(want[k]));
		if (k == 0) {
			idb = ev.id;
			ck_assert_int_eq(cm_accept(a->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
		} else if (k == 1) {
			ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
		} else if (k == 2) {
			ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
		} else if (k == 3) {
			ck_assert_uint_eq(ev.id, idb);
			ck_assert_int_eq(cm_disconnect(a->cm, idb, NULL, net.now), 0);
		}
	}
	cm_id_free(a->cm, ida, net.now);
	cm_id_free(a->cm, idb, net.now);
	cm_id_free(a->cm, listener, net.now);
	ck_assert_uint_eq(ids(a), 0);
	net_fini(&net);
}
END_TEST

/* ---- UD ----------------------------------------------------------------------------- */

static void ask(uint64_t service)
{
	struct cm_sidr_req req = { .service_id = service, .pkey = 0xffff, .data = "who is there" };
	struct route route;

	net_init(&net, 5);
	net.fate = fate;
	deaf[0] = deaf[1] = false;
	route = net_route(a);
	ck_assert_int_eq(cm_listen(b->cm, SERVICE, &listener, &listener), 0);
	ck_assert_int_eq(cm_sidr(a->cm, &req, &route, &ida, &ida, net.now), 0);
	net_run(&net);
}

START_TEST(sidr)
{
	struct cm_sidr_rep rep = { .qpn = 0x33, .qkey = 0x1234567, .data = "me" };
	const struct cm_event *ev;

	ask(SERVICE);
	ev = &b->note[0];
	ck_assert(b->notes == 1 && ev->type == CM_EV_SIDR_REQ && ev->listen_id == listener && ev->host == &listener);
	ck_assert_str_eq((const char *)ev->msg.sidr_req.data, "who is there");
	ck_assert(gid_same(ev->route.sgid, b->gid) && gid_same(ev->route.dgid, a->gid));
	idb = ev->id;
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ 0 }, net.now), EINVAL);
	ck_assert_int_eq(cm_sidr_reply(b->cm, idb, &rep, net.now), 0);
	ck_assert_int_eq(cm_sidr_reply(b->cm, idb, &rep, net.now), EINVAL);
	net_run(&net);
	ev = &a->note[0];
	ck_assert(a->notes == 1 && ev->type == CM_EV_SIDR_REP && ev->host == &ida);
	ck_assert(ev->msg.sidr_rep.status == SIDR_OK && ev->msg.sidr_rep.qpn == 0x33);
	ck_assert(ev->msg.sidr_rep.qkey == 0x1234567 && ev->msg.sidr_rep.service_id == SERVICE);
	ck_assert_int_eq(cm_state(a->cm, ida), CM_DEAD);
	cm_id_free(a->cm, ida, net.now);
	cm_id_free(b->cm, idb, net.now);
	nothing_left();
	ck_assert_uint_eq(b->notes, 1);
}
END_TEST

/* The answer is lost: the question that comes again is not a new one, even when the program has gone on. */
START_TEST(sidr_answer_lost)
{
	ask(SERVICE);
	idb = b->note[0].id;
	deaf[0] = true;
	ck_assert_int_eq(cm_sidr_reply(b->cm, idb, &(struct cm_sidr_rep){ .qpn = 0x33 }, net.now), 0);
	cm_id_free(b->cm, idb, net.now);
	net_until(&net, mono_add(net.now, 30 * S_NS));
	ck_assert_uint_eq(a->notes, 0);
	deaf[0] = false;
	net_until(&net, mono_add(net.now, 5 * S_NS));
	ck_assert_int_eq(note_last(a), CM_EV_SIDR_REP);
	ck_assert_uint_eq(a->note[0].msg.sidr_rep.qpn, 0x33);
	ck_assert_uint_eq(b->notes, 1);
	cm_id_free(a->cm, ida, net.now);
	nothing_left();
}
END_TEST

START_TEST(sidr_refused)
{
	struct cm_sidr_req req = { .service_id = SERVICE, .pkey = 0xffff };
	struct route route;

	ask(SERVICE + 1);
	ck_assert_int_eq(a->note[0].msg.sidr_rep.status, SIDR_SERVICE_ID);
	ck_assert(a->note[0].msg.sidr_rep.service_id == SERVICE + 1);
	cm_id_free(a->cm, ida, net.now);
	nothing_left();

	ask(SERVICE);
	idb = b->note[0].id;
	cm_id_free(b->cm, idb, net.now);
	net_run(&net);
	ck_assert_int_eq(a->note[0].msg.sidr_rep.status, SIDR_REJECT);
	cm_id_free(a->cm, ida, net.now);
	/* Nor is there room for more questions than a listener can bear. */
	ck_assert_int_eq(cm_listen_full(b->cm, listener, true), 0);
	route = net_route(a);
	ck_assert_int_eq(cm_sidr(a->cm, &req, &route, &ida, &ida, net.now), 0);
	net_run(&net);
	ck_assert(a->notes == 2 && b->notes == 1);
	ck_assert_int_eq(a->note[1].msg.sidr_rep.status, SIDR_REJECT);
	cm_id_free(a->cm, ida, net.now);
	nothing_left();
}
END_TEST

START_TEST(sidr_unanswered)
{
	mono_t t0;

	ask(SERVICE); /* the program never answers */
	t0 = net.now;
	net_settle(&net);
	ck_assert_uint_eq(net.now.ns - t0.ns, 16 * 4096 * MS_NS);
	ck_assert_int_eq(note_last(a), CM_EV_TIMEOUT);
	ck_assert_uint_eq(net.sent, 16);
	ck_assert_uint_eq(b->notes, 1);
	cm_id_free(b->cm, b->note[0].id, net.now);
	cm_id_free(a->cm, ida, net.now);
	nothing_left();

	ask(SERVICE);
	cm_id_free(a->cm, ida, net.now); /* asked, and gone */
	cm_id_free(b->cm, b->note[0].id, net.now);
	nothing_left();
}
END_TEST

/* In 10 ms, for which nothing had to be done. */
static void later(void) { net.now = mono_add(net.now, 10 * MS_NS); }

static void due(const struct cm_end *e, uint32_t id, uint64_t ms)
{
	ck_assert_uint_eq(id_find(e->cm, id)->timer.at.ns, net.now.ns + ms * MS_NS);
	net_run(&net);
	later();
}

/* Times run from when the program does something, not from when its agent was last awake. */
START_TEST(from_then_on) /* conf: rule 7.6 */
{
	struct cm_sidr_req question = { .service_id = SERVICE, .pkey = 0xffff };
	struct route route;
	struct cm_connect req;

	net_init(&net, 9);
	req = net_req(a, 0x11);
	route = net_route(a);
	ck_assert_int_eq(cm_listen(b->cm, SERVICE, NULL, &listener), 0);
	later();
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	due(a, ida, 32);
	idb = b->note[0].id;
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	due(b, idb, 32);
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	due(a, ida, 4096);
	ck_assert_int_eq(cm_disconnect(a->cm, ida, NULL, net.now), 0);
	due(a, ida, 32);
	ck_assert_int_eq(cm_disconnect(b->cm, idb, NULL, net.now), 0);
	due(b, idb, 512); /* time wait */
	cm_id_free(a->cm, ida, net.now);
	cm_id_free(b->cm, idb, net.now);
	net_settle(&net);

	later();
	ck_assert_int_eq(cm_connect(a->cm, &req, NULL, &ida, net.now), 0);
	net_run(&net);
	idb = b->note[b->notes - 1].id;
	ck_assert_int_eq(cm_accept(b->cm, idb, &(struct cm_rep){ .qpn = 0x22 }, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(cm_rtu(a->cm, ida, NULL, net.now), 0);
	net_run(&net);
	later();
	cm_id_free(b->cm, idb, net.now);
	due(b, idb, 32);
	cm_id_free(a->cm, ida, net.now);
	due(a, ida, 512);
	net_settle(&net);

	later();
	ck_assert_int_eq(cm_sidr(a->cm, &question, &route, NULL, &ida, net.now), 0);
	due(a, ida, 32);
	idb = b->note[b->notes - 1].id;
	ck_assert_int_eq(cm_sidr_reply(b->cm, idb, &(struct cm_sidr_rep){ .qpn = 3 }, net.now), 0);
	due(b, idb, 9 * 4096);
	cm_id_free(b->cm, idb, net.now);
	cm_id_free(a->cm, ida, net.now);
	nothing_left();
}
END_TEST

/* A host that has slept for longer than all repetitions of an RTU take sends one, not all of them at once. */
START_TEST(slept)
{
	reach(CM_ESTABLISHED);
	mads[0] = 0;
	net.now = mono_add(net.now, 100000000000u);
	cm_tick(a->cm, net.now);
	net_run(&net);
	ck_assert_uint_eq(mads[0], 1);
	net_fini(&net);
}
END_TEST

TEST_MAIN("cm_end", from_then_on, freed_in_each_state, freed_and_unheard, freed_with_events, listener_freed, oneself,
	  sidr, sidr_answer_lost, sidr_refused, sidr_unanswered, slept)
