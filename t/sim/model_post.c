/* SPDX-License-Identifier: MIT */
/*
 * model_post.c - work requests of known content.
 *
 * Every buffer is a fresh piece of the arena, so that a store tells which work it belongs to;
 * READs and WRITEs may go to the place of an earlier WRITE of the same QP on purpose (post.again).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

struct slot { /* a send WR as it lies in a ring: request, sge, inline bytes */
	struct send_wr wr;
	struct sge sge[RD_MAX_SGE];
	uint8_t data[RD_MAX_INLINE];
};

/* Receives have a region of their own, so that posted sends cannot starve them. */
static struct region *region_of(struct node *n, struct rng *r, enum piece_kind kind)
{
	if (kind == PIECE_RECV)
		return &n->mem.region[REGION_LOCAL];
	return &n->mem.region[rng_one_in(r, 3) && n->mem.region[REGION_IOVA].alive ? REGION_IOVA : REGION_ALL];
}

/* The message in n pieces of memory; false: no room. */
static bool wr_pieces(struct mwr *w, struct node *n, enum piece_kind kind, uint32_t len, unsigned k, uint32_t align)
{
	struct rng *r = &w->qp->m->s.rng;
	uint32_t left = len;

	for (unsigned i = 0; i < k; i++) {
		uint32_t part = i + 1 == k ? left : rng_below(r, left + 1);
		struct region *at = region_of(n, r, kind);
		struct piece *p;

		if (kind == PIECE_SRC && rng_one_in(r, 4))
			at = &n->mem.region[REGION_RO];
		p = piece_new(at, r, kind, part, align);
		if (!p)
			return false;
		p->wr = w;
		w->loc[w->loc_n++] = p;
		left -= part;
	}
	return true;
}

static void wr_content(struct mwr *w, struct content *c)
{
	uint32_t off = 0;

	for (unsigned i = 0; i < w->loc_n; i++) {
		piece_content(w->loc[i], c, off);
		off += w->loc[i]->len;
	}
}

static uint16_t sge_fill(struct sge *sge, const struct mwr *w)
{
	for (unsigned i = 0; i < w->loc_n; i++)
		sge[i] = (struct sge){ piece_iova(w->loc[i]), w->loc[i]->len, w->loc[i]->r->key };
	return (uint16_t)w->loc_n;
}

static struct mwr *wr_new(struct mqp *q, uint32_t len)
{
	struct mwr *w = calloc(1, sizeof *w);

	if (!w)
		abort();
	w->qp = q;
	w->id = q->m->next_id++;
	w->len = len;
	return w;
}

/* ---- what each kind of WR needs ------------------------------------------ */

static bool remote_piece(struct mwr *w, const struct post *p, enum piece_kind kind, struct content *c)
{
	struct mqp *q = w->qp;
	struct rng *r = &q->m->s.rng;

	w->remote = piece_new(region_of(q->peer->node, r, kind), r, kind, p->len, p->op == WR_ATOMIC_WRITE ? 8 : 0);
	if (!w->remote)
		return false;
	piece_content(w->remote, c, 0);
	w->remote->uc = q->type == QPT_UC;
	return true;
}

static bool prepare_write(struct mwr *w, const struct post *p)
{
	struct mqp *q = w->qp;
	struct rng *r = &q->m->s.rng;
	struct content *c;
	/* UC: an old WRITE may come again behind a new one */
	bool ok, late = q->type == QPT_UC && q->m->copies;

	if (p->again && !late && q->target && q->target->len == p->len && q->target->c->ver_n < 6 && p->len) {
		w->remote = q->target;
		w->remote->ref++;
		c = q->target->c;
		w->ver = content_version(c, r);
		c->ref++;
	} else {
		c = content_new(r, p->len);
		if (!remote_piece(w, p, PIECE_DST, c)) {
			content_put(c);
			return false;
		}
		w->ver = content_version(c, r);
		if (q->target)
			piece_put(q->target);
		q->target = w->remote;
		q->target->ref++;
	}
	ok = wr_pieces(w, q->node, PIECE_SRC, p->len, p->sge_n, 0);
	if (ok)
		wr_content(w, c);
	content_put(c);
	return ok;
}

static bool prepare_read(struct mwr *w, const struct post *p)
{
	struct mqp *q = w->qp;
	struct content *c;
	bool ok;

	if (p->again && q->target && q->target->len == p->len && p->len) {
		w->remote = q->target;
		w->remote->ref++;
		c = q->target->c;
		c->ref++;
	} else {
		c = content_new(&q->m->s.rng, p->len);
		if (!remote_piece(w, p, PIECE_SRC, c)) {
			content_put(c);
			return false;
		}
	}
	ok = wr_pieces(w, q->node, PIECE_READ, p->len, p->sge_n, 0);
	if (ok)
		wr_content(w, c);
	content_put(c);
	return ok;
}

static bool prepare_send(struct mwr *w, const struct post *p)
{
	struct content *c = content_new(&w->qp->m->s.rng, p->len);
	bool ok = wr_pieces(w, w->qp->node, PIECE_SRC, p->len, p->sge_n, 0);

	if (ok)
		wr_content(w, c);
	content_put(c);
	return ok;
}

static bool prepare(struct mwr *w, const struct post *p)
{
	struct mqp *q = w->qp;
	struct model *m = q->m;

	switch (p->op) {
	case WR_WRITE:
	case WR_WRITE_IMM:
	case WR_ATOMIC_WRITE: return prepare_write(w, p);
	case WR_READ: return prepare_read(w, p);
	case WR_CMP_SWP:
	case WR_FETCH_ADD:
		w->remote = m->word[w->qp->peer->node->i][p->word % MODEL_WORDS];
		if (!w->remote->r->alive)
			w->remote = m->word[w->qp->peer->node->i][0];
		w->remote->ref++;
		w->a = rng_next(&m->s.rng);
		w->b = rng_next(&m->s.rng);
		if (p->op == WR_CMP_SWP && rng_one_in(&m->s.rng, 2))
			memcpy(&w->a, piece_bytes(w->remote), 8); /* so that some of them swap */
		return wr_pieces(w, w->qp->node, PIECE_OPEN, 8, 1, 8);
	case WR_BIND_MW:
	case WR_LOCAL_INV: return true;
	case WR_FLUSH: /* of the last WRITE's place, or of everything */
		w->remote = q->target;
		if (w->remote)
			w->remote->ref++;
		return true;
	default: return prepare_send(w, p);
	}
}

/* ---- wrong on purpose ------------------------------------------------------ */

/* A key that no region of this node has, near one that exists. */
static uint32_t key_wrong(const struct node *n, struct rng *r, uint32_t key)
{
	for (;;) {
		uint32_t k = key ^ (1 + rng_below(r, 0xffff));
		bool used = false;

		for (unsigned i = 0; i < n->mem.region_n; i++)
			used |= n->mem.region[i].key == k;
		if (!used)
			return k;
	}
}

static void spoil(struct slot *x, struct mwr *w, const struct post *p)
{
	struct node *there = w->qp->peer ? w->qp->peer->node : NULL;

	switch (p->bad) {
	case BAD_NONE: break;
	case BAD_RKEY:
		x->wr.rkey = key_wrong(there, &w->qp->m->s.rng, x->wr.rkey);
		w->expect = 1u << WC_REM_ACCESS_ERR;
		break;
	case BAD_BOUNDS:
		x->wr.remote_addr = w->remote->r->iova + w->remote->r->len - w->len + 8;
		w->expect = 1u << WC_REM_ACCESS_ERR;
		break;
	case BAD_PERM:
		x->wr.rkey = there->mem.region[REGION_LOCAL].key;
		x->wr.remote_addr = there->mem.region[REGION_LOCAL].iova;
		w->expect = 1u << WC_REM_ACCESS_ERR;
		break;
	case BAD_PD:
		x->wr.rkey = there->mem.region[REGION_PD1].key;
		x->wr.remote_addr = there->mem.region[REGION_PD1].iova;
		w->expect = 1u << WC_REM_ACCESS_ERR;
		break;
	case BAD_LKEY:
		x->sge[0].lkey = key_wrong(w->qp->node, &w->qp->m->s.rng, x->sge[0].lkey);
		w->expect = 1u << WC_LOC_PROT_ERR;
		break;
	case BAD_LBOUNDS:
		x->sge[0].addr = w->loc[0]->r->iova + w->loc[0]->r->len;
		w->expect = 1u << WC_LOC_PROT_ERR;
		break;
	case BAD_MW:
		if (p->op == WR_LOCAL_INV || p->op == WR_SEND_INV)
			x->wr.imm ^= 1;
		else if (p->op == WR_BIND_MW)
			x->wr.bind.len++;
		else
			x->wr.rkey = p->mw->key ^ 1;
		w->expect = 1u << (op_is_local(p->op) ? WC_MW_BIND_ERR : WC_REM_ACCESS_ERR);
		break;
	case BAD_ALIGN:
		x->wr.remote_addr += 4;
		w->expect = 1u << WC_REM_INV_REQ_ERR;
		break;
	}
	if (w->qp->m->quiet_bad)
		w->expect = 0;
	w->expect |= p->expect;
	if (!w->expect)
		return;
	w->qp->cause = true;
	for (unsigned i = 0; p->bad && p->op == WR_READ && i < w->loc_n; i++)
		w->loc[i]->kind = PIECE_RECV; /* part of it may be right, but is of another place */
	if (w->qp->peer && mqp_rel(w->qp)) {
		w->qp->peer->cause = true;
		w->qp->peer->rq_may |= 1u << WC_LOC_LEN_ERR | 1u << WC_REM_INV_REQ_ERR | 1u << WC_LOC_ACCESS_ERR |
				       1u << WC_LOC_PROT_ERR | 1u << WC_LOC_QP_OP_ERR | 1u << WC_REM_OP_ERR;
	}
}

/* ---- posting ----------------------------------------------------------------- */

/* Requests that go through a window, or change it; note its state. */
static void mw_fill(struct slot *x, struct mwr *w, const struct post *p)
{
	struct mmw *mw = p->mw;
	struct region *r = mw ? &mw->of->node->mem.region[REGION_ALL] : NULL;

	if (!mw || (p->op == WR_FLUSH && !w->remote) || (w->remote && (w->remote->r != r || !mmw_usable(mw, w->qp))))
		return;
	w->mw = mw;
	if (p->op == WR_BIND_MW) {
		mw->key ^= 1 + rng_below(&w->qp->m->s.rng, 255);
		x->wr.rkey = mw->key;
		x->wr.remote_addr = r->iova;
		x->wr.bind.len = r->len;
		x->wr.bind.lkey = r->key;
		x->wr.bind.access = ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC | ACC_FLUSH_GLOBAL |
				    ACC_FLUSH_PERSISTENT;
		x->wr.bind.access |= mw->zero ? ACC_ZERO_BASED : 0;
	} else if (p->op == WR_LOCAL_INV || p->op == WR_SEND_INV) {
		x->wr.imm = mw->key;
	} else {
		x->wr.rkey = mw->key;
		x->wr.remote_addr -= mw->zero ? r->iova : 0;
	}
}

static void slot_make(struct slot *x, struct mwr *w, const struct post *p, struct mqp *q)
{
	memset(x, 0, sizeof *x);
	x->wr = (struct send_wr){ .wr_id = w->id, .op = p->op, .flags = p->flags };
	x->wr.imm = w->msg ? w->msg->imm : 0;
	if (w->remote) {
		x->wr.rkey = w->remote->r->key;
		x->wr.remote_addr = piece_iova(w->remote);
	}
	if (p->op == WR_FLUSH) {
		x->wr.flush.type = 1 + rng_below(&q->m->s.rng, 3);
		x->wr.flush.level = !w->remote || (!p->bad && rng_one_in(&q->m->s.rng, 3));
		x->wr.flush.len = w->remote ? w->remote->len : 0;
		if (!w->remote)
			x->wr.rkey = q->peer->node->mem.region[REGION_ALL].key;
	}
	if (op_is_atomic(p->op)) {
		x->wr.atomic.compare_add = w->a;
		x->wr.atomic.swap = w->b;
	}
	if (q->type == QPT_XRC_SEND)
		x->wr.xrc.srqn = q->peer->srq ? q->peer->srq->srqn : 0;
	if (q->type == QPT_UD) {
		x->wr.ud.dqpn = p->to->qpn;
		x->wr.ud.qkey = p->qkey ? p->qkey : p->to->attr.qkey;
		x->wr.ud.av = (struct av){ .sgid_index = (uint8_t)p->gid, .hop_limit = 64 };
		memcpy(x->wr.ud.av.dgid, p->mgid ? p->mgid : p->to->node->gid[p->gid], 16);
		if (p->no_source)
			x->wr.ud.av.sgid_index = 9;
		if (p->mgid)
			x->wr.ud.dqpn = QPN_MCAST;
	}
	mw_fill(x, w, p);
	x->wr.sge_n = sge_fill(x->sge, w);
	spoil(x, w, p);
}

static void slot_inline(struct slot *x, struct mwr *w)
{
	uint32_t len = 0;

	x->wr.flags |= WR_INLINE;
	x->wr.sge_n = 0;
	for (unsigned i = 0; i < w->loc_n; i++) {
		memcpy((uint8_t *)x->sge + len, piece_bytes(w->loc[i]), w->loc[i]->len);
		len += w->loc[i]->len;
	}
	x->wr.inline_len = len;
}

/* A copy in the slot while the sge stay (what the library does with small sends). */
static void slot_copy(struct slot *x, struct mwr *w)
{
	uint8_t *to = (uint8_t *)&x->sge[x->wr.sge_n];
	uint32_t len = 0;

	for (unsigned i = 0; i < w->loc_n; i++) {
		memcpy(to + len, piece_bytes(w->loc[i]), w->loc[i]->len);
		len += w->loc[i]->len;
	}
	x->wr.inline_len = len;
}

static void msg_new(struct mwr *w, const struct post *p)
{
	struct mqp *q = w->qp;
	struct msg *g = calloc(1, sizeof *g);

	if (!g)
		abort();
	g->from = q;
	g->to = q->type == QPT_UD ? p->to : q->peer;
	g->len = p->len;
	g->write = p->op == WR_WRITE_IMM;
	g->has_imm = p->op == WR_SEND_IMM || p->op == WR_WRITE_IMM;
	g->inv = p->op == WR_SEND_INV;
	g->solicited = p->flags & WR_SOLICITED;
	g->imm = g->has_imm ? (uint32_t)rng_next(&q->m->s.rng) : 0;
	g->c = w->loc_n ? w->loc[0]->c : NULL;
	if (g->c)
		g->c->ref++;
	w->msg = g;
}

/* A WR that is not posted after all: what it would have written will never be there to be read. */
static void wr_undo(struct mwr *w)
{
	struct mqp *q = w->qp;

	w->mw = NULL;
	if (q->target && w->op != WR_READ)
		piece_put(q->target);
	if (w->op != WR_READ)
		q->target = NULL;
	if (w->msg) {
		content_put(w->msg->c);
		free(w->msg);
	}
	wr_free(w, true);
}

int model_send(struct mqp *q, const struct post *given)
{
	struct post p = *given;
	struct mwr *w = wr_new(q, op_is_atomic(p.op) ? 8 : p.len);
	struct slot x;
	int e;

	if (op_is_local(p.op) || p.op == WR_FLUSH)
		w->len = p.len = 0;
	if (p.op == WR_ATOMIC_WRITE) {
		w->len = p.len = 8;
		p.again = false; /* that place may not be aligned */
	}
	if (p.bad || !p.sge_n)
		p.sge_n = 1;
	w->op = p.op;
	w->signaled = q->sig_all || p.flags & WR_SIGNALED;
	w->fence = p.flags & WR_FENCE;
	if (!prepare(w, &p)) {
		wr_undo(w);
		return ENOBUFS;
	}
	if (op_takes_recv(p.op))
		msg_new(w, &p);
	slot_make(&x, w, &p, q);
	if (p.inl && p.len <= 256 && !op_waits(p.op) && !op_is_local(p.op) && p.op != WR_FLUSH) {
		if (p.bad == BAD_NONE && rng_one_in(&q->m->s.rng, 2))
			slot_inline(&x, w);
		else if (p.len <= RD_SMALL)
			slot_copy(&x, w);
	}
	if (w->msg && w->msg->inv)
		w->msg->imm = x.wr.imm;
	e = hca_post_send(q->node->hca, q->qpn, &x.wr, sim_now(&q->m->s));
	trace_note(&q->m->s, "%c QP 0x%x post wr_id %llu op %u len %u flags 0x%x%s: %d", 'A' + q->node->i, q->qpn,
		   (unsigned long long)w->id, p.op, p.len, p.flags, p.bad || p.expect ? " BAD" : "", e);
	if (e) {
		wr_undo(w);
		return e;
	}
	if (w->mw && op_is_local(p.op))
		w->mw->state = p.op == WR_BIND_MW ? MMW_BINDING : MMW_ENDING;
	else if (w->mw && p.op == WR_SEND_INV)
		w->mw->state = mqp_rel(q) ? MMW_ENDING : MMW_DEAD;
	else if (w->mw)
		w->mw->uses++;
	w->harm = q->peer ? sim_harm(&q->m->s, q->node, q->peer->node) : 0;
	w->idx = q->posted++;
	*q->sq_tail = w;
	q->sq_tail = &w->next;
	q->sq_n++;
	if (w->msg) {
		*q->msg_tail = w->msg;
		q->msg_tail = &w->msg->next;
	}
	sim_dirty(q->node);
	return 0;
}

struct rslot {
	struct recv_wr wr;
	struct sge sge[RD_MAX_SGE];
};

static struct mwr *recv_make(struct mqp *pseudo, struct node *n, struct rslot *x, uint32_t len, unsigned sge_n)
{
	struct mwr *w = wr_new(pseudo, len);

	memset(x, 0, sizeof *x);
	if (!wr_pieces(w, n, PIECE_RECV, len, sge_n ? sge_n : 1, 0)) {
		wr_free(w, true);
		return NULL;
	}
	x->wr = (struct recv_wr){ .wr_id = w->id, .sge_n = sge_fill(x->sge, w) };
	if (pseudo->m->recv_bad) {
		x->sge[0].lkey = key_wrong(n, &pseudo->m->s.rng, x->sge[0].lkey);
		pseudo->rq_may |= 1u << WC_LOC_PROT_ERR;
	}
	return w;
}

int model_recv(struct mqp *q, uint32_t len, unsigned sge_n)
{
	struct rslot x;
	struct mwr *w = recv_make(q, q->node, &x, len, sge_n);
	int e;

	if (!w)
		return ENOBUFS;
	e = hca_post_recv(q->node->hca, q->qpn, &x.wr, sim_now(&q->m->s));
	trace_note(&q->m->s, "%c QP 0x%x recv wr_id %llu len %u: %d", 'A' + q->node->i, q->qpn,
		   (unsigned long long)w->id, len, e);
	if (e) {
		wr_free(w, true);
		return e;
	}
	*q->rq_tail = w;
	q->rq_tail = &w->next;
	q->rq_n++;
	sim_dirty(q->node);
	return 0;
}

int model_srq_recv(struct msrq *srq, uint32_t len, unsigned sge_n)
{
	struct model *m = srq->node->sim->user;
	struct mqp pseudo = { .m = m };
	struct rslot x;
	struct mwr *w = recv_make(&pseudo, srq->node, &x, len, sge_n);
	int e;

	if (!w)
		return ENOBUFS;
	w->qp = NULL;
	e = hca_post_srq_recv(srq->node->hca, srq->srqn, &x.wr, sim_now(&m->s));
	trace_note(&m->s, "%c SRQ 0x%x recv wr_id %llu len %u: %d", 'A' + srq->node->i, srq->srqn,
		   (unsigned long long)w->id, len, e);
	if (e) {
		wr_free(w, true);
		return e;
	}
	w->next = srq->wr;
	srq->wr = w;
	srq->n++;
	sim_dirty(srq->node);
	return 0;
}

/* Undelivered messages of the peer that take a receive, less the receives that are there. */
unsigned model_owed(const struct mqp *q)
{
	unsigned n = 0, have = q->srq ? q->srq->n : q->rq_n;

	if (!q->peer || !mqp_rel(q))
		return 0;
	for (const struct msg *g = q->peer->msg; g; g = g->next)
		n += !g->delivered;
	return n > have ? n - have : 0;
}
