/* SPDX-License-Identifier: MIT */
/*
 * flow.h - flows of RAW_PACKET QPs, their counters and RSS.  Data that several QPs share is changed with
 * flow_lock held.
 */
#ifndef VERBS_FLOW_H
#define VERBS_FLOW_H

#include <linux/filter.h>
#include <rdmad/steer.h>

#include "qp.h"

struct rd_counters {
	struct ibv_counters counters;
	struct count_point {
		uint32_t index;
		enum ibv_counter_description what;
	} * point;
	uint32_t point_n;
	struct rd_flow *flows; /* those that have these counters */
	struct steer_hit past; /* counted by rules that are not in force any more */
};

struct rd_flow {
	struct ibv_flow flow;
	struct rd_flow *next;
	struct rd_qp *qp;
	uint16_t priority;
	bool drop;
	struct rd_counters *counters; /* or NULL */
	struct rd_flow *counted_next; /* counters->flows */
	struct steer_hit *hit;        /* where the daemon counts now */
	uint32_t code_n;
	struct sock_filter code[]; /* its part of the filter; the last one returns */
};

struct rd_wq {
	struct ibv_wq wq;
	struct rd_qp *qp; /* the QP that the daemon knows it as, without a packet socket */
	uint32_t users;   /* tables */
};

struct rd_table {
	struct ibv_rwq_ind_table table;
	uint32_t users; /* QPs */
	uint32_t n;
	struct rd_wq *wq[];
};

extern pthread_mutex_t flow_lock;

/* With flow_lock: tells the daemon what there is to count and to spread.  gone: a flow that is not in qp->flows any more, or NULL. */
int steer_update(struct rd_qp *, struct rd_flow *gone);
/* The QP is no more. */
void steer_end(struct rd_qp *);

/* ---- raw.c */

/* 0 or an errno; EPERM: the process may not open a packet socket. */
int raw_open(struct rd_qp *);
void raw_close(struct rd_qp *);

/* ---- wq.c: RSS */

#define RSS_FIELDS 0xffu              /* of enum ibv_rx_hash_fields */
struct rd_qp *wq_qp(struct ibv_wq *); /* the QP that the daemon knows it as */
struct ibv_qp *rss_create(struct ibv_context *, struct ibv_qp_init_attr_ex *);
void rss_end(struct rd_qp *); /* the QP is being destroyed */

#endif
