/* SPDX-License-Identifier: MIT */
/*
 * wq.c - receive side scaling of RAW_PACKET: WQs, tables of them, and QPs whose frames are spread over a table.
 *
 * To the daemon a WQ is a RAW_PACKET QP without a packet socket; the rules of the QP that has the table (steer.c) say
 * which one gets a frame.  States of a WQ: RESET and ERR are those of its QP, RDY is the QP's RTR.
 */
#include "flow.h"
#include "pd.h"
#include "slots.h"

#include <rdmad/keep.h>

#include <stdlib.h>

static struct rd_wq *to_wq(struct ibv_wq *w) { return (struct rd_wq *)w; }
static struct rd_table *to_table(struct ibv_rwq_ind_table *t) { return (struct rd_table *)t; }

struct rd_qp *wq_qp(struct ibv_wq *w) { return to_wq(w)->qp; }

static int wq_post_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_recv(&to_wq(wq)->qp->qp, wr, bad);
}

struct ibv_wq *wq_create(struct ibv_context *context, struct ibv_wq_init_attr *a)
{
	struct ibv_qp_init_attr_ex q = { .send_cq = a->cq,
					 .recv_cq = a->cq,
					 .qp_type = IBV_QPT_RAW_PACKET,
					 .cap = { .max_recv_wr = a->max_wr, .max_recv_sge = a->max_sge },
					 .comp_mask = IBV_QP_INIT_ATTR_PD,
					 .pd = a->pd };
	struct rd_wq *w;

	if (a->wq_type != IBV_WQT_RQ || !a->pd || !a->cq)
		return err_null(EINVAL);
	if (a->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS || (a->comp_mask && a->create_flags))
		return err_null(EOPNOTSUPP);
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->qp = qp_make(context, &q, &w->wq, NULL);
	if (!w->qp) {
		free(w);
		return NULL;
	}
	w->wq = (struct ibv_wq){ .context = context,
				 .pd = a->pd,
				 .cq = a->cq,
				 .wq_num = w->qp->qp.qp_num,
				 .handle = w->qp->qp.handle,
				 .state = IBV_WQS_RESET,
				 .wq_type = a->wq_type,
				 .post_recv = wq_post_recv };
	a->max_wr = q.cap.max_recv_wr;
	a->max_sge = q.cap.max_recv_sge;
	return &w->wq;
}

int wq_destroy(struct ibv_wq *wq)
{
	struct rd_wq *w = to_wq(wq);
	int err = w->users ? EBUSY : ibv_destroy_qp(&w->qp->qp);

	if (err)
		return err;
	pthread_cond_destroy(&wq->cond);
	pthread_mutex_destroy(&wq->mutex);
	keep_free(w);
	return 0;
}

static int to_state(struct rd_wq *w, enum ibv_wq_state to)
{
	struct ibv_qp_attr a = { .qp_state = to == IBV_WQS_ERR ? IBV_QPS_ERR : IBV_QPS_RESET, .port_num = 1 };
	int err;

	if (to == w->wq.state && to == IBV_WQS_RDY)
		return 0;
	if (to != IBV_WQS_RDY)
		return w->wq.state == IBV_WQS_RESET && to == IBV_WQS_ERR ? EINVAL
									 : ibv_modify_qp(&w->qp->qp, &a, IBV_QP_STATE);
	if (w->wq.state != IBV_WQS_RESET)
		return EINVAL;
	a.qp_state = IBV_QPS_INIT;
	err = ibv_modify_qp(&w->qp->qp, &a, IBV_QP_STATE | IBV_QP_PORT);
	if (err)
		return err;
	a.qp_state = IBV_QPS_RTR;
	return ibv_modify_qp(&w->qp->qp, &a, IBV_QP_STATE);
}

int wq_modify(struct ibv_wq *wq, struct ibv_wq_attr *a)
{
	int err = 0;

	if (a->attr_mask & ~(uint32_t)(IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE))
		return EOPNOTSUPP;
	if (a->attr_mask & IBV_WQ_ATTR_CURR_STATE && a->curr_wq_state != wq->state)
		return EINVAL;
	if (a->attr_mask & IBV_WQ_ATTR_STATE) {
		err = (unsigned)a->wq_state > IBV_WQS_ERR ? EINVAL : to_state(to_wq(wq), a->wq_state);
		if (!err)
			wq->state = a->wq_state;
	}
	return err;
}

/* ---- tables -------------------------------------------------------------------------- */

struct ibv_rwq_ind_table *table_create(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *a)
{
	struct rd_table *t;

	if (a->comp_mask)
		return err_null(EOPNOTSUPP);
	if (a->log_ind_tbl_size > STEER_WQ_LOG)
		return err_null(EINVAL);
	t = calloc(1, sizeof(*t) + (sizeof(t->wq[0]) << a->log_ind_tbl_size));
	if (!t)
		return NULL;
	t->table.context = context;
	t->n = 1u << a->log_ind_tbl_size;
	pthread_mutex_lock(&flow_lock);
	for (uint32_t i = 0; i < t->n; i++) {
		t->wq[i] = to_wq(a->ind_tbl[i]);
		t->wq[i]->users++;
	}
	pthread_mutex_unlock(&flow_lock);
	return &t->table;
}

int table_destroy(struct ibv_rwq_ind_table *table)
{
	struct rd_table *t = to_table(table);
	int err;

	pthread_mutex_lock(&flow_lock);
	err = t->users ? EBUSY : 0;
	for (uint32_t i = 0; !err && i < t->n; i++)
		t->wq[i]->users--;
	pthread_mutex_unlock(&flow_lock);
	if (!err)
		keep_free(t);
	return err;
}

/* ---- a QP with a table ----------------------------------------------------------------- */

static int rss_check(const struct ibv_qp_init_attr_ex *a)
{
	const uint32_t both = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	const struct ibv_rx_hash_conf *c = &a->rx_hash_conf;

	if (a->qp_type != IBV_QPT_RAW_PACKET || qp_create_flags(a) ||
	    a->comp_mask & ~(both | IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS))
		return EOPNOTSUPP;
	if ((a->comp_mask & both) != both || !(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->rwq_ind_tbl ||
	    a->srq)
		return EINVAL;
	if (c->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ || c->rx_hash_fields_mask & ~(uint64_t)RSS_FIELDS)
		return EOPNOTSUPP;
	return c->rx_hash_key_len == STEER_KEY && c->rx_hash_key ? 0 : EINVAL;
}

struct ibv_qp *rss_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp_init_attr_ex q = { .qp_context = a->qp_context,
					 .qp_type = IBV_QPT_RAW_PACKET,
					 .pd = a->pd,
					 .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct rd_table *t = to_table(a->rwq_ind_tbl);
	int err = rss_check(a);
	struct rd_qp *qp;

	if (err)
		return err_null(err);
	/* Nothing completes on it. */
	q.send_cq = q.recv_cq = t->wq[0]->wq.cq;
	qp = qp_make(context, &q, NULL, NULL);
	if (!qp)
		return NULL;
	memcpy(qp->hash_key, a->rx_hash_conf.rx_hash_key, sizeof(qp->hash_key));
	qp->hash_fields = (uint32_t)a->rx_hash_conf.rx_hash_fields_mask;
	pthread_mutex_lock(&flow_lock);
	qp->table = t;
	t->users++;
	err = steer_update(qp, NULL);
	pthread_mutex_unlock(&flow_lock);
	if (!err)
		return &qp->qp;
	ibv_destroy_qp(&qp->qp);
	return err_null(err);
}

void rss_end(struct rd_qp *qp)
{
	if (!qp->table)
		return;
	pthread_mutex_lock(&flow_lock);
	qp->table->users--;
	pthread_mutex_unlock(&flow_lock);
}
