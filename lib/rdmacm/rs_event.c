/* SPDX-License-Identifier: MIT */
/*
 * rs_event.c - events of the connection manager, and how a connection proceeds by them.
 *
 * Any thread that waits takes the events, in rconnect() as well as in rpoll(); while a connection is made that no call
 * waits for, the library's own (rs_svc.c).
 */
#include "rs.h"

enum { RETRIES = 7 }; /* RNR retries: 7 stands for no limit */

static void connect_fail(struct rsock *rs, int err)
{
	rs->state = RS_FAILED;
	rs->err = err;
}

struct rdma_conn_param rs_conn_param(struct rs_hello *h)
{
	return (struct rdma_conn_param){
		.private_data = h,
		.private_data_len = sizeof(*h),
		.flow_control = 1,
		.retry_count = RETRIES,
		.rnr_retry_count = RETRIES,
	};
}

static int connect_send(struct rsock *rs)
{
	struct rdma_conn_param p;
	struct rs_hello h;
	int err = rs_link_open(rs);

	if (err)
		return err;
	rs_link_hello(rs, &h);
	p = rs_conn_param(&h);
	to_id(rs->id)->hasty = rs->beside_tcp;
	return rdma_connect(rs->id, &p) ? errno : 0;
}

static int status_err(const struct rdma_cm_event *e, int other) { return e->status < 0 ? -e->status : other; }

static void on_established(struct rsock *rs, const struct rdma_cm_event *e)
{
	int err;

	if (rs->state == RS_CONNECTING) {
		err = rs_link_peer(rs, e->param.conn.private_data, e->param.conn.private_data_len);
		if (err) {
			connect_fail(rs, err);
			rdma_disconnect(rs->id);
			return;
		}
		rs->state = RS_CONNECTED;
	} else if (rs->state == RS_ACCEPTING) {
		rs_peer_ready(rs);
	}
	rs_grant(rs);
}

static void on_event(struct rsock *rs, const struct rdma_cm_event *e)
{
	int err = 0;

	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		rs->state = RS_ROUTE;
		if (!rs_keeps_name(rs, rdma_get_peer_addr(rs->id)))
			err = ENODEV;
		else
			err = rdma_resolve_route(rs->id, RS_RESOLVE_MS) ? errno : 0;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rs->state = RS_CONNECTING;
		err = connect_send(rs);
		break;
	case RDMA_CM_EVENT_ESTABLISHED: on_established(rs, e); break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR: err = status_err(e, EHOSTUNREACH); break;
	case RDMA_CM_EVENT_UNREACHABLE: err = status_err(e, ETIMEDOUT); break;
	case RDMA_CM_EVENT_REJECTED: err = ECONNREFUSED; break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		err = status_err(e, ECONNRESET);
		if (rs->beside_tcp) /* the peer has accepted it, and gone: it is not to have it once more, by TCP */
			rs_break(rs, ECONNRESET);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rs_progress(rs);                              /* what it sent before it went */
		rs_break(rs, rs->peer_shut ? 0 : ECONNRESET); /* who closes says so first */
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL: rs_break(rs, ENETDOWN); break;
	default: break;
	}
	if (err && rs_connects(rs))
		connect_fail(rs, err);
	else if (err)
		rs_break(rs, ECONNRESET);
}

int rs_events(struct rsock *rs)
{
	struct rdma_cm_event *e;
	int n = 0;

	while (rs->id && rs->state != RS_LISTEN && !rdma_get_cm_event(rs->ch, &e)) {
		on_event(rs, e);
		rdma_ack_cm_event(e);
		n++;
	}
	if (!n && errno == EIO) /* the daemon is gone */
		rs_break(rs, EIO);
	if (!rs_connects(rs) && !(rs->state == RS_ACCEPTING && rs->held))
		rs_svc_connected(rs);
	rs_wake(rs);
	return n;
}
