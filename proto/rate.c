/* SPDX-License-Identifier: MIT */
/* rate.c - one QP's rate: a bucket kept as a time. */
#include "rate.h"

#include "cnp.h"
#include "cong.h"
#include "hca_in.h"

#define SLICE_NS 1000000u /* what goes at once, where nothing else is said */
#define PKT_HEAD 62u      /* Ethernet, IPv4, UDP, BTH, ICRC, FCS */

static uint64_t ns_of(uint64_t bytes, uint32_t kbps) { return bytes * 8000000 / kbps; }

static uint64_t bytes_of(uint64_t ns, uint32_t kbps) { return ns * kbps / 8000000; }

/* How far next may be behind. */
static uint64_t depth_ns(const struct rate *r, uint32_t kbps) { return r->burst ? ns_of(r->burst, kbps) : SLICE_NS; }

static void recover(struct hca *h, struct qp *qp)
{
	if (qp->cong.limit)
		rate_cut(h, qp, cong_recover(&qp->cong, h->cfg.law, h->now));
}

bool rate_may(struct hca *h, struct qp *qp)
{
	struct rate *r = &qp->rate;

	if (r->cut)
		recover(h, qp);
	if (!rate_kbps(r) || !mono_before(h->now, r->next))
		return true;
	if (mono_is_never(r->timer.at))
		timer_set(&h->timers, &r->timer, r->next);
	return false;
}

uint32_t rate_fit(const struct qp *qp, uint32_t n)
{
	const struct rate *r = &qp->rate;
	uint64_t most = (r->burst ? r->burst : bytes_of(SLICE_NS, rate_kbps(r))) / (qp->mtu + PKT_HEAD);

	if (n > most)
		n = (uint32_t)most;
	return n ? n : 1;
}

/* An ACK or a CNP does not wait, and takes of what others wait for: no more than a burst's time of it. */
static void pay(struct hca *h, struct rate *r, uint32_t kbps, uint64_t len, bool waits)
{
	uint64_t depth = depth_ns(r, kbps), since = ns_since(h->now.ns, depth);

	if (!waits && mono_reached(r->next, mono_add(h->now, depth)))
		return;
	if (r->next.ns < since)
		r->next.ns = since;
	r->next = mono_add(r->next, ns_of(len, kbps));
}

void rate_sent(struct hca *h, struct qp *qp, uint32_t n, uint64_t len)
{
	struct rate *r = &qp->rate;
	uint32_t kbps = rate_kbps(r);
	bool limited, data = len, local = !qp->path || qp->path->local;

	if (data && !local && qp->head.route.tclass & ECN_BITS)
		cong_markable(&qp->cong, h->now, n);
	if (qp->type != QPT_RAW)
		len += (uint64_t)n * PKT_HEAD;
	if (kbps)
		pay(h, r, kbps, len, data);
	if (local)
		return;
	limited = qp->cong.limit;
	cong_sent(&qp->cong, h->cfg.law, h->now, len);
	if (limited)
		rate_cut(h, qp, qp->cong.limit);
}

/*
 * QPs that wait were told a time by the old rate.  What is not yet paid for is so many bytes: at a higher rate less time.  At a
 * lower one it is not more, since that much was granted.
 */
static void changed(struct hca *h, struct qp *qp, uint32_t old)
{
	struct rate *r = &qp->rate;
	uint32_t kbps = rate_kbps(r);
	uint64_t left = mono_since(r->next, h->now);

	if (left && (!kbps || kbps > old))
		r->next = mono_add(h->now, kbps ? left * old / kbps : 0);
	if (!mono_is_never(r->timer.at))
		timer_set(&h->timers, &r->timer, h->now);
}

void rate_limit(struct hca *h, struct qp *qp, uint32_t kbps, uint32_t burst)
{
	uint32_t old = rate_kbps(&qp->rate);

	qp->rate.limit = kbps;
	qp->rate.burst = burst;
	changed(h, qp, old);
}

void rate_cut(struct hca *h, struct qp *qp, uint32_t kbps)
{
	uint32_t old = rate_kbps(&qp->rate);

	if (qp->rate.cut == kbps)
		return;
	qp->rate.cut = kbps;
	changed(h, qp, old);
}

bool rate_cnp(struct hca *h, struct qp *qp)
{
	struct cong *c = &qp->cong;

	recover(h, qp);
	switch (cong_cnp(c, h->cfg.law, h->now)) {
	case CONG_CUT: break;
	case CONG_SAME: return true;
	case CONG_STRANGE: return false;
	}
	rate_cut(h, qp, c->limit);
	/* Nothing is saved up: that would be a burst now. */
	if (mono_before(qp->rate.next, h->now))
		qp->rate.next = h->now;
	return true;
}

void rate_timer(struct hca *h, struct qp *qp) { qp_ready(h, qp); }
