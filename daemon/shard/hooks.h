/* SPDX-License-Identifier: MIT */
/*
 * hooks.h - calls of the data path into the control half and the CM agents, of which it knows nothing else.
 *
 * Each does nothing until it is filled in: by control_hooks() before there are shards, the agents' in the thread of
 * shard 0.
 */
#ifndef DAEMON_HOOKS_H
#define DAEMON_HOOKS_H

#include <sys/types.h>

#include "../../proto/mono.h"
#include "obj.h"

struct hooks {
	/* Any shard's thread. */
	void (*outlet_stuck)(void); /* some outlet of a shard is stuck: outlet_retry() later */
	void (*why_collect)(struct shard *, unsigned device); /* each turn: causes that the HCA has noted */
	/* A context is about to end.  shared: its PDs and MRs go on in another context. */
	void (*ends_ctx)(const struct ctx *, bool shared);
	int (*xrcd_drop)(struct ctx_xrcd *); /* 0, or EBUSY: the context has something in the domain */

	/* Control thread. */
	struct shard *(*xrcd_shard)(uid_t,
				    const struct device *); /* where this user shares XRC domains; NULL: nowhere */
	void (*mcast_forget)(struct ctx_qp *);              /* the QP is no more, the host leaves its groups */

	/*
	 * Shard 0's thread, or who has its place, each turn.  A timer has run out only if it was due by then, as what had come until
	 * then was read.  true: something happened.
	 */
	bool (*agents_turn)(struct shard *, mono_t due);
	mono_t (*agents_deadline)(const struct shard *); /* when to call it next */
};

extern struct hooks hooks;

#endif
