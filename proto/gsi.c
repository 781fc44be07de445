/* SPDX-License-Identifier: MIT */
/*
 * gsi.c - QP1 of an HCA: UD datagrams of exactly one MAD, with a Q_Key of their own (rule 7.1).
 *
 * It takes only what another QP1 sent: so no program that talks UD here can pretend to be a manager.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca_in.h"

#define OP_UD_SEND_ONLY (SVC_UD | OP_SEND_ONLY)

static struct gsi *at(struct gsi_fifo *f, uint32_t i) { return &f->v[i % GSI_FIFO]; }

int gsi_init(struct hca *h)
{
	/* Each MAD is put in as a whole before it is read. */
	h->gsi.rx.v = malloc(GSI_FIFO * sizeof(struct gsi));
	h->gsi.tx.v = malloc(GSI_FIFO * sizeof(struct gsi));
	return h->gsi.rx.v && h->gsi.tx.v ? 0 : ENOMEM;
}

void gsi_fini(struct hca *h)
{
	free(h->gsi.rx.v);
	free(h->gsi.tx.v);
}

void gsi_rx(struct hca *h, const struct burst *b)
{
	struct gsi_fifo *f = &h->gsi.rx;
	struct gsi *g = at(f, f->tail);
	struct span dst = { NULL, (uint64_t)(uintptr_t)g->mad, MAD_LEN };
	enum hca_stat why;

	if (b->op_first != OP_UD_SEND_ONLY || b->sqpn != QPN_GSI)
		why = HCA_STAT_BAD_QPN;
	else if (!pkey_match(b->pkey, PKEY_DEFAULT))
		why = HCA_STAT_BAD_PKEY;
	else if (b->qkey != QKEY_GSI)
		why = HCA_STAT_BAD_QKEY;
	else if (b->n != 1 || b->payload_len != MAD_LEN)
		why = HCA_STAT_MALFORMED;
	else if (f->tail - f->head == GSI_FIFO || rx_copy(h, &dst, 1, b))
		why = HCA_STAT_UD_DROPPED;
	else {
		g->route = b->route;
		g->sqpn = b->sqpn;
		f->tail++;
		return;
	}
	count(h, why, b->n);
}

bool hca_gsi_waits(const struct hca *h) { return h->gsi.rx.head != h->gsi.rx.tail; }

bool hca_gsi_rx(struct hca *h, struct gsi *g)
{
	struct gsi_fifo *f = &h->gsi.rx;

	if (!hca_gsi_waits(h))
		return false;
	*g = *at(f, f->head++);
	return true;
}

int hca_gsi_send(struct hca *h, const struct gsi *g)
{
	struct gsi_fifo *f = &h->gsi.tx;

	if (f->tail - f->head == GSI_FIFO)
		return ENOMEM;
	*at(f, f->tail++) = *g;
	return 0;
}

void gsi_tx(struct hca *h, struct burst *b)
{
	struct gsi_fifo *f = &h->gsi.tx;

	h->gsi.out = *at(f, f->head++);
	h->tx_span[0] = (struct span){ NULL, (uint64_t)(uintptr_t)h->gsi.out.mad, MAD_LEN };
	*b = (struct burst){
		.route = h->gsi.out.route,
		.op_first = OP_UD_SEND_ONLY,
		.op_last = OP_UD_SEND_ONLY,
		.migreq = true,
		.pkey = PKEY_DEFAULT,
		.dqpn = QPN_GSI,
		.psn = h->gsi.psn,
		.n = 1,
		.mtu = MAD_LEN,
		.qkey = QKEY_GSI,
		.sqpn = QPN_GSI,
		.payload_len = MAD_LEN,
		.span = h->tx_span,
		.span_n = 1,
	};
	h->gsi.psn = psn_add(h->gsi.psn, 1);
}
