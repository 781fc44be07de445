/* SPDX-License-Identifier: MIT */
/*
 * model_check.c - the judge: every completion, event, atomic and burst passes by here.
 *
 * Nothing in this file knows of packets, PSNs or ACKs, with one exception: a burst that
 * reads memory of a fenced WR must not leave before the READs and atomics ahead of it are done.
 */
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define BIT(status) (1u << (status))

struct mqp *model_find(struct model *m, const struct node *n, uint32_t qpn)
{
	for (unsigned i = m->qp_n; i--;)
		if (m->qp[i].exists && m->qp[i].node == n && m->qp[i].qpn == qpn)
			return &m->qp[i];
	return NULL;
}

bool mmw_usable(const struct mmw *mw, const struct mqp *q)
{
	return mw->state == MMW_BOUND && mw->of->exists && !mw->of->orphaned && mw->of->peer == q;
}

/* A WR that has to do with a window is over. */
static void mw_over(struct mwr *w, bool ok)
{
	struct mmw *mw = w->mw;

	w->mw = NULL;
	if (!mw)
		return;
	if (!op_is_local(w->op) && w->op != WR_SEND_INV) {
		mw->uses--;
		if (!ok) /* a copy may be under way and find the window bound anew */
			mw->of->cause = true;
	} else if (mw->state == MMW_BINDING || mw->state == MMW_ENDING)
		mw->state = !ok ? MMW_DEAD : w->op == WR_BIND_MW ? MMW_BOUND : MMW_FREE;
}

/* The memory of a WR that is over, well or not, is the program's again; only the far end may still be
 * written. */
void wr_free(struct mwr *w, bool remote)
{
	mw_over(w, false);
	for (unsigned i = 0; i < w->loc_n; i++) {
		w->loc[i]->wr = NULL;
		piece_put(w->loc[i]);
	}
	if (remote)
		piece_put(w->remote);
	free(w);
}

void model_watch(struct mqp *q)
{
	struct qp_attr a;
	struct qp_init i;

	if (!q->exists)
		return;
	if (hca_qp_query(q->node->hca, q->qpn, &a, &i))
		sim_fail(&q->m->s, "hca_qp_query of QP 0x%x", q->qpn);
	if (a.state == q->state)
		return;
	if (a.state != QPS_ERR && !(a.state == QPS_SQE && !mqp_rel(q)))
		sim_fail(&q->m->s, "QP 0x%x went from state %u to %u by itself", q->qpn, q->state, a.state);
	cover_edge(q->type, q->state, a.state);
	q->state = a.state;
}

/* ---- the bytes -------------------------------------------------------------- */

/* Are the bytes of this piece those of some version of its content from ver on? */
static bool piece_has(const struct piece *p, unsigned ver)
{
	const uint8_t *at = piece_bytes(p);

	for (uint32_t i = 0; i < p->len; i++) {
		unsigned v = ver;

		while (v < p->c->ver_n && p->c->ver[v][p->c_off + i] != at[i])
			v++;
		if (v == p->c->ver_n)
			return false;
	}
	return true;
}

/* RC: what a successful send WR promises. */
static void wr_done_rc(struct mwr *w)
{
	struct sim *s = &w->qp->m->s;
	unsigned long long id = w->id;

	/* A slow host may not have looked yet: model_settle() asks again. */
	/* Nor does one that destroys its QP hear of what came last. */
	if (w->msg && w->msg->delivered != 1 &&
	    (w->msg->delivered || (!w->qp->peer->node->lazy && !w->qp->peer->orphaned)))
		sim_fail(s, "WR %llu succeeded, its message was delivered %u times", id, w->msg->delivered);
	if ((w->op == WR_WRITE || w->op == WR_WRITE_IMM || w->op == WR_ATOMIC_WRITE) && w->len &&
	    !piece_has(w->remote, w->ver))
		sim_fail(s, "WR %llu succeeded, but what it writes is not there", id);
	if (w->op == WR_READ)
		for (unsigned i = 0; i < w->loc_n; i++)
			if (!piece_has(w->loc[i], w->loc[i]->ver_min))
				sim_fail(s, "READ %llu succeeded without all of its bytes", id);
	if (op_is_atomic(w->op)) {
		if (w->exec_n != 1)
			sim_fail(s, "atomic %llu succeeded and was executed %u times", id, w->exec_n);
		if (w->loc[0]->value != w->orig)
			sim_fail(s, "atomic %llu returned 0x%llx, found 0x%llx", id,
				 (unsigned long long)w->loc[0]->value, (unsigned long long)w->orig);
	}
}

/* Messages that were delivered and whose sender knows need not be remembered. */
static void msg_prune(struct mqp *q)
{
	while (mqp_rel(q) && q->msg && q->msg->delivered && q->msg->known) {
		struct msg *g = q->msg;

		q->msg = g->next;
		if (!q->msg)
			q->msg_tail = &q->msg;
		content_put(g->c);
		free(g);
	}
}

static void wr_pop(struct mqp *q, bool ok)
{
	struct mwr *w = q->sq;

	if (ok && w->expect)
		sim_fail(&q->m->s, "WR %llu is wrong and succeeded", (unsigned long long)w->id);
	if (ok && mqp_rel(q))
		wr_done_rc(w);
	mw_over(w, ok);
	if (w->msg) {
		w->msg->known = true;
		w->msg->ok = ok;
	}
	q->sq = w->next;
	if (!q->sq)
		q->sq_tail = &q->sq;
	q->sq_n--;
	/* UC: packets may still be on their way to the remote piece; after an error all may be. */
	wr_free(w, ok && (mqp_rel(q) || !w->remote));
	if (ok)
		msg_prune(q);
}

/* ---- the send queue ------------------------------------------------------------ */

/* Retries are used up only by packets that came to harm since the WR is there. */
static bool retry_possible(const struct mqp *q, const struct mwr *w)
{
	const struct mqp *p = q->peer;
	uint64_t harm;

	if (!mqp_rel(q) || !p)
		return false;
	if (q->m->lenient || q->m->mem_lost)
		return true;
	if (!p->left && (!p->exists || p->cause || p->sq_err || p->rq_err || p->state < QPS_RTR || p->state == QPS_ERR))
		return true;
	harm = sim_harm(&q->m->s, q->node, p->node) - w->harm;
	return harm > q->attr.retry_cnt;
}

static uint32_t first_errors(const struct mqp *q, const struct mwr *w)
{
	uint32_t may = w->expect;

	if (retry_possible(q, w))
		may |= BIT(WC_RETRY_EXC_ERR);
	if (q->m->rnr && q->attr.rnr_retry < 7 && mqp_rel(q) && w->msg)
		may |= BIT(WC_RNR_RETRY_EXC_ERR);
	if (q->cause)
		may |= BIT(WC_WR_FLUSH_ERR);
	if (q->m->mem_lost)
		may |= BIT(WC_LOC_PROT_ERR) | BIT(WC_REM_ACCESS_ERR) | BIT(WC_REM_OP_ERR) | BIT(WC_WR_FLUSH_ERR);
	return may;
}

static uint8_t wc_op_of(uint8_t op)
{
	switch (op) {
	case WR_WRITE:
	case WR_WRITE_IMM: return WC_OP_WRITE;
	case WR_READ: return WC_OP_READ;
	case WR_CMP_SWP: return WC_OP_COMP_SWAP;
	case WR_FETCH_ADD: return WC_OP_FETCH_ADD;
	case WR_ATOMIC_WRITE: return WC_OP_ATOMIC_WRITE;
	case WR_FLUSH: return WC_OP_FLUSH;
	case WR_LOCAL_INV: return WC_OP_LOCAL_INV;
	case WR_BIND_MW: return WC_OP_BIND_MW;
	default: return WC_OP_SEND;
	}
}

static void send_cqe(struct model *m, struct mqp *q, const struct cqe *c)
{
	unsigned long long id = c->wr_id;
	bool ok = c->status == WC_SUCCESS;

	while (q->sq && q->sq->id != c->wr_id) {
		if (q->sq->signaled || q->sq_err)
			sim_fail(&m->s, "WR %llu completes before WR %llu, or twice", id,
				 (unsigned long long)q->sq->id);
		wr_pop(q, true);
	}
	if (!q->sq)
		sim_fail(&m->s, "a completion of WR %llu, which is not posted to QP 0x%x", id, q->qpn);
	if (ok && !q->sq->signaled)
		sim_fail(&m->s, "unsignaled WR %llu has a completion", id);
	if (ok && q->sq_err)
		sim_fail(&m->s, "WR %llu succeeds after an error", id);
	if (c->wqe != q->sq->idx + 1)
		sim_fail(&m->s, "WR %llu says wqe %u, is number %u", id, c->wqe, q->sq->idx + 1);
	if (c->cqn != q->send_cqn)
		sim_fail(&m->s, "WR %llu completes on CQ %u", id, c->cqn);
	if (ok) {
		if (c->op != wc_op_of(q->sq->op))
			sim_fail(&m->s, "WR %llu completes as opcode %u", id, c->op);
		if (op_waits(q->sq->op) && c->byte_len != q->sq->len)
			sim_fail(&m->s, "WR %llu: byte_len %u instead of %u", id, c->byte_len, q->sq->len);
	} else if (q->sq_err ? c->status != WC_WR_FLUSH_ERR : !(first_errors(q, q->sq) & BIT(c->status))) {
		sim_fail(&m->s, "WR %llu fails with status %u and nobody gave cause", id, c->status);
	}
	m->seen_op[c->op]++;
	wr_pop(q, ok);
	if (!ok && !q->sq_err) {
		model_watch(q);
		q->sq_err = true;
		q->cause = q->cause || mqp_rel(q);
	}
}

/* ---- the receive queue ----------------------------------------------------------- */

static void recv_mismatch(struct model *m, const struct mqp *q, const struct cqe *c)
{
	sim_fail(&m->s, "QP 0x%x receives %u bytes (op %u, imm 0x%x) that nobody sent, or not now", q->qpn, c->byte_len,
		 c->op, c->imm);
}

/* Are the bytes of the receive, from skip on, those of c? */
static bool recv_has(const struct mwr *w, const struct content *c, uint32_t len, uint32_t skip)
{
	uint32_t off = 0;

	for (unsigned i = 0; i < w->loc_n && off < skip + len; i++) {
		const struct piece *p = w->loc[i];
		uint32_t from = off < skip ? skip - off : 0;
		uint32_t to = off + p->len > skip + len ? skip + len - off : p->len;

		if (from < to && memcmp(piece_bytes(p) + from, c->ver[c->ver_n - 1] + off + from - skip, to - from))
			return false;
		off += p->len;
	}
	return off >= skip + len;
}

static bool msg_fits(const struct msg *g, const struct mqp *q, const struct mwr *w, const struct cqe *c)
{
	uint32_t grh = q->type == QPT_UD ? 40 : 0;

	if ((g->to != q && (!g->to || !g->to->group || g->to->group != q->group)) || c->byte_len != g->len + grh ||
	    c->op != (g->write ? WC_OP_RECV_IMM : WC_OP_RECV))
		return false;
	if (!(c->flags & WC_WITH_IMM) != !g->has_imm || !(c->flags & WC_WITH_INV) != !g->inv ||
	    ((g->has_imm || g->inv) && c->imm != g->imm))
		return false;
	if (!c->solicited != !g->solicited)
		return false;
	if (q->type == QPT_UD && (c->src_qp != g->from->qpn || !(c->flags & WC_GRH)))
		return false;
	return g->write || recv_has(w, g->c, g->len, grh);
}

/* Where to look for what q may receive next of this sender. */
static struct msg *msg_first(const struct model *m, struct mqp *from, const struct mqp *q)
{
	struct msg *first = from->msg;

	if (q->type == QPT_UD || (q->type == QPT_UC && m->copies))
		return first;
	for (struct msg *g = from->msg; g; g = g->next)
		if (g->to == q && g->delivered)
			first = g->next;
	return first;
}

/* RC: exactly the next message.  UC: a later one.  UD: any; UC and UD twice or late only if packets are so.
 */
static struct msg *msg_match(struct model *m, struct mqp *q, const struct mwr *w, const struct cqe *c)
{
	struct msg *g;

	if (mqp_rel(q)) {
		g = q->peer ? msg_first(m, q->peer, q) : NULL;
		return g && msg_fits(g, q, w, c) ? g : NULL;
	}
	for (unsigned i = 0; i < m->qp_n; i++)
		for (g = msg_first(m, &m->qp[i], q); g; g = g->next)
			if ((m->copies || q->group || !g->delivered) && msg_fits(g, q, w, c))
				return g;
	return NULL;
}

static void recv_bytes_once(struct model *m, const struct mwr *w, const struct cqe *c)
{
	uint32_t stored = 0, off = 0, len = c->op == WC_OP_RECV_IMM ? 0 : c->byte_len;

	for (unsigned i = 0; i < w->loc_n; i++) {
		const struct piece *p = w->loc[i];

		if (p->high > (len > off ? len - off : 0))
			sim_fail(&m->s, "receive %llu was written behind its message", (unsigned long long)w->id);
		stored += p->stored;
		off += p->len;
	}
	if (stored != len)
		sim_fail(&m->s, "receive %llu of %u bytes: %u were written", (unsigned long long)w->id, len, stored);
}

/* A UC message that was lost, a QP that is reset, give a receive WR back to the SRQ, with what was written
 * there. */
static bool recv_fresh(const struct model *m, const struct mqp *q)
{
	if (m->mem_lost)
		return false; /* a store may have ended in the middle, and was made again */
	for (unsigned i = 0; q->srq && i < m->qp_n; i++)
		if (m->qp[i].srq == q->srq && (m->qp[i].type == QPT_UC || m->qp[i].orphaned))
			return false;
	return true;
}

static void recv_good(struct model *m, struct mqp *q, struct mwr *w, const struct cqe *c)
{
	struct msg *g;

	if (q->rq_err)
		sim_fail(&m->s, "receive %llu succeeds after an error", (unsigned long long)w->id);
	g = msg_match(m, q, w, c);
	if (!g && m->strange)
		return;
	if (!g)
		recv_mismatch(m, q, c);
	if (mqp_rel(q) && recv_fresh(m, q))
		recv_bytes_once(m, w, c);
	g->delivered++;
}

static struct mwr *recv_take(struct model *m, struct mqp *q, const struct cqe *c)
{
	struct mwr **at = q->srq ? &q->srq->wr : &q->rq, *w;

	while (*at && (*at)->id != c->wr_id && q->srq)
		at = &(*at)->next;
	w = *at;
	if (!w || w->id != c->wr_id)
		sim_fail(&m->s, "QP 0x%x completes receive %llu, which is not the next one", q->qpn,
			 (unsigned long long)c->wr_id);
	*at = w->next;
	if (q->srq) {
		q->srq->n--;
	} else {
		q->rq_n--;
		if (!q->rq)
			q->rq_tail = &q->rq;
	}
	return w;
}

static void recv_cqe(struct model *m, struct mqp *q, const struct cqe *c)
{
	struct mwr *w = recv_take(m, q, c);
	uint32_t may = q->rq_may;

	if (c->srq != (q->type == QPT_XRC_RECV ? 2 : q->srq != NULL) || (q->srq && c->srqn != q->srq->srqn) ||
	    c->cqn != q->recv_cqn)
		sim_fail(&m->s, "receive %llu: srq %u, CQ %u", (unsigned long long)w->id, c->srq, c->cqn);
	if (c->status == WC_SUCCESS) {
		recv_good(m, q, w, c);
		m->seen_op[c->op]++;
		wr_free(w, true);
		return;
	}
	model_watch(q);
	if (q->type != QPT_UD && q->state != QPS_ERR && q->state != QPS_RESET)
		sim_fail(&m->s, "a receive fails and QP 0x%x is in state %u", q->qpn, q->state);
	if (m->mem_lost)
		may |= BIT(WC_LOC_PROT_ERR) | BIT(WC_LOC_ACCESS_ERR);
	if (q->rq_err || q->cause || q->sq_err || m->mem_lost)
		may |= BIT(WC_WR_FLUSH_ERR);
	if (q->rq_err)
		may = BIT(WC_WR_FLUSH_ERR);
	if (!(may & BIT(c->status)))
		sim_fail(&m->s, "receive %llu fails with status %u and nobody gave cause", (unsigned long long)w->id,
			 c->status);
	if (q->state == QPS_ERR)
		q->rq_err = q->cause = true;
	wr_free(w, false);
}

static void on_cqe(struct sim *s, struct node *n, const struct cqe *c)
{
	struct model *m = model_of(s);
	struct mqp *q = model_find(m, n, c->qpn);

	m->progress = s->now;
	m->seen[c->status]++;
	if (!q)
		sim_fail(s, "a completion of QP 0x%x, which does not exist", c->qpn);
	if (q->overrun)
		return; /* nobody can say what of it still arrives */
	if (c->is_send)
		send_cqe(m, q, c);
	else
		recv_cqe(m, q, c);
}

/* ---- the rest ---------------------------------------------------------------------- */

static void on_event(struct sim *s, struct node *n, const struct hca_event *e)
{
	struct model *m = model_of(s);
	struct mqp *q = model_find(m, n, e->number);

	switch (e->type) {
	case EV_SRQ_LIMIT:
		for (unsigned i = 0; i < m->srq_n; i++)
			if (m->srq[i].node == n && m->srq[i].srqn == e->number) {
				if (!m->srq[i].armed)
					sim_fail(s, "SRQ limit reached, which was not armed");
				m->srq[i].armed--;
				m->srq[i].limit_events++;
			}
		return;
	case EV_CQ_ERR: return;
	}
	if (!q)
		sim_fail(s, "event %u of QP 0x%x, which does not exist", e->type, e->number);
	q->events |= BIT(e->type);
	model_watch(q);
	if (e->type == EV_SQ_DRAINED) {
		if (!q->asked_drain || q->drained)
			sim_fail(s, "SQ drained, which nobody asked for");
		q->drained = true;
	} else if (e->type == EV_QP_LAST_WQE) {
		if (!q->srq || q->type == QPT_XRC_RECV || q->state != QPS_ERR || q->last_wqe)
			sim_fail(s, "last WQE event of QP 0x%x in state %u", q->qpn, q->state);
		q->last_wqe = true;
	} else if (e->type != EV_COMM_EST && !q->cause && !q->sq_err && !m->mem_lost) {
		sim_fail(s, "event %u of QP 0x%x and nobody gave cause", e->type, q->qpn);
	}
}

/* Finds the posted atomic that this was.  In order within a QP; operands are random, so they tell. */
static void on_atomic(struct sim *s, struct piece *word, bool cmp_swap, uint64_t a, uint64_t b, uint64_t old)
{
	struct model *m = model_of(s);

	trace_note(s, "%c executes an atomic: found 0x%llx", 'A' + word->r->node->i, (unsigned long long)old);
	for (unsigned i = 0; i < m->qp_n; i++)
		for (struct mwr *w = m->qp[i].sq; w; w = w->next) {
			if (w->op != (cmp_swap ? WR_CMP_SWP : WR_FETCH_ADD) || w->remote != word || w->a != a)
				continue;
			if (cmp_swap && w->b != b)
				continue;
			if (w->exec_n)
				sim_fail(s, "atomic %llu is executed again", (unsigned long long)w->id);
			w->exec_n++;
			w->orig = old;
			return;
		}
	for (unsigned i = 0; i < m->qp_n; i++)
		if (m->qp[i].cause || m->qp[i].sq_err || m->mem_lost)
			return; /* perhaps of a WR that was flushed while its packet was on the way */
	sim_fail(s, "an atomic that nobody posted, or that was done");
}

static bool wr_has_data(const struct mwr *w)
{
	for (unsigned i = 0; i < w->loc_n; i++)
		if (w->loc[i]->stored < w->loc[i]->len)
			return false;
	return true;
}

static void tx_request(struct sim *s, const struct mwr *w)
{
	if (!w->fence)
		return;
	for (const struct mwr *v = w->qp->sq; v && v != w; v = v->next)
		if (op_waits(v->op) && !wr_has_data(v))
			sim_fail(s, "fenced WR %llu leaves before %llu is done", (unsigned long long)w->id,
				 (unsigned long long)v->id);
}

static void tx_read(struct sim *s, struct node *n, const struct burst *b)
{
	struct model *m = model_of(s);
	struct mqp *q = NULL;
	unsigned out = 0;
	bool found = false;

	for (unsigned i = 0; i < m->qp_n && !q; i++)
		if (m->qp[i].exists && m->qp[i].node == n && mqp_rel(&m->qp[i]) && m->qp[i].attr.dest_qpn == b->dqpn)
			q = &m->qp[i];
	for (struct mwr *w = q ? q->sq : NULL; w; w = w->next) {
		uint64_t va;

		if (w->op != WR_READ || wr_has_data(w) || !w->len)
			continue;
		va = piece_iova(w->remote);
		if (!found && b->va >= va && b->va < va + w->len)
			w->started = found = true;
		out += w->started;
	}
	if (found && out > (q->attr.max_rd_atomic ? q->attr.max_rd_atomic : 1))
		sim_fail(s, "%u READs are outstanding, max_rd_atomic is %u", out, q->attr.max_rd_atomic);
}

static void on_tx(struct sim *s, struct node *n, const struct burst *b)
{
	uint8_t kind = opcode_get(b->op_first)->kind;

	if (kind == KIND_READ)
		tx_read(s, n, b);
	if (kind != KIND_SEND && kind != KIND_WRITE && kind != KIND_AWRITE)
		return;
	for (unsigned i = 0; i < b->span_n; i++) {
		struct piece *p;

		if (!b->span[i].region || !b->span[i].len)
			continue;
		p = arena_piece(&b->span[i]);
		if (!p || !p->wr)
			sim_fail(s, "sends %u bytes at 0x%llx of node %u, whose WR is done", b->span[i].len,
				 (unsigned long long)b->span[i].addr, n->i);
		tx_request(s, p->wr);
	}
}

const struct sim_ops model_ops = { on_cqe, on_event, on_atomic, on_tx };
