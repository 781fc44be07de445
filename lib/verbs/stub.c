/* SPDX-License-Identifier: MIT */
/*
 * stub.c - verbs that are refused.  The table is verbs.def.
 *
 * Programs call some operations without checking that they exist, so every slot holds a function.
 */
#include "ctx.h"

#define STUB_INT(slot, args, verb, what) \
	static int stub_##slot args { return EOPNOTSUPP; }
#define STUB_PTR(type, slot, args, verb, what) \
	static type stub_##slot args { return err_null(EOPNOTSUPP); }
#include "verbs.def"

void stub_ops(struct verbs_context *v)
{
#define STUB_INT(slot, args, verb, what)       v->slot = stub_##slot;
#define STUB_PTR(type, slot, args, verb, what) v->slot = stub_##slot;
#include "verbs.def"
}

/* ---- exported, and not behind a slot ------------------------------------------------ */

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *, struct ibv_ah_attr *, uint8_t[ETHERNET_LL_SIZE],
				       uint16_t *)
{
	return EOPNOTSUPP;
}
