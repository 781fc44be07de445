/* SPDX-License-Identifier: MIT */
/*
 * wr_build.c - a slot of the send queue.
 *
 *	| struct send_wr | sge ... | data ... |      stride bytes
 *
 * A slot is free again when the completion of its WR, or of a later one, has been polled: that is what
 * sq_done counts.  The daemon has taken it long before, so nothing else has to be checked.
 */
#include "ah.h"
#include "wr_build.h"

#include <rdmad/wr.h>

/* TSO of UD is one of InfiniBand links (IPoIB). */
static bool op_missing(enum ibv_qp_type type, unsigned op) { return type == IBV_QPT_UD && op == WR_TSO; }

bool wr_has_data(const struct send_wr *w) { return wr_row(w->op)->data == WR_DATA_OUT; }

bool wr_flags_ok(const struct rd_qp *qp, unsigned flags)
{
	unsigned raw = qp->qp.qp_type == IBV_QPT_RAW_PACKET ? WR_IP_CSUM : 0;

	return !(flags & ~(WR_FENCE | WR_SIGNALED | WR_SOLICITED | WR_INLINE | raw));
}

static int open_check(const struct rd_qp *qp, unsigned op, unsigned flags)
{
	enum ibv_qp_state state = __atomic_load_n(&qp->qp.state, __ATOMIC_ACQUIRE);
	const struct wr_row *row = wr_row(op);

	if (state < IBV_QPS_RTS)
		return EINVAL;
	if (op_refused(qp, op))
		return EINVAL;
	if (!row || !(row->on >> qp->qp.qp_type & 1))
		return op_missing(qp->qp.qp_type, op) ? EOPNOTSUPP : EINVAL;
	if (!wr_flags_ok(qp, flags))
		return EINVAL;
	if (flags & WR_INLINE && row->data != WR_DATA_OUT)
		return EINVAL;
	if (qp->sq.pos + qp->draft.n - __atomic_load_n(&qp->sq_done, __ATOMIC_ACQUIRE) >= qp->cap.max_send_wr)
		return ENOMEM;
	return 0;
}

struct send_wr *wr_open(struct rd_qp *qp, unsigned op, uint64_t wr_id, unsigned flags, uint32_t imm, int *err)
{
	struct send_wr *w;

	*err = open_check(qp, op, flags);
	if (*err)
		return NULL;
	w = ring_slot(&qp->sq, qp->sq.pos + qp->draft.n);
	*w = (struct send_wr){ .wr_id = wr_id, .op = (uint8_t)op, .flags = (uint8_t)flags, .imm = imm };
	return w;
}

int wr_bind(struct send_wr *w, enum ibv_mw_type type, const struct ibv_mw *mw, uint32_t rkey,
	    const struct ibv_mw_bind_info *info)
{
	if (mw->type != type || (info->length && !info->mr))
		return EINVAL;
	/* Of the key asked for the low 8 bits count, as with HCAs: the others say which window it is. */
	wr_remote(w, (mw->rkey & ~0xffu) | (rkey & 0xff), info->addr);
	w->bind.len = info->length;
	w->bind.lkey = info->length ? info->mr->lkey : 0;
	w->bind.access = info->mw_access_flags;
	return 0;
}

int wr_tso(struct rd_qp *qp, struct send_wr *w, const void *hdr, uint16_t len, uint16_t mss)
{
	if (wr_tso_wrong(qp, len, mss))
		return EINVAL;
	memcpy(qp->tso_hdr, hdr, len);
	w->inline_len = len;
	w->tso.mss = mss;
	return 0;
}

void wr_ud(const struct rd_qp *qp, struct send_wr *w, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	w->ud.dqpn = qpn & QPN_MASK;
	w->ud.qkey = qkey;
	w->ud.av = to_ah(ah)->av;
	if (!pd_same(ah->pd, qp->qp.pd))
		w->ud.av.sgid_index = AV_OTHER_PD;
}

_Static_assert(sizeof(struct ibv_sge) == sizeof(struct sge), "copied as they are");

/* Than the device's longest message; what is longer than rdmad's own ends in a completion. */
static bool too_long(const struct rd_qp *qp, const struct ibv_sge *s, size_t n)
{
	uint64_t len = 0;

	if (qp->ctx->attr.max_msg >= RD_MAX_MSG)
		return false;
	for (size_t i = 0; i < n; i++)
		len += s[i].length;
	return len > qp->ctx->attr.max_msg;
}

uint32_t wr_sge_max(const struct rd_qp *qp, unsigned op)
{
	uint32_t max = qp->cap.max_send_sge;

	return op == WR_READ && max > qp->ctx->attr.max_sge_rd ? qp->ctx->attr.max_sge_rd : max;
}

int wr_sge(struct rd_qp *qp, struct send_wr *w, const struct ibv_sge *s, size_t n)
{
	if (n > wr_sge_max(qp, w->op) || too_long(qp, s, n))
		return EINVAL;
	w->sge_n = (uint16_t)n;
	if (n)
		memcpy(w + 1, s, n * sizeof(*s));
	return 0;
}

/* Puts len bytes behind those that are there; false: no room. */
static bool inline_add(struct rd_qp *qp, struct send_wr *w, const void *data, size_t len)
{
	if (len > qp->cap.max_inline - w->inline_len)
		return false;
	if (len)
		memcpy((uint8_t *)(w + 1) + w->inline_len, data, len);
	w->inline_len += (uint32_t)len;
	return true;
}

static void inline_begin(struct send_wr *w)
{
	w->flags |= WR_INLINE;
	w->sge_n = 0;
	w->inline_len = 0;
}

int wr_inline(struct rd_qp *qp, struct send_wr *w, const struct ibv_data_buf *b, size_t n)
{
	inline_begin(w);
	for (size_t i = 0; i < n; i++)
		if (!inline_add(qp, w, b[i].addr, b[i].length))
			return EINVAL;
	return 0;
}

int wr_inline_sge(struct rd_qp *qp, struct send_wr *w, const struct ibv_sge *s, size_t n)
{
	inline_begin(w);
	for (size_t i = 0; i < n; i++)
		if (!inline_add(qp, w, (const void *)(uintptr_t)s[i].addr, s[i].length))
			return EINVAL;
	return 0;
}

/*
 * Copies the data of a small send behind its sge: the daemon needs not fetch it from this process.  The data
 * belongs to the HCA from the post on, so this is not seen.  The daemon still checks the sge.  Not behind a fence: a READ or an
 * atomic before that may be what brings the data.
 */
static void small_copy(struct rd_qp *qp, struct send_wr *w)
{
	const struct sge *s = (const struct sge *)(w + 1);
	const void *from[RD_MAX_SGE];
	uint64_t room, total = 0;
	uint8_t *to = (uint8_t *)(s + w->sge_n);

	room = qp->sq.stride - sizeof(*w) - w->sge_n * sizeof(*s);
	for (unsigned i = 0; i < w->sge_n; i++) {
		total += s[i].len;
		if (total > room)
			return;
	}
	for (unsigned i = 0; i < w->sge_n && total; i++) {
		from[i] = s[i].len ? mr_bytes(qp->ctx, &qp->mr_cache, &s[i]) : to;
		if (!from[i])
			return;
	}
	for (unsigned i = 0; i < w->sge_n && total; to += s[i++].len)
		memcpy(to, from[i], s[i].len);
	w->inline_len = (uint32_t)total;
}

static bool is_open(uint32_t *end, uint32_t done)
{
	if ((int32_t)(*end - done) > 0)
		return true;
	*end = done;
	return false;
}

/* Its data is that of now, and not what a READ or an atomic brings. */
static bool is_at_hand(struct rd_qp *qp, const struct send_wr *w)
{
	uint32_t at = qp->sq.pos + qp->draft.n, done = __atomic_load_n(&qp->sq_done, __ATOMIC_ACQUIRE);

	if (is_open(&qp->sq_read, done) && wr_waits(w->op, w->flags))
		qp->sq_fence = at + 1;
	if (wr_is(w->op, WR_DATA_IN))
		qp->sq_read = at + 1;
	return !is_open(&qp->sq_fence, done);
}

void wr_close(struct rd_qp *qp, struct send_wr *w)
{
	if (is_at_hand(qp, w) && w->sge_n && w->sge_n <= RD_MAX_SGE && wr_has_data(w))
		small_copy(qp, w);
	if (wr_row(w->op)->data == WR_DATA_SPLIT)
		memcpy((struct sge *)(w + 1) + w->sge_n, qp->tso_hdr, w->inline_len);
	qp->draft.n++;
}

static uint32_t rung(struct rd_ctx *c)
{
	uint32_t n = __atomic_load_n(&c->rung.n, __ATOMIC_RELAXED) + 1;

	__atomic_store_n(&c->rung.n, n, __ATOMIC_RELAXED);
	return n;
}

void wr_publish(struct rd_qp *qp)
{
	uint32_t n = qp->draft.n;

	qp->draft.n = 0;
	if (!n)
		return;
	if (__atomic_load_n(&qp->ctx->many, __ATOMIC_RELAXED))
		RING_STORE(&qp->sq.hdr->rung, rung(qp->ctx));
	ring_publish(&qp->sq, n);
	ctx_ring(qp->ctx, qp->bell);
}

void wr_drop(struct rd_qp *qp) { qp->draft.n = 0; }
