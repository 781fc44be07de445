/* SPDX-License-Identifier: MIT */
/*
 * mw.c - memory windows are made, bound, invalidated, and used.
 *
 *	MR	addr |------------------------------| (its own rights are not asked for, but LOCAL_WRITE)
 *	window	         va |---- len ----|           rights of its own
 *
 * A region with windows bound to it can neither go nor change: so what was checked at the bind still holds at the access.
 */
#include "mw.h"

#include <errno.h>
#include <stdlib.h>

#include "qp.h"
#include "secret.h"

#define ACC_WINDOW                                                                                   \
	(ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC | ACC_ZERO_BASED | \
	 ACC_FLUSH_GLOBAL | ACC_FLUSH_PERSISTENT)

static uint32_t number_of(uint32_t key) { return (key & ~MW_KEY) >> 8; }

static struct mw *mw_get(const struct keys *keys, uint32_t key)
{
	return key & MW_KEY ? places_get(&keys->mw, number_of(key)) : NULL;
}

int mw_alloc(struct keys *keys, struct secret *secret, struct pd *pd, unsigned type, uint32_t *key)
{
	struct mw *mw;
	uint32_t number;

	if (!pd || (type != 1 && type != 2))
		return EINVAL;
	mw = calloc(1, sizeof(*mw));
	if (!mw || places_add(&keys->mw, secret, mw, &number)) {
		free(mw);
		return ENOMEM;
	}
	mw->key = MW_KEY | number << 8 | (secret_next(secret) & 0xff);
	mw->type = (uint8_t)type;
	mw->pd = pd;
	link_init(&mw->of_qp);
	pd->users++;
	*key = mw->key;
	return 0;
}

static void ended(struct keys *keys, const struct mw *mw, enum key_end end, uint32_t qpn, mono_t now)
{
	key_ended(keys, mw->pd,
		  &(struct key_past){
			  .key = mw->key, .end = (uint8_t)end, .at = now, .qpn = qpn, .base = mw->va, .len = mw->len });
}

static void loosen(struct mw *mw)
{
	if (mw->mr)
		mw->mr->windows--;
	mw->mr = NULL;
	mw->qp = NULL;
	link_del(&mw->of_qp);
}

static void unbind(struct keys *keys, struct mw *mw, enum key_end end, uint32_t qpn, mono_t now)
{
	if (mw->mr)
		ended(keys, mw, end, qpn, now);
	loosen(mw);
}

int mw_dealloc(struct keys *keys, uint32_t key, mono_t now)
{
	struct mw *mw = mw_get(keys, key);

	if (!mw)
		return EINVAL;
	ended(keys, mw, KEY_DEALLOC, 0, now); /* bound or not: its number is nobody's now */
	loosen(mw);
	mw->pd->users--;
	places_del(&keys->mw, number_of(key));
	free(mw);
	return 0;
}

void mw_leave(struct keys *keys, struct qp *qp, mono_t now)
{
	while (!link_empty(&qp->mws))
		unbind(keys, LINK_OF(qp->mws.next, struct mw, of_qp), KEY_QP_GONE, qp->qpn, now);
}

/* ---- binding ------------------------------------------------------------ */

static bool region_fits(const struct qp *qp, const struct mr *mr, const struct send_wr *wr)
{
	const uint32_t writes = ACC_REMOTE_WRITE | ACC_REMOTE_ATOMIC;
	uint64_t va = wr->remote_addr, len = wr->bind.len;

	if (!mr || mr->key != wr->bind.lkey || mr->pd != qp->pd || !(mr->access & ACC_MW_BIND) ||
	    (mr->access & ACC_ZERO_BASED) || (wr->bind.access & ~(uint32_t)ACC_WINDOW))
		return false;
	if ((wr->bind.access & writes) && !(mr->access & ACC_LOCAL_WRITE))
		return false;
	return va >= mr->iova && va - mr->iova <= mr->len && len <= mr->len - (va - mr->iova);
}

enum fault mw_bind(struct keys *keys, struct qp *qp, const struct send_wr *wr, mono_t now)
{
	struct mw *mw = mw_get(keys, wr->rkey);
	struct mr *mr = places_get(&keys->mr, wr->bind.lkey >> 8);

	if (!mw || mw->pd != qp->pd)
		return FAULT_SQ_BIND;
	/* Each bind of type 1 has a new key; type 2 has to be invalidated in between. */
	if (mw->type == 1 ? wr->rkey == mw->key || wr->bind.access & ACC_ZERO_BASED : mw->mr || !wr->bind.len)
		return FAULT_SQ_BIND;
	if (wr->bind.len && !region_fits(qp, mr, wr))
		return FAULT_SQ_BIND;
	unbind(keys, mw, KEY_BOUND_ANEW, qp->qpn, now);
	mw->key = wr->rkey;
	if (!wr->bind.len)
		return FAULT_NONE;
	mw->mr = mr;
	mr->windows++;
	mw->access = wr->bind.access;
	mw->va = wr->remote_addr;
	mw->len = wr->bind.len;
	if (mw->type == 2) {
		mw->qp = qp;
		link_add_tail(&qp->mws, &mw->of_qp);
	}
	return FAULT_NONE;
}

/* ---- use ---------------------------------------------------------------- */

/* The window of that key, if it is bound and qp may use it. */
static struct mw *mw_open(const struct keys *keys, const struct qp *qp, const struct pd *pd, uint32_t key)
{
	struct mw *mw = mw_get(keys, key);

	if (!mw || mw->key != key || !mw->mr || mw->pd != pd)
		return NULL;
	/* A receiving QP of XRC has no queue to bind on: the sending ones' windows are open to it. */
	if (mw->type == 2 && mw->qp != qp && !(qp->type == QPT_XRC_RECV && mw->qp->type == QPT_XRC_SEND))
		return NULL;
	return mw;
}

bool mw_may_inv(const struct keys *keys, const struct qp *qp, const struct pd *pd, uint32_t key)
{
	const struct mw *mw = mw_open(keys, qp, pd, key);

	return mw && mw->type == 2;
}

void mw_inv(struct keys *keys, const struct qp *qp, uint32_t key, mono_t now)
{
	unbind(keys, mw_get(keys, key), KEY_INVALIDATED, qp->qpn, now);
}

bool rkey_span(const struct keys *keys, const struct qp *qp, uint32_t key, const struct pd *pd, uint32_t need,
	       uint64_t va, uint64_t len, struct span *s)
{
	const struct mw *mw;
	uint64_t off;

	if (!(key & MW_KEY))
		return mr_span(keys, key, pd, need, va, len, s);
	mw = mw_open(keys, qp, pd, key);
	if (!mw || (mw->access & need) != need)
		return false;
	off = mw->access & ACC_ZERO_BASED ? va : va - mw->va;
	if (off > mw->len || len > mw->len - off)
		return false;
	*s = (struct span){ .region = mw->mr->region,
			    .addr = mw->mr->addr + (mw->va - mw->mr->iova) + off,
			    .len = (uint32_t)len };
	return true;
}

bool rkey_right(const struct keys *keys, const struct qp *qp, uint32_t key, const struct pd *pd, uint32_t need)
{
	const struct mr *mr = places_get(&keys->mr, key >> 8);
	const struct mw *mw;

	if (!(key & MW_KEY))
		return mr && mr->key == key && mr->pd == pd && (mr->access & need) == need;
	mw = mw_open(keys, qp, pd, key);
	return mw && (mw->access & need) == need;
}
