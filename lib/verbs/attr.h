/* SPDX-License-Identifier: MIT */
/* attr.h - attributes of QPs and addresses from one form into another, as both libraries need it. */
#ifndef VERBS_ATTR_H
#define VERBS_ATTR_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <string.h>

#include <rdmad/abi.h>

/* The new form begins like the old one, without the padding at the old one's end. */
#define QP_ATTR_LEN offsetof(struct ibv_qp_init_attr_ex, comp_mask)
_Static_assert(offsetof(struct ibv_qp_init_attr, sq_sig_all) + sizeof(int) == QP_ATTR_LEN,
	       "one form begins as the other");

static inline struct ibv_qp_init_attr_ex qp_attr_ex(const struct ibv_qp_init_attr *a, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr_ex ex = { 0 };

	memcpy(&ex, a, QP_ATTR_LEN);
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd;
	return ex;
}

static inline void av_to_attr(const struct av *av, uint8_t port, struct ibv_ah_attr *a)
{
	memset(a, 0, sizeof(*a));
	memcpy(a->grh.dgid.raw, av->dgid, sizeof(av->dgid));
	a->grh.flow_label = av->flow_label;
	a->grh.sgid_index = av->sgid_index;
	a->grh.hop_limit = av->hop_limit;
	a->grh.traffic_class = av->tclass;
	a->sl = av->sl;
	a->is_global = 1;
	a->port_num = port;
}

/* A QP's attributes from a message, without its states, its address and those that only ibv_query_qp() shows. */
static inline void qp_attr_from(struct ibv_qp_attr *a, const struct qp_attr *m)
{
	memset(a, 0, sizeof(*a));
	a->path_mtu = m->path_mtu;
	a->path_mig_state = IBV_MIG_MIGRATED;
	a->qkey = m->qkey;
	a->rq_psn = m->rq_psn;
	a->sq_psn = m->sq_psn;
	a->dest_qp_num = m->dest_qpn;
	a->qp_access_flags = m->access;
	a->pkey_index = m->pkey_index;
	a->max_rd_atomic = m->max_rd_atomic;
	a->max_dest_rd_atomic = m->max_dest_rd_atomic;
	a->min_rnr_timer = m->min_rnr_timer;
	a->port_num = m->port;
	a->timeout = m->timeout;
	a->retry_cnt = m->retry_cnt;
	a->rnr_retry = m->rnr_retry;
}

#endif
