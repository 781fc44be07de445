/* SPDX-License-Identifier: MIT */
/* mw.h - memory windows. */
#ifndef VERBS_MW_H
#define VERBS_MW_H

#include "base.h"

struct ibv_mw *mw_alloc(struct ibv_pd *, enum ibv_mw_type);
int mw_dealloc(struct ibv_mw *);
int mw_bind(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *); /* type 1 */

#endif
