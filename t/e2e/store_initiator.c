/* SPDX-License-Identifier: MIT */
/*
 * store_initiator.c - the initiator: each thread has an event channel, a CQ and its share of the connections.
 *
 *	ADDRESS -> ROUTE -> CONNECT -> UP -> DRAIN -> CLOSE -> IDLE, and again
 *
 * An answer that does not come in time is reported as an error, and the connection is dropped.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store.h"

enum state { IDLE, ADDRESS, ROUTE, CONNECT, UP, DRAIN, CLOSE };
static const char *const waits_for[] = { "nothing", "ADDR_RESOLVED", "ROUTE_RESOLVED", "ESTABLISHED",
					 "",        "its answers",   "DISCONNECTED" };

/* How a connection ends. */
enum how { IN_ORDER, AT_ONCE, BY_TARGET, DESTROYED, HOWS };

struct slot {
	bool busy, sent; /* no answer yet; the SEND has completed */
	struct command c;
	struct ibv_mw *mw;
	uint64_t at;
};

struct thread;

struct conn {
	struct thread *t;
	unsigned number;
	struct rdma_cm_id *id;
	enum state state;
	enum how how;
	bool gone;
	uint32_t life;
	unsigned busy, sends, receives; /* slots; completions to come */
	uint64_t since, last;           /* of the state; completion */
	unsigned left;                  /* commands */
	unsigned dropped;               /* in which turn */
	struct slot slot[DEPTH];
};

struct thread {
	pthread_t thread;
	struct rng rng;
	struct rdma_event_channel *ch;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	unsigned unacked;
	uint8_t (*data)[DEPTH][BLOCK];
	uint8_t (*capsule)[2 * DEPTH][CAPSULE]; /* commands, then answers */
	struct ibv_mr *data_mr, *capsule_mr;
	struct histogram gap, latency, setup;
	struct conn conn[CONNS];
	unsigned conns, turn;
	uint64_t commands, ended[HOWS];
};

static _Atomic unsigned setups;
static _Atomic bool over;
static struct sockaddr_in to;

/* ---- resources --------------------------------------------------------------------- */

static void begin(struct thread *t, struct ibv_context *verbs)
{
	size_t len = sizeof(*t->data) * t->conns, clen = sizeof(*t->capsule) * t->conns;

	t->pd = ibv_alloc_pd(verbs);
	t->channel = ibv_create_comp_channel(verbs);
	t->cq = t->channel ? ibv_create_cq(verbs, (int)(4 * DEPTH * t->conns), t, t->channel, 0) : NULL;
	t->data = aligned_alloc(4096, len);
	t->capsule = aligned_alloc(4096, clen);
	if (!t->pd || !t->cq || !t->data || !t->capsule)
		die("no PD, CQ or memory: %s", strerror(errno));
	nonblocking(t->channel->fd);
	t->data_mr = ibv_reg_mr(t->pd, t->data, len,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_MW_BIND);
	t->capsule_mr = ibv_reg_mr(t->pd, t->capsule, clen, IBV_ACCESS_LOCAL_WRITE);
	if (!t->data_mr || !t->capsule_mr)
		die("ibv_reg_mr: %s", strerror(errno));
}

static void end(struct thread *t)
{
	if (!t->pd)
		return;
	ibv_ack_cq_events(t->cq, t->unacked);
	if (ibv_destroy_cq(t->cq) || ibv_destroy_comp_channel(t->channel) || ibv_dereg_mr(t->data_mr) ||
	    ibv_dereg_mr(t->capsule_mr) || ibv_dealloc_pd(t->pd))
		wrong("something of a thread cannot be destroyed");
}

/* ---- commands ------------------------------------------------------------------------- */

static void receive(struct conn *c, unsigned slot)
{
	struct ibv_sge sge = { (uintptr_t)c->t->capsule[c->number][DEPTH + slot], CAPSULE, c->t->capsule_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id(c->number, WR_RECV, slot, c->life), .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int err = ibv_post_recv(c->id->qp, &wr, &bad);

	if (err)
		wrong("connection %u: a receive is refused: %s", c->number, strerror(err));
	else
		c->receives++;
}

static void issue(struct conn *c, unsigned slot, enum op op)
{
	struct thread *t = c->t;
	struct slot *s = &c->slot[slot];
	struct ibv_sge sge = { (uintptr_t)t->capsule[c->number][slot], sizeof(s->c), t->capsule_mr->lkey };
	struct ibv_send_wr send = { .wr_id = wr_id(c->number, WR_COMMAND, slot, c->life),
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr bind = { .wr_id = wr_id(c->number, WR_BIND, slot, c->life),
				    .next = &send,
				    .opcode = IBV_WR_BIND_MW,
				    .bind_mw = { .mw = s->mw } };
	struct ibv_send_wr *bad;
	int err;

	s->c = (struct command){ .key = rnd(&t->rng),
				 .addr = (uintptr_t)t->data[c->number][slot],
				 .rkey = t->data_mr->rkey,
				 .op = (uint8_t)op,
				 .slot = (uint8_t)slot,
				 .inv = s->mw != NULL };
	if (op == OP_WRITE)
		block_fill((uint64_t *)t->data[c->number][slot], s->c.key);
	if (s->mw) {
		s->c.rkey = s->mw->rkey = ibv_inc_rkey(s->mw->rkey);
		bind.bind_mw.rkey = s->c.rkey;
		bind.bind_mw.bind_info = (struct ibv_mw_bind_info){ .mr = t->data_mr,
								    .addr = s->c.addr,
								    .length = BLOCK,
								    .mw_access_flags = IBV_ACCESS_REMOTE_READ |
										       IBV_ACCESS_REMOTE_WRITE };
	}
	memcpy(t->capsule[c->number][slot], &s->c, sizeof(s->c));
	s->at = now_ns();
	if (!c->busy)
		c->last = s->at;
	s->busy = true;
	s->sent = false;
	c->busy++;
	c->sends++;
	err = ibv_post_send(c->id->qp, s->mw ? &bind : &send, &bad);
	if (err)
		wrong("connection %u: ibv_post_send: %s", c->number, strerror(err));
}

static void state_to(struct conn *c, enum state state)
{
	c->state = state;
	c->since = now_ns();
}

static void drop(struct conn *c)
{
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	for (unsigned i = 0; i < DEPTH; i++) {
		if (c->slot[i].mw && ibv_dealloc_mw(c->slot[i].mw))
			wrong("connection %u: ibv_dealloc_mw: %s", c->number, strerror(errno));
		c->slot[i].mw = NULL;
	}
	if (rdma_destroy_id(c->id))
		wrong("rdma_destroy_id: %s", strerror(errno));
	c->life++;
	c->dropped = c->t->turn;
	state_to(c, IDLE);
}

/* It has served long enough. */
static void close_begin(struct conn *c, enum how how)
{
	c->how = how;
	c->t->ended[how]++;
	if (how == DESTROYED) {
		drop(c);
		return;
	}
	state_to(c, how == IN_ORDER || how == BY_TARGET ? DRAIN : CLOSE);
	if (how == AT_ONCE)
		rdma_disconnect(c->id);
}

static void go_on(struct conn *c)
{
	for (unsigned i = 0; i < DEPTH && c->state == UP; i++) {
		if (c->slot[i].busy || !c->slot[i].sent)
			continue;
		if (over) {
			close_begin(c, IN_ORDER);
		} else if (opt.stay && !c->left--) {
			close_begin(c, (enum how)(rnd(&c->t->rng) % HOWS));
		} else {
			issue(c, i, rnd(&c->t->rng) & 1 ? OP_WRITE : OP_READ);
		}
	}
	if (c->state != DRAIN || c->busy || c->sends)
		return;
	if (c->how == BY_TARGET)
		issue(c, 0, OP_CLOSE);
	else
		rdma_disconnect(c->id);
	state_to(c, CLOSE);
}

/* ---- completions -------------------------------------------------------------------------- */

/* So that captures and traces can be looked into: when it went on, by the clock that they go by. */
static void stood(const struct conn *c, uint64_t now)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	printf("initiator: QP %#x stood still for %llu ms, till %lld.%06ld, with %u answers due\n", c->id->qp->qp_num,
	       (unsigned long long)(now - c->last) / 1000000, (long long)t.tv_sec, t.tv_nsec / 1000, c->busy + 1);
}

static void answered(struct conn *c, const struct ibv_wc *wc)
{
	struct answer a;
	struct slot *s;
	uint64_t now = now_ns();

	memcpy(&a, c->t->capsule[c->number][DEPTH + wr_slot(wc->wr_id)], sizeof(a));
	s = &c->slot[a.slot % DEPTH];
	if (!s->busy || a.key != s->c.key) {
		wrong("connection %u: an answer that nobody asked for", c->number);
		return;
	}
	if (s->c.op == OP_READ && !block_right((uint64_t *)c->t->data[c->number][a.slot], a.key))
		wrong("connection %u: wrong bytes were written", c->number);
	if (s->mw && (!(wc->wc_flags & IBV_WC_WITH_INV) || wc->invalidated_rkey != s->c.rkey))
		wrong("connection %u: the key was not invalidated", c->number);
	s->busy = false;
	c->busy--;
	c->t->commands++;
	histogram_add(&c->t->latency, now - s->at);
	histogram_add(&c->t->gap, now - c->last);
	if (now - c->last > opt.gap * 1000000ull)
		stood(c, now);
	c->last = now;
	if (c->state == UP || c->state == DRAIN)
		receive(c, wr_slot(wc->wr_id));
}

static void completed(struct thread *t, const struct ibv_wc *wc)
{
	struct conn *c = &t->conn[wr_conn(wc->wr_id)];
	enum kind kind = wr_kind(wc->wr_id);

	if (c->state < CONNECT || c->life != wr_life(wc->wr_id)) {
		if (c->dropped != t->turn) /* else it was polled with what made us destroy it */
			wrong("a completion of a QP that was destroyed");
		return;
	}
	if (kind == WR_RECV)
		c->receives--;
	else if (kind == WR_COMMAND)
		c->sends--;
	if (wc->status) {
		if (c->state != CLOSE || wc->status != IBV_WC_WR_FLUSH_ERR)
			wrong("connection %u: %s: %s", c->number, kind == WR_RECV ? "receive" : "send",
			      ibv_wc_status_str(wc->status));
		return;
	}
	if (kind == WR_COMMAND)
		c->slot[wr_slot(wc->wr_id)].sent = true;
	else if (kind == WR_RECV)
		answered(c, wc);
	go_on(c);
}

/* ---- connections ------------------------------------------------------------------------------ */

static void start(struct conn *c)
{
	if (rdma_create_id(c->t->ch, &c->id, c, RDMA_PS_TCP))
		die("rdma_create_id: %s", strerror(errno));
	c->busy = c->sends = c->receives = 0;
	c->gone = false;
	c->left = opt.stay ? 1 + (unsigned)(rnd(&c->t->rng) % (2 * opt.stay)) : 0;
	state_to(c, ADDRESS);
	if (rdma_resolve_addr(c->id, NULL, (struct sockaddr *)&to, 2000)) {
		wrong("connection %u: rdma_resolve_addr: %s", c->number, strerror(errno));
		drop(c);
	}
}

static int qp_make(struct conn *c)
{
	struct thread *t = c->t;
	struct ibv_qp_init_attr attr = {
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 2 * DEPTH + 2, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	if (rdma_create_qp(c->id, t->pd, &attr))
		return -1;
	for (unsigned i = 0; i < DEPTH; i++) {
		receive(c, i);
		c->slot[i] = (struct slot){ .sent = true };
		if (opt.windows && i % 2 && !(c->slot[i].mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_2)))
			return -1;
	}
	return 0;
}

static void connect_(struct conn *c)
{
	struct hello hello = { HELLO, c->number };
	struct rdma_conn_param p = { .private_data = &hello,
				     .private_data_len = sizeof(hello),
				     .responder_resources = 16,
				     .initiator_depth = 16,
				     .retry_count = 7,
				     .rnr_retry_count = 7 };

	if (!c->t->pd)
		begin(c->t, c->id->verbs);
	if (qp_make(c) || rdma_connect(c->id, &p)) {
		wrong("connection %u cannot connect: %s", c->number, strerror(errno));
		drop(c);
		return;
	}
	state_to(c, CONNECT);
}

static void on_event(struct conn *c, enum rdma_cm_event_type type, int status)
{
	static const enum rdma_cm_event_type expected[] = { [ADDRESS] = RDMA_CM_EVENT_ADDR_RESOLVED,
							    [ROUTE] = RDMA_CM_EVENT_ROUTE_RESOLVED,
							    [CONNECT] = RDMA_CM_EVENT_ESTABLISHED,
							    [CLOSE] = RDMA_CM_EVENT_DISCONNECTED };

	if (type == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		return;
	if (c->state == UP || c->state == DRAIN || type != expected[c->state]) {
		wrong("connection %u waits for %s, gets %s (%d)", c->number, waits_for[c->state], rdma_event_str(type),
		      status);
		drop(c);
		return;
	}
	switch (c->state) {
	case ADDRESS:
		state_to(c, ROUTE);
		if (rdma_resolve_route(c->id, 2000))
			wrong("connection %u: rdma_resolve_route: %s", c->number, strerror(errno));
		break;
	case ROUTE: connect_(c); break;
	case CONNECT:
		histogram_add(&c->t->setup, now_ns() - c->since);
		setups++;
		state_to(c, UP);
		go_on(c);
		break;
	default:
		if (c->how == BY_TARGET)
			rdma_disconnect(c->id);
		c->gone = true;
	}
}

static bool hear(struct thread *t)
{
	struct rdma_cm_event *e;
	bool any = false;

	for (; !rdma_get_cm_event(t->ch, &e); any = true) {
		struct conn *c = e->id->context;
		enum rdma_cm_event_type type = e->event;
		int status = e->status;

		rdma_ack_cm_event(e);
		on_event(c, type, status);
	}
	if (errno != EAGAIN)
		die("rdma_get_cm_event: %s", strerror(errno));
	return any;
}

/* Requests that wait too long, those that are over, and those that may begin. */
static void look_after(struct conn *c)
{
	if (c->state == IDLE) {
		if (!over)
			start(c);
		return;
	}
	if (c->state == CLOSE && c->gone && !c->sends && !c->receives) {
		drop(c);
		return;
	}
	if (c->state == UP || now_ns() - c->since < opt.patience * 1000000ull)
		return;
	wrong("connection %u waits for %s in vain (%u answers, %u sends and %u receives to come)", c->number,
	      waits_for[c->state], c->busy, c->sends, c->receives);
	drop(c);
}

static bool all_idle(const struct thread *t)
{
	for (unsigned i = 0; i < t->conns; i++)
		if (t->conn[i].state != IDLE)
			return false;
	return true;
}

static void *run(void *arg)
{
	struct thread *t = arg;
	struct ibv_wc wc[32];

	for (t->turn = 1; !over || !all_idle(t); t->turn++) {
		int n = t->cq ? ibv_poll_cq(t->cq, 32, wc) : 0;
		bool any = n > 0;

		if (n < 0)
			die("ibv_poll_cq");
		for (int i = 0; i < n; i++)
			completed(t, &wc[i]);
		if (!n || t->turn % 16 == 0) {
			any |= hear(t);
			for (unsigned i = 0; i < t->conns; i++)
				look_after(&t->conn[i]);
		}
		if (any)
			continue;
		if (!t->cq)
			wait_fds(t->ch->fd, -1, 10);
		else if (opt.events)
			wait_cq(t->channel, t->cq, t->ch->fd, &t->unacked);
	}
	end(t);
	rdma_destroy_event_channel(t->ch);
	return NULL;
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static void line(const char *what, const struct histogram *h)
{
	printf("%s ms: half %.3f, 99.9%% %.3f, longest %.3f\n", what, (double)histogram_at(h, 500) / 1e6,
	       (double)histogram_at(h, 999) / 1e6, (double)h->max / 1e6);
}

static void report(struct thread *t)
{
	for (unsigned i = 1; i < opt.threads; i++) {
		histogram_join(&t->gap, &t[i].gap);
		histogram_join(&t->latency, &t[i].latency);
		histogram_join(&t->setup, &t[i].setup);
		t->commands += t[i].commands;
		for (unsigned k = 0; k < HOWS; k++)
			t->ended[k] += t[i].ended[k];
	}
	printf("initiator: %u connections up, ended %llu in order, %llu at once, %llu by the target, %llu destroyed; "
	       "%llu commands\n",
	       setups, (unsigned long long)t->ended[IN_ORDER], (unsigned long long)t->ended[AT_ONCE],
	       (unsigned long long)t->ended[BY_TARGET], (unsigned long long)t->ended[DESTROYED],
	       (unsigned long long)t->commands);
	line("gap", &t->gap);
	line("latency", &t->latency);
	line("set-up", &t->setup);
	if (!t->commands || !setups)
		wrong("nothing was done");
}

void initiator_run(void)
{
	struct thread *t = calloc(opt.threads, sizeof(*t));
	uint64_t until = now_ns() + opt.seconds * 1000000000ull;

	to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port) };
	if (!t || inet_pton(AF_INET, opt.address, &to.sin_addr) != 1)
		die("%s is no address", opt.address);
	for (unsigned i = 0; i < opt.conns; i++) {
		struct thread *of = &t[i % opt.threads];

		of->conn[of->conns] = (struct conn){ .t = of, .number = of->conns };
		of->conns++;
	}
	for (unsigned i = 0; i < opt.threads; i++) {
		t[i].rng.s = opt.seed * 1000 + i;
		t[i].ch = rdma_create_event_channel();
		if (!t[i].ch)
			die("rdma_create_event_channel: %s", strerror(errno));
		nonblocking(t[i].ch->fd);
		if (pthread_create(&t[i].thread, NULL, run, &t[i]))
			die("pthread_create");
	}
	while (!stop && now_ns() < until && !(opt.setups && setups >= opt.setups))
		wait_fds(-1, -1, 10);
	over = true;
	for (unsigned i = 0; i < opt.threads; i++)
		pthread_join(t[i].thread, NULL);
	report(t);
}
