/* SPDX-License-Identifier: MIT */
/*
 * rule_event.c - what rules do to ports, devices and QPs: at a packet, at a moment, and when a time is over.
 *
 *	begins			state of the device	ends
 *	port-down, flap		STATE_DOWN		port-up
 *	wedge			STATE_WEDGED		unwedge
 *	unplug			STATE_UNPLUGGED		plug
 */
#include "rule.h"

#include <stdio.h>
#include <string.h>

#define EVENTS (sizeof(((struct rules *)0)->event) / sizeof(struct rule_event))

static const struct {
	enum rule_act_kind begin, end;
	const char *lost; /* of packets */
} states[RULE_STATES] = {
	[STATE_DOWN] = { ACT_PORT_DOWN, ACT_PORT_UP, "the port is down" },
	[STATE_WEDGED] = { ACT_WEDGE, ACT_UNWEDGE, "the device is wedged" },
	[STATE_UNPLUGGED] = { ACT_UNPLUG, ACT_PLUG, "the device is unplugged" },
};

/* ---- begin and end ------------------------------------------------------------------------------- */

static void state_begin(struct rules *rs, enum rule_state state, unsigned device, unsigned rule, uint64_t ns,
			mono_t now)
{
	rs->until[state][device] = ns ? mono_add(now, ns) : MONO_NEVER;
	rs->since[state][device] = now;
	rs->by[state][device] = rule;
	rs->cut[device] = (struct rule_cut){ .rule = rule, .state = state };
}

/*
 * If the host cannot be told: what begins does not, since neither would the host end it, and of what ends over_due()
 * tells later.
 */
static void state_change(struct rules *rs, const struct rule *r, const struct rule_act *a, unsigned device, mono_t now)
{
	const bool full = rs->event_n == EVENTS;
	struct rule_flap *flap = &rs->flap[device];

	for (unsigned k = 0; k < RULE_STATES; k++) {
		if (a->kind == states[k].begin && !full)
			state_begin(rs, (enum rule_state)k, device, r->id, a->ns, now);
		else if (a->kind == states[k].end)
			rs->until[k][device] = full ? RULE_OVER : (mono_t){ 0 };
	}
	if ((a->kind == ACT_PORT_DOWN && !full) || a->kind == ACT_PORT_UP)
		flap->left = 0;
	if (a->kind != ACT_FLAP || full)
		return;
	*flap = (struct rule_flap){ .left = a->n - 1, .rule = r->id, .down_ns = a->ns, .up_ns = a->up_ns };
	state_begin(rs, STATE_DOWN, device, r->id, a->ns, now);
}

static void queue(struct rules *rs, const struct rule_event *e)
{
	if (rs->event_n < EVENTS)
		rs->event[rs->event_n++] = *e;
}

void rule_event_put(struct rules *rs, const struct rule *r, const struct rule_act *a, unsigned device, uint32_t qpn,
		    mono_t now)
{
	/* To the host a flap is a port that goes down, and up, and down. */
	struct rule_event e = { .kind = a->kind == ACT_FLAP ? ACT_PORT_DOWN : a->kind, .rule = r->id, .qpn = qpn };

	for (unsigned i = 0; i < rs->device_n; i++) {
		if (device < RULE_DEVICES ? i != device : r->device[0] && strcmp(r->device, rs->device[i]))
			continue;
		e.devices |= 1u << i;
		state_change(rs, r, a, i, now);
	}
	queue(rs, &e);
}

/* ---- packets ------------------------------------------------------------------------------------- */

bool rule_lost(struct rules *rs, const struct tap_pkt *p, struct rule_verdict *v)
{
	for (unsigned k = RULE_STATES; k-- > 0 && p->device < RULE_DEVICES;) {
		if (!mono_before(p->now, rs->until[k][p->device]))
			continue;
		v->drop = true;
		v->wedged = k == STATE_WEDGED;
		rs->cut[p->device].n++;
		rs->cut[p->device].last = p->now;
		snprintf(v->text, sizeof(v->text), "dropped: %s by a rule", states[k].lost);
		return true;
	}
	return false;
}

/* ---- what is due --------------------------------------------------------------------------------- */

static void timed_due(struct rules *rs, mono_t now)
{
	struct tap_pkt none = { .device = RULE_DEVICES };

	for (unsigned i = 0; i < rs->n; i++) {
		struct rule *r = rs->v[i];

		if (!r->timed || r->done || mono_before(now, mono_add(r->added, r->at_ns)))
			continue;
		r->done = true;
		r->hits++;
		for (unsigned k = 0; k < r->act_n; k++) {
			rule_event_put(rs, r, &r->act[k], RULE_DEVICES, 0, now);
			rules_log(rs, r, &none, now, (struct rule_did){ 0 }, rule_act_word(r->act[k].kind));
		}
	}
}

static void over_due(struct rules *rs, unsigned device, mono_t now)
{
	struct rule_flap *flap = &rs->flap[device];

	for (unsigned k = 0; k < RULE_STATES; k++) {
		if (!rs->until[k][device].ns || mono_before(now, rs->until[k][device]))
			continue;
		rs->until[k][device] = (mono_t){ 0 };
		queue(rs, &(struct rule_event){ .kind = states[k].end, .devices = 1u << device });
		if (k == STATE_DOWN && flap->left)
			flap->at = mono_add(now, flap->up_ns);
	}
	if (!flap->left || rs->until[STATE_DOWN][device].ns || mono_before(now, flap->at))
		return;
	flap->left--;
	state_begin(rs, STATE_DOWN, device, flap->rule, flap->down_ns, now);
	queue(rs, &(struct rule_event){ .kind = ACT_PORT_DOWN, .rule = flap->rule, .devices = 1u << device });
}

bool rules_event(struct rules *rs, struct rule_event *e, mono_t now)
{
	timed_due(rs, now);
	for (unsigned i = 0; i < rs->device_n && rs->event_n < EVENTS / 2; i++) /* those that have no room wait */
		over_due(rs, i, now);
	if (!rs->event_n)
		return false;
	*e = rs->event[0];
	memmove(rs->event, rs->event + 1, --rs->event_n * sizeof(*e));
	return true;
}

mono_t rules_deadline(const struct rules *rs)
{
	mono_t t = rs->event_n ? (mono_t){ 0 } : MONO_NEVER;

	for (unsigned i = 0; i < rs->n; i++)
		if (rs->v[i]->timed && !rs->v[i]->done)
			t = mono_min(t, mono_add(rs->v[i]->added, rs->v[i]->at_ns));
	for (unsigned i = 0; i < rs->device_n; i++) {
		for (unsigned k = 0; k < RULE_STATES; k++)
			if (rs->until[k][i].ns)
				t = mono_min(t, rs->until[k][i]);
		if (rs->flap[i].left && !rs->until[STATE_DOWN][i].ns)
			t = mono_min(t, rs->flap[i].at);
	}
	return t;
}

bool rule_about_qp(const struct rules *rs, const struct rule_event *e, unsigned device, uint32_t qpn,
		   const struct tap_qp *qp)
{
	const struct rule *r = rule_get(rs, e->rule);

	if (!(e->devices >> device & 1))
		return false;
	return e->qpn ? e->qpn == qpn : r && rule_qp_matches(r, device, qpn, qp);
}
