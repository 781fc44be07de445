/* SPDX-License-Identifier: MIT */
/*
 * turn.c - a turn, step by step.
 *
 *	calls -> ctx_drain -> UDP in -> ticks -> CM -> bursts out (wire, local) -> ctx_publish
 *	  ^                                                                       |
 *	  +----------------- spin a little, or sleep <----------------------------+
 *
 * When to spin and when to sleep: spin.h.
 */
#include "turn.h"

#include <stdlib.h>

#include "../../proto/hca.h"
#include "../../proto/hdr.h"
#include "../base/clock.h"
#include "../base/region.h"
#include "drain.h"
#include "hooks.h"
#include "idle.h"
#include "inbox.h"
#include "look.h"
#include "net_rx.h"
#include "net_send.h"
#include "net_tx.h"
#include "peers.h"
#include "publish.h"
#include "raw.h"
#include "tap.h"
#include "net.h"

#define LOOK_NS       50000u     /* how often files are looked at while there is no time to sleep */
#define LIGHT_NS      5000u      /* how long only bells are looked at while spinning */
#define LONE_MAX      2u         /* sends, completions */
#define LOOKED_AT_MAX 2u         /* contexts that are awake */
#define HOT_YIELDS    3u         /* so often the core is given away before a socket that had nothing is read again */
#define TX_TURN_LEN   (4u << 20) /* bytes, before rings are looked at again */
#define GUEST_NS      100000u    /* after which the shard is woken, if there is more */
#define TX_HCA_BURSTS 64u        /* from one HCA, before it is the next one's turn */

/* ---- in -------------------------------------------------------------------- */

/*
 * A sender may know of a receive that was posted after ctx_drain(), and UC and UD have no second try: so receives are
 * taken once more between reading a datagram and handing it to an HCA.  *now: the turn's time, and behind it that of what was
 * read last: it may have come long after the turn began, and the wait that an RNR NAK asks for begins when it has come.  Which
 * sockets are read goes by the turn's time: else those that come last would cool while the first one is read.
 */
static bool turn_net_rx(struct shard *s, mono_t *now)
{
	const mono_t began = *now;
	bool any = false;

	net_rx_begin(s->net);
	while (net_read(s->net, began)) {
		ctx_drain_recvs(s, *now);
		*now = clock_now();
		net_give(s->net, *now);
		any = true;
	}
	return any;
}

static bool turn_raw_rx(struct shard *s, mono_t now)
{
	if (!raw_hot(s))
		return false;
	ctx_drain_recvs(s, now);
	raw_rx(s, now);
	return true;
}

/* A datagram to a group has gone to all shards, or all HCAs: most have nobody in it, which is no fault of its sender's. */
static bool letter_wanted(struct hca *hca, const struct letter *m)
{
	return be24_get(m->data + BTH_DQPN) != QPN_MCAST || hca_mcast_has(hca, m->route.dgid);
}

static bool letters_read(struct shard *s, struct letter *m)
{
	mono_t now = clock_now();
	bool any = m;

	if (m)
		ctx_drain_recvs(s, now);
	for (struct letter *next; m; m = next) {
		struct hca *hca = s->hca[m->device->index];

		next = m->next;
		if (letter_wanted(hca, m)) {
			hca_count(hca, HCA_STAT_STRANGERS, 1);
			if (tap_on(s, m->device->index))
				tap_rx_mail(s, m->device, &m->route, m->data, m->len);
			else
				hca_rx(hca, &m->route, m->data, m->len, now);
		}
		free(m);
	}
	return any;
}

/* ---- out ------------------------------------------------------------------- */

/*
 * The device whose HCA of this shard a burst goes to without a wire; NULL: there is none.  *stray: it is for a QP of
 * another shard, which is not connected to the one that it is from and could not see that.
 */
static struct device *local_device(const struct shard *s, const struct burst *b, bool *stray)
{
	struct device *dev = net_device_to(s->net, b->route.dgid);

	*stray = false;
	if (!dev || b->dqpn == QPN_MCAST)
		return NULL;
	if (shards_n > 1 && qpn_owner(b->dqpn) != s->index) {
		*stray = b->dqpn > 1 && SVC_OF(b->op_first) != SVC_UD && !peers_is(b->dqpn, b->sqpn);
		return NULL;
	}
	return dev;
}

/* By a packet socket, through the tap, to an HCA of this shard, or to the wire. */
static void burst_out(struct shard *s, unsigned device, const struct burst *b, mono_t now)
{
	struct hca *hca = s->hca[device];
	bool stray = false;
	struct device *to = b->raw ? NULL : local_device(s, b, &stray);

	if (stray) {
		hca_count(hca, HCA_STAT_BAD_ROUTE, b->n);
		return;
	}
	if (to)
		hca_count(hca, HCA_STAT_LOCAL_TRAINS, 1);
	if (b->raw)
		raw_tx(s, hca, device, b, now);
	else if (tap_on(s, device) || (to && tap_on(s, to->index)))
		tap_tx(s, device, hca, b, to);
	else if (!to)
		net_tx(s->net, hca, b, now);
	else if (hca_rx_burst(s->hca[to->index], b, now))
		hca_tx_fault(hca, b, 0, now);
}

/* The time of the turn; while packets are looked at one by one each has its own (tap.h), and what comes next is not before them. */
static mono_t later(const struct shard *s, mono_t now) { return s->tap ? clock_now() : now; }

static uint64_t tx_hca(struct shard *s, unsigned device, mono_t now, bool guest)
{
	struct burst b;
	uint64_t len = 0;

	for (unsigned i = 0; i < TX_HCA_BURSTS && len < TX_TURN_LEN; i++) {
		now = later(s, now);
		if (!(guest ? hca_tx_own : hca_tx)(s->hca[device], &b, now))
			break;
		len += b.payload_len + (b.raw ? raw_cost(&b) : 1);
		burst_out(s, device, &b, now);
	}
	return len;
}

/* A local burst may make its receiver want to send: round and round, until all are silent.  Bytes, at least 1 a burst. */
static uint64_t turn_tx(struct shard *s, mono_t now, bool guest)
{
	uint64_t sum = 0, round;

	net_send_retry(s->net, now);
	do {
		round = 0;
		for (unsigned i = 0; i < devices_n; i++)
			round += tx_hca(s, i, now, guest);
		sum += round;
	} while (round && sum < TX_TURN_LEN);
	return sum;
}

/*
 * So few completions that they are told before the train goes, which is a system call: their program goes on meanwhile.  More of
 * them come with a stream, where the peer waits for the train.
 */
static bool turn_lone(const struct shard *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < devices_n; i++)
		n += hca_completions_n(s->hca[i]);
	return n <= LONE_MAX;
}

static void turn_sent(const struct shard *s, mono_t now)
{
	for (unsigned i = 0; i < devices_n; i++)
		hca_sent(s->hca[i], now);
}

static mono_t hcas_deadline(const struct shard *s)
{
	mono_t t = MONO_NEVER;

	for (unsigned i = 0; i < devices_n; i++)
		t = mono_min(t, hca_deadline(s->hca[i]));
	return t;
}

static bool turn_tap(struct shard *s, mono_t until)
{
	if (!mono_reached(until, tap_deadline(s)))
		return false;
	tap_due(s, until);
	return true;
}

/* A packet that a rule has delayed may be what a timer waits for: of a shard that is late the one that was due first goes first. */
static bool turn_tick(struct shard *s, mono_t now)
{
	bool any = s->tap && turn_tap(s, mono_min(now, hcas_deadline(s)));

	for (unsigned i = 0; i < devices_n; i++) {
		if (mono_reached(now, hca_deadline(s->hca[i]))) {
			hca_tick(s->hca[i], now);
			any = true;
		}
	}
	return turn_tap(s, now) || any;
}

/* ---- waiting --------------------------------------------------------------- */

static mono_t turn_deadline(const struct shard *s)
{
	mono_t t = mono_min(mono_min(tap_deadline(s), ctx_deadline(s)), raw_deadline(s));

	t = mono_min(t, net_send_deadline(s->net));
	if (s->index == 0)
		t = mono_min(t, hooks.agents_deadline(s));
	return mono_min(t, hcas_deadline(s));
}

static bool is_due(struct shard *s)
{
	if (ctx_any_rung(s))
		return true;
	for (unsigned i = 0; i < devices_n; i++)
		if (hca_wants(s->hca[i]))
			return true;
	return mono_before(turn_deadline(s), s->sleeps_until);
}

static void turn_sleep(struct shard *s, struct turn *t, mono_t now)
{
	mono_t until, woken;

	idle_sweep(s, now);
	spin_rest(&t->spin);
	ctx_sleep(s);
	inbox_asleep(s->inbox, true);
	if (!ctx_pending(s) && !inbox_wanted(s->inbox)) {
		until = turn_deadline(s);
		now = clock_now();
		turn_sent(s, now);
		s->count.sleeps++;
		s->sleeps_until = until;
		look_wait(s, mono_is_never(until) ? UINT64_MAX : mono_since(until, now));
		woken = clock_now();
		t->look_at = mono_add(woken, LOOK_NS);
		spin_slept(&t->spin, now, woken, ctx_pending(s));
	}
	inbox_asleep(s->inbox, false);
	spin_woken(&t->spin, ctx_wake(s));
}

/* Done by a turn. */
struct done {
	bool busy;  /* something for or by a program, or a peer */
	bool again; /* and it may have made more to do */
	unsigned posted;
};

/*
 * To give the core away takes as long as a small message, and one that comes meanwhile waits: who has nobody to give it to looks
 * longer.  Not in a stream, where more at once is less work, nor for the sake of a crowd: each look takes a line from a program that
 * is about to write it.
 */
static bool looks_longer(const struct shard *s, const struct done *d)
{
	return d->posted <= LONE_MAX && s->ctx_n - s->idle_n <= LOOKED_AT_MAX;
}

/* *now goes on. */
static bool is_rung(const struct shard *s, uint64_t for_ns, mono_t *now)
{
	mono_t until = mono_add(*now, for_ns);

	while (!ctx_pending(s)) {
		if (mono_reached(*now, until))
			return false;
		*now = clock_now();
	}
	return true;
}

/* Gives the core away until a program rings, or something else may be due. */
static void turn_spin(struct shard *s, struct turn *t, const struct done *d, mono_t now)
{
	bool longer = looks_longer(s, d);
	mono_t until;
	unsigned hot = 0;

	if (longer) /* of each yield it is to be known how long it takes */
		now = clock_now();
	until = mono_min(mono_add(now, LIGHT_NS), turn_deadline(s));
	while (!inbox_wanted(s->inbox)) {
		if (is_rung(s, longer && !net_hot(s->net, now) ? spin_look_ns(&t->spin) : 0, &now) ||
		    idle_kicks(s, false)) {
			spin_found(&t->spin);
			break;
		}
		if (idle_kicked(s))
			break;
		now = spin_turn(&t->spin, now);
		if (mono_reached(now, until) || !spin_may(&t->spin, now) ||
		    (net_hot(s->net, now) && ++hot == HOT_YIELDS))
			break;
	}
	if (idle_is_hidden(s))
		t->look_at = now;
}

/* ---- all of it ------------------------------------------------------------- */

/* From programs and the network. */
static void take(struct shard *s, struct done *d, mono_t *now)
{
	d->busy = ctx_drain(s, &d->posted, *now);
	d->again |= turn_net_rx(s, now);
	d->again |= turn_raw_rx(s, *now);
	d->again |= raw_again(s, *now);
}

/*
 * *at: the time, which goes on.  A guest takes nothing: to see what was posted before what, kicks must be looked for, and that is a
 * question to the shard's io.  So it sends nothing of queue pairs either: it may be for a receive that was posted, but not taken.
 */
static struct done work(struct shard *s, mono_t *at, bool guest)
{
	mono_t now = *at;
	const mono_t began = now;
	struct done d = { 0 };
	uint64_t sent;

	turn_sent(s, began);
	/* A timer that is due may have its answer in the socket already: a guest, who reads none, leaves it to the shard. */
	if (!guest) {
		take(s, &d, &now);
		d.again |= turn_tick(s, began);
	}
	if (s->index == 0)
		d.again |= hooks.agents_turn(s, guest ? (mono_t){ 0 } : began);
	region_defer(d.posted > 1);
	sent = turn_tx(s, later(s, now), guest);
	region_defer(false);
	now = later(s, now);
	if (!turn_lone(s))
		net_flush(s->net);
	d.busy |= ctx_publish(s, now) || sent || d.again;
	net_flush(s->net);
	/* Posted work has been carried out; the rest may have made more to do. */
	d.again |= sent >= TX_TURN_LEN;
	*at = now;
	return d;
}

/* Packet sockets and taps ask the shard's io for something: they are left to its thread. */
bool turn_guest(struct shard *s)
{
	const mono_t began = clock_now();
	mono_t now = began;
	struct done d;

	if (!is_due(s))
		return true;
	if (s->raw_n || s->tap)
		return false;
	do {
		d = work(s, &now, true);
		now = clock_now();
	} while (d.again && mono_since(now, began) < GUEST_NS);
	return !d.again && !is_due(s);
}

/* A call alone is no sign that there will be something to spin for. */
bool turn(struct shard *s, struct turn *t)
{
	bool called = inbox_wanted(s->inbox), mail = false, stop = false;
	struct done d;
	mono_t now;

	if (called)
		mail = letters_read(s, inbox_open(s, &stop));
	now = clock_now(); /* no earlier than what calls have said */
	s->count.turns++;
	ctx_core(s);
	if (mono_reached(now, t->look_at)) {
		t->look_at = mono_add(now, LOOK_NS);
		idle_sweep(s, now);
		look_wait(s, 0);
	}
	d = work(s, &now, false);
	net_send_await(s->net);
	if (s->naps) {
		spin_not(&t->spin, now);
		s->naps = false;
	}
	if (d.busy || mail) {
		spin_busy(&t->spin, now);
		cpu_busy(&t->cpu, now);
	}
	if (called || d.again)
		return !stop;
	if (spin_may(&t->spin, now))
		turn_spin(s, t, &d, now);
	else
		turn_sleep(s, t, now);
	return !stop;
}

void turn_init(struct turn *t)
{
	*t = (struct turn){ 0 };
	spin_init(&t->spin);
	cpu_init(&t->cpu);
}

void turn_end(struct turn *t) { cpu_end(&t->cpu); }
