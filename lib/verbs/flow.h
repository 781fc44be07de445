/* SPDX-License-Identifier: MIT */
/*
 * flow.h - flows of RAW_PACKET QPs, their counters and RSS.  What is shared by more than one QP's structs is changed with
 * flow_lock held.
 */
#ifndef VERBS_FLOW_H
#define VERBS_FLOW_H

#include <linux/filter.h>
#include <rdmad/rules.h>

#include "objects.h"

struct rd_counters {
	struct ibv_counters counters;
	struct count_point { uint32_t index; enum ibv_counter_description what; } *point;
	uint32_t point_n;
	struct rd_flow *flows;		/* that have it */
	struct rule_hit past;		/* of rules that are no more */
};

struct rd_flow {
	struct ibv_flow flow;
	struct rd_flow *next;
	struct rd_qp *qp;
	uint16_t priority;
	bool drop;
	struct rd_counters *counters;	/* or NULL */
	struct rd_flow *counted_next;	/* counters->flows */
	struct rule_hit *hit;		/* where the daemon counts now */
	uint32_t code_n;
	struct sock_filter code[];	/* its part of the filter; the last one returns */
};

struct rd_wq {
	struct ibv_wq wq;
	struct rd_qp *qp;		/* what it is to the daemon: one without a packet socket */
	uint32_t users;			/* tables */
};

struct rd_table {
	struct ibv_rwq_ind_table table;
	uint32_t users;			/* QPs */
	uint32_t n;
	struct rd_wq *wq[];
};

extern pthread_mutex_t flow_lock;

/* The code before the first flow: what this host sends is not for the QP. */
#define FLOW_HEAD 3u
extern const struct sock_filter flow_head[FLOW_HEAD];

/* With flow_lock: tells the daemon what there is to count and to spread.  gone: a flow that is not in qp->flows any more, or NULL. */
int rules_update(struct rd_qp *, struct rd_flow *gone);
/* The QP is no more. */
void rules_end(struct rd_qp *);

#endif
