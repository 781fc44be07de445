/* SPDX-License-Identifier: MIT */
/* busy.c - an object that cannot be destroyed: which others use it. */
#include "busy.h"

#include "why.h"

#define NAMED 4u
#define LOOKS 128u /* objects in all: the data path waits meanwhile */

static const char *const names[OBJ_KINDS] = {
	[OBJ_PD] = "PD", [OBJ_MR] = "MR", [OBJ_CHANNEL] = "channel", [OBJ_CQ] = "CQ",           [OBJ_SRQ] = "SRQ",
	[OBJ_QP] = "QP", [OBJ_MW] = "MW", [OBJ_DM] = "DM",           [OBJ_XRCD] = "XRC domain",
};

static bool counts_in(const struct ctx_qp *qp, const struct dm *dm)
{
	for (unsigned op = 0; op < CNTR_OPS; op++)
		if (qp->cntr[op] == dm)
			return true;
	return false;
}

static bool qp_uses(const struct ctx_qp *qp, const struct obj *o)
{
	struct qp_info i;

	if (o->kind == OBJ_XRCD)
		return qp->xrcd == o->number;
	if (o->kind == OBJ_DM)
		return counts_in(qp, (const struct dm *)o);
	return hca_qp_info(o->ctx->hca, qp->obj.number, &i) &&
	       ((o->kind == OBJ_PD && i.pdn == o->number) || (o->kind == OBJ_SRQ && i.srqn == o->number) ||
		(o->kind == OBJ_CQ && (i.send_cqn == o->number || i.recv_cqn == o->number)));
}

static bool srq_uses(const struct obj *srq, const struct obj *o)
{
	struct srq_init a;

	return !hca_srq_query(o->ctx->hca, srq->number, &a) &&
	       ((o->kind == OBJ_PD && a.pdn == o->number) || (o->kind == OBJ_CQ && a.xrcdn && a.cqn == o->number) ||
		(o->kind == OBJ_XRCD && a.xrcdn == o->number));
}

static bool key_uses(const struct obj *key, const struct obj *o)
{
	uint32_t pdn, mr;

	return hca_key_of(o->ctx->hca, key->number, &pdn, &mr) &&
	       ((o->kind == OBJ_PD && pdn == o->number) || (o->kind == OBJ_MR && mr == o->number));
}

static bool uses(const struct obj *user, const struct obj *o)
{
	switch (user->kind) {
	case OBJ_QP: return qp_uses((const struct ctx_qp *)user, o);
	case OBJ_SRQ: return srq_uses(user, o);
	case OBJ_MR:
		return key_uses(user, o) ||
		       (o->kind == OBJ_DM && ((const struct ctx_mr *)user)->dm == (const struct dm *)o);
	case OBJ_MW: return key_uses(user, o);
	case OBJ_CQ:
		return o->kind == OBJ_CHANNEL && ((const struct ctx_cq *)user)->channel == (const struct channel *)o;
	default: return false;
	}
}

void busy_words(struct words *t, const struct obj *o)
{
	unsigned n = 0, looked = 0;

	for (unsigned kind = 0; kind < OBJ_KINDS && n <= NAMED; kind++)
		for (const struct obj *u = o->ctx->objs[kind]; u && n <= NAMED && looked < LOOKS;
		     u = u->next, looked++) {
			if (u == o || !uses(u, o) || n++ >= NAMED)
				continue;
			words_put(t, kind == OBJ_QP || kind == OBJ_MR || kind == OBJ_MW ? "%s%s 0x%x" : "%s%s %u",
				  n == 1 ? "it is used by " : ", ", names[kind], (unsigned)u->number);
		}
	if (n > NAMED)
		words_put(t, " and more");
}
