/* SPDX-License-Identifier: MIT */
/* cm_duo.c - see cm_duo.h. */
#include "t/proto/cm_duo.h"

#include <string.h>

struct cm_net net;
struct cm_end *const a = &net.end[0], *const b = &net.end[1];
uint32_t ida, idb, listener;
unsigned lose[2];
unsigned seen[2][CM_APR + 1];

static struct fate fate(struct cm_net *, unsigned from, const struct cm_msg *m)
{
	seen[from][m->attr]++;
	return (struct fate){ .lost = lose[from] && lose[from]-- };
}

void begin(void)
{
	net_init(&net, 42);
	net.fate = fate;
	memset(lose, 0, sizeof(lose));
	memset(seen, 0, sizeof(seen));
	ck_assert_int_eq(cm_listen(b->cm, SERVICE, &listener, &listener), 0);
}

void end(void)
{
	cm_id_free(a->cm, ida, net.now);
	cm_id_free(b->cm, idb, net.now);
	net_settle(&net);
	ck_assert_uint_eq(ids(a), 0);
	ck_assert_uint_eq(ids(b), 1);
	cm_id_free(b->cm, listener, net.now);
	ck_assert_uint_eq(ids(b), 0);
	net_fini(&net);
}

enum cm_state sa(void) { return cm_state(a->cm, ida); }
enum cm_state sb(void) { return cm_state(b->cm, idb); }

void called(void)
{
	struct cm_connect req = net_req(a, 0x11);

	ck_assert_int_eq(cm_connect(a->cm, &req, &ida, &ida, net.now), 0);
	ck_assert_int_eq(sa(), CM_REQ_SENT);
	net_run(&net);
	if (note_last(b) != CM_EV_REQ)
		return;
	idb = b->note[b->notes - 1].id;
	ck_assert_ptr_eq(b->note[b->notes - 1].host, &listener);
	ck_assert_uint_eq(b->note[b->notes - 1].listen_id, listener);
	ck_assert_int_eq(cm_host_set(b->cm, idb, &idb), 0);
	ck_assert_int_eq(sb(), CM_REQ_RCVD);
}

void accepted(void)
{
	struct cm_rep rep = net_rep(0x22);

	called();
	ck_assert_int_eq(cm_accept(b->cm, idb, &rep, net.now), 0);
	ck_assert_int_eq(sb(), CM_REP_SENT);
	net_run(&net);
	ck_assert(net.last.attr == CM_REP && net.last.rep.ca_guid == b->guid);
}

void connected(void)
{
	accepted();
	ck_assert_int_eq(sa(), CM_REP_RCVD);
	ck_assert_ptr_eq(a->note[a->notes - 1].host, &ida);
	ck_assert_int_eq(cm_rtu(a->cm, ida, (const uint8_t[CM_RTU_DATA]){ 7, 8 }, net.now), 0);
	net_run(&net);
	ck_assert_int_eq(sa(), CM_ESTABLISHED);
	ck_assert_int_eq(sb(), CM_ESTABLISHED);
	ck_assert_int_eq(note_last(b), CM_EV_RTU);
	ck_assert_ptr_eq(b->note[b->notes - 1].host, &idb);
	ck_assert_uint_eq(b->note[b->notes - 1].msg.rtu.data[1], 8);
}

void asks(uint8_t timeout)
{
	struct cm_msg m = { .attr = CM_MRA };
	struct gsi g = { .route = net_route(b) };

	m.mra = (struct cm_mra){ .local_id = idb, .remote_id = ida, .msg = REJ_OF_REQ, .timeout = timeout };
	cm_msg_put(g.mad, &m);
	cm_rx(a->cm, &g, net.now);
	ck_assert_int_eq(sa(), CM_MRA_REQ_RCVD);
}
