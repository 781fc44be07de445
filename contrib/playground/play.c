/* SPDX-License-Identifier: MIT */
/* play.c - the HCAs, what is posted to them, and the clock. */
#include "play.h"

#include <stdlib.h>
#include <string.h>

#include "proto/icrc.h"

#define TURNS       10000u
#define IDLE_TIMERS 64u

struct world world;

mono_t world_now(void) { return (mono_t){ world.now }; }

/* ---- memory -------------------------------------------------------------------- */

static uint64_t mem_base(const struct node *n) { return (uint64_t)MEM_STEP * (n->i + 1u); }

static uint8_t *bytes(const struct span *s)
{
	struct node *n = s->region;

	return n ? n->mem + (s->addr - mem_base(n)) : (uint8_t *)(uintptr_t)s->addr;
}

static int mem_copy(void *host, const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n,
		    uint64_t off)
{
	(void)host;
	for (; src_n && off >= src->len; src++, src_n--)
		off -= src->len;
	for (; dst_n; dst++, dst_n--)
		for (uint32_t i = 0; i < dst->len; i++) {
			bytes(dst)[i] = bytes(src)[off++];
			if (off == src->len && src_n > 1) {
				src++;
				src_n--;
				off = 0;
			}
		}
	return 0;
}

static int mem_cmp_swap(void *host, const struct span *at, uint64_t compare, uint64_t swap, uint64_t *old)
{
	(void)host;
	memcpy(old, bytes(at), 8);
	if (*old == compare)
		memcpy(bytes(at), &swap, 8);
	return 0;
}

static int mem_fetch_add(void *host, const struct span *at, uint64_t add, uint64_t *old)
{
	(void)host;
	memcpy(old, bytes(at), 8);
	add += *old;
	memcpy(bytes(at), &add, 8);
	return 0;
}

static int mem_store(void *host, const struct span *at, uint64_t value)
{
	(void)host;
	memcpy(bytes(at), &value, 8);
	return 0;
}

void mem_gather(uint8_t *to, uint32_t len, const struct span *src, unsigned src_n, uint64_t off)
{
	mem_copy(NULL, &(struct span){ .addr = (uintptr_t)to, .len = len }, 1, src, src_n, off);
}

static void fill(uint8_t *to, uint32_t len, uint64_t with)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = (uint8_t)(i * 7 + i / 256 + with);
}

static const struct mem_ops mem_ops = { mem_copy, mem_cmp_swap, mem_fetch_add, mem_store, NULL };

/* ---- notes --------------------------------------------------------------------- */

struct note *note_new(enum note_kind kind, unsigned node)
{
	static struct note spare;
	struct note *n = world.notes < NOTES ? &world.note[world.notes++] : &spare;

	world.full |= n == &spare;
	*n = (struct note){ .kind = (uint8_t)kind, .node = (uint8_t)node, .order = world.order++, .at = world.now };
	return n;
}

/* ---- making -------------------------------------------------------------------- */

static const uint32_t rights = ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC;

static void node_new(unsigned i, uint64_t seed)
{
	struct node *n = &world.node[i];
	struct hca_cfg c = {
		.mem = &mem_ops,
		.mem_host = n,
		.seed = seed * 4 + i,
		.qpn_low = i,
		.qpn_low_bits = 2,
		.mtu = 3,
		.burst_len = 61440,
		.local_burst_len = 61440,
		.early_retrans = true,
		.window_len = 1 << 16,
		.max_qp = 16,
		.max_cq = 4,
		.max_srq = 4,
		.max_mr = 8,
		.max_mw = 4,
		.max_pd = 4,
	};
	struct mr_attr mr = { .access = rights, .len = MEM_LEN, .region = n };

	memset(n, 0, sizeof *n);
	n->i = (uint8_t)i;
	mr.addr = mem_base(n);
	fill(n->mem + AREA_SOURCE, AREA_LEN, 0);
	memcpy(n->gid, (uint8_t[16]){ [10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(1 + i) }, 16);
	n->hca = hca_new(&c);
	n->cm = cm_new(&(struct cm_cfg){ .seed = seed * 4 + i, .ca_guid = 0x020000fffe000001u + i });
	if (!n->hca || !n->cm || hca_gid_set(n->hca, 0, n->gid) || hca_pd_alloc(n->hca, &n->pdn) ||
	    hca_cq_create(n->hca, 1024, &n->cqn))
		abort();
	mr.pdn = n->pdn;
	mr.iova = mr.addr;
	if (hca_mr_reg(n->hca, &mr, &n->key))
		abort();
}

static bool qp_of(void *host, unsigned device, uint32_t qpn, struct tap_qp *out)
{
	uint32_t list[2 * PAIRS], n, i = 0;
	struct world *w = host;
	struct qp_info info;

	if (!hca_qp_info(w->node[device].hca, qpn, &info))
		return false;
	n = hca_qp_list(w->node[device].hca, list, 2 * PAIRS);
	while (i < n && list[i] != qpn)
		i++;
	*out = (struct tap_qp){ .nth = i + 1,
				.prog = "play",
				.type = info.type,
				.sq_psn = psn(info.attr.sq_psn),
				.rq_psn = psn(info.attr.rq_psn),
				.dest_qpn = info.attr.dest_qpn };
	return true;
}

void world_new(unsigned nodes, uint64_t seed)
{
	struct world *w = &world;
	struct rule_error err;

	for (unsigned i = 0; i < w->nodes; i++) {
		hca_free(w->node[i].hca);
		cm_free(w->node[i].cm);
	}
	rules_fini(&w->rules);
	flows_fini(&w->flows);
	remark_free(w->remark);
	free(w->pkt);
	free(w->note);
	memset(w, 0, sizeof *w);
	w->nodes = nodes < 2 ? 2 : nodes > NODES ? NODES : nodes;
	w->now = 1000000; /* of no meaning; 0 is "never" to some */
	w->pkt = calloc(PKTS, sizeof *w->pkt);
	w->note = calloc(NOTES, sizeof *w->note);
	w->remark = remark_new();
	if (!w->pkt || !w->note || !w->remark)
		abort();
	for (unsigned i = 0; i < w->nodes; i++)
		node_new(i, seed);
	w->flows.qp = qp_of;
	w->flows.host = w;
	wire_rules("", &err);
}

/* A refusal is told, as a program would see it: a damaged message of the CM may ask for anything. */
static bool modify(struct node *n, uint32_t qpn, const struct qp_attr *a, uint8_t state, uint32_t mask)
{
	struct qp_attr to = *a;
	struct note *t;

	to.state = state;
	if (!hca_qp_modify(n->hca, qpn, &to, mask | QPA_STATE, world_now()))
		return true;
	t = note_new(NOTE_MODIFY, n->i);
	t->modify.qpn = qpn;
	t->modify.state = state;
	return false;
}

static int qp_new(struct pair *p, unsigned side)
{
	struct node *n = &world.node[p->node[side]];
	struct qp_init init = { .type = p->type,
				.sq_sig_all = true,
				.pdn = n->pdn,
				.send_cqn = n->cqn,
				.recv_cqn = n->cqn,
				.cap = { 64, 64, 1, 1, 0 } };
	struct qp_attr a = { .port = 1, .access = rights & ~(uint32_t)ACC_LOCAL_WRITE, .qkey = 0x11111111 };
	uint32_t mask = QPA_PKEY_INDEX | QPA_PORT | (p->type == QPT_UD ? QPA_QKEY : QPA_ACCESS_FLAGS);
	int e = hca_qp_create(n->hca, &init, &p->qpn[side]);

	if (p->type == QPT_UC)
		a.access = ACC_REMOTE_WRITE;
	return e ? e : modify(n, p->qpn[side], &a, QPS_INIT, mask) ? 0 : EINVAL;
}

bool world_connected(unsigned pair, unsigned side, const struct qp_attr *a)
{
	struct pair *p = &world.pair[pair];
	struct node *n = &world.node[p->node[side]];
	uint32_t rtr = QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN, rts = QPA_SQ_PSN;

	if (p->type == QPT_UD)
		rtr = 0;
	if (p->type == QPT_RC) {
		rtr |= QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
		rts |= QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC;
	}
	p->sq_psn[side] = a->sq_psn;
	return modify(n, p->qpn[side], a, QPS_RTR, rtr) && modify(n, p->qpn[side], a, QPS_RTS, rts);
}

static struct pair *pair_new(uint8_t type, unsigned a, unsigned b, const struct qp_attr *attr)
{
	struct pair *p = &world.pair[world.pairs];

	if (world.pairs == PAIRS || a >= world.nodes || b >= world.nodes || a == b)
		return NULL;
	*p = (struct pair){ .type = type, .node = { (uint8_t)a, (uint8_t)b }, .attr = *attr };
	if (qp_new(p, 0) || qp_new(p, 1))
		return NULL;
	world.pairs++;
	return p;
}

int world_pair(uint8_t type, unsigned a, unsigned b, const struct qp_attr *attr, uint32_t psn0, uint32_t psn1)
{
	struct pair *p = pair_new(type, a, b, attr);

	if (!p)
		return -1;
	for (unsigned side = 2; side--;) {
		struct qp_attr at = *attr;

		at.dest_qpn = p->qpn[!side];
		at.sq_psn = (side ? psn1 : psn0) & PSN_MASK;
		at.rq_psn = (side ? psn0 : psn1) & PSN_MASK;
		at.av.hop_limit = 64;
		memcpy(at.av.dgid, world.node[p->node[!side]].gid, 16);
		world_connected((unsigned)(p - world.pair), side, &at);
	}
	world_turns();
	return (int)(p - world.pair);
}

int world_call(unsigned a, unsigned b, const struct qp_attr *attr)
{
	struct pair *p = pair_new(QPT_RC, a, b, attr);

	if (!p)
		return -1;
	p->cm = true;
	if (cm_call((unsigned)(p - world.pair)))
		return -1;
	world_turns();
	return (int)(p - world.pair);
}

int world_hangup(unsigned pair)
{
	int e = pair < world.pairs && world.pair[pair].cm ? cm_hangup(pair) : EINVAL;

	world_turns();
	return e;
}

/* ---- posting ------------------------------------------------------------------- */

/* One that was refused leaves nothing behind. */
static int posted(enum note_kind kind, const struct node *n, uint32_t qpn, unsigned op, uint32_t len, int err)
{
	struct note *t;

	if (err)
		return err;
	t = note_new(kind, n->i);
	t->post.qpn = qpn;
	t->post.op = op;
	t->post.len = len;
	t->post.id = ++world.wr_id;
	world_turns();
	return 0;
}

int world_recv(unsigned pair, unsigned side, uint32_t len)
{
	struct pair *p = &world.pair[pair];
	struct node *n;
	struct {
		struct recv_wr wr;
		struct sge sge;
	} r;

	if (pair >= world.pairs || side > 1 || len > AREA_LEN)
		return EINVAL;
	n = &world.node[p->node[side]];
	r.wr = (struct recv_wr){ .wr_id = world.wr_id + 1, .sge_n = 1 };
	r.sge = (struct sge){ mem_base(n) + AREA_IN, len, n->key };
	return posted(NOTE_RECV, n, p->qpn[side], 0, len, hca_post_recv(n->hca, p->qpn[side], &r.wr, world_now()));
}

static void remote(struct send_wr *wr, const struct pair *p, const struct node *peer, const struct post *post)
{
	uint64_t base = mem_base(peer);

	wr->rkey = peer->key ^ (post->bad_key ? 0xffu : 0);
	switch (post->op) {
	case WR_READ: wr->remote_addr = base + AREA_SOURCE; break;
	case WR_CMP_SWP:
	case WR_FETCH_ADD:
		wr->remote_addr = base + AREA_WORD;
		wr->atomic.compare_add = post->compare_add;
		wr->atomic.swap = post->swap;
		break;
	default: wr->remote_addr = base + AREA_TARGET;
	}
	if (p->type != QPT_UD)
		return;
	wr->ud.dqpn = p->qpn[peer->i == p->node[1]];
	wr->ud.qkey = 0x11111111;
	wr->ud.av = (struct av){ .hop_limit = 64 };
	memcpy(wr->ud.av.dgid, peer->gid, 16);
}

static uint64_t *slot_of(struct node *n, uint64_t wr_id)
{
	for (uint64_t *s = n->slot; s < n->slot + SLOTS; s++)
		if (*s == wr_id)
			return s;
	return NULL;
}

int world_post(unsigned pair, unsigned side, const struct post *post)
{
	struct pair *p = &world.pair[pair];
	struct node *n;
	struct {
		struct send_wr wr;
		struct sge sge;
	} s = { .wr = { .op = post->op, .flags = WR_SIGNALED, .sge_n = 1, .imm = post->imm } };
	bool atomic = post->op == WR_CMP_SWP || post->op == WR_FETCH_ADD;
	uint32_t area = atomic ? AREA_RESULT : AREA_IN;
	uint64_t *slot = NULL;
	int e;

	if (pair >= world.pairs || side > 1 || post->len > AREA_LEN)
		return EINVAL;
	n = &world.node[p->node[side]];
	s.wr.wr_id = world.wr_id + 1;
	if (!atomic && post->op != WR_READ) {
		slot = slot_of(n, 0);
		if (!slot)
			return ENOMEM;
		area = AREA_OUT + (uint32_t)(slot - n->slot) * AREA_LEN;
	}
	s.sge = (struct sge){ mem_base(n) + area, atomic ? 8 : post->len, n->key };
	remote(&s.wr, p, &world.node[p->node[!side]], post);
	e = hca_post_send(n->hca, p->qpn[side], &s.wr, world_now());
	if (!e && slot) {
		*slot = s.wr.wr_id;
		fill(n->mem + area, post->len, s.wr.wr_id);
	}
	return posted(NOTE_POST, n, p->qpn[side], post->op, s.sge.len, e);
}

/* ---- the clock ----------------------------------------------------------------- */

static void completed(struct node *n, const struct cqe *c)
{
	uint64_t *slot = c->is_send ? slot_of(n, c->wr_id) : NULL;

	if (slot)
		*slot = 0;
	note_new(NOTE_CQE, n->i)->cqe = *c;
}

static void told(struct node *n)
{
	struct trace_rec rec[16];
	struct hca_event ev[4];
	struct cqe cqe[16];
	struct why why;
	uint64_t lost;
	unsigned k;

	while ((k = hca_trace(n->hca, &n->trace_at, rec, 16, &lost)))
		for (unsigned i = 0; i < k; i++)
			note_new(NOTE_TRACE, n->i)->trace = rec[i];
	while ((k = hca_completions(n->hca, cqe, 16)))
		for (unsigned i = 0; i < k; i++)
			completed(n, &cqe[i]);
	while ((k = hca_events(n->hca, ev, 4)))
		for (unsigned i = 0; i < k; i++)
			note_new(NOTE_EVENT, n->i)->event = ev[i];
	while (hca_why(n->hca, &why)) {
		struct note *t = note_new(NOTE_WHY, n->i);

		t->why.qpn = why.qpn;
		t->why.cause = why.cause;
		t->why.key = why.key.why;
	}
}

/* true: it had something to do. */
static bool turn(struct node *n)
{
	struct burst b;
	bool busy = false;

	if (mono_reached(world_now(), hca_deadline(n->hca))) {
		hca_tick(n->hca, world_now());
		busy = true;
	}
	cm_turn(n);
	told(n);
	while (hca_tx(n->hca, &b, world_now())) {
		wire_tx(n, &b);
		busy = true;
	}
	told(n);
	return busy;
}

void world_turns(void)
{
	bool again = true;

	for (unsigned rounds = 0; again && rounds < TURNS; rounds++) {
		again = false;
		for (unsigned i = 0; i < world.nodes; i++)
			again |= turn(&world.node[i]);
	}
}

static int step(unsigned *which)
{
	struct pkt *p = wire_next();
	mono_t when = MONO_NEVER;

	for (unsigned i = 0; i < world.nodes; i++) {
		mono_t d = mono_min(hca_deadline(world.node[i].hca), cm_deadline(world.node[i].cm));

		if (mono_before(d, when)) {
			when = d;
			*which = i;
		}
	}
	if (!p && mono_is_never(when))
		return 0;
	if (p && !mono_before(when, (mono_t){ p->at })) {
		world.now = p->at > world.now ? p->at : world.now;
		*which = (unsigned)(p - world.pkt);
		wire_arrive(p);
		world_turns();
		return 1;
	}
	world.now = when.ns > world.now ? when.ns : world.now;
	cm_tick(world.node[*which].cm, world_now());
	world_turns();
	return 2;
}

/* Timers that run out and change nothing that can be seen are no event of their own. */
int world_step(unsigned *which)
{
	unsigned pkts = world.pkts, notes = world.notes;
	int what = 0;

	for (unsigned i = 0; i < IDLE_TIMERS; i++) {
		what = step(which);
		if (what != 2 || world.pkts != pkts || world.notes != notes)
			return !what && i ? 2 : what;
	}
	return what;
}
