/* SPDX-License-Identifier: MIT */
/* ghost.c - see ghost.h. */
#include "ghost.h"

#include <errno.h>
#include <stdlib.h>

#include "aeth.h"
#include "hca_in.h"

/* So many ACK timeouts: a peer's retries, each up to four of them late (rule 4.5). */
#define LIFE_TIMEOUTS   32u
#define LIFE_MIN_NS     1000000000ull
#define LIFE_MAX_NS     60000000000ull
#define TIMEOUT_UNKNOWN 17u /* it never was in RTS: what librdmacm would have set */

static struct ghost *slot_of(const struct hca *h, uint32_t qpn)
{
	return &h->ghosts.v[qpn >> h->cfg.qpn_low_bits & (GHOSTS - 1)];
}

int ghosts_init(struct hca *h)
{
	link_init(&h->ghosts.ready);
	h->ghosts.v = calloc(GHOSTS, sizeof(*h->ghosts.v));
	return h->ghosts.v ? 0 : ENOMEM;
}

void ghosts_fini(struct hca *h) { free(h->ghosts.v); }

/*
 * The end of what was executed as a whole and answered: neither a message that came in part, nor what is
 * behind a READ or atomic whose response was not sent.
 */
static psn_t executed(const struct qp *qp, uint32_t *msn)
{
	const struct resp *r = &qp->resp;

	*msn = r->msn;
	for (uint32_t i = r->rd_cur; i != r->rd_tail; i++) {
		const struct rd *d = &r->rd[i & r->rd_mask];

		if (d->want && !d->again) {
			*msn = (d->msn - 1) & PSN_MASK;
			return d->psn;
		}
	}
	return r->kind == KIND_NONE ? r->epsn : psn_sub(r->epsn, (uint32_t)(r->off / qp->mtu));
}

static uint64_t life_ns(const struct qp *qp)
{
	uint64_t ns = LIFE_TIMEOUTS * ack_timeout_ns(qp->attr.timeout ? qp->attr.timeout : TIMEOUT_UNKNOWN);

	return ns < LIFE_MIN_NS ? LIFE_MIN_NS : ns > LIFE_MAX_NS ? LIFE_MAX_NS : ns;
}

void qp_part(struct qp *qp)
{
	if (!qp_reliable(qp) || (qp->state != QPS_RTR && qp->state != QPS_RTS && qp->state != QPS_SQD))
		return;
	qp->part.on = true;
	qp->part.end = executed(qp, &qp->part.msn);
}

void ghost_leave(struct hca *h, struct qp *qp)
{
	struct ghost *g = slot_of(h, qp->qpn);
	bool ack = qp->resp.ack; /* it was too late to be sent */

	qp_part(qp);
	if (!qp->part.on || psn_eq(qp->part.end, psn(qp->attr.rq_psn)))
		return;
	if (g->qpn)
		link_del(&g->ready);
	*g = (struct ghost){ .qpn = qp->qpn,
			     .dqpn = qp->attr.dest_qpn,
			     .svc = qp->svc,
			     .pkey = qp_pkey(h, qp),
			     .route = qp->head.route,
			     .end = qp->part.end,
			     .msn = qp->part.msn,
			     .until = mono_add(h->now, life_ns(qp)) };
	link_init(&g->ready);
	if (ack)
		link_add_tail(&h->ghosts.ready, &g->ready);
}

bool ghost_has(const struct hca *h, uint32_t qpn)
{
	const struct ghost *g = slot_of(h, qpn);

	return g->qpn == qpn && !mono_reached(h->now, g->until);
}

bool ghost_rx(struct hca *h, const struct burst *b)
{
	uint8_t kind = opcode_get(b->op_first)->kind;
	struct ghost *g = slot_of(h, b->dqpn);

	if (!ghost_has(h, b->dqpn) || SVC_OF(b->op_first) != g->svc || (kind != KIND_SEND && kind != KIND_WRITE) ||
	    !psn_before(b->psn, g->end) || !pkey_match(b->pkey, g->pkey) || !route_is_back(&b->route, &g->route) ||
	    (b->sqpn && b->sqpn != g->dqpn))
		return false;
	count(h, HCA_STAT_DUPLICATE_REQUEST, b->n);
	if (link_empty(&g->ready))
		link_add_tail(&h->ghosts.ready, &g->ready);
	return true;
}

void ghost_tx(struct hca *h, struct burst *b)
{
	struct ghost *g = LINK_OF(h->ghosts.ready.next, struct ghost, ready);

	link_del(&g->ready);
	count(h, HCA_STAT_GHOST_ACKS, 1);
	*b = (struct burst){
		.route = g->route,
		.op_first = g->svc | OP_ACKNOWLEDGE,
		.op_last = g->svc | OP_ACKNOWLEDGE,
		.migreq = true,
		.pkey = g->pkey,
		.dqpn = g->dqpn,
		.sqpn = g->qpn,
		.psn = psn_sub(g->end, 1),
		.n = 1,
		.syndrome = aeth_ack(),
		.msn = g->msn,
		.span = h->tx_span,
	};
}
