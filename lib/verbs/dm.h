/* SPDX-License-Identifier: MIT */
/* dm.h - device memory. */
#ifndef VERBS_DM_H
#define VERBS_DM_H

#include "base.h"

struct ibv_dm *dm_alloc(struct ibv_context *, struct ibv_alloc_dm_attr *);
int dm_free(struct ibv_dm *);
struct ibv_mr *dm_reg_mr(struct ibv_pd *, struct ibv_dm *, uint64_t off, size_t len, unsigned access);

#endif
