/* SPDX-License-Identifier: MIT */
/* cntr.h - completion counters of a QP: what it completes is added up in memory of the host's. */
#ifndef PROTO_CNTR_H
#define PROTO_CNTR_H

#include "hca_in.h"

/* One request of that kind is done; bytes: of its message.  Everything that it stored is there before. */
static inline void cntr_add(struct hca *h, struct qp *qp, enum cntr_op op, bool ok, uint64_t bytes)
{
	struct comp_cntr *c = qp->cntr[op];

	if (!c)
		return;
	if (h->cfg.mem->settle)
		h->cfg.mem->settle(h->cfg.mem_host);
	if (ok)
		__atomic_fetch_add(&c->done, qp->cntr_bytes >> op & 1 ? bytes : 1, __ATOMIC_RELEASE);
	else
		__atomic_fetch_add(&c->failed, 1, __ATOMIC_RELEASE);
}

/* A request of the send queue, by the kind of its message; there are some that nobody counts. */
static inline void cntr_send(struct hca *h, struct qp *qp, uint8_t kind, bool ok, uint64_t bytes)
{
	switch (kind) {
	case KIND_SEND: cntr_add(h, qp, CNTR_SEND, ok, bytes); break;
	case KIND_READ: cntr_add(h, qp, CNTR_READ, ok, bytes); break;
	case KIND_WRITE: cntr_add(h, qp, CNTR_WRITE, ok, bytes); break;
	}
}

#endif
