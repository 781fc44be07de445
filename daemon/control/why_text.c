/* SPDX-License-Identifier: MIT */
/* why_text.c - a sentence for each cause. */
#include "why_text.h"

#include <string.h>

#include <rdmad/gid.h>

#include "../../proto/aeth.h"
#include "../../proto/hca.h"
#include "../../proto/mr.h"
#include "../../proto/opcode.h"
#include "../../proto/qp_state.h"

#define U(n) ((unsigned long long)(n))

/* ---- sets of bits -------------------------------------------------------------- */

struct bit {
	uint32_t bit;
	const char *name;
};

static const struct bit access_bits[] = {
	{ ACC_LOCAL_WRITE, "LOCAL_WRITE" },
	{ ACC_REMOTE_WRITE, "REMOTE_WRITE" },
	{ ACC_REMOTE_READ, "REMOTE_READ" },
	{ ACC_REMOTE_ATOMIC, "REMOTE_ATOMIC" },
	{ ACC_MW_BIND, "MW_BIND" },
	{ ACC_ZERO_BASED, "ZERO_BASED" },
	{ ACC_ON_DEMAND, "ON_DEMAND" },
	{ ACC_HUGETLB, "HUGETLB" },
	{ ACC_FLUSH_GLOBAL, "FLUSH_GLOBAL" },
	{ ACC_FLUSH_PERSISTENT, "FLUSH_PERSISTENT" },
	{ 0, NULL },
};

/* clang-format off */
static const struct bit attr_bits[] = {
	{ QPA_STATE, "STATE" }, { QPA_CUR_STATE, "CUR_STATE" }, { QPA_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY" },
	{ QPA_ACCESS_FLAGS, "ACCESS_FLAGS" }, { QPA_PKEY_INDEX, "PKEY_INDEX" }, { QPA_PORT, "PORT" }, { QPA_QKEY, "QKEY" },
	{ QPA_AV, "AV" }, { QPA_PATH_MTU, "PATH_MTU" }, { QPA_TIMEOUT, "TIMEOUT" }, { QPA_RETRY_CNT, "RETRY_CNT" },
	{ QPA_RNR_RETRY, "RNR_RETRY" }, { QPA_RQ_PSN, "RQ_PSN" }, { QPA_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC" },
	{ QPA_ALT_PATH, "ALT_PATH" }, { QPA_MIN_RNR_TIMER, "MIN_RNR_TIMER" }, { QPA_SQ_PSN, "SQ_PSN" },
	{ QPA_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC" }, { QPA_PATH_MIG_STATE, "PATH_MIG_STATE" }, { QPA_CAP, "CAP" },
	{ QPA_DEST_QPN, "DEST_QPN" }, { QPA_RATE_LIMIT, "RATE_LIMIT" }, { 0, NULL },
};
/* clang-format on */

static void bits_put(struct words *t, const struct bit *bit, uint32_t set, const char *none)
{
	const char *comma = "";

	for (; bit->name; bit++) {
		if (!(set & bit->bit))
			continue;
		words_put(t, "%s%s", comma, bit->name);
		comma = "|";
		set &= ~bit->bit;
	}
	if (set)
		words_put(t, "%s0x%x", comma, (unsigned)set);
	else if (!*comma)
		words_put(t, "%s", none);
}

static const char *op_name(uint8_t op)
{
	const struct opcode *o = opcode_get(op);

	return o->name ? o->name : "?";
}

/* ---- keys ------------------------------------------------------------------------ */

static void bounds_put(struct words *t, const struct why_key *k)
{
	uint64_t by = k->va < k->base             ? k->base - k->va
		      : k->va - k->base > k->size ? k->va - k->base - k->size + k->len
						  : k->va - k->base + k->len - k->size;

	words_put(t, "0x%llx + %llu is out of bounds by %llu byte%s: ", U(k->va), U(k->len), U(by), by == 1 ? "" : "s");
	words_put(t, "the %s of 0x%x is 0x%llx + %llu", k->key & 0x80000000u ? "window" : "MR", (unsigned)k->key,
		  U(k->base), U(k->size));
}

/* Its end, and by whom. */
static void end_put(struct words *t, const struct why_key *k, mono_t now)
{
	switch (k->end) {
	case KEY_DEREG:
		words_put(t, "was deregistered ");
		time_words(t, mono_since(now, k->end_at));
		words_put(t, " before (ibv_dereg_mr%s): the MR was 0x%llx + %llu",
			  k->end_other           ? " of another program, or its end"
			  : k->key_pdn == k->pdn ? ""
						 : ", of another protection domain",
			  U(k->base), U(k->size));
		return;
	case KEY_DEALLOC: words_put(t, "was deallocated (ibv_dealloc_mw) "); break;
	case KEY_INVALIDATED: words_put(t, "was invalidated on QP 0x%x ", (unsigned)k->end_qpn); break;
	case KEY_BOUND_ANEW: words_put(t, "was bound anew on QP 0x%x ", (unsigned)k->end_qpn); break;
	case KEY_QP_GONE: words_put(t, "went with its QP 0x%x ", (unsigned)k->end_qpn); break;
	default: return;
	}
	time_words(t, mono_since(now, k->end_at));
	words_put(t, " before");
}

static void key_put(struct words *t, const struct why_key *k, mono_t now)
{
	const char *name = k->sge >= 0 || k->why == WHY_KEY_MR ? "lkey" : "rkey";
	bool maybe_mw = k->key & 0x80000000u;

	if (k->sge >= 0)
		words_put(t, "sge %d of %u: ", (int)k->sge, (unsigned)k->sge_n);
	switch (k->why) {
	case WHY_KEY_NONE:
		words_put(t, "%s 0x%x ", name, (unsigned)k->key);
		words_put(t, "%s%s", k->unsure ? "is that of no MR" : "was never that of an MR",
			  !maybe_mw   ? ""
			  : k->unsure ? " or window"
				      : " or a window");
		break;
	case WHY_KEY_GONE:
		words_put(t, "%s 0x%x ", name, (unsigned)k->key);
		end_put(t, k, now);
		break;
	case WHY_KEY_DEVICE: words_put(t, "%s 0x%x is of an MR of another device", name, (unsigned)k->key); break;
	case WHY_KEY_OLD:
		words_put(t, "%s 0x%x is not the key of its window any more", name, (unsigned)k->key);
		words_put(t, k->end ? ": it " : "");
		end_put(t, k, now);
		break;
	case WHY_KEY_PD:
		words_put(t, "%s 0x%x is of another protection domain", name, (unsigned)k->key);
		if (k->key_pdn) /* of the same shard */
			words_put(t, " (%u, the QP's is %u)", (unsigned)k->key_pdn, (unsigned)k->pdn);
		break;
	case WHY_KEY_RIGHT:
		words_put(t, "%s 0x%x does not have ", name, (unsigned)k->key);
		bits_put(t, access_bits, k->need & ~k->have, "?");
		words_put(t, " (it has ");
		bits_put(t, access_bits, k->have, "read access by its own program only");
		words_put(t, ")");
		break;
	case WHY_KEY_BOUNDS: bounds_put(t, k); break;
	case WHY_KEY_UNBOUND:
		words_put(t, "%s 0x%x: the window is not bound", name, (unsigned)k->key);
		words_put(t, k->end ? ", it " : "");
		end_put(t, k, now);
		break;
	case WHY_KEY_QP:
		words_put(t, "%s 0x%x: the window is bound to QP 0x%x", name, (unsigned)k->key, (unsigned)k->qpn);
		break;
	case WHY_KEY_TYPE:
		words_put(t, "key 0x%x is of %s", (unsigned)k->key,
			  k->key & 0x80000000u ? "a window of type 1" : "an MR, not of a window");
		break;
	case WHY_KEY_BOUND: words_put(t, "key 0x%x: the window of type 2 is still bound", (unsigned)k->key); break;
	case WHY_KEY_SAME: words_put(t, "key 0x%x is the one that the window of type 1 has", (unsigned)k->key); break;
	case WHY_KEY_MR:
		words_put(t, "lkey 0x%x of the region has ", (unsigned)k->key);
		bits_put(t, access_bits, k->have, "no rights");
		words_put(t, ", a window like this needs ");
		bits_put(t, access_bits, k->need, "?");
		break;
	default: words_put(t, "the key was right when it was looked at again");
	}
}

/* ---- who and what ------------------------------------------------------------------ */

static bool connected(const struct why *w) { return !gid_is_empty(w->dgid); }

static void route_put(struct words *t, const struct why *w)
{
	gid_words(t, w->dgid);
	words_put(t, " QP 0x%x", (unsigned)w->dqpn);
}

static void peer_put(struct words *t, const struct why *w)
{
	if (connected(w))
		route_put(t, w);
	else
		words_put(t, "the peer");
}

static void wr_put(struct words *t, const struct why *w)
{
	words_put(t, "%s wr_id 0x%llx", w->is_recv ? "receive" : wr_name(w->op), U(w->wr_id));
}

static void packet_put(struct words *t, const struct why *w)
{
	words_put(t, "%s with PSN 0x%x of ", op_name(w->op), (unsigned)w->psn);
	peer_put(t, w);
}

/* ---- retries -------------------------------------------------------------------------- */

static void unsent_words(struct words *t, const struct why *w)
{
	words_put(t, "packets from ");
	gid_words(t, w->sgid);
	words_put(t, " to ");
	gid_words(t, w->dgid);
	words_put(t, " could not be sent: %s",
		  w->got ? strerror((int)w->got) : "no interface has that source, or it is of another family");
}

static void retry_words(struct words *t, const struct why *w)
{
	bool never = w->cause >= WHY_RETRY_SILENT && w->cause <= WHY_RETRY_INSIDE; /* heard of it */

	words_put(t, "RETRY_EXC after ");
	if (w->timeouts || !w->naks) {
		words_put(t, "%u timeout%s of ", (unsigned)w->timeouts, w->timeouts == 1 ? "" : "s");
		time_words(t, w->timeout_ns);
	}
	if (w->naks)
		words_put(t, "%s%u sequence NAKs or lost responses", w->timeouts ? " and " : "", (unsigned)w->naks);
	words_put(t, " on PSN 0x%x (retry_cnt %u), ", (unsigned)w->psn, (unsigned)w->retry_cnt);
	words_put(t, "%llu packets seen from ", U(never ? w->rx_pkts : w->rx_pkts_since));
	if (w->cause == WHY_RETRY_UNSET)
		route_put(t, w);
	else
		peer_put(t, w);
	if (never) {
		words_put(t, " since RTR ");
		time_words(t, mono_since(w->at, w->since));
		words_put(t, " before");
	} else {
		words_put(t, " since the last ACK, the last one ");
		time_words(t, mono_since(w->at, w->rx_last));
		words_put(t, " before (%llu in all)", U(w->rx_pkts));
	}
	if (w->cause == WHY_RETRY_PSN)
		words_put(t, ", it expects PSN 0x%x, but sq_psn here is 0x%x", (unsigned)w->far_psn,
			  (unsigned)w->sq_psn);
	words_put(t, ", last sent %s", op_name(w->last_op));
	if (w->cause == WHY_RETRY_SILENT) { /* is it the right row of the GID table? */
		words_put(t, " from ");
		gid_words(t, w->sgid);
	}
	if (w->is_wr) {
		words_put(t, "; ");
		wr_put(t, w);
	}
	if (w->cause == WHY_RETRY_UNSENT) {
		words_put(t, "; ");
		unsent_words(t, w);
	}
}

static void nak_words(struct words *t, const struct why *w)
{
	words_put(t, "%s: ", status_name(w->status));
	peer_put(t, w);
	words_put(t, " answered PSN 0x%x with %s: ", (unsigned)w->psn, aeth_name(w->syndrome));
	wr_put(t, w);
	if (w->op != WR_SEND && w->op != WR_SEND_IMM && w->op != WR_SEND_INV)
		words_put(t, ", %llu bytes at 0x%llx with rkey 0x%x", U(w->key.len), U(w->key.va),
			  (unsigned)w->key.key);
	else
		words_put(t, ", %llu bytes", U(w->len));
}

static void rnr_words(struct words *t, const struct why *w, bool by_rule)
{
	words_put(t, "RNR_RETRY_EXC after %u RNR NAKs on PSN 0x%x (rnr_retry %llu, the peer's timer ",
		  (unsigned)w->rnrs, (unsigned)w->psn, U(w->max));
	time_words(t, rnr_timer_ns(w->syndrome));
	words_put(t, by_rule ? "), as if by " : "): no receive is posted at ");
	peer_put(t, w);
	words_put(t, "; ");
	wr_put(t, w);
}

/* ---- ibv_modify_qp ------------------------------------------------------------------------ */

static void value_words(struct words *t, const struct why *w)
{
	bits_put(t, attr_bits, w->mask, "?");
	switch (w->mask) {
	case QPA_PATH_MTU:
		words_put(t, " %llu is not 1 to %llu (%u bytes), the port's active MTU", U(w->got), U(w->max),
			  128u << w->max);
		break;
	case QPA_ACCESS_FLAGS:
		words_put(t, " has ");
		bits_put(t, access_bits, (uint32_t)(w->got & ~w->max), "?");
		words_put(t, ", which no QP has");
		break;
	case QPA_ALT_PATH: words_put(t, ": RoCE has no alternate path"); break;
	case QPA_PORT: words_put(t, " %llu: the device has port 1 only", U(w->got)); break;
	case QPA_PKEY_INDEX:
		words_put(t, " %llu is not in the P_Key table: the last row is %llu", U(w->got), U(w->max));
		break;
	default: words_put(t, " %llu is more than %llu", U(w->got), U(w->max));
	}
}

static void modify_words(struct words *t, const struct why *w)
{
	const char *comma = " ";

	words_put(t, "%s refused", qp_state_name(w->to));
	words_put(t, w->from == w->to ? " (it is there already): " : " (from %s): ", qp_state_name(w->from));
	switch (w->cause) {
	case WHY_MODIFY_EDGE:
		words_put(t, "there is no such change; from %s a QP of %s goes to", qp_state_name(w->from),
			  type_name(w->type));
		for (uint8_t s = 0; s < QP_STATES; s++) {
			if (!(w->allowed >> s & 1))
				continue;
			words_put(t, "%s%s", comma, qp_state_name(s));
			comma = ", ";
		}
		break;
	case WHY_MODIFY_CUR: words_put(t, "cur_qp_state says %s", qp_state_name((uint8_t)w->got)); break;
	case WHY_MODIFY_LESS:
		words_put(t, "attr_mask lacks ");
		bits_put(t, attr_bits, w->allowed & ~w->mask, "?");
		words_put(t, "; required are ");
		bits_put(t, attr_bits, w->allowed, "none");
		break;
	case WHY_MODIFY_MORE:
		words_put(t, "attr_mask has ");
		bits_put(t, attr_bits, w->mask & ~w->allowed, "?");
		words_put(t, "; a QP of %s may have ", type_name(w->type));
		bits_put(t, attr_bits, w->allowed, "none");
		break;
	case WHY_MODIFY_MTU:
	case WHY_MODIFY_VALUE: value_words(t, w); break;
	case WHY_MODIFY_GID: words_put(t, "sgid_index %llu is an empty row of the GID table", U(w->got)); break;
	case WHY_MODIFY_ROUTE:
		words_put(t, "sgid_index %llu is ", U(w->got));
		gid_words(t, w->sgid);
		words_put(t, ", destination is routed: ");
		gid_words(t, w->dgid);
		break;
	default: words_put(t, "%s", why_what(w->cause));
	}
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void length_words(struct words *t, const struct why *w)
{
	if (w->status != WC_SUCCESS)
		words_put(t, "%s: ", status_name(w->status));
	if (w->is_wr && !w->is_recv) {
		wr_put(t, w);
		words_put(t, " of %llu bytes, %s %llu", U(w->len), w->room == 8 ? "not" : "more than", U(w->room));
		return;
	}
	words_put(t, "a message of %llu bytes or more from ", U(w->len));
	peer_put(t, w);
	words_put(t, " does not fit the receive of %llu bytes", U(w->room));
	if (w->is_wr)
		words_put(t, " (wr_id 0x%llx)", U(w->wr_id));
}

static void drop_words(struct words *t, const struct why *w)
{
	words_put(t, "%s with PSN 0x%x came from ", op_name(w->op), (unsigned)w->psn);
	gid_words(t, w->other);
	if (w->cause == WHY_RX_ROUTE && w->got && w->got != w->dqpn)
		words_put(t, " QP 0x%x", (unsigned)w->got);
	words_put(t, " and was dropped: ");
	if (w->cause == WHY_RX_STATE) {
		words_put(t, "the QP is in %s", qp_state_name(w->from));
		return;
	}
	if (w->cause == WHY_RX_PKEY) {
		words_put(t, "its P_Key is 0x%04x, the QP's 0x%04x", (unsigned)w->got, (unsigned)w->max);
		return;
	}
	if (w->cause == WHY_RX_ICRC) {
		words_put(t, "its ICRC is wrong");
		if (!connected(w))
			return;
		words_put(t, "; ");
	}
	words_put(t, "the QP is connected to ");
	peer_put(t, w);
}

static void fault_words(struct words *t, const struct why *w)
{
	if (w->status != WC_SUCCESS)
		words_put(t, "%s: ", status_name(w->status));
	if (w->key.why) {
		key_put(t, &w->key, w->at);
		words_put(t, "; ");
	} else {
		words_put(t, "%s; ", fault_text(w->fault));
	}
	if (w->cause == WHY_RESP_QP_RIGHT) {
		words_put(t, "the QP has ");
		bits_put(t, access_bits, w->allowed, "no remote access");
		words_put(t, "; ");
	} else if (w->cause == WHY_RESP_RD_MANY) {
		words_put(t, "max_dest_rd_atomic is %llu; ", U(w->max));
	} else if (w->cause == WHY_RESP_LEN) {
		words_put(t, "path MTU %llu; ", U(w->room));
	} else if (w->cause == WHY_RESP_ALIGN) {
		words_put(t, "0x%llx; ", U(w->key.va));
	} else if (w->cause == WHY_UD_QKEY) {
		words_put(t, "0x%llx, the QP's is 0x%llx; ", U(w->got), U(w->max));
	} else if (w->cause == WHY_SQ_OP && w->got == AV_OTHER_PD) {
		words_put(t, "the address handle is of another PD than the QP; ");
	} else if (w->cause == WHY_SQ_OP) {
		words_put(t, "sgid_index %llu of the address handle is no used row; ", U(w->got));
	} else if (w->cause == WHY_CQ_OVERRUN) {
		words_put(t, "CQ %u", (unsigned)w->cqn);
		return;
	}
	if (w->is_wr && !w->is_recv) {
		wr_put(t, w);
		return;
	}
	packet_put(t, w);
	if (w->is_recv) {
		words_put(t, "; ");
		wr_put(t, w);
	}
}

static void flush_late_words(struct words *t, const struct why *w)
{
	words_put(t, "posted to a QP in %s, and flushed at once; the QP went there ", qp_state_name(w->from));
	time_words(t, mono_since(w->at, w->err_at));
	words_put(t, " before: %s", w->err_cause ? why_what(w->err_cause) : "nobody knows why");
}

/* clang-format off */
void why_words(struct words *t, const struct why *w, bool by_rule)
{
	if (w->cause >= WHY_WAIT_RNR && w->cause <= WHY_WAIT_POST) {
		wait_words(t, w, by_rule);
		return;
	}
	words_put(t, "QP 0x%x", (unsigned)w->qpn);
	if (w->cause >= WHY_MODIFY_EDGE && w->cause <= WHY_MODIFY_MEM) {
		words_put(t, ": ");
		modify_words(t, w);
		return;
	}
	if (w->to != w->from)
		words_put(t, " to %s", qp_state_name(w->to));
	words_put(t, ": ");
	switch (w->cause) {
	case WHY_RETRY_SILENT: case WHY_RETRY_UNSET: case WHY_RETRY_INSIDE: case WHY_RETRY_DEAF: case WHY_RETRY_LOSS: case WHY_RETRY_PSN: case WHY_RETRY_UNSENT: retry_words(t, w); break;
	case WHY_REQ_RNR_EXC: rnr_words(t, w, by_rule); break;
	case WHY_REQ_NAK_INV: case WHY_REQ_NAK_ACCESS: case WHY_REQ_NAK_OP: case WHY_REQ_NAK_OTHER: nak_words(t, w); break;
	case WHY_RESP_RECV_LEN: case WHY_UC_RECV_LEN: case WHY_UD_RECV_LEN: case WHY_SQ_LEN: length_words(t, w); break;
	case WHY_RX_STATE: case WHY_RX_ROUTE: case WHY_RX_PKEY: case WHY_RX_ICRC: drop_words(t, w); break;
	case WHY_RX_PSN: packet_put(t, w); words_put(t, ", but rq_psn here is 0x%x", (unsigned)w->rq_psn); break;
	case WHY_UNSENT: unsent_words(t, w); break;
	case WHY_UD_REFUSED: words_put(t, "a datagram to "); route_put(t, w); words_put(t, " did not arrive"); break;
	case WHY_FLUSH_LATE: flush_late_words(t, w); break;
	default:
		if (w->fault)
			fault_words(t, w);
		else
			words_put(t, "%s", why_what(w->cause));
	}
}
/* clang-format on */

/* ---- records ----------------------------------------------------------------------------------- */

static const char *const trace_word_of[TR_EVENTS] = {
#define TRACE(name, word, what) [TR_##name] = word,
#include "../../proto/trace.def"
#undef TRACE
};

const char *trace_word(unsigned e) { return e < TR_EVENTS ? trace_word_of[e] : "?"; }

static void packets_put(struct words *t, const struct trace_rec *r)
{
	words_put(t, "%s PSN 0x%x", op_name(r->op), (unsigned)r->psn);
	if (r->n > 1)
		words_put(t, " to 0x%x (%u packets)", (unsigned)((r->psn + r->n - 1) & PSN_MASK), (unsigned)r->n);
}

static void train_put(struct words *t, const struct trace_rec *r)
{
	uint8_t kind = opcode_get(r->op)->kind;

	packets_put(t, r);
	if (kind == KIND_ACK || kind == KIND_ATOMIC_ACK)
		words_put(t, ", %s", aeth_name((uint8_t)r->b));
	else if (r->a)
		words_put(t, ", %u bytes", (unsigned)r->a);
}

/* clang-format off */
void trace_words(struct words *t, const struct trace_rec *r)
{
	switch (r->event) {
	case TR_STATE: words_put(t, "%s to %s%s", qp_state_name((uint8_t)r->a), qp_state_name((uint8_t)r->b), r->n ? ", by its program" : ""); break;
	case TR_FIRST_TX: case TR_FIRST_RX: packets_put(t, r); break;
	case TR_TX: case TR_RX: train_put(t, r); break;
	case TR_TIMEOUT: words_put(t, "no ACK of PSN 0x%x; number %u, %u %s left", (unsigned)r->psn, (unsigned)r->b, (unsigned)r->a, r->a == 1 ? "retry" : "retries"); break;
	case TR_EARLY: words_put(t, "PSN 0x%x sent again before the ACK timeout, number %u", (unsigned)r->psn, (unsigned)r->a); break;
	case TR_MEND: words_put(t, "%u packet%s from PSN 0x%x on again, alone, since the peer misses packets; %u %s left", (unsigned)r->n, r->n == 1 ? "" : "s", (unsigned)r->psn, (unsigned)r->a, r->a == 1 ? "retry" : "retries"); break;
	case TR_AGAIN:
		words_put(t, "all from PSN 0x%x on again (%u PSN%s), since %s; %u %s left", (unsigned)r->psn, (unsigned)r->b, r->b == 1 ? "" : "s",
			  r->op ? "a response was lost" : "the peer misses packets", (unsigned)r->a, r->a == 1 ? "retry" : "retries");
		break;
	case TR_NAK_RX: case TR_NAK_TX: words_put(t, "PSN 0x%x, %s", (unsigned)r->psn, aeth_name(r->op)); break;
	case TR_RNR_TX: case TR_RNR_RX:
		words_put(t, "PSN 0x%x, timer ", (unsigned)r->psn);
		time_words(t, rnr_timer_ns(r->op));
		break;
	case TR_DUP: packets_put(t, r); words_put(t, " again"); break;
	case TR_GAP: packets_put(t, r); words_put(t, ", expected 0x%x", (unsigned)r->b); break;
	case TR_DROP: packets_put(t, r); words_put(t, ", %s", hca_stat_name(r->a)); break;
	case TR_FAULT: words_put(t, "%s: %s", hca_fault_name(r->a - 1), fault_text(r->a)); break;
	case TR_WC: words_put(t, "%s, %s wr_id 0x...%x", status_name(r->a), r->op == 255 ? "receive" : wr_name(r->op), (unsigned)r->b); break;
	case TR_FLUSH: words_put(t, "%u sends, %u receives", (unsigned)r->a, (unsigned)r->b); break;
	case TR_EVENT: words_put(t, "%s", r->a == EV_QP_FATAL ? "QP_FATAL" : r->a == EV_QP_REQ_ERR ? "QP_REQ_ERR" : r->a == EV_QP_ACCESS_ERR ? "QP_ACCESS_ERR" : "?"); break;
	}
}
/* clang-format on */
