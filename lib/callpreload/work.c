/* SPDX-License-Identifier: MIT */
/* work.c - the requests of QPs and SRQs that are not complete. */
#include "work.h"

#include "finding.h"
#include "place.h"
#include "region.h"

#include <rdmad/wr.h>

#define AFTER_ERROR 16u

static struct places landings; /* of data that came */
static struct places sources;  /* of what was sent */
static unsigned long looked;
static uint32_t there;
static struct note *spare;

unsigned long work_looked(void) { return looked; }
bool work_there(void) { return __atomic_load_n(&there, __ATOMIC_RELAXED); }

void work_forked(void)
{
	looked = 0;
	there = 0;
}

static const char *op_name(const struct note *n)
{
	return n->recv ? "a receive" : n->reads ? "a send" : "a READ or atomic";
}

static struct queue *recvs_of(struct object *o) { return o->kind == OBJ_SRQ ? &o->srq.r : &o->qp.r; }

/* ---- queues ------------------------------------------------------------------------- */

static struct note *note_new(struct queue *q)
{
	struct note *n = spare;

	if (n)
		spare = n->next;
	else
		n = malloc(sizeof(*n));
	if (!n)
		return NULL;
	memset(n, 0, offsetof(struct note, content));
	n->seq = place_seq();
	if (q->last)
		q->last->next = n;
	else
		q->first = n;
	q->last = n;
	q->n++;
	there++;
	looked++;
	return n;
}

/* The one behind `before` (NULL: the first one) leaves the queue. */
static void note_drop(struct queue *q, struct note *before)
{
	struct note **at = before ? &before->next : &q->first, *n = *at;

	*at = n->next;
	if (q->last == n)
		q->last = before;
	q->n--;
	there--;
	n->next = spare;
	spare = n;
}

static void queue_empty(struct queue *q)
{
	while (q->first)
		note_drop(q, NULL);
}

static void queue_undo(struct queue *q, uint32_t n)
{
	struct note *last = NULL;
	uint32_t left = q->n > n ? q->n - n : 0;

	if (!left) {
		queue_empty(q);
		return;
	}
	for (last = q->first; --left;)
		last = last->next;
	while (last->next)
		note_drop(q, last);
}

/* ---- posts ---------------------------------------------------------------------------- */

/* A region of it went, and now it is complete, or there is more work. */
static void gone_tell(const struct object *o, struct note *n)
{
	const struct object *mr = NULL;

	for (int i = 0; i < n->sge_n && !(mr && mr->dead); i++)
		mr = object_number(OBJ_MR, o->context, n->sge[i].lkey);
	n->gone = false;
	if (!mr || !mr->dead)
		return;
	finding_also("deregistered by", &mr->ended);
	finding(F_DEREG_POSTED, "posted by", &n->post,
		"%s, %zu bytes at %p, was deregistered before the completion of %s of %s (wr_id %#llx) was polled",
		object_name(mr), mr->mr.len, (const void *)mr->mr.addr, op_name(n), object_name(o),
		(unsigned long long)n->wr_id);
}

static void queue_gone(struct object *o, struct queue *q)
{
	for (struct note *n = q->gone ? q->first : NULL; n; n = n->next)
		if (n->gone)
			gone_tell(o, n);
	q->gone = false;
}

static void note_memory(struct object *o, struct note *n, const struct ibv_sge *sge, int sge_n)
{
	stack_take(&n->post);
	n->sge_n = (uint8_t)(sge_n < NOTE_SGES ? sge_n : NOTE_SGES);
	region_check(o, n, sge, sge_n);
	for (int i = 0; i < n->sge_n; i++) {
		bool others = true;
		const char *at = region_at(o, &sge[i], &others);

		n->sge[i] = sge[i];
		n->content[i].at = NULL;
		n->content[i].len = sge[i].length;
		if (at && !others && (n->reads || n->recv))
			content_print(&n->content[i], at, sge[i].length);
	}
}

static void cq_expect(struct object *cq)
{
	if (cq)
		cq->cq.due++;
}

static void cq_expect_less(struct object *cq)
{
	if (cq && cq->cq.due)
		cq->cq.due--;
}

/* Behind a post: what was refused does not complete. */
static void cq_fits(struct object *cq, const struct queue *q)
{
	const struct ibv_cq *c = cq ? cq->p : NULL;

	if (!c || !q->last || cq->cq.due <= (uint32_t)c->cqe || cq->cq.told)
		return;
	cq->cq.told = true;
	finding(F_CQ_SMALL, "made by", &cq->made,
		"%s has %d entries, and with this request (wr_id %#llx) %u completions may come before it is polled",
		object_name(cq), c->cqe, (unsigned long long)q->last->wr_id, cq->cq.due);
}

/* More than that: the post fails, and the list may not be there. */
static int sges(int n, uint32_t max) { return n < 0 || (uint32_t)n > max ? 0 : n; }

void send_note(struct object *qp, const struct ibv_send_wr *wr)
{
	struct note *n;
	int sge_n = wr_is(wr->opcode, WR_DATA_NONE) ? 0 : sges(wr->num_sge, qp->qp.max_send_sge);

	queue_gone(qp, &qp->qp.s);
	n = note_new(&qp->qp.s);
	if (!n)
		return;
	n->wr_id = wr->wr_id;
	n->signaled = qp->qp.sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	n->reads = !wr_is(wr->opcode, WR_DATA_IN);
	note_memory(qp, n, wr->sg_list, wr->send_flags & IBV_SEND_INLINE ? 0 : sge_n);
	for (int i = 0; n->reads && i < sge_n; i++)
		place_add(&sources, (const char *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
	if (n->signaled)
		cq_expect(qp->qp.send_cq);
	if (qp->qp.erred && ++qp->qp.posts_after_error == AFTER_ERROR)
		finding(F_IGNORED, NULL, NULL,
			"%s: %u requests have been posted since its completion with an error was polled; none of them "
			"can succeed",
			object_name(qp), AFTER_ERROR);
}

/* The completions come to queue pairs that may be another process's, and do not tell the SRQ. */
static bool is_xrc(const struct object *o) { return o->kind == OBJ_SRQ && o->srq.xrc; }

void recv_note(struct object *of, const struct ibv_recv_wr *wr)
{
	int sge_n = sges(wr->num_sge, of->kind == OBJ_SRQ ? of->srq.max_sge : of->qp.max_recv_sge);
	struct note *n;

	if (is_xrc(of)) {
		region_check(of, &(struct note){ .wr_id = wr->wr_id, .recv = true }, wr->sg_list, sge_n);
		return;
	}
	queue_gone(of, recvs_of(of));
	n = note_new(recvs_of(of));
	if (!n)
		return;
	n->wr_id = wr->wr_id;
	n->recv = n->signaled = true;
	note_memory(of, n, wr->sg_list, sge_n);
	if (of->kind == OBJ_QP)
		cq_expect(of->qp.recv_cq);
}

static void send_undo(struct object *qp, uint32_t n)
{
	struct note *at = qp->qp.s.first;

	for (uint32_t i = 0, keep = qp->qp.s.n - n; at; at = at->next, i++)
		if (i >= keep && at->signaled)
			cq_expect_less(qp->qp.send_cq);
	looked -= n;
	queue_undo(&qp->qp.s, n);
}

void send_settle(struct object *qp, uint32_t n)
{
	if (n)
		send_undo(qp, n);
	cq_fits(qp->qp.send_cq, &qp->qp.s);
}

static void recv_undo(struct object *of, uint32_t n)
{
	for (uint32_t i = 0; of->kind == OBJ_QP && i < n; i++)
		cq_expect_less(of->qp.recv_cq);
	looked -= n;
	queue_undo(recvs_of(of), n);
}

void recv_settle(struct object *of, uint32_t n)
{
	if (is_xrc(of))
		return;
	if (n)
		recv_undo(of, n);
	if (of->kind == OBJ_QP)
		cq_fits(of->qp.recv_cq, recvs_of(of));
}

void send_full(struct object *qp)
{
	const struct note *n = qp->qp.s.first;

	for (; n; n = n->next)
		if (n->signaled)
			return;
	if (qp->qp.s.n && qp->qp.s.n >= qp->qp.max_send)
		finding(F_NEVER_SIGNALED, "the last of them posted by", &qp->qp.s.last->post,
			"%s: its send queue is full of %u requests, none of which is signaled; it stays full",
			object_name(qp), qp->qp.s.n);
}

/* ---- has memory changed? ------------------------------------------------------------------ */

struct search {
	const struct note *self;
	const char *at;
	size_t len;
	bool found;
};

static void queue_search(const struct object *o, const struct queue *q, struct search *s)
{
	for (const struct note *n = q->first; n && !s->found; n = n->next)
		for (int i = 0; n != s->self && !n->reads && i < n->sge_n; i++) {
			bool others;
			const char *at = region_at(o, &n->sge[i], &others);

			s->found |= at && overlap(at, n->sge[i].length, s->at, s->len);
		}
}

static void object_search(struct object *o, void *s)
{
	if (o->kind == OBJ_QP)
		queue_search(o, &o->qp.s, s);
	queue_search(o, recvs_of(o), s);
}

/* Data of another request may have come to lie there: then who changed it is not known. */
static bool may_have_landed(const struct note *n, const char *at, size_t len)
{
	struct search s = { n, at, len, false };

	if (place_has(&landings, n->seq, at, len))
		return true;
	object_each(OBJ_QP, object_search, &s);
	object_each(OBJ_SRQ, object_search, &s);
	return s.found;
}

/* `used` bytes of a receive are the message's. */
static void note_look(const struct object *o, const struct note *n, size_t used)
{
	for (int i = 0; i < n->sge_n; i++) {
		const struct content *c = &n->content[i];
		size_t from = n->recv && used < c->len ? used : n->recv ? c->len : 0, begin, end;
		enum content_state st;

		used -= n->recv ? from : 0;
		if (!c->at)
			continue;
		st = content_look(c, from, &begin, &end);
		if (st == CONTENT_SAME || (st == CONTENT_CHANGED && (may_have_landed(n, c->at + begin, end - begin) ||
								     region_others(c->at + begin, end - begin))))
			continue;
		/* One buffer for both: the program writes what it is about to send. */
		if (n->recv && st == CONTENT_CHANGED && place_has(&sources, n->seq, c->at + begin, end - begin))
			continue;
		if (st == CONTENT_GONE)
			finding(F_UNMAP_POSTED, "posted by", &n->post,
				"%s, wr_id %#llx: %zu bytes at %p were unmapped before its completion was polled",
				object_name(o), (unsigned long long)n->wr_id, c->len, (const void *)c->at);
		else
			finding(n->recv ? F_RECV_WRITTEN : F_SEND_CHANGED, "posted by", &n->post,
				"%s, wr_id %#llx: of %zu bytes at %p, bytes %zu to %zu have been changed between its "
				"post and its completion%s",
				object_name(o), (unsigned long long)n->wr_id, c->len, (const void *)c->at, begin,
				end - 1, n->recv ? ", and not by the message" : "");
	}
}

/* ---- completions -------------------------------------------------------------------------- */

static void note_landed(const struct object *o, const struct note *n)
{
	for (int i = 0; !n->reads && i < n->sge_n; i++) {
		bool others;
		const char *at = region_at(o, &n->sge[i], &others);

		if (at)
			place_add(&landings, at, n->sge[i].length);
	}
}

static bool queue_has(const struct queue *q, uint64_t wr_id)
{
	const struct note *n = q->first;

	while (n && n->wr_id != wr_id)
		n = n->next;
	return n;
}

/* All up to the first signaled one, or with an error up to the one that it is of. */
static void send_done(struct object *qp, const struct ibv_wc *wc)
{
	struct queue *q = &qp->qp.s;
	bool well = wc->status == IBV_WC_SUCCESS, last = false;

	if (!queue_has(q, wc->wr_id))
		return;
	while (q->first && !last) {
		struct note *n = q->first;

		last = n->wr_id == wc->wr_id && (n->signaled || !well);
		if (n->gone && wc->status != IBV_WC_WR_FLUSH_ERR)
			gone_tell(qp, n);
		if (well) {
			note_look(qp, n, 0);
			note_landed(qp, n);
		}
		if (n->signaled)
			cq_expect_less(qp->qp.send_cq);
		note_drop(q, NULL);
	}
}

static void recv_done(struct object *qp, const struct ibv_wc *wc)
{
	struct object *of = qp->qp.srq ? qp->qp.srq : qp;
	struct queue *q = recvs_of(of);
	struct note *before = NULL, *n = q->first;
	bool flush = wc->status == IBV_WC_WR_FLUSH_ERR, again = flush && qp->qp.flushed;

	while (n && n->wr_id != wc->wr_id) {
		before = n;
		n = n->next;
	}
	qp->qp.flushed = flush;
	if (!n)
		return;
	if (n->gone && !flush)
		gone_tell(of, n);
	/* Of receives that are flushed, the first may have been begun. */
	if (wc->status == IBV_WC_SUCCESS || (again && of == qp))
		note_look(of, n, flush || wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? 0 : wc->byte_len);
	if (!flush && wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
		note_landed(of, n);
	if (of == qp)
		cq_expect_less(qp->qp.recv_cq);
	note_drop(q, before);
}

void work_done(struct object *qp, const struct ibv_wc *wc)
{
	bool recv = wc->opcode & IBV_WC_RECV;
	const struct object *of = qp->qp.srq ? qp->qp.srq : qp;

	if (wc->status != IBV_WC_SUCCESS && !queue_has(recv ? recvs_of((struct object *)of) : &qp->qp.s, wc->wr_id))
		recv = !recv; /* of a failed one the opcode says nothing */
	if (wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR)
		qp->qp.erred = true;
	if (recv)
		recv_done(qp, wc);
	else
		send_done(qp, wc);
}

void work_forget(struct object *o)
{
	if (o->kind == OBJ_QP) {
		for (const struct note *n = o->qp.s.first; n; n = n->next)
			if (n->signaled)
				cq_expect_less(o->qp.send_cq);
		for (uint32_t i = 0; i < o->qp.r.n; i++)
			cq_expect_less(o->qp.recv_cq);
		queue_empty(&o->qp.s);
		o->qp.flushed = o->qp.erred = false;
		o->qp.posts_after_error = 0;
	}
	queue_empty(recvs_of(o));
}

/* ---- what goes under requests --------------------------------------------------------------- */

struct going {
	const struct object *mr; /* a region, or else memory */
	const char *at;
	size_t len;
	const struct note *note; /* that uses it */
	const struct object *of, *srq;
	bool live;
};

static bool note_uses(const struct object *o, const struct note *n, const struct going *g)
{
	for (int i = 0; i < n->sge_n; i++) {
		bool others;
		const char *at;

		if (g->mr && n->sge[i].lkey == g->mr->number && o->context == g->mr->context)
			return true;
		at = g->mr ? NULL : region_at(o, &n->sge[i], &others);
		if (at && overlap(at, n->sge[i].length, g->at, g->len))
			return true;
	}
	return false;
}

/* In an error state nothing is carried out.  The query is not for IBV_QP_STATE, which would set the program's qp->state. */
static bool is_live(const struct object *qp)
{
	static int (*query)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	if (!query)
		*(void **)&query = real_find("ibv_query_qp");
	return !qp->qp.erred && query && !query((struct ibv_qp *)(uintptr_t)qp->p, &a, IBV_QP_CUR_STATE, &init) &&
	       a.cur_qp_state >= IBV_QPS_INIT && a.cur_qp_state <= IBV_QPS_SQD;
}

static void srq_used(struct object *qp, void *arg)
{
	struct going *g = arg;

	g->live |= qp->qp.srq == g->srq && is_live(qp);
}

static void queue_going(const struct object *o, const struct queue *q, struct going *g)
{
	for (const struct note *n = q->first; n && !g->note; n = n->next)
		if (note_uses(o, n, g)) {
			g->note = n;
			g->of = o;
		}
}

static void object_going(struct object *o, void *arg)
{
	struct going *g = arg;

	if (g->note)
		return;
	if (o->kind == OBJ_QP)
		queue_going(o, &o->qp.s, g);
	queue_going(o, recvs_of(o), g);
	if (!g->note)
		return;
	g->live = o->kind == OBJ_QP && is_live(o);
	g->srq = o;
	if (o->kind == OBJ_SRQ)
		object_each(OBJ_QP, srq_used, g);
	if (!g->live)
		g->note = NULL;
}

static bool going_find(struct going *g)
{
	object_each(OBJ_QP, object_going, g);
	object_each(OBJ_SRQ, object_going, g);
	return g->note;
}

static void queue_dereg(const struct object *o, struct queue *q, const struct object *mr)
{
	const struct going g = { .mr = mr };

	for (struct note *n = q->first; n; n = n->next)
		if (note_uses(o, n, &g))
			n->gone = q->gone = true;
}

static void object_dereg(struct object *o, void *mr)
{
	if (o->kind == OBJ_QP)
		queue_dereg(o, &o->qp.s, mr);
	queue_dereg(o, recvs_of(o), mr);
}

void work_dereg(const struct object *mr)
{
	if (!there)
		return;
	object_each(OBJ_QP, object_dereg, (void *)(uintptr_t)mr);
	object_each(OBJ_SRQ, object_dereg, (void *)(uintptr_t)mr);
}

void work_unmap(const void *at, size_t len)
{
	struct going g = { .at = at, .len = len };

	if (there && going_find(&g))
		finding(F_UNMAP_POSTED, "posted by", &g.note->post,
			"munmap() of %zu bytes at %p, which %s of %s (wr_id %#llx) uses", len, at, op_name(g.note),
			object_name(g.of), (unsigned long long)g.note->wr_id);
}
