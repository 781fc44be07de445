/* SPDX-License-Identifier: MIT */
/*
 * foe_msg.c - requests: of random words, of words that mean something, right ones, and right ones with an error.
 */
#include "foe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>

#include <rdma/rdma_cma.h>

/* The messages that make an object of a kind. */
enum {
	OF_PD = MSG_PD_ALLOC,
	OF_MR = MSG_MR_REG,
	OF_CHANNEL = MSG_CHANNEL_CREATE,
	OF_CQ = MSG_CQ_CREATE,
	OF_SRQ = MSG_SRQ_CREATE,
	OF_QP = MSG_QP_CREATE,
	OF_MW = MSG_MW_ALLOC,
	OF_DM = MSG_DM_ALLOC,
	OF_XRCD = MSG_XRCD_OPEN,
};

/* Of a request that ends something: what has made it. */
static const uint8_t maker[MSG_OPS] = {
#define MSG(name, row, needs, handler, verb)
#define MSG_FREE(name, object, verb) [MSG_##name] = OF_##object,
#include <rdmad/msg.def>
#undef MSG
#undef MSG_FREE
	[MSG_QP_QUERY] = OF_QP,  [MSG_SRQ_QUERY] = OF_SRQ, [MSG_PD_IMPORT] = OF_PD,   [MSG_MR_IMPORT] = OF_MR,
	[MSG_DM_IMPORT] = OF_DM, [MSG_RAW_STEER] = OF_QP,  [MSG_CQ_MODERATE] = OF_CQ, [MSG_SRQ_MODIFY] = OF_SRQ,
	[MSG_CQ_SWAP] = OF_CQ,   [MSG_CQ_EVENT] = OF_CQ,
};

uint32_t foe_made(struct foe *f, const struct foe_link *l, uint32_t op)
{
	return l->made_n[op] ? l->made[op][foe_below(f, l->made_n[op])] : 0;
}

static uint32_t word(struct foe *f, const struct foe_link *l)
{
	switch (foe_below(f, 10)) {
	case 0: return 0;
	case 1: return 1;
	case 2: return foe_below(f, 70);
	case 3: return UINT32_MAX - foe_below(f, 3);
	case 4: return (1u << foe_below(f, 32)) - foe_below(f, 2);
	case 5: return foe_made(f, &f->link[foe_below(f, FOE_LINKS)], foe_below(f, CMM_OPS)); /* not always its own */
	case 6: return (uint32_t)foe_dice(f);
	default: return foe_made(f, l, foe_below(f, CMM_OPS));
	}
}

static uint64_t place(struct foe *f)
{
	return (uintptr_t)(foe_odds(f, 2) ? f->mem : f->shared) + foe_below(f, FOE_MEM);
}

static void words(struct foe *f, const struct foe_link *l, uint8_t *p, size_t len)
{
	for (size_t i = 0; i + 4 <= len; i += 4) {
		uint32_t w = word(f, l);
		uint64_t at = place(f);

		memcpy(p + i, &w, 4);
		if (i % 8 == 0 && i + 8 <= len && foe_odds(f, 4))
			memcpy(p + i, &at, 8);
	}
}

/* ---- right ones ------------------------------------------------------------------------ */

static uint32_t depth(struct foe *f) { return foe_odds(f, 64) ? 1u << foe_below(f, 15) : 1 + foe_below(f, 100); }

static void right_mr(struct foe *f, const struct foe_link *l, struct msg_req *r)
{
	uint32_t len = 1 + foe_below(f, FOE_MEM - 1), at = foe_below(f, FOE_MEM - len);
	uint64_t addr = (uintptr_t)(foe_odds(f, 2) ? f->mem : f->shared) + at;

	r->mr.pd = foe_made(f, l, OF_PD);
	r->mr.access = foe_odds(f, 2) ? 7 : foe_below(f, 1024);
	r->mr.addr = addr;
	r->mr.iova = foe_odds(f, 8) ? 0 : addr;
	r->mr.len = len;
	r->mr.map_addr = (uintptr_t)f->shared;
	r->mr.map_len = foe_odds(f, 32) ? UINT64_C(1) << foe_below(f, 48) : FOE_MEM;
	r->mr.kind = foe_odds(f, 4) ? foe_below(f, 5) : MR_MEM;
	r->mr.dm = foe_made(f, l, OF_DM);
	r->mr.handle = foe_made(f, l, OF_MR);
}

static void right_qp(struct foe *f, const struct foe_link *l, struct msg_req *r)
{
	static const uint8_t type[] = { QPT_RC,       QPT_RC,       QPT_RC,  QPT_UC, QPT_UD,
					QPT_XRC_SEND, QPT_XRC_RECV, QPT_RAW, QPT_UD, 1 };

	r->qp.pd = foe_made(f, l, OF_PD);
	r->qp.send_cq = foe_made(f, l, OF_CQ);
	r->qp.recv_cq = foe_made(f, l, OF_CQ);
	r->qp.srq = foe_odds(f, 4) ? foe_made(f, l, OF_SRQ) : 0;
	r->qp.cap = (struct qp_cap){ depth(f), depth(f), foe_below(f, 33), foe_below(f, 33), foe_below(f, 1025) };
	r->qp.type = type[foe_below(f, sizeof(type))];
	r->qp.sq_sig_all = foe_odds(f, 2);
	r->qp.not_own = foe_odds(f, 2);
	r->qp.xrcd = foe_made(f, l, OF_XRCD);
	r->qp.wq = r->qp.type == QPT_RAW && foe_odds(f, 2);
	if (foe_odds(f, 4)) {
		struct qp_attr init = { .state = QPS_INIT, .port = (uint8_t)(1 + foe_odds(f, 8)) };

		r->qp.steps.n = 1 + foe_odds(f, 8);
		r->qp.steps.v[0].mask = QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS;
		r->qp.steps.v[0].attr = init;
	}
}

/* Steps to RTS: 1 2 3 of RC, 1 6 5 of UC, 4 7 5 of UD; of whichever QP to whoever. */
static void right_modify(struct foe *f, const struct foe_link *l, struct msg_req *r)
{
	static const struct {
		uint8_t state;
		uint32_t mask;
	} rung[] = {
		{ QPS_RESET, QPA_STATE },
		{ QPS_INIT, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS },
		{ QPS_RTR, QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC |
				   QPA_MIN_RNR_TIMER },
		{ QPS_RTS,
		  QPA_STATE | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_SQ_PSN | QPA_MAX_QP_RD_ATOMIC },
		{ QPS_INIT, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_QKEY },
		{ QPS_RTS, QPA_STATE | QPA_SQ_PSN },
		{ QPS_RTR, QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN },
		{ QPS_RTR, QPA_STATE },
		{ QPS_SQD, QPA_STATE },
		{ QPS_ERR, QPA_STATE },
	};
	struct qp_attr *a = &r->qp_mod.attr;
	unsigned i = f->rung ? f->rung - 1 : foe_below(f, sizeof(rung) / sizeof(rung[0]));
	const struct foe_link *to = foe_odds(f, 4) ? &f->link[foe_below(f, FOE_LINKS)] : l;

	*a = (struct qp_attr){ .state = !f->careful && foe_odds(f, 16) ? (uint8_t)foe_below(f, 8) : rung[i].state,
			       .port = 1,
			       .access = foe_below(f, 16),
			       .dest_qpn = foe_made(f, to, OF_QP),
			       .path_mtu = (uint8_t)(1 + foe_below(f, 5)),
			       .rq_psn = 1,
			       .sq_psn = 1,
			       .max_rd_atomic = (uint8_t)foe_below(f, 5),
			       .max_dest_rd_atomic = (uint8_t)foe_below(f, 5),
			       .min_rnr_timer = (uint8_t)foe_below(f, 32),
			       .timeout = (uint8_t)foe_below(f, 15),
			       .retry_cnt = (uint8_t)foe_below(f, 8),
			       .rnr_retry = (uint8_t)foe_below(f, 8) };
	memcpy(a->av.dgid, f->gid, 16);
	r->qp_mod.qpn = f->rung ? f->climber : foe_made(f, l, OF_QP);
	r->qp_mod.mask = rung[i].mask;
}

static void right_verb(struct foe *f, const struct foe_link *l, struct msg_req *r)
{
	switch (r->op) {
	case MSG_HELLO:
		r->hello.abi = RDMAD_ABI;
		memcpy(r->hello.prog, "foe", 4);
		break;
	case MSG_OPEN: memcpy(r->open.name, f->device, sizeof(r->open.name)); break;
	case MSG_IMPORT: r->import.token = f->link[foe_below(f, FOE_LINKS)].token; break;
	case MSG_MR_REG:
	case MSG_MR_REREG: right_mr(f, l, r); break;
	case MSG_CQ_CREATE:
		r->cq.cqe = depth(f);
		r->cq.channel = foe_odds(f, 2) ? foe_made(f, l, OF_CHANNEL) : 0;
		break;
	case MSG_CQ_RESIZE:
		r->cq_resize.handle = foe_made(f, l, OF_CQ);
		r->cq_resize.cqe = depth(f);
		break;
	case MSG_SRQ_CREATE:
		r->srq.pd = foe_made(f, l, OF_PD);
		r->srq.max_wr = depth(f);
		r->srq.max_sge = foe_below(f, 33);
		r->srq.xrcd = foe_odds(f, 4) ? foe_made(f, l, OF_XRCD) : 0;
		r->srq.cq = foe_made(f, l, OF_CQ);
		break;
	case MSG_QP_CREATE: right_qp(f, l, r); break;
	case MSG_QP_MODIFY: right_modify(f, l, r); break;
	case MSG_MCAST_ATTACH:
	case MSG_MCAST_DETACH:
		r->mcast.qpn = foe_made(f, l, OF_QP);
		memcpy(r->mcast.gid, (uint8_t[16]){ 0xff, 0x0e }, 2);
		r->mcast.gid[15] = (uint8_t)foe_below(f, 8);
		break;
	case MSG_DUMP:
		r->dump.what = 1 + foe_below(f, DUMP_USERS);
		r->dump.qpn = foe_odds(f, 2) ? foe_made(f, l, OF_QP) : 0;
		r->dump.flags = foe_below(f, 2);
		break;
	case MSG_MW_ALLOC:
		r->mw.pd = foe_made(f, l, OF_PD);
		r->mw.type = 1 + foe_below(f, 2);
		break;
	case MSG_DM_ALLOC: r->dm.len = 1 + foe_below(f, 1u << (1 + foe_below(f, 21))); break;
	case MSG_XRCD_OPEN:
		r->xrcd.shared = foe_below(f, 2);
		r->xrcd.oflags = foe_odds(f, 2) ? O_CREAT : foe_odds(f, 2) ? O_CREAT | O_EXCL : 0;
		break;
	case MSG_QP_RATE:
		r->rate.qpn = foe_made(f, l, OF_QP);
		r->rate.kbps = foe_odds(f, 2) ? 0 : foe_below(f, 1u << 24);
		r->rate.burst = foe_below(f, 1u << 16);
		break;
	case MSG_QP_COUNT:
		r->count.qpn = foe_made(f, l, OF_QP);
		r->count.dm = foe_made(f, l, OF_DM);
		r->count.ops = foe_below(f, 64);
		r->count.bytes = foe_below(f, 2);
		r->count.off = foe_below(f, 64) * 16;
		break;
	case MSG_QP_OPEN:
		r->qp_open.qpn = foe_made(f, &f->link[foe_below(f, FOE_LINKS)], OF_QP);
		r->qp_open.xrcd = foe_made(f, l, OF_XRCD);
		break;
	default: /* the object comes first */
		words(f, l, (uint8_t *)r->none, msg_req_len(r->op) - offsetof(struct msg_req, none));
		if (maker[r->op])
			r->id.handle = foe_made(f, l, maker[r->op]);
	}
}

static void right_addr(struct foe *f, union cmm_addr *a)
{
	static const char *const text[] = { "127.0.0.1", "0.0.0.0", "127.0.0.2", "10.1.2.3", "224.1.2.3" };

	if (foe_odds(f, 8)) {
		a->in6.sin6_family = AF_INET6;
		a->in6.sin6_addr = foe_odds(f, 2) ? in6addr_any : in6addr_loopback;
		a->in6.sin6_port = htons((uint16_t)(7000 + foe_below(f, 8)));
		return;
	}
	a->in.sin_family = AF_INET;
	inet_pton(AF_INET, text[foe_odds(f, 3) ? foe_below(f, 5) : 0], &a->in.sin_addr);
	a->in.sin_port = htons((uint16_t)(foe_odds(f, 8) ? 0 : 7000 + foe_below(f, 8)));
}

static void right_conn(struct foe *f, const struct foe_link *l, struct cmm_conn *c)
{
	c->qp_num = foe_made(f, &f->link[foe_below(f, FOE_LINKS)], OF_QP);
	c->data_len = (uint8_t)(foe_odds(f, 8) ? foe_below(f, 256) : foe_below(f, 56));
	c->responder_resources = c->initiator_depth = (uint8_t)foe_below(f, 8);
	c->retry_count = c->rnr_retry_count = 7;
	words(f, l, c->data, sizeof(c->data));
}

/* A QP of any link, by its key or that of another one; or none. */
static void right_own(struct foe *f, struct cmm_qp *q)
{
	const struct foe_link *l = &f->link[foe_below(f, FOE_LINKS)];

	if (foe_odds(f, 2))
		return;
	q->qpn = foe_made(f, l, OF_QP);
	q->key = foe_odds(f, 8) ? f->link[foe_below(f, FOE_LINKS)].key : l->key;
}

static void right_cm(struct foe *f, const struct foe_link *l, struct cmm_req *r)
{
	static const uint16_t ps[] = { RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_IB };

	bool answers = r->op == CMM_ACCEPT || r->op == CMM_REJECT; /* a request of another */

	r->id = foe_made(f, l, foe_odds(f, 4) != answers ? CMM_GET_EVENT : CMM_CREATE_ID);
	switch (r->op) {
	case CMM_CREATE_ID:
		r->create.ps = ps[foe_below(f, 5)];
		r->create.qp_type = foe_odds(f, 4) ? QPT_UD : QPT_RC;
		break;
	case CMM_BIND: right_addr(f, &r->bind.addr); break;
	case CMM_RESOLVE_ADDR:
		right_addr(f, &r->resolve.dst);
		if (foe_odds(f, 4))
			right_addr(f, &r->resolve.src);
		r->resolve.timeout_ms = foe_below(f, 2000);
		break;
	case CMM_CONNECT:
	case CMM_ACCEPT:
		right_conn(f, l, &r->conn.conn);
		right_own(f, &r->conn.qp);
		break;
	case CMM_ESTABLISH:
	case CMM_DISCONNECT: right_own(f, &r->own); break;
	case CMM_JOIN:
		right_addr(f, &r->join.addr);
		if (foe_odds(f, 2))
			inet_pton(AF_INET, "224.1.2.4", &r->join.addr.in.sin_addr);
		r->join.flags = foe_below(f, 3);
		break;
	case CMM_LEAVE: r->leave.group = foe_made(f, l, CMM_JOIN); break;
	case CMM_NOTIFY: r->notify.event = EV_COMM_EST; break;
	case CMM_PUT_EVENT: r->put.type = 16 + foe_below(f, 4); break;
	case CMM_REJECT: r->reject.data_len = (uint8_t)foe_below(f, 150); break;
	default: words(f, l, (uint8_t *)r->none, cmm_req_len(r->op) - offsetof(struct cmm_req, none));
	}
}

/* ---- any ---------------------------------------------------------------------------------- */

/* A channel has requests of its own kind mostly, and so has a context. */
uint32_t foe_op(struct foe *f, const struct foe_link *l)
{
	bool cm = l->ctx ? foe_odds(f, 50) : !foe_odds(f, 8);

	if (foe_odds(f, 200))
		return (uint32_t)foe_dice(f);
	if (cm && foe_odds(f, 4))
		return CMM_GET_EVENT; /* where requests of others come from */
	return cm ? CMM_BASE + 1 + foe_below(f, CMM_OPS - CMM_BASE - 1) : 1 + foe_below(f, MSG_OPS - 1);
}

size_t foe_msg(struct foe *f, const struct foe_link *l, uint32_t op, void *msg)
{
	size_t len = op >= CMM_OPEN ? cmm_req_len(op) : msg_req_len(op);
	size_t head = op >= CMM_OPEN ? offsetof(struct cmm_req, none) : offsetof(struct msg_req, none);
	struct msg_req *m = msg;
	uint8_t *bytes = msg;

	memset(msg, 0, FOE_MSG_MAX);
	m->op = op;
	m->seq = (uint32_t)foe_dice(f);
	if (!len)
		return 8 + foe_below(f, 64);
	switch (f->careful ? 7 : foe_below(f, 8)) {
	case 0:
		for (size_t i = 8; i < len; i++)
			bytes[i] = (uint8_t)foe_dice(f);
		break;
	case 1: words(f, l, bytes + 8, len - 8); break;
	default:
		if (op >= CMM_OPEN)
			right_cm(f, l, msg);
		else
			right_verb(f, l, msg);
		if (len > head && !f->careful && foe_odds(f, 6))
			words(f, l, bytes + head + foe_below(f, (uint32_t)(len - head)) / 4 * 4, 4);
	}
	return len;
}
