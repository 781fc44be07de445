/* SPDX-License-Identifier: MIT */
/* wait_text.c - a sentence for what a live queue pair, or CQ, waits for. */
#include "why_text.h"

static void sends_put(struct words *t, const struct why *w, bool by_rule)
{
	bool rnr = w->cause == WHY_WAIT_RNR;
	uint32_t n = rnr ? w->rnrs : w->timeouts;

	if (w->type == QPT_UD || w->type == QPT_UC) { /* nobody answers those */
		words_put(t, "%s wr_id 0x%llx not sent", wr_name(w->op), (unsigned long long)w->wr_id);
		return;
	}
	words_put(t, "%s wr_id 0x%llx %s", wr_name(w->op), (unsigned long long)w->wr_id,
		  rnr ? "RNR-NAKed" : "unanswered");
	if (n)
		words_put(t, " %u time%s", (unsigned)n, n == 1 ? "" : "s");
	words_put(t, rnr && by_rule ? " as if by " : ": ");
	gid_words(t, w->dgid);
	words_put(t, " QP 0x%x", (unsigned)w->dqpn);
	if (rnr)
		words_put(t, "%s (rnr_retry %llu%s)", by_rule ? "" : " has posted no receive",
			  (unsigned long long)w->max, w->max == 7 ? ": for ever" : "");
	else if (!w->timeout_ns)
		words_put(t, " is silent (PSN 0x%x, timeout 0: for ever)", (unsigned)w->psn);
	else
		words_put(t, " is silent (PSN 0x%x, retry_cnt %u)", (unsigned)w->psn, (unsigned)w->retry_cnt);
}

/* Nothing is there to receive into. */
static void recvs_put(struct words *t, const struct why *w, bool all)
{
	words_put(t, all ? "nothing posted" : "no receive is posted");
	if (w->srqn)
		words_put(t, ", its SRQ %u is empty", (unsigned)w->srqn);
}

static void psn_put(struct words *t, const struct why *w)
{
	gid_words(t, w->dgid);
	words_put(t, " QP 0x%x ", (unsigned)w->dqpn);
	if (w->is_wr)
		words_put(t, "expects PSN 0x%x, sq_psn here is 0x%x", (unsigned)w->far_psn, (unsigned)w->sq_psn);
	else
		words_put(t, "sends from PSN 0x%x on, rq_psn here is 0x%x", (unsigned)w->far_psn, (unsigned)w->rq_psn);
}

void wait_words(struct words *t, const struct why *w, bool by_rule)
{
	unsigned long long n = w->got;
	const char *s = n == 1 ? "" : "s";

	if (w->cause == WHY_WAIT_POLL || w->cause == WHY_WAIT_SOLICITED)
		words_put(t, "CQ %u: ", (unsigned)w->cqn);
	else
		words_put(t, "QP 0x%x: ", (unsigned)w->qpn);
	switch (w->cause) {
	case WHY_WAIT_RNR:
	case WHY_WAIT_ACK: sends_put(t, w, by_rule); break;
	case WHY_WAIT_EMPTY:
		words_put(t, "%llu packet%s refused with RNR NAK, as ", n, s);
		recvs_put(t, w, false);
		break;
	case WHY_WAIT_PSN: psn_put(t, w); break;
	case WHY_WAIT_SIGNALED: words_put(t, "SQ of %llu full, and none signaled", (unsigned long long)w->max); break;
	case WHY_WAIT_UC:
		words_put(t, "UC: %llu packet%s lost, last from PSN 0x%x on, and the receiver waits", n, s,
			  (unsigned)w->psn);
		break;
	case WHY_WAIT_PEER:
		words_put(t, "%llu receive%s posted, nothing can come: the peer's QP has ended", n, s);
		break;
	case WHY_WAIT_SQD: words_put(t, "%llu send%s posted, and it is in SQD", n, s); break;
	case WHY_WAIT_SOLICITED: words_put(t, "armed for solicited completions only, %llu unpolled", n); break;
	case WHY_WAIT_POLL: words_put(t, "%s%llu completion%s unpolled", w->max ? "armed, " : "", n, s); break;
	case WHY_WAIT_RECV:
		words_put(t, "%llu receive%s posted", n, s);
		if (w->srqn)
			words_put(t, " to its SRQ %u", (unsigned)w->srqn);
		words_put(t, ", nothing came");
		break;
	default: recvs_put(t, w, true);
	}
	words_put(t, ", for ");
	time_words(t, mono_since(w->at, w->since));
}
