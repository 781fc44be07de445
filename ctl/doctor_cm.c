/* SPDX-License-Identifier: MIT */
/*
 * doctor_cm.c - asks the peer's connection manager for a service that nobody offers.
 *
 * The daemon sends the REQ: its port, its ICRC, its way back.  A REJ for the service id means that both directions, both ICRCs and both CMs work.
 */
#include "doctor.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdmad/clock.h>
#include <rdmad/cmmsg.h>
#include <rdmad/sock.h>

#include "daemon.h"

#define ROUNDS      3
#define ROUND_MS    1500
#define RESOLVE_MS  2000
#define UNUSED_PORT 1u /* tcpmux: no RDMA service has it */
#define REJ_SERVICE 8  /* invalid service id */

struct agent {
	int fd, events; /* events: readable while one is queued; -1 at first */
	uint32_t id;
};

static double now_ms(void) { return (double)clock_ns(CLOCK_MONOTONIC) / 1e6; }

/* 0 or errno. */
static int ask(struct agent *a, struct cmm_req *req, struct cmm_rep *rep, int *fd_back)
{
	ssize_t n = sock_swap(a->fd, req, cmm_req_len(req->op), rep, sizeof(*rep), fd_back);

	if (n != (ssize_t)sizeof(*rep))
		return n < 0 ? errno : ECONNRESET;
	cmm_over_take(a->events, rep);
	return rep->err;
}

/* The next event within ms; false: none. */
static bool event(struct agent *a, double until, struct cmm_event *e)
{
	struct pollfd p = { .fd = a->events, .events = POLLIN };
	struct cmm_req req = { .op = CMM_GET_EVENT };
	struct cmm_rep rep;
	double left = until - now_ms();

	if (left <= 0 || poll(&p, 1, (int)left + 1) <= 0 || ask(a, &req, &rep, NULL))
		return false;
	*e = rep.event;
	return true;
}

static int step(struct agent *a, struct cmm_req *req, double until, struct cmm_event *e)
{
	struct cmm_rep rep;
	int err;

	req->id = a->id;
	err = ask(a, req, &rep, NULL);
	return err ? err : event(a, until, e) ? 0 : ETIMEDOUT;
}

/* Only root and the daemon's own user may name a queue pair that is not theirs; of 0 peers know that it is none. */
static uint32_t qp_num(const struct agent *a)
{
	struct ucred who = { 0 };
	socklen_t len = sizeof(who);

	return geteuid() && (getsockopt(a->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.uid != geteuid()) ? 0
													     : 0xd0c;
}

/* One REQ, and what comes of it; 0 and *e, or errno. */
static int call(struct agent *a, const struct doctor *d, double until, struct cmm_event *e)
{
	struct cmm_req req = { .op = CMM_CREATE_ID, .create = { .ps = RDMA_PS_TCP, .qp_type = QPT_RC } };
	struct cmm_rep rep;
	int err = ask(a, &req, &rep, NULL);

	if (err)
		return err;
	a->id = rep.create.id;
	req = (struct cmm_req){ .op = CMM_RESOLVE_ADDR, .resolve = { .timeout_ms = RESOLVE_MS } };
	memcpy(&req.resolve.dst, &d->peer, sizeof(req.resolve.dst));
	if (d->peer.sa.sa_family == AF_INET)
		req.resolve.dst.in.sin_port = htons(UNUSED_PORT);
	else
		req.resolve.dst.in6.sin6_port = htons(UNUSED_PORT);
	err = step(a, &req, until, e);
	if (err || e->type != RDMA_CM_EVENT_ADDR_RESOLVED)
		return err;
	req = (struct cmm_req){ .op = CMM_RESOLVE_ROUTE, .route.timeout_ms = RESOLVE_MS };
	err = step(a, &req, until, e);
	if (err || e->type != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return err;
	req = (struct cmm_req){ .op = CMM_CONNECT,
				.conn.conn = { .qp_num = qp_num(a),
					       .retry_count = 7,
					       .rnr_retry_count = 7,
					       .responder_resources = 1,
					       .initiator_depth = 1 } };
	return step(a, &req, until, e);
}

static void end(struct agent *a)
{
	struct cmm_req req = { .op = CMM_DESTROY_ID, .id = a->id };
	struct cmm_rep rep;

	if (a->id)
		ask(a, &req, &rep, NULL);
	a->id = 0;
}

static long long icrc_errors(struct doctor *d)
{
	json_t *dump = daemon_dump(d->fd, DUMP_STATS), *dev;
	long long n = 0;
	size_t i;

	json_array_foreach(json_object_get(dump, "devices"), i, dev)
		n += json_integer_value(json_object_get(json_object_get(dev, "counters"), "icrc_err"));
	json_decref(dump);
	return n;
}

static enum verdict silent(struct doctor *d, long long bad)
{
	if (bad)
		return doctor_say(d, STEP_FAILED, "ICRC",
				  "something on the way changes packets (a middlebox, a broken adapter), or the peer's "
				  "ICRC is wrong: capture and rdmactl check tell which",
				  "the peer answers, but the ICRC of %lld packets was wrong", bad);
	return doctor_say(d, STEP_FAILED, "CM",
			  "let UDP port 4791 through in both directions, from any source port (firewalls here, there "
			  "and between); is the peer's RDMA device up and does it have this address? No RoCE passes "
			  "what translates addresses (NAT, as of Docker's bridge): then icrc_err grows there "
			  "(rdmactl stats)",
			  "the peer is silent: no answer to %d connection requests", ROUNDS);
}

static enum verdict judge(struct doctor *d, const struct cmm_event *e, double ms, long long bad)
{
	if (e->type == RDMA_CM_EVENT_ADDR_ERROR)
		return doctor_say(d, STEP_FAILED, "CM", "ip neigh shows who answered",
				  "the daemon cannot find the peer's hardware address: %s", strerror(-e->status));
	if (e->type == RDMA_CM_EVENT_UNREACHABLE || e->type == RDMA_CM_EVENT_ROUTE_ERROR)
		return silent(d, bad);
	doctor_say(d, STEP_OK, "CM", NULL,
		   e->type == RDMA_CM_EVENT_REJECTED && e->status == REJ_SERVICE
			   ? "the peer rejects a service that it does not have, as it should, after %.1f ms"
			   : "the peer answers after %.1f ms",
		   ms);
	if (bad)
		return doctor_say(d, STEP_FAILED, "ICRC",
				  "something on the way damages packets now and then: capture, and rdmactl check",
				  "%lld packets came with a wrong ICRC", bad);
	return doctor_say(d, STEP_OK, "ICRC", NULL, "what came back had the right one");
}

enum verdict doctor_cm(struct doctor *d)
{
	struct agent a = { .fd = daemon_open(d->socket), .events = -1 };
	struct cmm_req req = { .op = CMM_OPEN };
	long long before = icrc_errors(d);
	struct cmm_event e = { 0 };
	struct cmm_rep rep;
	enum verdict v;
	double begin = 0;
	int err = ECONNRESET;

	if (a.fd >= 0)
		err = ask(&a, &req, &rep, &a.events);
	if (err) {
		v = doctor_say(d, STEP_FAILED, "CM", "its log says why", "%s%s",
			       err == ECONNRESET ? "the daemon has ended" : "the daemon does not let us ask: ",
			       err == ECONNRESET ? "" : strerror(err));
		goto out;
	}
	for (int i = 0; i < ROUNDS; i++) {
		begin = now_ms();
		err = call(&a, d, begin + ROUND_MS, &e);
		end(&a);
		if (err != ETIMEDOUT)
			break;
	}
	if (err == ETIMEDOUT)
		v = silent(d, icrc_errors(d) - before);
	else if (err)
		v = doctor_say(d, STEP_FAILED, "CM", "its log says why", "the daemon refuses: %s", strerror(err));
	else
		v = judge(d, &e, now_ms() - begin, icrc_errors(d) - before);
out:
	if (a.events >= 0)
		close(a.events);
	if (a.fd >= 0)
		close(a.fd);
	return v;
}
