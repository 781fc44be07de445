/* SPDX-License-Identifier: MIT */
/* xrc.h - XRC domains. */
#ifndef VERBS_XRC_H
#define VERBS_XRC_H

#include "base.h"

struct rd_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t handle;
};

static inline struct rd_xrcd *to_xrcd(struct ibv_xrcd *x) { return (struct rd_xrcd *)x; }

#endif
