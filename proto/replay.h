/* SPDX-License-Identifier: MIT */
/* replay.h - READs and atomics that were executed, and requests that come again. */
#ifndef PROTO_REPLAY_H
#define PROTO_REPLAY_H

#include <stdint.h>

#include "burst.h"
#include "qp.h"

struct hca;

/* The packets of the burst that are before the expected PSN; how many they were. */
uint32_t replay(struct hca *, struct qp *, const struct burst *);
struct rd *rd_push(struct qp *);
void rd_expire(struct qp *);  /* forgets those too far back for PSNs to be compared */
void resp_clear(struct qp *); /* nothing is to be sent any more */

#endif
