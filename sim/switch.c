/* SPDX-License-Identifier: MIT */
/* switch.c - see switch.h. */
#include "switch.h"

#include "proto/cnp.h"

#include "fabric.h"
#include "say.h"

/* A few rounds of multiplication, so that each switch chooses on its own. */
static uint32_t mixed(uint32_t v, uint32_t salt)
{
	v ^= salt;
	v = (v ^ v >> 16) * 0x7feb352du;
	v = (v ^ v >> 15) * 0x846ca68bu;
	return v ^ v >> 16;
}

static struct port *route(const struct fabric *f, const struct sw *s, const struct packet *p)
{
	const struct seat *to = &f->seat[p->to];
	uint32_t first, n;

	if (&f->sw[to->sw] == s)
		return &s->port[to->port];
	first = s->next_at[to->sw];
	n = s->next_at[to->sw + 1] - first;
	return &s->port[s->next[n == 1 ? first : first + mixed(p->path, s->salt) % n]];
}

static void say_pause(struct fabric *f, struct port *in, bool pause)
{
	struct packet *p = packet_get(&f->packets);

	p->len = PACKET_PAUSE;
	p->class = CLASS_PAUSE;
	p->pause = in->pausing = pause;
	p->spare = false;
	in->log.pauses += pause;
	port_put(&f->agenda, in, p);
}

/* ---- the buffer --------------------------------------------------------------------------------- */

/* So much may join so much that is there: it fits, and all of it is not beyond alpha times what is free. */
static bool may_join(const struct sw *s, uint64_t there, uint64_t more)
{
	uint64_t left = s->shared - s->used;

	return more <= left && (double)(there + more) <= s->group->alpha * (double)left;
}

static bool admit_lossless(struct fabric *f, struct sw *s, struct port *in, struct packet *p)
{
	if (!in->pausing && may_join(s, in->held, p->len)) {
		p->spare = false;
		in->held += p->len;
		s->used += p->len;
		return true;
	}
	if (in->spare + p->len > in->room)
		broken("a switch with PFC has no room for a packet");
	p->spare = true;
	in->spare += p->len;
	if (!in->pausing)
		say_pause(f, in, true);
	return true;
}

static bool admit(struct fabric *f, struct sw *s, struct port *in, const struct port *out, struct packet *p)
{
	p->in = in->index;
	if (s->group->pfc)
		return admit_lossless(f, s, in, p);
	p->spare = false;
	if (!may_join(s, out->queue[CLASS_DATA].len, p->len))
		return false;
	in->held += p->len;
	s->used += p->len;
	return true;
}

void switch_sent(struct fabric *f, struct sw *s, struct port *out)
{
	struct port *in = &s->port[out->out_in];

	if (!out->out_len)
		return;
	if (out->out_spare) {
		in->spare -= out->out_len;
	} else {
		in->held -= out->out_len;
		s->used -= out->out_len;
	}
	/* Not at the very limit: it would be told to pause by the next packet again. */
	if (in->pausing && !in->spare && (!in->held || may_join(s, in->held, 2 * f->packet_len)))
		say_pause(f, in, false);
}

/* ---- marks ---------------------------------------------------------------------------------------- */

static void mark(struct fabric *f, const struct sw *s, struct port *out, struct packet *p)
{
	const struct ecn *e = &s->group->ecn;
	uint64_t len = out->queue[CLASS_DATA].len;

	if (!e->on || len <= e->kmin || !(p->burst.route.tclass & ECN_BITS) ||
	    (p->burst.route.tclass & ECN_BITS) == ECN_CE)
		return;
	if (len <= e->kmax) {
		double chance = e->pmax * (double)(len - e->kmin) / (double)(e->kmax - e->kmin);

		if ((double)(rng_next(&f->rng) >> 11) >= chance * 0x1p53)
			return;
	}
	p->burst.route.tclass |= ECN_CE;
	out->log.marks++;
}

void switch_rx(struct fabric *f, struct sw *s, struct port *in, struct packet *p)
{
	struct port *out;

	if (p->class == CLASS_PAUSE) {
		port_pause(&f->agenda, in, p->pause);
		packet_put(&f->packets, p);
		return;
	}
	out = route(f, s, p);
	if (p->class == CLASS_DATA) {
		if (!admit(f, s, in, out, p)) {
			out->log.drops++;
			packet_put(&f->packets, p);
			return;
		}
		mark(f, s, out, p);
	}
	port_put(&f->agenda, out, p);
}
