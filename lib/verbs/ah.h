/* SPDX-License-Identifier: MIT */
/* ah.h - address handles, and the addresses in them. */
#ifndef VERBS_AH_H
#define VERBS_AH_H

#include <rdmad/abi.h>

#include "base.h"

struct rd_ah {
	struct ibv_ah ah;
	struct av av;
};

static inline struct rd_ah *to_ah(struct ibv_ah *a) { return (struct rd_ah *)a; }

struct rd_ctx;

/* 0 or an errno.  There is no address without a GRH but of a port with LIDs (rdmad-profiles(7)). */
int av_from_attr(struct rd_ctx *, struct av *, const struct ibv_ah_attr *);
/* Tells the daemon why it was EINVAL, which it returns.  qpn: or 0. */
int av_refuse(struct rd_ctx *, uint32_t qpn, const char *verb, const struct ibv_ah_attr *);

#endif
