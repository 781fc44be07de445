/* SPDX-License-Identifier: MIT */
/*
 * why_key.c - the checks of mr.c and mw.c once more, slowly, for a key that did not open: which one of them said no.
 */
#include <string.h>

#include "mw.h"
#include "qp.h"

static struct mw *window(const struct keys *keys, uint32_t key) { return places_get(&keys->mw, (key & ~MW_KEY) >> 8); }

static bool inside(uint64_t base, uint64_t size, uint64_t va, uint64_t len)
{
	return va >= base && va - base <= size && len <= size - (va - base);
}

/* The checks in their order; KEY_NONE stays where the object is not there. */
static void judge(struct why_key *k, const struct pd *pd, uint32_t key_of, const struct pd *pd_of)
{
	k->key_pdn = pd_of ? pd_of->number : 0;
	k->why = key_of != k->key                           ? WHY_KEY_OLD
		 : pd_of != pd                              ? WHY_KEY_PD
		 : (k->have & k->need) != k->need           ? WHY_KEY_RIGHT
		 : !inside(k->base, k->size, k->va, k->len) ? WHY_KEY_BOUNDS
							    : WHY_NONE;
}

static void begin(struct why_key *k, uint32_t key, const struct pd *pd, uint32_t need, uint64_t va, uint64_t len)
{
	*k = (struct why_key){ .why = WHY_KEY_NONE,
			       .key = key,
			       .need = need,
			       .va = va,
			       .len = len,
			       .pdn = pd ? pd->number : 0,
			       .sge = -1 };
}

/* The key opens nothing: did it once?  Of a key of another user nothing is told. */
static void ended(const struct keys *keys, struct why_key *k, const struct pd *pd)
{
	const struct key_past *p = pd ? key_past(keys, pd->owner, k->key) : NULL;

	k->unsure = key_maybe(keys, k->key);
	if (!p)
		return;
	k->end = p->end;
	k->end_at = p->at;
	k->end_qpn = p->qpn;
	k->base = p->base;
	k->size = p->len;
	k->key_pdn = p->pdn;
	k->end_other = p->prog != pd->prog;
	k->end_prog = p->prog;
	/* Without an object: what it was of ended after it. */
	if (p->end == KEY_DEREG || p->end == KEY_DEALLOC || k->why == WHY_KEY_NONE)
		k->why = WHY_KEY_GONE;
}

static void of_mr(const struct keys *keys, struct why_key *k, uint32_t key, const struct pd *pd, uint32_t need,
		  uint64_t va, uint64_t len)
{
	const struct mr *mr = places_get(&keys->mr, key >> 8);

	begin(k, key, pd, need, va, len);
	if (!mr || mr->key != key) {
		ended(keys, k, pd);
		return;
	}
	k->have = mr->access;
	k->base = mr->iova;
	k->size = mr->len;
	judge(k, pd, mr->key, mr->pd);
}

static bool serves(const struct mw *mw, const struct qp *qp)
{
	return mw->type != 2 || mw->qp == qp || (qp->type == QPT_XRC_RECV && mw->qp && mw->qp->type == QPT_XRC_SEND);
}

void why_rkey(const struct keys *keys, const struct qp *qp, struct why_key *k, uint32_t key, const struct pd *pd,
	      uint32_t need, uint64_t va, uint64_t len)
{
	const struct mw *mw = window(keys, key);

	if (!(key & MW_KEY)) {
		of_mr(keys, k, key, pd, need, va, len);
		return;
	}
	begin(k, key, pd, need, va, len);
	if (!mw) {
		ended(keys, k, pd);
		return;
	}
	k->have = mw->access;
	k->base = mw->access & ACC_ZERO_BASED ? 0 : mw->va;
	k->size = mw->len;
	judge(k, pd, mw->key, mw->pd);
	if (!mw->mr && mw->key == key)
		k->why = WHY_KEY_UNBOUND;
	else if (k->why != WHY_KEY_OLD && k->why != WHY_KEY_PD && !serves(mw, qp)) {
		k->why = WHY_KEY_QP;
		k->qpn = mw->qp->qpn;
	}
	if (k->why == WHY_KEY_OLD || k->why == WHY_KEY_UNBOUND)
		ended(keys, k, pd);
}

void why_sges(const struct keys *keys, struct why_key *k, const struct sge *sge, unsigned n, const struct pd *pd,
	      uint32_t need, uint64_t off, uint64_t len)
{
	memset(k, 0, sizeof(*k));
	for (unsigned i = 0; i < n && len; i++) {
		uint64_t part;

		if (off >= sge[i].len) {
			off -= sge[i].len;
			continue;
		}
		part = sge[i].len - off < len ? sge[i].len - off : len;
		of_mr(keys, k, sge[i].lkey, pd, need, sge[i].addr + off, part);
		if (sge[i].addr + off < sge[i].addr)
			k->why = WHY_KEY_BOUNDS;
		k->sge = (int32_t)i;
		k->sge_n = n;
		if (k->why)
			return;
		len -= part;
		off = 0;
	}
	memset(k, 0, sizeof(*k));
}

void why_inv(const struct keys *keys, const struct qp *qp, struct why_key *k, uint32_t key)
{
	const struct mw *mw = window(keys, key);

	why_rkey(keys, qp, k, key, qp->pd, 0, mw ? mw->va : 0, 0);
	if (!(key & MW_KEY) || (mw && mw->key == key && mw->type != 2))
		k->why = WHY_KEY_TYPE;
}

void why_bind(const struct keys *keys, const struct qp *qp, struct why_key *k, const struct send_wr *wr)
{
	const struct mw *mw = wr->rkey & MW_KEY ? window(keys, wr->rkey) : NULL;
	const uint32_t writes = ACC_REMOTE_WRITE | ACC_REMOTE_ATOMIC;

	begin(k, wr->rkey, qp->pd, 0, wr->remote_addr, wr->bind.len);
	if (!mw) {
		ended(keys, k, qp->pd);
		return;
	}
	k->key_pdn = mw->pd->number;
	k->why = mw->pd != qp->pd                       ? WHY_KEY_PD
		 : mw->type == 1 && wr->rkey == mw->key ? WHY_KEY_SAME
		 : mw->type == 2 && mw->mr              ? WHY_KEY_BOUND
							: WHY_NONE;
	if (k->why)
		return;
	/* The region then: it is its key that does not open. */
	of_mr(keys, k, wr->bind.lkey, qp->pd, ACC_MW_BIND | (wr->bind.access & writes ? ACC_LOCAL_WRITE : 0),
	      wr->remote_addr, wr->bind.len);
	if (!k->why || k->why == WHY_KEY_RIGHT)
		k->why = WHY_KEY_MR;
}
