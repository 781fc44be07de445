/* SPDX-License-Identifier: MIT */
/* attr_ex.h - attributes of a QP in the newer, longer form; both libraries create QPs by that. */
#ifndef VERBS_ATTR_EX_H
#define VERBS_ATTR_EX_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <string.h>

/* The old form is how the new one begins, but for the padding at its end. */
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

#endif
