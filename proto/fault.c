/* SPDX-License-Identifier: MIT */
/* fault.c - carries out a row of fault.def; see fault.h. */
#include "fault.h"

#include "aeth.h"
#include "cqe.h"
#include "hca_in.h"

#define WC_NONE       0xff
#define EV_NONE       0xff
#define HCA_STAT_NONE HCA_STATS

enum { ACT_KEEP, ACT_ERR, ACT_SQ };
enum { NAKROW_NONE, NAKROW_RNR, NAKROW_PSN_SEQ = 16, NAKROW_INV_REQ, NAKROW_REM_ACCESS, NAKROW_REM_OP };

struct row {
	const char *name, *text;
	uint8_t nak, send_wc, recv_wc, act, event, stat;
};

static const struct row rows[FAULT_END] = {
#define FAULT(name, nak, swc, rwc, act, event, stat, text) \
	[FAULT_##name] = { #name, text, NAKROW_##nak, WC_##swc, WC_##rwc, ACT_##act, EV_##event, HCA_STAT_##stat },
#include "fault.def"
#undef FAULT
};

unsigned hca_fault_n(void) { return FAULT_N; }
const char *hca_fault_name(unsigned row) { return row < FAULT_N ? rows[row + 1].name : NULL; }
const char *hca_fault_text(unsigned row) { return row < FAULT_N ? rows[row + 1].text : NULL; }
uint64_t hca_fault_count(const struct hca *h, unsigned row) { return row < FAULT_N ? h->fault[row + 1] : 0; }

static void nak(struct hca *h, struct qp *qp, const struct row *r)
{
	struct resp *p = &qp->resp;

	if (r->nak == NAKROW_NONE)
		return;
	p->nak = r->nak == NAKROW_RNR ? aeth_rnr(qp->attr.min_rnr_timer) : aeth_nak(r->nak - NAKROW_PSN_SEQ);
	p->nak_psn = p->epsn;
	p->nak_fatal = r->act == ACT_ERR;
	p->silent = true;
	p->ack = false; /* a NAK acknowledges all before it */
	if (r->nak == NAKROW_RNR)
		TRACE_PUT(h, qp, RNR_TX, .psn = p->epsn.v, .op = p->nak);
	else
		TRACE_PUT(h, qp, NAK_TX, .psn = p->epsn.v, .op = p->nak, .a = (uint32_t)(r - rows));
}

/* The state that it is in then. */
static uint8_t leads_to(const struct qp *qp, enum fault f)
{
	switch (rows[f].act) {
	case ACT_ERR: return QPS_ERR;
	case ACT_SQ: return qp_reliable(qp) ? QPS_ERR : QPS_SQE;
	}
	return qp->state;
}

/* Of the WR concerned; WC_SUCCESS: none is. */
static uint8_t status_of(const struct qp *qp, enum fault f)
{
	const struct row *r = &rows[f];

	if (r->send_wc != WC_NONE && sq_len(&qp->sq))
		return r->send_wc;
	return r->recv_wc != WC_NONE && r->recv_wc != WC_WR_FLUSH_ERR && qp->resp.wqe ? r->recv_wc : WC_SUCCESS;
}

const char *fault_text(enum fault f) { return f < FAULT_END ? rows[f].text : NULL; }

void fault_act(struct hca *h, struct qp *qp, enum fault f)
{
	const struct row *r = &rows[f];

	h->fault[f]++;
	if (r->stat != HCA_STAT_NONE)
		count(h, r->stat, 1);
	why_fault(h, qp, f, leads_to(qp, f), status_of(qp, f));
	nak(h, qp, r);
	if (r->send_wc != WC_NONE && sq_len(&qp->sq))
		sq_complete(h, qp, r->send_wc, f);
	if (r->recv_wc != WC_NONE && qp->resp.wqe) {
		struct cqe c = recv_cqe(qp, qp->resp.wqe);

		c.status = r->recv_wc;
		c.vendor_err = f;
		recv_complete(h, qp, &c);
	}
	if (r->event != EV_NONE) {
		TRACE_PUT(h, qp, EVENT, .a = r->event);
		events_raise(&h->events, &qp->ev, r->event);
	}
	if (r->act == ACT_ERR || (r->act == ACT_SQ && qp_reliable(qp)))
		qp_to_err(h, qp);
	else if (r->act == ACT_SQ)
		qp_to_sqe(h, qp);
	if (qp->resp.nak)
		qp_ready(h, qp);
}
