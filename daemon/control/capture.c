/* SPDX-License-Identifier: MIT */
/*
 * capture.c - listens at the tap, and puts what it sees into the spool of a client.
 *
 * A packet is written where it leaves a device and where it arrives at one.  One from a device to itself would be there
 * twice: it is written at its arrival, with what was to be remarked at its departure (carried there), or where it is
 * dropped.  An arrival is written after the HCA has had it, so that a remark can say what the HCA did with it.
 */
#include "capture.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/clock.h>

#include "../../lab/dress.h"
#include "../../lab/pcapng.h"
#include "../../lab/remark.h"
#include "../../lab/spool.h"
#include "../base/log.h"
#include "../base/rights.h"
#include "../shard/ctx.h"
#include "../shard/net.h"
#include "call.h"
#include "../shard/tap.h"

#define CARRIED 64u
#define NS      1000000000u

/* A shard's own. */
struct lane {
	struct spool spool;
	struct remark *remark;
	struct remark_mark mark;
	struct remark_text text; /* of the packet that the HCA has just now */
	bool ready;              /* it has bytes, and is wanted */
	uint64_t last;           /* the time of the newest packet */
};

/* The remarks on a packet that is on its way to its own device. */
struct carried {
	uint32_t sqpn, dqpn, psn;
	uint8_t op;
	struct remark_text text; /* n is 0: free */
};

struct capture {
	struct tap_listener listener; /* first */
	struct shmem shm;
	int event_fd, client_fd; /* a socket: an eventfd or a pipe would be the client's to make us wait */
	uint32_t snaplen;
	uint32_t qpn[MSG_CAPTURE_QPS];
	unsigned qpn_n;
	uint64_t epoch;       /* 1970, as the monotonic clock would have it, negated */
	pthread_mutex_t lock; /* of carried */
	unsigned carried_n, carried_next;
	struct carried carried[CARRIED];
	struct lane lane[SHARDS_MAX];
};

/* ---- which packets ------------------------------------------------------------------------ */

static bool is_qp(const struct capture *c, uint32_t qpn)
{
	for (unsigned i = 0; i < c->qpn_n; i++)
		if (c->qpn[i] == qpn)
			return true;
	return false;
}

/* Of and to the queue pairs that were named. */
static bool wanted(const struct capture *c, const struct tap_pkt *p)
{
	if (!c->qpn_n)
		return true;
	return is_qp(c, p->qpn) || (p->b && (is_qp(c, p->b->dqpn) || (p->local && is_qp(c, p->b->sqpn))));
}

/* From a device to itself. */
static bool to_itself(const struct tap_pkt *p)
{
	const struct device *d = net_device(shards[p->shard]->net, p->dir == TAP_OUT ? p->route->dgid : p->route->sgid);

	return d && d->index == p->device && p->b && p->b->dqpn != QPN_MCAST;
}

/* ---- remarks that travel -------------------------------------------------------------------- */

static void carry(struct capture *c, const struct tap_pkt *p, const struct remark_text *t)
{
	struct carried *k;

	pthread_mutex_lock(&c->lock);
	k = &c->carried[c->carried_next++ % CARRIED];
	if (!k->text.n)
		__atomic_fetch_add(&c->carried_n, 1, __ATOMIC_RELAXED);
	*k = (struct carried){ p->qpn, p->b->dqpn, p->b->psn.v, p->b->op_first, *t };
	pthread_mutex_unlock(&c->lock);
}

/* The QP that sends it: not every packet that came over the wire says. */
static bool is_carried(const struct carried *k, const struct tap_pkt *p)
{
	return k->text.n && k->dqpn == p->b->dqpn && k->psn == p->b->psn.v && k->op == p->b->op_first &&
	       (!p->local || k->sqpn == p->b->sqpn);
}

static void fetch(struct capture *c, const struct tap_pkt *p, struct remark_text *t)
{
	if (!__atomic_load_n(&c->carried_n, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < CARRIED; i++) {
		struct carried *k = &c->carried[(c->carried_next + i) % CARRIED];

		if (!is_carried(k, p))
			continue;
		*t = k->text;
		k->text.n = 0;
		__atomic_fetch_sub(&c->carried_n, 1, __ATOMIC_RELAXED);
		break;
	}
	pthread_mutex_unlock(&c->lock);
}

/* ---- shard threads ---------------------------------------------------------------------------- */

/* When it was for the HCA, too, so that a wait is as long in the capture as it was for that; no two at once. */
static uint64_t stamp(struct lane *l, const struct tap_pkt *p)
{
	l->last = p->now.ns > l->last ? p->now.ns : l->last + 1;
	return l->last;
}

static void put(struct capture *c, struct lane *l, const struct tap_pkt *p, const struct remark_text *t)
{
	static const uint64_t one = 1; /* what the reader takes each time */
	struct spool_pkt k = {
		.ns = c->epoch + stamp(l, p),
		.route = *p->route,
		.caplen = (uint32_t)p->len,
		.len = (uint32_t)p->len,
		.text_n = (uint32_t)t->n,
		.sport = p->sport,
		.ip_id = p->ip_id,
		.device = (uint8_t)p->device,
		.dir = p->dir == TAP_IN ? PCAPNG_IN : PCAPNG_OUT,
		.data = p->data,
		.text = t->s,
	};

	if (c->snaplen && c->snaplen < k.len) {
		k.caplen = c->snaplen;
		k.sum = dress_sum(p->data, p->len);
	}
	if (spool_put(&l->spool, &k) && spool_wake(&l->spool) &&
	    send(c->event_fd, &one, sizeof(one), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug("capture: no wake-up");
}

/* The remark on what a rule has done.  If the packet goes no further, that comes first: readers of the file look for it. */
static void say_fate(struct remark_text *t, const struct tap_pkt *p, const struct tap_fate *fate)
{
	if (!fate->comment)
		return;
	if (fate->dropped && p->b && !p->bad && strncmp(fate->comment, "dropped", 7))
		remark_add(t, "dropped by a rule");
	remark_add(t, "%s", fate->comment);
}

static void see_out(struct capture *c, struct lane *l, struct tap_pkt *p, const struct tap_fate *fate)
{
	struct remark_text t = { .n = 0 };

	say_fate(&t, p, fate);
	if (p->b && !fate->made)
		remark_out(l->remark, shards[p->shard]->hca[p->device], p->device, p->qpn, p->b,
			   p->iter ? p->iter - 1 : 0, &t);
	/* One that a wire brings with a wrong ICRC could be any. */
	if (!fate->dropped && to_itself(p) && (p->local || !p->bad)) {
		if (t.n)
			carry(c, p, &t);
	} else if (!tap_bytes(p)) {
		put(c, l, p, &t);
	}
}

static void see(struct tap_listener *listener, struct tap_pkt *p, const struct tap_fate *fate)
{
	struct capture *c = (struct capture *)listener;
	struct lane *l = &c->lane[p->shard];

	if (!wanted(c, p))
		return;
	if (p->dir == TAP_OUT) {
		see_out(c, l, p, fate);
		return;
	}
	l->text.n = 0;
	if (to_itself(p))
		fetch(c, p, &l->text);
	say_fate(&l->text, p, fate);
	l->ready = !tap_bytes(p);
	if (!l->ready)
		return;
	if (fate->dropped || !p->b)
		put(c, l, p, &l->text);
	else
		remark_before(&l->mark, shards[p->shard]->hca[p->device]);
}

static void after(struct tap_listener *listener, struct tap_pkt *p, const struct tap_fate *)
{
	struct capture *c = (struct capture *)listener;
	struct lane *l = &c->lane[p->shard];

	if (!l->ready || !wanted(c, p))
		return;
	remark_after(l->remark, &l->mark, shards[p->shard]->hca[p->device], p->device, p->qpn, p->b, &l->text);
	put(c, l, p, &l->text);
}

/* ---- control thread ------------------------------------------------------------------------------ */

void capture_end(struct capture *c)
{
	if (!c)
		return;
	tap_unlisten(&c->listener);
	for (unsigned i = 0; i < SHARDS_MAX; i++)
		remark_free(c->lane[i].remark);
	if (c->event_fd >= 0)
		close(c->event_fd);
	if (c->client_fd >= 0)
		close(c->client_fd);
	shmem_free(&c->shm);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static int lanes_make(struct capture *c, size_t len)
{
	int err = shmem_make(&c->shm, "rdmad-capture", spool_bytes(shards_n, len));

	if (err)
		return err;
	spool_make(c->shm.mem, shards_n, len);
	err = client_pair(&c->event_fd, &c->client_fd);
	if (err)
		return err;
	for (unsigned i = 0; i < shards_n; i++) {
		spool_writer(&c->lane[i].spool, c->shm.mem, i);
		c->lane[i].remark = remark_new();
		if (!c->lane[i].remark)
			return ENOMEM;
	}
	return 0;
}

static int capture_new(struct capture **out, const struct msg_req *req)
{
	uint32_t all = (uint32_t)((1ull << devices_n) - 1), mask = req->capture.devices ? req->capture.devices : all;
	struct capture *c;
	size_t len = SPOOL_LEAST;
	int err;

	if (mask & ~all || req->capture.qpn_n > MSG_CAPTURE_QPS || req->capture.room > SPOOL_MOST)
		return EINVAL;
	while (len < req->capture.room)
		len *= 2;
	c = calloc(1, sizeof(*c));
	if (!c)
		return ENOMEM;
	c->listener = (struct tap_listener){ .devices = mask, .see = see, .after = after };
	c->event_fd = c->client_fd = c->shm.fd = -1;
	c->snaplen = req->capture.snaplen;
	c->qpn_n = req->capture.qpn_n;
	memcpy(c->qpn, req->capture.qpn, sizeof(c->qpn));
	c->epoch = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_init(&c->lock, NULL);
	err = lanes_make(c, len);
	if (!err)
		err = tap_listen(&c->listener);
	if (err)
		capture_end(c);
	else
		*out = c;
	return err;
}

int verb_capture(struct call *call)
{
	struct session *s = call->s;
	int err;

#ifdef WITHOUT_LAB
	return EOPNOTSUPP;
#endif
	if (s->capture || s->ctx || s->cma)
		return EBUSY;
	/* Packets are memory of other people's programs. */
	if (s->uid != 0 && s->uid != rights_owner())
		return EPERM;
	err = capture_new(&s->capture, call->req);
	if (err)
		return err;
	call->rep->capture.len = s->capture->shm.len;
	call->fds[call->fd_n++] = s->capture->shm.fd;
	call->fds[call->fd_n++] = s->capture->client_fd;
	s->capture->shm.fd = s->capture->client_fd = -1;
	log_info("%s (pid %d) captures packets", s->prog, (int)s->pid);
	return 0;
}
