/* SPDX-License-Identifier: MIT */
/*
 * newer.h - numbers that rdma-core 45 and later have in verbs.h, for headers that lack them.  They are macros, behind
 * verbs.h, so that a header which has them as enumerators does no harm.
 */
#ifndef VERBS_NEWER_H
#define VERBS_NEWER_H

#include <infiniband/verbs.h>

#define IBV_WR_FLUSH         14
#define IBV_WC_FLUSH         8
#define IBV_QP_EX_WITH_FLUSH (1u << 11)

#endif
