/* SPDX-License-Identifier: MIT */
/* raw.h - RAW_PACKET QPs: what is different from UD. */
#ifndef PROTO_RAW_H
#define PROTO_RAW_H

#include <stdbool.h>

#include "burst.h"
#include "fault.h"
#include "wqe.h"

struct hca;
struct qp;

enum fault raw_wr_fault(struct swqe *);
bool raw_tso_payload(struct hca *, struct qp *, struct swqe *, struct burst *); /* false: an sge is wrong */
void raw_cut(const struct swqe *, struct burst *);
#define RAW_MTU      65535u                    /* bytes of a frame, at most: the interface may allow less */
#define RAW_SEND_MAX (RD_MAX_TSO + RD_TSO_HDR) /* of what becomes frames */
#define RAW_LEAST    14u                       /* an Ethernet header */

#endif
