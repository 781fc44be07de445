/* SPDX-License-Identifier: MIT */
/* host.c - see host.h. */
#include "host.h"

#include <string.h>

#include "proto/entropy.h"

#include "fabric.h"
#include "say.h"

#define ECT        2u /* ECT(0) */
#define FLOW_SHIFT 32 /* of an address: the flow's number plus 1 is above, the offset in its message below */
#define REAP       16u

/* ---- memory ---------------------------------------------------------------------------------------- */

static int host_copy(void *arg, const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n,
		     uint64_t src_off)
{
	struct host *h = arg;
	struct flow *flow;

	if (dst_n != 1 || src_n != 1 || dst->region != h || src->region == h || src->addr + src_off != dst->addr)
		broken("host%u stores bytes that are not meant for there", h->i);
	flow = flow_at(h->fabric, (uint32_t)(dst->addr >> FLOW_SHIFT) - 1);
	if (flow->to != h->i || (dst->addr & UINT32_MAX) != flow->stored % flow->size ||
	    flow->stored + dst->len > flow->posted * flow->size)
		broken("host%u: flow %u: bytes are missing, or come twice", h->i, flow->i);
	flow->stored += dst->len;
	if (flow->stored % flow->size == 0)
		h->arrived = flow;
	return 0;
}

static int no_atomic(void *arg, const struct span *at, uint64_t a, uint64_t b, uint64_t *old)
{
	(void)at, (void)a, (void)b, (void)old;
	broken("host%u is asked for an atomic", ((struct host *)arg)->i);
}

static int no_add(void *arg, const struct span *at, uint64_t a, uint64_t *old) { return no_atomic(arg, at, a, 0, old); }
static int no_store(void *arg, const struct span *at, uint64_t v) { return no_atomic(arg, at, v, 0, NULL); }

static const struct mem_ops memory = { host_copy, no_atomic, no_add, no_store, NULL };

/* ---- objects ----------------------------------------------------------------------------------------- */

static uint8_t mtu_code(uint32_t mtu)
{
	uint8_t code = 1;

	while (128u << code < mtu)
		code++;
	return code;
}

static void ok(const struct host *h, int err, const char *what)
{
	if (err)
		die("host%u: %s: %s", h->i, what, strerror(err));
}

void host_init(struct fabric *f, struct host *h, uint32_t i)
{
	const struct adapter *ad = &f->t->adapter;
	struct hca_cfg cfg = {
		.mem = &memory,
		.mem_host = h,
		.seed = rng_next(&f->rng),
		.mtu = mtu_code(ad->mtu),
		.burst_len = (uint32_t)ad->burst,
		.local_burst_len = (uint32_t)ad->burst,
		.early_retrans = ad->early,
		.window_len = (uint32_t)ad->window,
		.marks.ect = ad->ecn ? ECT : 0,
		.law = &h->law,
	};
	struct mr_attr mr = { .access = ACC_LOCAL_WRITE | ACC_REMOTE_WRITE, .len = 1ull << 62, .region = h };

	h->fabric = f;
	h->i = i;
	h->law = ad->law;
	if (ad->line) {
		h->law.line = (uint32_t)(h->port.rate / 1000);
		h->law.min = h->law.min < h->law.line ? h->law.min : h->law.line;
	}
	h->tick.kind = AT_TICK;
	h->gid[10] = h->gid[11] = 0xff;
	h->gid[12] = 10;
	h->gid[13] = (uint8_t)(i >> 16);
	h->gid[14] = (uint8_t)(i >> 8);
	h->gid[15] = (uint8_t)i;
	h->hca = hca_new(&cfg);
	ok(h, !h->hca ? ENOMEM : hca_gid_set(h->hca, 0, h->gid), "an HCA");
	ok(h, hca_pd_alloc(h->hca, &h->pdn), "a protection domain");
	mr.pdn = h->pdn;
	ok(h, hca_mr_reg(h->hca, &mr, &h->key), "a memory region");
	ok(h, hca_cq_create(h->hca, 1u << 20, &h->cqn), "a completion queue");
}

void host_fini(struct host *h) { hca_free(h->hca); }

uint32_t host_qp(struct host *h, uint32_t depth)
{
	struct qp_init init = {
		.type = QPT_RC,
		.sq_sig_all = true,
		.pdn = h->pdn,
		.send_cqn = h->cqn,
		.recv_cqn = h->cqn,
		.cap = { .max_send_wr = depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	uint32_t qpn;

	ok(h, hca_qp_create(h->hca, &init, &qpn), "a queue pair");
	return qpn;
}

void host_connect(struct host *h, uint32_t qpn, const struct host *peer, uint32_t peer_qpn, uint32_t psn,
		  uint32_t peer_psn)
{
	const struct adapter *ad = &h->fabric->t->adapter;
	mono_t now = { h->fabric->agenda.now_ns };
	struct qp_attr a = { .dest_qpn = peer_qpn,
			     .rq_psn = peer_psn,
			     .sq_psn = psn,
			     .access = ACC_REMOTE_WRITE,
			     .state = QPS_INIT,
			     .path_mtu = mtu_code(ad->mtu),
			     .port = 1,
			     .timeout = (uint8_t)ad->timeout,
			     .retry_cnt = (uint8_t)ad->retry,
			     .rnr_retry = 7,
			     .min_rnr_timer = 12,
			     .max_rd_atomic = 1,
			     .max_dest_rd_atomic = 1 };

	memcpy(a.av.dgid, peer->gid, 16);
	ok(h, hca_qp_modify(h->hca, qpn, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, now),
	   "RESET to INIT");
	a.state = QPS_RTR;
	ok(h,
	   hca_qp_modify(h->hca, qpn, &a,
			 QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
				 QPA_MIN_RNR_TIMER,
			 now),
	   "INIT to RTR");
	a.state = QPS_RTS;
	ok(h,
	   hca_qp_modify(h->hca, qpn, &a,
			 QPA_STATE | QPA_SQ_PSN | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC,
			 now),
	   "RTR to RTS");
}

void host_write(struct host *h, uint32_t qpn, uint32_t flow, uint32_t size, const struct host *peer)
{
	struct {
		struct send_wr wr;
		struct sge sge;
	} w = { .wr = { .wr_id = flow, .op = WR_WRITE, .flags = WR_SIGNALED, .sge_n = 1, .rkey = peer->key } };

	w.wr.remote_addr = w.sge.addr = (uint64_t)(flow + 1) << FLOW_SHIFT;
	w.sge.len = size;
	w.sge.lkey = h->key;
	ok(h, hca_post_send(h->hca, qpn, &w.wr, (mono_t){ h->fabric->agenda.now_ns }), "a WRITE");
}

/* ---- packets ------------------------------------------------------------------------------------------- */

/* A hash of addresses and UDP source port, which is one of both queue pairs in 14 bits, as adapters have it. */
static uint32_t path_of(const struct burst *b, uint32_t from, uint32_t to)
{
	uint32_t sport = ENTROPY_PORT | entropy_pair(b->sqpn, b->dqpn);

	return (uint32_t)(((uint64_t)from << 40 ^ (uint64_t)to << 16 ^ sport) * 0xd6e8feb86659fd93u >> 32);
}

static uint32_t host_of(const uint8_t *gid) { return (uint32_t)gid[13] << 16 | (uint32_t)gid[14] << 8 | gid[15]; }

static void host_send(struct host *h, const struct burst *b)
{
	struct fabric *f = h->fabric;
	uint32_t to = host_of(b->route.dgid), path = path_of(b, h->i, to);

	for (uint32_t i = 0; i < b->n; i++) {
		struct packet *p = packet_get(&f->packets);

		burst_slice(b, i, 1, &p->burst, p->span);
		p->burst.span = p->span;
		p->len = packet_wire_len(b, i);
		p->path = path;
		p->to = to;
		p->class = b->op_first == OPCODE_CNP ? CLASS_CNP : CLASS_DATA;
		p->spare = false;
		f->offered++;
		port_put(&f->agenda, &h->port, p);
	}
}

static void pull(struct host *h)
{
	struct fabric *f = h->fabric;
	struct burst b;

	while (!h->port.busy && !h->port.queue[CLASS_DATA].head && hca_tx(h->hca, &b, (mono_t){ f->agenda.now_ns }))
		host_send(h, &b);
}

static unsigned reap(struct host *h)
{
	struct cqe cqe[REAP];
	struct hca_event ev[REAP];
	unsigned n = hca_completions(h->hca, cqe, REAP);

	for (unsigned i = 0; i < n; i++)
		work_done(h->fabric, (uint32_t)cqe[i].wr_id, cqe[i].status);
	if (n)
		while (hca_events(h->hca, ev, REAP))
			;
	return n;
}

void host_turn(struct host *h)
{
	struct agenda *a = &h->fabric->agenda;
	mono_t now = { a->now_ns }, next;

	do {
		if (mono_reached(now, hca_deadline(h->hca)))
			hca_tick(h->hca, now);
		pull(h);
	} while (reap(h));
	next = hca_deadline(h->hca);
	if (next.ns < moment_ns(&h->tick))
		agenda_set(a, &h->tick, next.ns);
}

void host_rx(struct host *h, struct packet *p)
{
	struct fabric *f = h->fabric;

	if (p->class == CLASS_PAUSE) {
		port_pause(&f->agenda, &h->port, p->pause);
		packet_put(&f->packets, p);
	} else {
		f->delivered++;
		hca_rx_burst(h->hca, &p->burst, (mono_t){ f->agenda.now_ns });
		packet_put(&f->packets, p);
		if (h->arrived)
			work_arrived(f, h->arrived);
		h->arrived = NULL;
	}
	host_turn(h);
}
