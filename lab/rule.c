/* SPDX-License-Identifier: MIT */
/* rule.c - which rules a packet meets, and what they do to it. */
#include "rule.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../proto/aeth.h"
#include "../proto/cm_msg.h"
#include "../proto/opcode.h"
#include "ns_text.h"
#include "splitmix.h"
#include "text_cut.h"

/* ---- dice ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t state, uint64_t v)
{
	state ^= v;
	return splitmix(&state);
}

/* Of packets that are of no QP we know all that can be said is that it is the n-th. */
static uint64_t dice_of(const struct rule *r, const struct tap_pkt *p)
{
	uint64_t d = mix(r->seed, r->id);

	d = mix(d, (uint64_t)p->dir << 40 | (uint64_t)p->kind << 32 | p->b->op_first);
	if (!p->has_rel)
		return mix(d, r->seen);
	d = mix(d, (uint64_t)(p->qp.nth - r->qp_base[p->device]) << 8 | p->device);
	return mix(d, (uint64_t)(uint32_t)p->rel << 32 | p->iter);
}

static uint64_t below(uint64_t *dice, uint64_t n)
{
	*dice = mix(*dice, 1);
	return n ? *dice % n : 0;
}

/* ---- does a rule mean this packet? ---------------------------------------------------------- */

static bool in_range(const struct rule_range *r, int64_t v) { return r->to < r->from || (v >= r->from && v <= r->to); }
static bool is_said(const struct rule_range *r) { return r->to >= r->from; }

static unsigned syndrome_bit(uint8_t syndrome)
{
	switch (aeth_type(syndrome)) {
	case AETH_ACK: return 1;
	case AETH_RNR_NAK: return 4;
	default: return 2;
	}
}

bool rule_qp_matches(const struct rule *r, unsigned device, uint32_t qpn, const struct tap_qp *qp)
{
	if (r->qpn && r->qpn != qpn)
		return false;
	if (r->prog[0] && (!qp || strcmp(r->prog, qp->prog)))
		return false;
	if (!is_said(&r->nth_qp))
		return true;
	return qp && in_range(&r->nth_qp, (int64_t)qp->nth - r->qp_base[device]);
}

static bool is_cm(const struct tap_pkt *p) { return p->b->dqpn == 1; }

uint32_t rule_cm_bit(uint16_t attr)
{
	return 1u << (attr >= CM_REQ && attr <= CM_APR ? (unsigned)(attr - CM_REQ) : RULE_CM_OTHER);
}

/* Its place among those whose first packet since there are rules came after this one did, from 1; 0: it is not one of them. */
static uint32_t sender_of(const struct rule *r, const struct tap_pkt *p)
{
	return p->sender > r->sender_base ? p->sender - r->sender_base : 0;
}

static bool opcode_matches(const struct rule *r, const struct burst *b)
{
	unsigned op = OP_OF(b->op_first);

	if (b->op_first == OPCODE_CNP)
		return r->cnp;
	return (op == OP_ACKNOWLEDGE && r->syndromes & syndrome_bit(b->syndrome)) || r->ops >> op & 1;
}

static bool matches(const struct rules *rs, const struct rule *r, const struct tap_pkt *p)
{
	if (r->timed || !(r->dirs >> p->dir & 1) || !(r->paths & (p->local ? 2 : 1)))
		return false;
	if (r->device[0] && (p->device >= rs->device_n || strcmp(r->device, rs->device[p->device])))
		return false;
	if (!rule_qp_matches(r, p->device, p->qpn, p->known ? &p->qp : NULL))
		return false;
	if (is_said(&r->sender) && !in_range(&r->sender, sender_of(r, p)))
		return false;
	if (!(r->services >> (p->b->op_first >> 5) & 1))
		return false;
	if (is_cm(p) ? !(r->cm & rule_cm_bit(p->cm)) : !opcode_matches(r, p->b))
		return false;
	if (!in_range(&r->psn, p->b->psn.v) || (is_said(&r->rel) && (!p->has_rel || !in_range(&r->rel, p->rel))))
		return false;
	return (!is_said(&r->iter) || (p->iter && in_range(&r->iter, p->iter))) &&
	       in_range(&r->ns, (int64_t)mono_since(p->now, r->added));
}

/* Of those that match: is it this one's turn? */
static bool is_chosen(struct rule *r, struct flow *f, uint64_t *dice)
{
	uint32_t *own = r->each_qp && f ? flow_count(f, r->id) : NULL;
	uint64_t n = own ? ++*own : r->seen;

	if (!in_range(&r->nth, (int64_t)n) || (r->every && n % r->every) || (r->times && r->hits >= r->times))
		return false;
	return below(dice, 1ull << 53) < r->share;
}

/* ---- what it does ------------------------------------------------------------------------- */

static void say(struct rule_verdict *v, const struct rule *r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void say(struct rule_verdict *v, const struct rule *r, const char *fmt, ...)
{
	size_t at = strlen(v->text);
	va_list ap;

	if (at && at + 2 < sizeof(v->text)) {
		memcpy(v->text + at, "; ", 3);
		at += 2;
	}
	va_start(ap, fmt);
	vsnprintf(v->text + at, sizeof(v->text) - at, fmt, ap);
	va_end(ap);
	at = strlen(v->text);
	snprintf(v->text + at, sizeof(v->text) - at, " by rule %u%s%s%s", r->id, r->name[0] ? " (" : "", r->name,
		 r->name[0] ? ")" : "");
	text_cut(v->text);
}

static void answer(struct rule_verdict *v, enum rule_answer how, uint8_t syndrome)
{
	v->drop = true;
	v->answer = how;
	v->syndrome = syndrome;
}

/*
 * Packets behind an answered request would be out of order for the side that gave the answer: it is silent until the
 * request comes again.
 */
static void mute(struct flow *f, const struct tap_pkt *p, const struct rule *r)
{
	struct stream *s = flow_stream(f, p);

	s->muted = true;
	s->mute = p->b->psn;
	s->mute_rule = r->id;
}

static bool is_request(const struct tap_pkt *p) { return p->known && p->iter && p->kind == TAP_REQUEST; }

/* The next three are for a reliable QP's requests only; false: this packet is none. */
static bool act_rnr(struct rule *r, const struct rule_act *a, struct flow *f, const struct tap_pkt *p,
		    struct rule_verdict *v)
{
	char ns[32];

	if (!f || !is_request(p))
		return false;
	answer(v, ANSWER_RNR, aeth_rnr((uint8_t)a->n));
	mute(f, p, r);
	say(v, r, "answered with RNR NAK (%s)", ns_text(ns, sizeof(ns), rnr_timer_ns((uint8_t)a->n)));
	return true;
}

static bool act_nak(struct rule *r, const struct rule_act *a, struct flow *f, const struct tap_pkt *p,
		    struct rule_verdict *v)
{
	if (!f || !is_request(p))
		return false;
	answer(v, ANSWER_NAK, aeth_nak((enum nak_code)a->n));
	mute(f, p, r);
	say(v, r, "answered with %s", aeth_name(v->syndrome));
	return true;
}

static bool act_ghost(struct rule *r, struct flow *f, const struct tap_pkt *p, struct rule_verdict *v)
{
	if (!f || !is_request(p) || opcode_get(p->b->op_first)->role != ROLE_MESSAGE)
		return false;
	answer(v, ANSWER_ACK, aeth_ack());
	say(v, r, "acknowledged, and dropped,");
	return true;
}

static bool act_swallow(struct rule *r, const struct rule_act *a, struct flow *f, const struct tap_pkt *p,
			struct rule_verdict *v)
{
	if (!f || !is_request(p) || f->swallow_n == FLOW_SWALLOWS)
		return false;
	f->swallow[f->swallow_n++] = (struct swallow){
		.dir = p->dir == TAP_OUT ? TAP_IN : TAP_OUT,
		.psn = p->b->psn,
		.n = a->n,
		.rule = r->id,
	};
	say(v, r, "its ACK is to be dropped");
	return true;
}

static bool act_rate(struct rule *r, const struct rule_act *a, const struct tap_pkt *p, struct rule_verdict *v)
{
	uint64_t bits = (opcode_get(p->b->op_first)->hdr_len + p->b->payload_len + 8) * 8, wait;

	if (mono_before(r->busy_until, p->now))
		r->busy_until = p->now;
	wait = mono_since(r->busy_until, p->now);
	if (a->queue && (double)wait * (double)a->rate / 8e9 > (double)a->queue) {
		v->drop = true;
		say(v, r, "dropped, the queue is full,");
		return true;
	}
	r->busy_until = mono_add(r->busy_until, (uint64_t)((double)bits * 1e9 / (double)a->rate));
	if (wait) {
		v->delay_ns += wait;
		say(v, r, "slowed down");
	}
	return wait;
}

static bool act_corrupt(struct rule *r, const struct rule_act *a, struct rule_verdict *v, uint64_t *dice)
{
	static const char *const where[] = { "payload", "header", "ICRC", "packet" };

	if (v->damage_n == RULE_ACTS)
		return false;
	v->damage[v->damage_n++] = (struct rule_damage){ .act = a, .dice = below(dice, UINT64_MAX) };
	v->corrupt = a;
	say(v, r, "%s damaged%s", where[a->where], a->fix ? ", ICRC made to fit," : "");
	return true;
}

static bool act_delay(struct rule *r, const struct rule_act *a, struct rule_verdict *v, uint64_t *dice)
{
	uint64_t delay = a->ns + below(dice, a->jitter_ns + 1);
	char ns[32];

	v->delay_ns += delay;
	say(v, r, "%s late", ns_text(ns, sizeof(ns), delay));
	return true;
}

static bool act_hold(struct rule *r, const struct rule_act *a, struct flow *f, const struct tap_pkt *p,
		     struct rule_verdict *v)
{
	if (!f || mono_before(p->now, flow_stream(f, p)->hold_until))
		return false;
	/* Late it is already, maybe by more: those behind it wait for that. */
	if (v->delay_ns < a->ns)
		v->delay_ns = a->ns;
	flow_stream(f, p)->hold_until = mono_add(p->now, v->delay_ns);
	flow_stream(f, p)->hold_rule = r->id;
	say(v, r, "held");
	return true;
}

/* No default: the compiler tells of an action on packets that is not here. */
static bool act(struct rules *rs, struct rule *r, const struct rule_act *a, struct flow *f, const struct tap_pkt *p,
		struct rule_verdict *v, uint64_t *dice)
{
	switch (a->kind) {
	case ACT_NOTE: say(v, r, "noted"); return true;
	case ACT_DROP:
		v->drop = true;
		say(v, r, "dropped");
		return true;
	case ACT_DUPLICATE:
		v->copies += a->n;
		v->copy_ns = a->ns;
		say(v, r, "sent %u times", v->copies + 1);
		return true;
	case ACT_DELAY: return act_delay(r, a, v, dice);
	case ACT_REORDER:
		v->behind = a->n;
		v->delay_ns += a->ns;
		say(v, r, "put behind the next %u", a->n);
		return true;
	case ACT_CORRUPT: return act_corrupt(r, a, v, dice);
	case ACT_ECN:
		v->ecn = true;
		say(v, r, "marked as having met congestion");
		return true;
	case ACT_RATE: return act_rate(r, a, p, v);
	case ACT_BLACKHOLE:
		r->black_until = a->ns ? mono_add(p->now, a->ns) : MONO_NEVER;
		v->drop = true;
		say(v, r, "swallowed");
		return true;
	case ACT_RNR: return act_rnr(r, a, f, p, v);
	case ACT_NAK: return act_nak(r, a, f, p, v);
	case ACT_GHOST_ACK: return act_ghost(r, f, p, v);
	case ACT_SWALLOW_ACK: return act_swallow(r, a, f, p, v);
	case ACT_HOLD: return act_hold(r, a, f, p, v);
#define CASE_PACKET(name)
#define CASE_DEVICE(name)                      case ACT_##name:
#define CASE_QP(name)                          case ACT_##name:
#define ACT(name, about, value, without, word) CASE_##about(name)
#include "act.def"
#undef ACT
		rule_event_put(rs, r, a, p->device, p->qpn, p->now);
		say(v, r, "%s", rule_act_word(a->kind));
		return true;
	case ACTS: break;
	}
	return false;
}

/* ---- what earlier packets left behind --------------------------------------------------------- */

const struct rule *rule_get(const struct rules *rs, unsigned id)
{
	for (unsigned i = 0; i < rs->n; i++)
		if (rs->v[i]->id == id)
			return rs->v[i];
	return NULL;
}

/* A rule that was taken away has no hold on anything any more. */
static const struct rule *behind_answer(const struct rules *rs, struct stream *s, psn_t psn)
{
	const struct rule *r = s->muted ? rule_get(rs, s->mute_rule) : NULL;

	if (r && psn_before(s->mute, psn))
		return r;
	s->muted = false;
	return NULL;
}

static const struct rule *swallows(const struct rules *rs, struct flow *f, const struct tap_pkt *p)
{
	const struct rule *r;

	if (p->kind == TAP_ACK && (p->b->op_first == OPCODE_CNP || aeth_type(p->b->syndrome) != AETH_ACK))
		return NULL;
	for (unsigned i = 0; i < f->swallow_n; i++) {
		struct swallow *s = &f->swallow[i];

		if (p->kind == TAP_REQUEST || s->dir != p->dir || psn_before(p->b->psn, s->psn))
			continue;
		r = rule_get(rs, s->rule);
		if (!r || !--s->n)
			*s = f->swallow[--f->swallow_n];
		if (r)
			return r;
		i--;
	}
	return NULL;
}

static const struct rule *left_behind(struct rules *rs, struct flow *f, const struct tap_pkt *p, struct rule_verdict *v)
{
	struct stream *s = flow_stream(f, p);
	const struct rule *r = p->kind == TAP_REQUEST ? behind_answer(rs, s, p->b->psn) : NULL;

	if (r) {
		v->drop = true;
		say(v, r, "dropped behind the NAK");
		return r;
	}
	r = swallows(rs, f, p);
	if (r) {
		v->drop = true;
		say(v, r, "swallowed");
		return r;
	}
	r = mono_before(p->now, s->hold_until) ? rule_get(rs, s->hold_rule) : NULL;
	if (r) {
		v->delay_ns = mono_since(s->hold_until, p->now);
		say(v, r, "held");
	}
	return r;
}

/* ---- the decision ------------------------------------------------------------------------------- */

static void rule_take(struct rules *rs, struct rule *r, struct flow *f, const struct tap_pkt *p, struct rule_verdict *v)
{
	const char *text = v->text + strlen(v->text); /* what it will say */
	uint64_t late = v->delay_ns;
	bool did = false;
	uint64_t dice;

	r->seen++;
	if (mono_before(p->now, r->black_until)) {
		v->drop = true;
		say(v, r, "swallowed");
		did = true;
	} else {
		dice = dice_of(r, p);
		if (!is_chosen(r, f, &dice))
			return;
		for (unsigned i = 0; i < r->act_n && !v->drop; i++)
			did |= act(rs, r, &r->act[i], f, p, v, &dice);
	}
	if (!did)
		return;
	r->hits++;
	text += text > v->text && !strncmp(text, "; ", 2) ? 2 : 0; /* not if there was no room */
	rules_log(rs, r, p, p->now, (struct rule_did){ ns_since(v->delay_ns, late), v->drop, true, v->answer }, text);
}

void rules_decide(struct rules *rs, struct flow *f, struct tap_pkt *p, struct rule_verdict *v)
{
	const struct rule *left;

	*v = (struct rule_verdict){ 0 };
	if (f && p->dir == TAP_OUT && !f->sender)
		f->sender = ++rs->senders;
	p->sender = f ? f->sender : 0;
	if (!p->b || rule_lost(rs, p, v))
		return;
	left = f ? left_behind(rs, f, p, v) : NULL;
	if (left)
		rules_log(rs, left, p, p->now, (struct rule_did){ .late_ns = v->delay_ns, .lost = v->drop }, v->text);
	for (unsigned i = 0; i < rs->n && !v->drop; i++)
		if (matches(rs, rs->v[i], p))
			rule_take(rs, rs->v[i], f, p, v);
}
