/* SPDX-License-Identifier: MIT */
/* why_own.c - was it a rule of the lab?  A cause is compared with what the rules decided. */
#include "why.h"

#include "../base/clock.h"
#include "../base/rights.h"
#include "impair.h"
#include "../../proto/aeth.h"

#define STRIKE_NS 2000000000u   /* from a rule's decision about a QP to what it does to it */
#define CM_NS     120000000000u /* a request is repeated for so long, and more */

#define BIT(act) (1u << ACT_##act)
#define LOSES    (BIT(DROP) | BIT(BLACKHOLE) | BIT(CORRUPT) | BIT(PORT_DOWN))
#define LATENS   (BIT(DELAY) | BIT(HOLD) | BIT(RATE))
#define SILENCES (LOSES | BIT(SWALLOW_ACK) | BIT(GHOST_ACK) | LATENS | BIT(NAK))

/* The acts of rules that can bring causes about; those that are not here come of no act on packets. */
static const struct {
	unsigned first, last;
	uint32_t acts;
	bool fix; /* of CORRUPT, only if the ICRC fits */
} makers[] = {
	{ WHY_RETRY_SILENT, WHY_RETRY_LOSS, SILENCES, false },
	{ WHY_RETRY_PSN, WHY_RETRY_PSN, SILENCES, false },
	{ WHY_WAIT_ACK, WHY_WAIT_PSN, SILENCES, false },
	{ WHY_REQ_RNR_EXC, WHY_REQ_RNR_EXC, BIT(RNR), false },
	{ WHY_WAIT_RNR, WHY_WAIT_RNR, BIT(RNR), false },
	{ WHY_REQ_NAK_INV, WHY_REQ_NAK_OTHER, BIT(NAK) | BIT(GHOST_ACK) | BIT(CORRUPT), true },
	{ WHY_REQ_BAD_RESP, WHY_REQ_BAD_RESP, BIT(GHOST_ACK) | BIT(CORRUPT), true },
	{ WHY_RESP_OP_SEQ, WHY_RESP_READ_MEM, BIT(GHOST_ACK) | BIT(CORRUPT), true },
	{ WHY_UC_GAP, WHY_UC_OP_SEQ, LOSES | LATENS | BIT(REORDER), false },
	{ WHY_WAIT_UC, WHY_WAIT_UC, LOSES | LATENS | BIT(REORDER), false },
	{ WHY_UC_QP_RIGHT, WHY_UC_MEM, BIT(CORRUPT), true },
	{ WHY_WAIT_RECV, WHY_WAIT_RECV, LOSES | LATENS, false },
};

static mono_t before(mono_t t, uint64_t ns) { return (mono_t){ ns_since(t.ns, ns) }; }

static bool of_responder(unsigned cause)
{
	return (cause >= WHY_RESP_OP_SEQ && cause <= WHY_RESP_READ_MEM) ||
	       (cause >= WHY_UC_GAP && cause <= WHY_UC_MEM) || cause == WHY_WAIT_UC;
}

static bool of_requester(unsigned cause)
{
	return (cause >= WHY_RETRY_SILENT && cause <= WHY_REQ_BAD_RESP) || cause == WHY_REQ_RESP_PROT ||
	       cause == WHY_REQ_RESP_MEM || cause == WHY_WAIT_ACK || cause == WHY_WAIT_RNR;
}

static void able(struct rule_suspect *q, const struct why_entry *e)
{
	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++)
		if (e->cause >= makers[i].first && e->cause <= makers[i].last) {
			q->able = makers[i].acts;
			q->fix = makers[i].fix;
		}
	q->late_ns = e->w.timeout_ns ? e->w.timeout_ns : UINT64_MAX;
	if (e->w.type == QPT_UC || e->w.type == QPT_UD) /* what came behind a later packet is lost */
		q->missed = e->w.lost_at.ns ? e->w.lost_at : e->w.at;
	q->nak = aeth_code(e->w.syndrome); /* none: a sequence error, which is repeated */
}

/* The packets that a cause is about.  false: of none that a rule could have touched. */
static bool suspect(const struct why_entry *e, struct rule_suspect *q)
{
	const struct why *w = &e->w;

	*q = (struct rule_suspect){ .device = e->device, .peer = -1 };
	if (e->cause == WHY_CM_UNREACHABLE || e->cause == WHY_WAIT_CM) {
		/* They may be of anybody's connections: for those only who see all, and never the reason for certain. */
		if (e->owner.uid && e->owner.uid != rights_owner())
			return false;
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
	able(q, e);
	if (e->cause == WHY_RULE_FATAL)
		q->acts = 1u << ACT_QP_FATAL | 1u << ACT_DEVICE_FATAL | 1u << ACT_UNPLUG;
	else if (e->cause == WHY_CQ_OVERRUN)
		q->acts = 1u << ACT_CQ_OVERRUN;
	if (q->acts)
		q->since = before(w->at, STRIKE_NS);
	q->datagrams = e->cause == WHY_WAIT_RECV && w->type == QPT_UD;
	if (e->cause == WHY_WAIT_UC || q->datagrams)
		q->since = (mono_t){ 0 }; /* it was lost before the wait began */
	if (e->cause == WHY_UC_GAP)
		q->psn = (psn_t){ (uint32_t)w->got };
	return q->acts || q->responder || q->datagrams || of_requester(e->cause) ||
	       (e->cause == WHY_WAIT_PSN && w->is_wr);
}

/* How often it failed, of all that is remembered. */
static unsigned tries(const struct why_entry *e)
{
	const struct why *w = &e->w;
	unsigned n = 0;

	switch (e->cause) {
	case WHY_RETRY_SILENT:
	case WHY_RETRY_UNSET:
	case WHY_RETRY_INSIDE:
	case WHY_RETRY_DEAF:
	case WHY_RETRY_LOSS:
	case WHY_RETRY_PSN:
	case WHY_WAIT_PSN:
	case WHY_WAIT_ACK: n = w->timeouts + w->naks; break;
	case WHY_REQ_RNR_EXC:
	case WHY_WAIT_RNR: n = w->rnrs; break;
	default: break;
	}
	return n < RULES_LOG ? n : RULES_LOG;
}

/* Of so many tries, those that the rules' decisions are still known of. */
static unsigned known(const struct why_entry *e, const struct rule_suspect *q, unsigned n, mono_t since)
{
	uint64_t all = mono_since(e->w.at, q->since), seen = mono_since(e->w.at, since);

	return !all || seen >= all ? n : (unsigned)((double)n * (double)seen / (double)all);
}

/* Waits that a packet would end. */
static bool of_packets(unsigned cause)
{
	return (cause >= WHY_WAIT_RNR && cause <= WHY_WAIT_PSN) || cause == WHY_WAIT_UC || cause == WHY_WAIT_RECV ||
	       cause == WHY_WAIT_CM;
}

/* A device that is wedged sends nothing, takes nothing and gives nothing up. */
static bool wedged(struct why_entry *e, int device)
{
	struct words t = words_begin(e->own, sizeof(e->own));
	mono_t since;
	unsigned rule = device >= 0 ? impair_wedged((unsigned)device, &since) : 0;

	if (!rule)
		return false;
	words_put(&t, "rule %u wedged %s ", rule, devices[device].name);
	time_words(&t, mono_since(clock_now(), since));
	words_put(&t, " ago");
	return true;
}

/* Retries are used up by what was lost: a rule that took one of many is not the reason. */
void why_own(struct why_entry *e)
{
	struct rule_suspect q;
	const struct rules *rs;
	unsigned n;
	mono_t since;

	e->by_rule = of_packets(e->cause) && (wedged(e, e->device) || (e->core && wedged(e, device_of_gid(e->w.dgid))));
	if (e->by_rule || !suspect(e, &q))
		return;
	rs = impair_lock();
	n = rules_blame(rs, &q, e->own, sizeof(e->own));
	since = rules_since(rs);
	impair_unlock();
	e->by_rule = n && 2 * n >= known(e, &q, tries(e), since);
}
