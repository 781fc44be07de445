/* SPDX-License-Identifier: MIT */
/*
 * ctx_obj.c - the objects of a context: made in the HCA and entered here, or neither.
 *
 * All in the shard's thread.  Other objects that a message names are looked up here, so that what is checked
 * is what is used.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/clock.h"
#include "ctx_obj.h"
#include "drain.h"
#include "hooks.h"
#include "peers.h"
#include "publish.h"
#include "raw.h"
#include "tap.h"

/* Queues lie where others were. */
static void ring_make(struct ring *r, uint8_t *mem, uint32_t slots, uint32_t stride)
{
	*(struct ring_hdr *)(void *)mem = (struct ring_hdr){ .slots = slots, .stride = stride };
	ring_attach(r, mem, slots, stride);
}

/* ---- bell numbers ------------------------------------------------------------ */

/* A free bell number; 0 or ENOMEM. */
static int bell_take_number(struct ctx *c, uint32_t *number)
{
	uint32_t i;

	if (c->queue_used == c->queue_n) {
		uint32_t wide = c->queue_n ? c->queue_n * 2 : 64;
		struct bell_queue *q;

		if (wide > BELL_QUEUES)
			return ENOMEM;
		q = realloc(c->queue, wide * sizeof(*q));
		if (!q)
			return ENOMEM;
		memset(q + c->queue_n, 0, (wide - c->queue_n) * sizeof(*q));
		c->queue_free = c->queue_n;
		c->queue = q;
		c->queue_n = wide;
	}
	for (i = c->queue_free; c->queue[i].qp || c->queue[i].srq; i++)
		;
	c->queue_free = i + 1;
	c->queue_used++;
	*number = i;
	return 0;
}

static void bell_give_back(struct ctx *c, uint32_t number)
{
	c->queue[number] = (struct bell_queue){ 0 };
	c->queue_used--;
	if (number < c->queue_free)
		c->queue_free = number;
}

/* ---- pd, mr, mw, dm, channel -------------------------------------------------- */

int pd_make(struct ctx *c, struct ctx_pd *pd)
{
	uint32_t pdn;
	int err = hca_pd_alloc(c->hca, &pdn);

	if (err)
		return err;
	hca_pd_owner(c->hca, pdn, c->uid, prog_number(c->pid, c->id));
	err = obj_add(c, &pd->obj, OBJ_PD, pdn);
	if (err)
		hca_pd_free(c->hca, pdn);
	return err;
}

static struct mr_attr mr_attr(const struct msg_req *req, struct region *region)
{
	struct mr_attr a = {
		.pdn = req->mr.pd,
		.access = req->mr.access,
		.addr = req->mr.addr,
		.len = req->mr.len,
		.iova = req->mr.iova,
		.region = region,
	};

	if (req->mr.kind == MR_NULL) {
		a.addr = a.iova = 0;
		a.len = UINT64_MAX;
	} else if (req->mr.kind != MR_MEM) {
		a.addr = req->mr.map_off; /* as region_new_fd() was told */
	}
	return a;
}

int mr_change(struct ctx *c, const struct msg_req *req, struct ctx_mr *with)
{
	struct ctx_mr *mr = (struct ctx_mr *)obj_get(c, OBJ_MR, req->mr.handle);
	struct mr_attr attr = mr_attr(req, with->region);
	struct ctx_mr old;
	int err;

	if (!mr || mr->dm || !obj_get(c, OBJ_PD, attr.pdn))
		return EINVAL;
	err = hca_mr_rereg(c->hca, mr->obj.number, &attr);
	if (err)
		return err;
	old = *mr;
	mr->region = with->region;
	mr->peer = with->peer;
	mr->addr = attr.addr;
	mr->len = attr.len;
	mr->obj.bill = with->obj.bill;
	with->region = old.region;
	with->peer = old.peer;
	with->obj.bill = old.obj.bill;
	return 0;
}

int mr_make(struct ctx *c, struct ctx_mr *mr, const struct msg_req *req)
{
	struct mr_attr attr = mr_attr(req, mr->region);
	uint32_t key;
	int err;

	if (!obj_get(c, OBJ_PD, attr.pdn))
		return EINVAL;
	err = hca_mr_reg(c->hca, &attr, &key);
	if (err)
		return err;
	mr->addr = attr.addr;
	mr->len = attr.len;
	err = obj_add(c, &mr->obj, OBJ_MR, key);
	if (err)
		hca_mr_dereg(c->hca, key);
	else if (mr->dm)
		mr->dm->users++;
	return err;
}

int mw_make(struct ctx *c, struct ctx_mw *mw, const struct msg_req *req, uint32_t *key)
{
	int err = obj_get(c, OBJ_PD, req->mw.pd) ? hca_mw_alloc(c->hca, req->mw.pd, req->mw.type, key) : EINVAL;

	if (err)
		return err;
	err = obj_add(c, &mw->obj, OBJ_MW, *key);
	if (err)
		hca_mw_dealloc(c->hca, *key);
	return err;
}

int dm_make(struct ctx *c, struct dm *dm)
{
	static uint32_t last; /* atomic; of all shards */
	uint32_t number;

	if (dm->shm.len > DM_LEN_MAX - c->family->dm_len)
		return ENOMEM;
	do
		number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	while (!number || obj_find(c->shard, OBJ_DM, c->dev->index, number));
	if (obj_add(c, &dm->obj, OBJ_DM, number))
		return ENOMEM;
	c->family->dm_len += dm->shm.len;
	return 0;
}

int channel_make(struct ctx *c, struct channel *ch)
{
	link_init(&ch->due);
	while (!++c->channel_last || obj_get(c, OBJ_CHANNEL, c->channel_last))
		;
	return obj_add(c, &ch->obj, OBJ_CHANNEL, c->channel_last);
}

/* ---- cq ---------------------------------------------------------------------- */

static void cq_ring_make(struct ctx_cq *cq, uint32_t slots)
{
	ring_make(&cq->ring, cq->shm.mem, slots, sizeof(struct cqe));
}

int cq_make(struct ctx *c, struct ctx_cq *cq, const struct msg_req *req, uint32_t slots)
{
	uint32_t cqn;
	int err;

	if (req->cq.channel) {
		cq->channel = (struct channel *)obj_get(c, OBJ_CHANNEL, req->cq.channel);
		if (!cq->channel)
			return EINVAL;
	}
	if (heap_reserve(&c->shard->moderated, c->shard->cq_n + 1))
		return ENOMEM;
	link_init(&cq->in_due);
	timer_init(&cq->mod.timer);
	cq->cookie = req->cq.cookie;
	cq->times = req->cq.times;
	cq_ring_make(cq, slots);
	err = hca_cq_create(c->hca, slots, &cqn);
	if (err)
		return err;
	err = obj_add(c, &cq->obj, OBJ_CQ, cqn);
	if (err) {
		hca_cq_destroy(c->hca, cqn);
		return err;
	}
	c->shard->cq_n++;
	if (cq->channel)
		cq->channel->cq_n++;
	return 0;
}

/* It keeps the piece that it began with: the program may have to poll what is in there. */
void cq_swap(struct ctx_cq *cq, struct shmem *old)
{
	struct shmem *unused = cq->shm.slab ? &cq->piece : old;
	struct ring_hdr *was = cq->ring.hdr;

	publish_kept(cq);
	*unused = cq->shm;
	cq->shm = cq->next;
	cq->next = (struct shmem){ .fd = -1 };
	cq->wakes = 0;
	cq_ring_make(cq, cq->next_slots);
	RING_STORE(&cq->ring.hdr->arm, RING_LOAD(&was->arm));
	RING_STORE(&cq->ring.hdr->err, RING_LOAD(&was->err));
}

/* ---- xrc ------------------------------------------------------------------------ */

void xrcd_use(const struct ctx *c, uint32_t number, int n)
{
	struct ctx_xrcd *x = (struct ctx_xrcd *)obj_get(c, OBJ_XRCD, number);

	if (x)
		x->part->users += (unsigned)n;
}

/* ---- srq ----------------------------------------------------------------------- */

static void recv_queue_make(struct recv_queue *rq, uint8_t *mem, uint32_t slots, uint32_t stride)
{
	rq->slots = slots;
	ring_make(&rq->ring, mem, slots, stride);
}

int srq_make(struct ctx *c, struct ctx_srq *srq, const struct msg_req *req, uint32_t slots, uint32_t stride)
{
	struct srq_init init = {
		.pdn = req->srq.pd,
		.max_wr = req->srq.max_wr,
		.max_sge = req->srq.max_sge,
		.limit = req->srq.limit,
		.xrcdn = req->srq.xrcd,
		.cqn = req->srq.cq,
	};
	uint32_t srqn;
	int err;

	if (!obj_get(c, OBJ_PD, init.pdn) ||
	    (init.xrcdn && (!obj_get(c, OBJ_XRCD, init.xrcdn) || !obj_get(c, OBJ_CQ, init.cqn))))
		return EINVAL;
	err = bell_take_number(c, &srq->bell);
	if (err)
		return err;
	c->queue[srq->bell].srq = srq;
	srq->cookie = req->srq.cookie;
	srq->xrcd = init.xrcdn;
	recv_queue_make(&srq->rq, srq->shm.mem, slots, stride);
	init.done = &srq->rq.ring.hdr->done;
	err = hca_srq_create(c->hca, &init, &srqn);
	if (!err) {
		err = obj_add(c, &srq->obj, OBJ_SRQ, srqn);
		if (err)
			hca_srq_destroy(c->hca, srqn);
	}
	if (err)
		bell_give_back(c, srq->bell);
	else if (srq->xrcd)
		xrcd_use(c, srq->xrcd, 1);
	return err;
}

/* ---- qp ------------------------------------------------------------------------ */

/* A receiving QP of XRC has neither queues nor a PD. */
static int target_make(struct ctx *c, struct ctx_qp *qp, const struct msg_req *req)
{
	struct qp_init init = { .type = QPT_XRC_RECV, .owner = c->uid, .xrcdn = req->qp.xrcd };
	uint32_t qpn;
	int err = obj_get(c, OBJ_XRCD, init.xrcdn) ? hca_qp_create(c->hca, &init, &qpn) : EINVAL;

	if (err)
		return err;
	qp->xrcd = init.xrcdn;
	qp->cookie = req->qp.cookie;
	peers_set(qpn, 0);
	err = obj_add(c, &qp->obj, OBJ_QP, qpn);
	if (err) {
		hca_qp_destroy(c->hca, qpn);
		return err;
	}
	xrcd_use(c, qp->xrcd, 1);
	qp->nth = ++c->dev->qp_made;
	return 0;
}

int qp_make(struct ctx *c, struct ctx_qp *qp, const struct msg_req *req, const struct qp_rings *r)
{
	struct qp_init init = {
		.type = (uint8_t)req->qp.type,
		.sq_sig_all = req->qp.sq_sig_all,
		.not_own = req->qp.not_own,
		.owner = c->uid,
		.pdn = req->qp.pd,
		.send_cqn = req->qp.send_cq,
		.recv_cqn = req->qp.recv_cq,
		.srqn = req->qp.srq,
		.cap = qp->cap,
	};
	uint32_t qpn;
	int err;

	if (init.type == QPT_XRC_RECV)
		return target_make(c, qp, req);
	if (!obj_get(c, OBJ_PD, init.pdn) || !obj_get(c, OBJ_CQ, init.send_cqn) ||
	    (init.type == QPT_XRC_SEND ? init.recv_cqn || init.srqn : !obj_get(c, OBJ_CQ, init.recv_cqn)) ||
	    (init.srqn && !obj_get(c, OBJ_SRQ, init.srqn)))
		return EINVAL;
	err = bell_take_number(c, &qp->bell);
	if (err)
		return err;
	c->queue[qp->bell].qp = qp;
	qp->cookie = req->qp.cookie;
	ring_make(&qp->sq, qp->shm.mem, r->sq_slots, r->sq_stride);
	init.cap.max_inline = slot_inline(r);
	if (r->rq_slots)
		recv_queue_make(&qp->rq, qp->shm.mem + r->rq_off, r->rq_slots, r->rq_stride);
	err = hca_qp_create(c->hca, &init, &qpn);
	if (!err) {
		peers_set(qpn, 0);
		err = obj_add(c, &qp->obj, OBJ_QP, qpn);
		if (err)
			hca_qp_destroy(c->hca, qpn);
	}
	if (!err && qp->raw) {
		err = raw_begin(qp);
		if (err) {
			raw_end(qp);
			obj_del(&qp->obj);
			hca_qp_destroy(c->hca, qpn);
		}
	}
	if (err) {
		bell_give_back(c, qp->bell);
		return err;
	}
	qp->nth = ++c->dev->qp_made;
	qp_hint(qp);
	return 0;
}

int qp_change(struct ctx *c, struct ctx_qp *qp, const struct qp_attr *attr, uint32_t mask)
{
	bool reset = (mask & QPA_STATE) && attr->state == QPS_RESET;
	int err;

	/* All that the program posted before it asked for another state was posted in the state before. */
	if (mask & QPA_STATE)
		drain_qp(qp, clock_now());
	publish_kept_of(c, qp->obj.number);
	err = hca_qp_modify(c->hca, qp->obj.number, attr, mask, clock_now());
	if (!err && mask & QPA_DEST_QPN)
		peers_set(qp->obj.number, attr->dest_qpn);
	if (!err && reset)
		tap_qp_gone(c->shard, c->dev->index, qp->obj.number);
	if (!err && reset && !qp->xrcd)
		drain_drop(qp);
	if (!err)
		qp_hint(qp);
	return err;
}

/* The memory may be of this context only: it is there as long as its QPs. */
int qp_count(struct ctx *c, const struct msg_req *req)
{
	struct ctx_qp *qp = (struct ctx_qp *)obj_get(c, OBJ_QP, req->count.qpn);
	struct dm *dm = (struct dm *)obj_get(c, OBJ_DM, req->count.dm);
	const uint64_t off = req->count.off, len = sizeof(struct comp_cntr);
	int err;

	if (!qp || !dm || dm->obj.ctx != c || dm->shm.len < len || off > dm->shm.len - len || off % len ||
	    req->count.bytes > 1)
		return EINVAL;
	if (qp->xrcd || qp->raw) /* other programs hold it, too; the library does the work */
		return EOPNOTSUPP;
	err = hca_qp_count(c->hca, qp->obj.number, req->count.ops, req->count.bytes,
			   (struct comp_cntr *)(void *)(dm->shm.mem + off));
	for (unsigned op = 0; !err && op < CNTR_OPS; op++) {
		if (!(req->count.ops >> op & 1))
			continue;
		qp->cntr[op] = dm;
		dm->users++;
	}
	return err;
}

/* ---- destruction ----------------------------------------------------------------- */

/* Does another program hold the same QP? */
static bool qp_held(const struct obj *o)
{
	const struct obj *first = ((const struct ctx_qp *)o)->xrcd
					  ? obj_find(o->ctx->shard, OBJ_QP, o->ctx->dev->index, o->number)
					  : o;

	return first != o || obj_other(o);
}

static int qp_end(struct obj *o)
{
	struct ctx *c = o->ctx;

	if (qp_held(o))
		return 0;
	return c->lost ? hca_qp_destroy(c->hca, o->number) : hca_qp_retire(c->hca, o->number, clock_now());
}

int obj_destroy(struct obj *o)
{
	struct ctx *c = o->ctx;
	struct ctx_cq *cq;
	int err = 0;

	hca_time(c->hca, clock_now());
	switch (o->kind) {
	case OBJ_PD: err = hca_pd_free(c->hca, o->number); break;
	case OBJ_MR: err = hca_mr_dereg(c->hca, o->number); break;
	case OBJ_MW: err = hca_mw_dealloc(c->hca, o->number); break;
	case OBJ_DM: err = ((struct dm *)o)->users ? EBUSY : 0; break;
	case OBJ_CHANNEL: err = ((struct channel *)o)->cq_n ? EBUSY : 0; break;
	case OBJ_CQ: err = hca_cq_destroy(c->hca, o->number); break;
	case OBJ_SRQ: err = hca_srq_destroy(c->hca, o->number); break;
	case OBJ_QP:
		publish_kept_of(c, o->number);
		err = qp_end(o);
		break;
	case OBJ_XRCD: err = hooks.xrcd_drop((struct ctx_xrcd *)o); break;
	case OBJ_KINDS: return EINVAL;
	}
	if (err)
		return err;
	switch (o->kind) {
	case OBJ_MR:
		if (((struct ctx_mr *)o)->dm)
			((struct ctx_mr *)o)->dm->users--;
		break;
	case OBJ_DM: c->family->dm_len -= ((struct dm *)o)->shm.len; break;
	case OBJ_CQ:
		cq = (struct ctx_cq *)o;
		publish_forget_cq(cq);
		c->shard->cq_n--;
		if (cq->channel)
			cq->channel->cq_n--;
		break;
	case OBJ_SRQ:
		if (((struct ctx_srq *)o)->xrcd)
			xrcd_use(c, ((struct ctx_srq *)o)->xrcd, -1);
		bell_give_back(c, ((struct ctx_srq *)o)->bell);
		break;
	case OBJ_QP:
		for (unsigned op = 0; op < CNTR_OPS; op++)
			if (((struct ctx_qp *)o)->cntr[op])
				((struct ctx_qp *)o)->cntr[op]->users--;
		raw_end((struct ctx_qp *)o);
		tap_qp_gone(c->shard, c->dev->index, o->number);
		if (((struct ctx_qp *)o)->xrcd)
			xrcd_use(c, ((struct ctx_qp *)o)->xrcd, -1);
		else
			bell_give_back(c, ((struct ctx_qp *)o)->bell);
		break;
	default: break;
	}
	obj_del(o);
	return 0;
}

void obj_drop(struct obj *o)
{
	bill_close(&o->bill);
	free(o);
}

void obj_lost(const struct obj *o)
{
	switch (o->kind) {
	case OBJ_CQ: slab_lost(&((const struct ctx_cq *)o)->shm); break;
	case OBJ_SRQ: slab_lost(&((const struct ctx_srq *)o)->shm); break;
	case OBJ_QP: slab_lost(&((const struct ctx_qp *)o)->shm); break;
	default: break;
	}
}

uint64_t obj_release(struct obj *o)
{
	uint64_t slab = 0, of_piece;

	switch (o->kind) {
	case OBJ_MR:
		region_free(((struct ctx_mr *)o)->region);
		peer_drop(((struct ctx_mr *)o)->peer);
		break;
	case OBJ_DM: shmem_free(&((struct dm *)o)->shm); break;
	case OBJ_CHANNEL: close(((struct channel *)o)->out.fd); break;
	case OBJ_CQ:
		shmem_give(&((struct ctx_cq *)o)->next, o->ctx->uid, NULL);
		if (!((struct ctx_cq *)o)->shm.slab) /* the bill is over when both are */
			shmem_give(&((struct ctx_cq *)o)->shm, o->ctx->uid, &o->bill);
		of_piece = slab_give(&((struct ctx_cq *)o)->piece);
		slab = slab_give(&((struct ctx_cq *)o)->shm);
		slab = slab ? slab : of_piece; /* only one of the two is a piece */
		break;
	case OBJ_SRQ: slab = slab_give(&((struct ctx_srq *)o)->shm); break;
	case OBJ_QP:
		slab = slab_give(&((struct ctx_qp *)o)->shm);
		raw_free(((struct ctx_qp *)o)->raw);
		hooks.mcast_forget((struct ctx_qp *)o);
		break;
	default: break;
	}
	obj_drop(o);
	return slab;
}
