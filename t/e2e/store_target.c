/* SPDX-License-Identifier: MIT */
/*
 * store_target.c - the target: one thread hears the CM, each worker has a CQ and an SRQ, and serves the connections that it
 * was given.  An id is destroyed by the worker, once all that its QP had to do has come back.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

#define SERVED   (2 * CONNS) /* who reconnects may be quicker than the end of what was */
#define RECEIVES 2048u       /* of an SRQ */
#define SENDS    (2 * DEPTH + 2)

struct worker {
	pthread_t thread;
	pthread_mutex_t lock; /* of its connections */
	_Atomic bool wanted;  /* by the thread that hears the CM */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	unsigned unacked;
	uint8_t (*capsule)[CAPSULE];
	struct ibv_mr *mr;
};

struct served {
	struct worker *w; /* NULL: free */
	struct rdma_cm_id *id;
	uint32_t life;
	bool up, close, closing, gone; /* close: as soon as it is up, as there is nothing to disconnect before */
	unsigned out;                  /* completions to come */
	unsigned room;                 /* of its send queue */
	uint32_t later; /* slots whose commands have no room yet: an answer may be there, and its ACK lost */
	uint64_t since;
	struct command command[DEPTH];
};

static struct served served[SERVED];
static uint8_t (*data)[DEPTH][BLOCK]; /* of each connection */
static uint8_t (*capsule)[DEPTH][CAPSULE];
static struct ibv_mr *data_mr, *capsule_mr;
static struct ibv_pd *pd;
static struct worker *workers;
static _Atomic uint64_t accepted, established, commands;
static _Atomic bool done; /* for the workers: later than stop, which a signal sets while connections are left */

/* A worker that polls holds its lock nearly always, and would take it again at once. */
static void lock_get(struct worker *w)
{
	w->wanted = true;
	pthread_mutex_lock(&w->lock);
	w->wanted = false;
}

static unsigned number(const struct served *s) { return (unsigned)(s - served); }

/* ---- receives ------------------------------------------------------------------- */

static void receive(struct worker *w, uint64_t id, struct ibv_qp *qp)
{
	unsigned i = wr_life(id);
	uint8_t *at = w->srq ? w->capsule[i] : capsule[wr_conn(id)][wr_slot(id)];
	struct ibv_sge sge = { (uintptr_t)at, CAPSULE, w->srq ? w->mr->lkey : capsule_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;
	int err = w->srq ? ibv_post_srq_recv(w->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);

	if (err)
		wrong("a receive is refused: %s", strerror(err));
}

/* ---- serving ---------------------------------------------------------------------- */

static void post(struct served *s, struct ibv_send_wr *wr, unsigned completions)
{
	struct ibv_send_wr *bad;
	int err = ibv_post_send(s->id->qp, wr, &bad);

	if (err)
		wrong("connection %u: ibv_post_send: %s", number(s), strerror(err));
	else
		s->out += completions;
}

static void answer(struct served *s, unsigned slot, struct ibv_send_wr *first)
{
	const struct command *c = &s->command[slot];
	struct answer a = { .key = c->key, .slot = (uint8_t)slot };
	struct ibv_sge sge = { (uintptr_t)&a, sizeof(a), 0 };
	struct ibv_send_wr wr = { .wr_id = wr_id(number(s), first ? WR_DATA_ANSWER : WR_ANSWER, slot, s->life),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = c->inv ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
				  .invalidate_rkey = c->inv ? c->rkey : 0,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE };

	if (first)
		first->next = &wr;
	post(s, first ? first : &wr, 1);
}

static void disconnect(struct served *s)
{
	s->closing = true;
	s->since = now_ns();
	rdma_disconnect(s->id);
}

static void serve(struct served *s, unsigned slot)
{
	const struct command *c = &s->command[slot];
	struct ibv_sge sge = { 0, BLOCK, data_mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 };

	if (s->room < 2) {
		s->later |= 1u << slot;
		return;
	}
	s->room -= 2;
	s->later &= ~(1u << slot);
	commands++;
	sge.addr = (uintptr_t)data[number(s)][slot];
	wr.wr.rdma.remote_addr = c->addr;
	wr.wr.rdma.rkey = c->rkey;
	switch (c->op) {
	case OP_WRITE:
		wr.opcode = IBV_WR_RDMA_READ;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr_id = wr_id(number(s), WR_DATA, slot, s->life);
		post(s, &wr, 1);
		break;
	case OP_READ:
		block_fill((uint64_t *)data[number(s)][slot], c->key);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr_id = wr_id(number(s), WR_BIND, slot, s->life);
		answer(s, slot, &wr);
		break;
	case OP_CLOSE:
		s->close = true;
		if (s->up)
			disconnect(s);
		break;
	default: wrong("connection %u: command %u", number(s), c->op);
	}
}

static struct served *of_qpn(const struct worker *w, uint32_t qpn)
{
	for (struct served *s = served; s < served + SERVED; s++)
		if (s->w == w && s->id->qp->qp_num == qpn)
			return s;
	return NULL;
}

static void received(struct worker *w, const struct ibv_wc *wc)
{
	struct served *s = of_qpn(w, wc->qp_num);
	struct command c;

	if (wc->status) {
		if (s && !s->closing && wc->status != IBV_WC_WR_FLUSH_ERR)
			wrong("connection %u: receive: %s", number(s), ibv_wc_status_str(wc->status));
		return;
	}
	memcpy(&c, w->srq ? w->capsule[wr_life(wc->wr_id)] : capsule[wr_conn(wc->wr_id)][wr_slot(wc->wr_id)],
	       sizeof(c));
	if (w->srq || (s && !s->closing))
		receive(w, wc->wr_id, s ? s->id->qp : NULL);
	if (!s || s->closing)
		return;
	if (c.slot >= DEPTH) {
		wrong("connection %u: command in slot %u", number(s), c.slot);
		return;
	}
	s->command[c.slot] = c;
	serve(s, c.slot);
}

static void sent(struct worker *w, const struct ibv_wc *wc)
{
	struct served *s = &served[wr_conn(wc->wr_id)];
	enum kind kind = wr_kind(wc->wr_id);
	unsigned slot = wr_slot(wc->wr_id);

	if (s->w != w || s->life != wr_life(wc->wr_id)) {
		wrong("a completion of a QP that was destroyed");
		return;
	}
	if (kind != WR_BIND) {
		s->out--;
		s->room += kind == WR_DATA_ANSWER ? 2 : 1;
	}
	if (wc->status) {
		if (!s->closing && wc->status != IBV_WC_WR_FLUSH_ERR)
			wrong("connection %u: send: %s", number(s), ibv_wc_status_str(wc->status));
		return;
	}
	if (kind != WR_DATA) {
		for (unsigned i = 0; i < DEPTH && s->later && !s->closing; i++)
			if (s->later >> i & 1)
				serve(s, i);
		return;
	}
	if (!block_right((uint64_t *)data[number(s)][slot], s->command[slot].key))
		wrong("connection %u: wrong bytes were read", number(s));
	if (!s->closing)
		answer(s, slot, NULL);
}

/* Connections that are over, and whose QPs have given all back. */
static void reap(struct worker *w)
{
	for (struct served *s = served; s < served + SERVED; s++) {
		if (s->w != w || !s->closing)
			continue;
		if (s->out || !s->gone) {
			if (now_ns() - s->since < opt.patience * 1000000ull)
				continue;
			wrong("connection %u: %u completions are missing, %s", number(s), s->out,
			      s->gone ? "disconnected" : "no event DISCONNECTED");
		}
		rdma_destroy_qp(s->id);
		if (rdma_destroy_id(s->id))
			wrong("rdma_destroy_id: %s", strerror(errno));
		s->w = NULL;
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct ibv_wc wc[32];
	int n;

	while (!done) {
		while (w->wanted)
			sched_yield();
		pthread_mutex_lock(&w->lock);
		n = ibv_poll_cq(w->cq, 32, wc);
		for (int i = 0; i < n; i++)
			if (wr_kind(wc[i].wr_id) == WR_RECV)
				received(w, &wc[i]);
			else
				sent(w, &wc[i]);
		if (!n)
			reap(w);
		pthread_mutex_unlock(&w->lock);
		if (n < 0)
			die("ibv_poll_cq");
		if (!n && opt.events)
			wait_cq(w->channel, w->cq, -1, &w->unacked);
	}
	return NULL;
}

/* ---- beginning --------------------------------------------------------------------- */

static void worker_start(struct worker *w, struct ibv_context *verbs)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	size_t len = RECEIVES * CAPSULE;

	pthread_mutex_init(&w->lock, NULL);
	w->channel = ibv_create_comp_channel(verbs);
	w->cq = w->channel ? ibv_create_cq(verbs, 16384, w, w->channel, 0) : NULL;
	w->capsule = aligned_alloc(4096, len);
	w->mr = w->capsule ? ibv_reg_mr(pd, w->capsule, len, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!w->cq || !w->mr)
		die("no CQ or memory: %s", strerror(errno));
	nonblocking(w->channel->fd);
	if (!opt.own_queue) {
		w->srq = ibv_create_srq(pd, &srq);
		if (!w->srq)
			die("ibv_create_srq: %s", strerror(errno));
		for (uint32_t i = 0; i < RECEIVES; i++)
			receive(w, wr_id(0, WR_RECV, 0, i), NULL);
	}
	if (pthread_create(&w->thread, NULL, work, w))
		die("pthread_create");
}

static void begin(struct ibv_context *verbs)
{
	size_t len = sizeof(*data) * SERVED, clen = sizeof(*capsule) * SERVED;

	pd = ibv_alloc_pd(verbs);
	data = aligned_alloc(4096, len);
	capsule = aligned_alloc(4096, clen);
	if (!pd || !data || !capsule)
		die("no PD or memory");
	data_mr = ibv_reg_mr(pd, data, len, IBV_ACCESS_LOCAL_WRITE);
	capsule_mr = ibv_reg_mr(pd, capsule, clen, IBV_ACCESS_LOCAL_WRITE);
	if (!data_mr || !capsule_mr)
		die("ibv_reg_mr: %s", strerror(errno));
	workers = calloc(opt.threads, sizeof(*workers));
	for (unsigned i = 0; i < opt.threads; i++)
		worker_start(&workers[i], verbs);
}

static void end(void)
{
	for (unsigned i = 0; workers && i < opt.threads; i++) {
		struct worker *w = &workers[i];

		pthread_join(w->thread, NULL);
		ibv_ack_cq_events(w->cq, w->unacked);
		if ((w->srq && ibv_destroy_srq(w->srq)) || ibv_destroy_cq(w->cq) || ibv_dereg_mr(w->mr) ||
		    ibv_destroy_comp_channel(w->channel))
			wrong("something of a worker cannot be destroyed");
	}
	if (pd && (ibv_dereg_mr(data_mr) || ibv_dereg_mr(capsule_mr) || ibv_dealloc_pd(pd)))
		wrong("memory or PD cannot be given back");
}

/* ---- connections ---------------------------------------------------------------------- */

static struct served *served_new(void)
{
	for (struct served *s = served; s < served + SERVED; s++)
		if (!s->w)
			return s;
	return NULL;
}

static int qp_make(struct served *s)
{
	struct ibv_qp_init_attr attr = { .send_cq = s->w->cq,
					 .recv_cq = s->w->cq,
					 .srq = s->w->srq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = SENDS,
						  .max_recv_wr = s->w->srq ? 0 : DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = CAPSULE } };

	if (rdma_create_qp(s->id, pd, &attr))
		return -1;
	for (unsigned i = 0; i < DEPTH && !s->w->srq; i++)
		receive(s->w, wr_id(number(s), WR_RECV, i, s->life), s->id->qp);
	return 0;
}

static void on_request(struct rdma_cm_event *e)
{
	struct rdma_conn_param p = {
		.responder_resources = 16, .initiator_depth = 16, .retry_count = 7, .rnr_retry_count = 7
	};
	const struct hello *hello = e->param.conn.private_data;
	struct served *s = served_new();
	struct worker *w;
	uint32_t life;

	if (!pd)
		begin(e->id->verbs);
	if (!s || !hello || hello->magic != HELLO) {
		wrong(s ? "a request says no hello" : "too many connections at once");
		rdma_reject(e->id, NULL, 0);
		rdma_destroy_id(e->id);
		return;
	}
	w = &workers[accepted++ % opt.threads];
	lock_get(w);
	life = s->life + 1;
	memset(s, 0, sizeof(*s));
	*s = (struct served){ .id = e->id, .life = life, .room = SENDS, .w = w };
	e->id->context = s;
	if (qp_make(s) || rdma_accept(e->id, &p)) {
		wrong("a connection cannot be accepted: %s", strerror(errno));
		if (s->id->qp)
			rdma_destroy_qp(s->id);
		rdma_destroy_id(s->id);
		s->w = NULL;
	}
	pthread_mutex_unlock(&w->lock);
}

/* The event is given back already: the worker may be destroying the id, and would wait for that. */
static void on_event(struct served *s, struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct worker *w = s->w;

	if (!w)
		return;
	lock_get(w);
	if (s->w == w && s->id == id) {
		if (type == RDMA_CM_EVENT_ESTABLISHED) {
			s->up = true;
			established++;
			if (s->close)
				disconnect(s);
		} else {
			if (type != RDMA_CM_EVENT_DISCONNECTED)
				wrong("connection %u: %s (%d)", number(s), rdma_event_str(type), status);
			rdma_disconnect(id);
			s->closing = s->gone = true;
			s->since = now_ns();
		}
	}
	pthread_mutex_unlock(&w->lock);
}

static void hear(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *e;

	while (!rdma_get_cm_event(ch, &e)) {
		struct rdma_cm_id *id = e->id;
		struct served *s = id->context;
		enum rdma_cm_event_type type = e->event;
		int status = e->status;

		if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
			on_request(e);
		rdma_ack_cm_event(e);
		if (type != RDMA_CM_EVENT_CONNECT_REQUEST && type != RDMA_CM_EVENT_TIMEWAIT_EXIT)
			on_event(s, id, type, status);
	}
	if (errno != EAGAIN)
		die("rdma_get_cm_event: %s", strerror(errno));
}

static bool any_left(void)
{
	for (struct served *s = served; s < served + SERVED; s++)
		if (s->w)
			return true;
	return false;
}

void target_run(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port) };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	uint64_t until;

	if (!ch || inet_pton(AF_INET, opt.address, &at.sin_addr) != 1 ||
	    rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP) || rdma_bind_addr(listener, (struct sockaddr *)&at) ||
	    rdma_listen(listener, 128))
		die("cannot listen at %s port %d: %s", opt.address, opt.port, strerror(errno));
	nonblocking(ch->fd);
	while (!stop) {
		wait_fds(ch->fd, -1, 20);
		hear(ch);
	}
	/* The initiator has ended: what it disconnected last may still be on its way. */
	for (until = now_ns() + opt.patience * 1000000ull; any_left() && now_ns() < until; hear(ch))
		wait_fds(ch->fd, -1, 20);
	if (any_left())
		wrong("connections are left");
	done = true;
	end();
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(ch);
	printf("target: %llu accepted, %llu established, %llu commands\n", (unsigned long long)accepted,
	       (unsigned long long)established, (unsigned long long)commands);
}
