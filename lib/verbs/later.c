/* SPDX-License-Identifier: MIT */
/*
 * later.c - public symbols that do nothing, and that the headers we are built with may not have: conversions for a kernel
 * that is not there.
 */
#include "symbol.h"

/*
 * IBVERBS_1.0, "historical": the real librdmacm's conversions of kernel structures.  There is no
 * kernel behind us; that library stops at its missing device long before.
 */
SYMBOL(void, ibv_copy_path_rec_from_kern, (void *, const void *), {})
SYMBOL(void, ibv_copy_path_rec_to_kern, (void *, const void *), {})
SYMBOL(void, ibv_copy_qp_attr_from_kern, (void *, const void *), {})
SYMBOL(void, ibv_copy_ah_attr_from_kern, (void *, const void *), {})
