/* SPDX-License-Identifier: MIT */
/* why_own.c - was it a rule of the lab?  A cause is compared with what the rules decided. */
#include "why.h"

#include "../base/clock.h"
#include "impair.h"

#define STRIKE_NS 2000000000u   /* from a rule's decision about a QP to what it does to it */
#define CM_NS     120000000000u /* a request is repeated for so long, and more */

static mono_t before(mono_t t, uint64_t ns) { return (mono_t){ ns_since(t.ns, ns) }; }

static bool of_responder(unsigned cause)
{
	return (cause >= WHY_RESP_OP_SEQ && cause <= WHY_RESP_READ_MEM) || (cause >= WHY_UC_GAP && cause <= WHY_UC_MEM);
}

static bool of_requester(unsigned cause)
{
	return (cause >= WHY_RETRY_SILENT && cause <= WHY_REQ_BAD_RESP) || cause == WHY_REQ_RESP_PROT ||
	       cause == WHY_REQ_RESP_MEM;
}

/* The packets that a cause is about.  false: of none that a rule could have touched. */
static bool suspect(const struct why_entry *e, struct rule_suspect *q)
{
	const struct why *w = &e->w;

	*q = (struct rule_suspect){ .device = e->device, .peer = -1 };
	if (e->cause == WHY_CM_UNREACHABLE) {
		q->since = before(clock_now(), CM_NS);
		return true;
	}
	if (!e->core)
		return false;
	q->since = w->since;
	q->peer = device_of_gid(w->dgid);
	q->qpn = w->qpn;
	q->dqpn = w->dqpn;
	q->psn = q->last = (psn_t){ w->psn };
	q->responder = of_responder(e->cause);
	if (e->cause == WHY_RULE_FATAL)
		q->acts = 1u << ACT_QP_FATAL | 1u << ACT_DEVICE_FATAL;
	else if (e->cause == WHY_CQ_OVERRUN)
		q->acts = 1u << ACT_CQ_OVERRUN;
	if (q->acts)
		q->since = before(w->at, STRIKE_NS);
	if (e->cause == WHY_UC_GAP)
		q->psn = (psn_t){ (uint32_t)w->got };
	return q->acts || q->responder || of_requester(e->cause);
}

/* Retries are used up by what was lost: a rule that took one of many is not the reason. */
static bool enough(const struct why_entry *e, unsigned n)
{
	return !e->core || e->cause < WHY_RETRY_SILENT || e->cause > WHY_RETRY_LOSS ||
	       2 * n >= e->w.timeouts + e->w.naks;
}

void why_own(struct why_entry *e)
{
	struct rule_suspect q;
	unsigned n;

	if (!suspect(e, &q))
		return;
	n = rules_blame(impair_lock(), &q, e->own, sizeof(e->own));
	impair_unlock();
	e->by_rule = n && enough(e, n);
}
