/* SPDX-License-Identifier: MIT */
/* cm_prog.c - see cm_prog.h. */
#include "t/sim/cm_prog.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_VAIN      (1000 * S_NS) /* no DREQ comes: data would have failed by now, and the program closes */
#define QPN_OF(plan) (0x100u + (plan))

static const char *const phase_name[PHASES] = { "calling", "called",  "accepted",  "answered", "up",    "closing",
						"closed",  "refused", "timed_out", "lost",     "killed" };

static struct world *world_of(const struct cm_end *e) { return e->net->arg; }

static void fail(const struct call *c, const char *what)
{
	fprintf(stderr, "cm_prog: %s: call %#x (%s, %s)\n", what, c->id, c->active ? "active" : "passive",
		phase_name[c->phase]);
	abort();
}

static void must(const struct call *c, bool ok, const char *what)
{
	if (!ok)
		fail(c, what);
}

static struct call *call_new(struct cm_end *e, bool active, unsigned plan)
{
	struct world *w = world_of(e);
	struct call *c = &w->call[w->calls++];

	if (w->calls > CALLS)
		abort();
	*c = (struct call){ .end = e,
			    .active = active,
			    .plan = w->plan[plan],
			    .number = plan,
			    .act = MONO_NEVER,
			    .die = MONO_NEVER,
			    .send = MONO_NEVER };
	return c;
}

static void over(struct call *c, enum phase phase)
{
	c->phase = phase;
	c->over = true;
	c->act = c->die = c->send = MONO_NEVER;
	cm_id_free(c->end->cm, c->id, c->end->net->now);
}

static void act_in(struct call *c, uint64_t ns)
{
	c->act = mono_add(c->end->net->now, ns);
	c->end->net->wake = mono_min(c->end->net->wake, c->act);
}

static void now_up(struct call *c)
{
	c->phase = UP;
	c->up = true;
	if (c->plan.data && c->active)
		c->send = c->end->net->now;
	if (c->plan.closer == CLOSE_BOTH || (c->plan.closer == CLOSE_ACTIVE) == c->active)
		act_in(c, c->plan.stay_ns);
	else
		act_in(c, IN_VAIN);
}

/* ---- what a program does by itself ------------------------------------------------ */

static void answer(struct call *c)
{
	struct cm *cm = c->end->cm;
	mono_t now = c->end->net->now;
	struct cm_rep rep = net_rep(QPN_OF((unsigned)(c - world_of(c->end)->call)) + CALLS);

	if (c->plan.sidr) {
		must(c,
		     !cm_sidr_reply(cm, c->id,
				    &(struct cm_sidr_rep){ .status = c->plan.refuse ? SIDR_REJECT : SIDR_OK, .qpn = 9 },
				    now),
		     "cm_sidr_reply");
		over(c, c->plan.refuse ? REFUSED : CLOSED);
	} else if (c->plan.refuse) {
		must(c, !cm_reject(cm, c->id, REJ_CONSUMER, NULL, 0, NULL, now), "cm_reject");
		over(c, REFUSED);
	} else {
		must(c, !cm_accept(cm, c->id, &rep, now), "cm_accept");
		c->phase = ACCEPTED;
	}
}

static void act(struct call *c)
{
	struct cm *cm = c->end->cm;
	mono_t now = c->end->net->now;

	switch (c->phase) {
	case CALLED: answer(c); break;
	case ANSWERED:
		must(c, !cm_rtu(cm, c->id, NULL, now), "cm_rtu");
		now_up(c);
		break;
	case UP:
		if (c->plan.kill) {
			over(c, KILLED);
			break;
		}
		must(c, !cm_disconnect(cm, c->id, NULL, now), "cm_disconnect");
		c->phase = CLOSING;
		break;
	default: fail(c, "nothing to do");
	}
}

/* A packet of data arrives: who accepted is told so by its QP, if it still waits for the RTU. */
static void send(struct call *c)
{
	struct world *w = world_of(c->end);

	if (c->phase != UP || !c->plan.data--) {
		c->send = MONO_NEVER;
		return;
	}
	for (struct call *p = w->call; p < w->call + w->calls; p++)
		if (!p->active && p->number == c->number && p->phase == ACCEPTED)
			must(p, !cm_established(p->end->cm, p->id, w->net.now), "cm_established");
	c->send = mono_add(w->net.now, MS_NS);
}

static void before(struct cm_net *n)
{
	struct world *w = n->arg;

	for (unsigned i = 0; i < w->calls; i++) {
		struct call *c = &w->call[i];

		if (mono_reached(n->now, c->die)) {
			over(c, KILLED);
		} else if (mono_reached(n->now, c->act)) {
			c->act = MONO_NEVER;
			act(c);
		}
		if (mono_reached(n->now, c->send))
			send(c);
		n->wake = mono_min(n->wake, mono_min(c->send, mono_min(c->act, c->die)));
	}
}

/* ---- what it is told ------------------------------------------------------------------ */

static void told_new(struct cm_end *e, const struct cm_event *ev)
{
	struct world *w = world_of(e);
	bool sidr = ev->type == CM_EV_SIDR_REQ;
	uint32_t qpn = sidr ? ev->msg.sidr_req.pkey : ev->msg.req.qpn;
	struct call *c = call_new(e, false, qpn - QPN_OF(0));

	c->id = ev->id;
	c->phase = CALLED;
	must(c, ev->listen_id == w->listener[e - e->net->end], "another's listener");
	must(c, c->plan.sidr == sidr, "REQ and SIDR_REQ mixed up");
	must(c, !cm_host_set(e->cm, c->id, c), "cm_host_set");
	act_in(c, c->plan.think_ns);
}

static void told(struct cm_end *e, const struct cm_event *ev)
{
	struct world *w = world_of(e);
	struct call *c = ev->host;

	w->hash = (w->hash ^ ev->id ^ (uint64_t)ev->type << 32 ^ e->net->now.ns) * 0x100000001b3u;
	if (ev->type == CM_EV_REQ || ev->type == CM_EV_SIDR_REQ) {
		told_new(e, ev);
		return;
	}
	must(c, c->id == ev->id && !c->over, "an event after the end");
	switch (ev->type) {
	case CM_EV_REP:
		must(c, c->phase == CALLING, "REP");
		c->phase = ANSWERED;
		act_in(c, c->plan.think_ns);
		break;
	case CM_EV_RTU:
		must(c, c->phase == ACCEPTED, "RTU");
		now_up(c);
		break;
	case CM_EV_REJ:
		if (c->active && c->phase != CALLING) { /* it thought it was connected */
			must(c, c->phase == ANSWERED || c->phase == UP, "REJ");
			c->phase = LOST;
			c->act = MONO_NEVER;
			break;
		}
		must(c, c->phase <= ACCEPTED || c->phase == UP, "REJ");
		if (c->phase == UP) {
			c->phase = LOST;
			c->act = MONO_NEVER;
		} else {
			over(c, REFUSED);
		}
		break;
	case CM_EV_TIMEOUT:
		must(c, c->phase == CALLING || c->phase == ACCEPTED, "timeout");
		over(c, TIMED_OUT);
		break;
	case CM_EV_DREQ:
		must(c, c->phase == UP, "DREQ");
		must(c, !cm_disconnect(e->cm, c->id, NULL, e->net->now), "cm_disconnect");
		c->phase = CLOSED;
		c->act = MONO_NEVER;
		break;
	case CM_EV_DREP:
	case CM_EV_DREQ_TIMEOUT:
		/*
		 * CM_EV_DREP without our asking: the agent asked, as the peer has forgotten the connection.
		 */
		must(c, c->phase == CLOSING || c->phase == UP, "DREP");
		c->phase = CLOSED;
		c->act = MONO_NEVER;
		break;
	case CM_EV_TIMEWAIT_EXIT:
		must(c, c->phase == CLOSED || c->phase == LOST, "timewait");
		over(c, c->phase);
		break;
	case CM_EV_SIDR_REP:
		must(c, c->phase == CALLING && c->plan.sidr, "SIDR_REP");
		over(c, ev->msg.sidr_rep.status ? REFUSED : CLOSED);
		break;
	default: fail(c, "unknown event");
	}
}

/* ---- the network -------------------------------------------------------------------------- */

static struct fate fate(struct cm_net *n, unsigned, const struct cm_msg *)
{
	struct world *w = n->arg;
	struct fate f = { .lost = rng_ppm(&w->rng, w->loss_ppm) };

	if (n->sent < 32 && w->mask >> n->sent & 1)
		f.lost = true;
	f.copies = rng_ppm(&w->rng, w->dup_ppm) || w->late_ns;
	if (w->delay_ns) {
		/* Most are quick; some take long enough to be overtaken by what repeats them. */
		f.delay_ns = rng_one_in(&w->rng, 4) ? rng_ns(&w->rng, w->delay_ns) : rng_ns(&w->rng, MS_NS);
		f.copy_delay_ns = rng_ns(&w->rng, w->delay_ns);
	}
	if (w->late_ns)
		f.copy_delay_ns = w->late_ns;
	return f;
}

static void landing(struct cm_net *n, unsigned, enum cm_state state, const struct cm_msg *m)
{
	struct world *w = n->arg;

	if (m->attr <= CM_SIDR_REP)
		w->reached[state][m->attr]++;
}

void world_init(struct world *w, uint64_t seed)
{
	memset((char *)w + offsetof(struct world, plan), 0,
	       sizeof(*w) - offsetof(struct world, plan)); /* net_init() clears the net */
	net_init(&w->net, seed);
	w->rng.s = seed;
	w->net.arg = w;
	w->net.fate = fate;
	w->net.before = before;
	w->net.landing = landing;
	for (unsigned k = 0; k < 2; k++) {
		w->net.end[k].on_event = told;
		if (cm_listen(w->net.end[k].cm, SERVICE, NULL, &w->listener[k]))
			abort();
	}
}

void world_call(struct world *w, unsigned from, unsigned plan)
{
	struct cm_end *e = &w->net.end[from];
	struct call *c = call_new(e, true, plan);
	struct cm_connect a = net_req(e, QPN_OF(plan));
	/* The P_Key is at nobody's disposal else: it says which plan it is. */
	struct cm_sidr_req s = { .service_id = SERVICE, .pkey = (uint16_t)QPN_OF(plan) };

	a.req.max_retries = c->plan.retries;
	if (c->plan.answer)
		a.req.local_timeout = a.req.remote_timeout = c->plan.answer;
	must(c,
	     !(c->plan.sidr ? cm_sidr(e->cm, &s, &a.route, c, &c->id, w->net.now)
			    : cm_connect(e->cm, &a, c, &c->id, w->net.now)),
	     "cm_connect");
	if (!c->plan.dies_ns)
		return;
	c->die = mono_add(w->net.now, c->plan.dies_ns);
	w->net.wake = mono_min(w->net.wake, c->die);
}

void world_end(struct world *w)
{
	net_settle(&w->net);
	for (unsigned i = 0; i < w->calls; i++)
		must(&w->call[i], w->call[i].over, "never ended");
	for (unsigned k = 0; k < 2; k++) {
		cm_id_free(w->net.end[k].cm, w->listener[k], w->net.now);
		if (ids(&w->net.end[k])) {
			fprintf(stderr, "cm_prog: %u ids are left\n", ids(&w->net.end[k]));
			abort();
		}
	}
	net_fini(&w->net);
}

unsigned world_count(const struct world *w, bool active, enum phase phase, bool up)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->calls; i++)
		n += w->call[i].active == active && w->call[i].phase == phase && w->call[i].up == up;
	return n;
}
