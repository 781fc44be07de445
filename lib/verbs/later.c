/* SPDX-License-Identifier: MIT */
/*
 * later.c - public symbols that are refused or do nothing, and that the headers we are built with may not have: verbs of
 * releases after 44, and conversions for a kernel that is not there.
 */
#include "newer.h"
#include "symbol.h"

#define NEWER_INT(name) REFUSE_INT(name)
#define NEWER_PTR(name) REFUSE_PTR(name)
#include "verbs.def"

/* Without counters all of it is 0: how much there is to be told says the caller, whose header may be newer. */
SYMBOL(int, _ibv_query_comp_cntr_caps, (struct ibv_context *, void *caps, size_t len), {
	memset(caps, 0, len);
	return EOPNOTSUPP;
})

/*
 * IBVERBS_1.0, "historical": the real librdmacm's conversions of kernel structures.  There is no
 * kernel behind us; that library stops at its missing device long before.
 */
SYMBOL(void, ibv_copy_path_rec_from_kern, (void *, const void *), {})
SYMBOL(void, ibv_copy_path_rec_to_kern, (void *, const void *), {})
SYMBOL(void, ibv_copy_qp_attr_from_kern, (void *, const void *), {})
SYMBOL(void, ibv_copy_ah_attr_from_kern, (void *, const void *), {})
