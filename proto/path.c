/* SPDX-License-Identifier: MIT */
/* path.c - one window per peer: additive increase, multiplicative decrease. */
#include "path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca_in.h"
#include "req_flight.h"

#define PATIENCE_NS 250000000u /* longer than a packet lives on the way */
#define PACE_NS     2000000u   /* how long a receiver may have no core */
#define LATE_NS     1000000u   /* of a timer that fires: this host had no core */
#define RTT_NS      10000000000u

/* A program chooses the GIDs that it sends to. */
static unsigned hash(const struct hca *h, const uint8_t *gid)
{
	return (unsigned)secret_hash_gid(h->secret.key, gid) & (PATH_HASH - 1);
}

bool path_is_local(const struct hca *h, const uint8_t *dgid)
{
	for (uint32_t i = 0; i < h->paths.local_n; i++)
		if (gid_same(h->paths.local[i], dgid))
			return true;
	return false;
}

static uint64_t window_min(const struct hca *h)
{
	uint64_t min = 2 * (uint64_t)h->cfg.burst_len;

	return min < h->cfg.window_len ? min : h->cfg.window_len;
}

/* In a new epoch nothing is in flight. */
static void epoch_begin(struct path *p)
{
	p->epoch++;
	p->inflight = 0;
	p->owed = 0;
}

static void set_local(const struct hca *h, struct path *p, bool local)
{
	epoch_begin(p); /* only what is not local is counted */
	p->local = local;
	p->keeps = false; /* another host may be there */
	p->misses = p->untried = p->untried_n = 0;
	p->burst_len = local ? h->cfg.local_burst_len : h->cfg.burst_len;
	p->window = local ? UINT64_MAX : h->cfg.window_len ? h->cfg.window_len : 1;
	p->acked = p->window;
}

static struct path *find(const struct hca *h, const uint8_t *dgid)
{
	struct path *p = h->paths.head[hash(h, dgid)];

	while (p && !gid_same(p->dgid, dgid))
		p = p->next;
	return p;
}

static struct path *path_new(struct hca *h, const uint8_t *dgid)
{
	struct path **head = &h->paths.head[hash(h, dgid)], *p;

	p = heap_reserve(&h->timers, 2 * (h->qp.live + h->paths.n + 1)) ? NULL : calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	h->paths.n++;
	memcpy(p->dgid, dgid, 16);
	turns_init(&p->waiters);
	timer_init(&p->timer);
	link_init(&p->pace.waiters);
	link_init(&p->pace.filled);
	timer_init(&p->pace.timer);
	p->timer.of = TIMER_PATH;
	p->pace.timer.of = TIMER_PACE;
	p->pace.room = h->cfg.peer_room / 2;
	set_local(h, p, path_is_local(h, dgid));
	p->next = *head;
	*head = p;
	return p;
}

static void path_free(struct hca *h, struct path *p)
{
	struct path **at = &h->paths.head[hash(h, p->dgid)];

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	timer_del(&h->timers, &p->timer);
	timer_del(&h->timers, &p->pace.timer);
	link_del(&p->pace.filled);
	h->paths.n--;
	free(p);
}

struct path *path_get(struct hca *h, const uint8_t *dgid, uint32_t owner, struct lane **lane)
{
	struct path *p = find(h, dgid);

	if (!p)
		p = path_new(h, dgid);
	if (!p)
		return NULL;
	*lane = lane_get(&p->waiters, owner);
	if (*lane) {
		p->users++;
		return p;
	}
	if (!p->users)
		path_free(h, p);
	return NULL;
}

void path_put(struct hca *h, struct path *p, struct lane *lane)
{
	lane_put(&p->waiters, lane);
	if (!--p->users)
		path_free(h, p);
}

int hca_local_set(struct hca *h, const uint8_t *gid, bool local)
{
	struct paths *ps = &h->paths;
	struct path *p = find(h, gid);
	uint32_t i = 0;

	while (i < ps->local_n && !gid_same(ps->local[i], gid))
		i++;
	if (local && i == ps->local_n) {
		if (i == ps->local_max) {
			uint32_t max = i ? 2 * i : 16;
			void *v = realloc(ps->local, max * sizeof(*ps->local));

			if (!v)
				return ENOMEM;
			ps->local = v;
			ps->local_max = max;
		}
		memcpy(ps->local[ps->local_n++], gid, 16);
	} else if (!local && i < ps->local_n) {
		memmove(ps->local[i], ps->local[--ps->local_n], 16);
	}
	if (p && p->local != local) {
		set_local(h, p, local);
		p->rtt = (struct shortest){ 0 };
		for (i = 0; i <= h->qp.mask; i++)
			if (h->qp.v[i] && h->qp.v[i]->path == p)
				req_untimed(&h->qp.v[i]->req);
		path_wake(h, p);
	}
	return 0;
}

void paths_init(struct paths *ps) { link_init(&ps->filled); }

void paths_fini(struct hca *h) { free(h->paths.local); }

uint64_t path_room(const struct path *p)
{
	if (p->inflight < p->window)
		return p->window - p->inflight;
	return p->owed ? 0 : 1;
}

/* The QP's share of what is in flight. */
static uint64_t *share(struct qp *qp)
{
	if (qp->req.epoch != qp->path->epoch) {
		qp->req.epoch = qp->path->epoch;
		qp->req.inflight = 0;
		qp->req.owed = false;
	}
	return &qp->req.inflight;
}

void path_sent(struct qp *qp, uint64_t n)
{
	*share(qp) += n;
	qp->path->inflight += n;
}

static void grow(const struct hca *h, struct path *p, uint64_t n)
{
	uint64_t window = p->window + h->cfg.burst_len * n / p->window + 1;

	p->acked += n;
	p->acked_epoch += n;
	p->window = window < h->cfg.window_len ? window : h->cfg.window_len;
}

void path_done(struct hca *h, struct qp *qp, uint64_t n, uint64_t acked)
{
	struct path *p = qp->path;
	uint64_t *mine = share(qp);

	if (acked && !p->local)
		grow(h, p, acked);
	n = n < *mine ? n : *mine;
	*mine -= n;
	p->inflight -= n;
	path_wake(h, p);
}

void path_owed(struct hca *h, struct qp *qp, bool owed)
{
	share(qp);
	if (owed == qp->req.owed)
		return;
	qp->req.owed = owed;
	if (owed) {
		qp->path->owed++;
	} else {
		qp->path->owed--;
		path_wake(h, qp->path);
	}
}

void path_wait(struct hca *h, struct qp *qp)
{
	struct path *p = qp->path;

	if (!link_empty(&qp->waiter))
		return;
	turns_put(&p->waiters, qp->waiter_lane, &qp->waiter);
	if (mono_is_never(p->timer.at)) {
		p->acked_epoch = 0;
		timer_set(&h->timers, &p->timer, mono_add(h->now, PATIENCE_NS));
	}
}

/* One at a time: it takes what it wants, and hca_tx() wakes the next if there is room left. */
void path_wake_next(struct hca *h, struct path *p)
{
	struct link *next = path_room(p) ? turns_take(&p->waiters) : NULL;

	if (next)
		qp_ready(h, LINK_OF(next, struct qp, waiter));
}

void path_timer(struct hca *h, struct path *p)
{
	if (turns_empty(&p->waiters))
		return;
	if (p->acked_epoch < p->window)
		epoch_begin(p);
	path_wake(h, p);
	p->acked_epoch = 0;
	timer_set(&h->timers, &p->timer, mono_add(h->now, PATIENCE_NS));
}

/* ---- UC -------------------------------------------------------------------- */

/* The receiver takes in what arrived before at pace.room bytes for each PACE_NS. */
static void pace_drain(const struct hca *h, struct pace *pc)
{
	uint64_t ns = mono_since(h->now, pc->at), gone;

	if (ns > 2 * PACE_NS)
		ns = 2 * PACE_NS; /* all of it */
	gone = pc->room * ns / PACE_NS;
	if (!gone)
		return;
	pc->level = pc->level > gone ? pc->level - gone : 0;
	pc->at = h->now;
}

bool path_pace(struct hca *h, struct qp *qp, uint64_t n)
{
	struct path *p = qp->path;
	struct pace *pc = &p->pace;

	if (p->local || !pc->room)
		return true;
	pace_drain(h, pc);
	if (pc->level < pc->room) {
		pc->level += n;
		if (link_empty(&pc->filled))
			link_add_tail(&h->paths.filled, &pc->filled);
		return true;
	}
	if (link_empty(&qp->waiter))
		link_add_tail(&pc->waiters, &qp->waiter);
	if (mono_is_never(pc->timer.at)) {
		pc->due = mono_add(h->now, 1 + (pc->level - pc->room + p->burst_len) * PACE_NS / pc->room);
		timer_set(&h->timers, &pc->timer, pc->due);
	}
	path_wake(h, p); /* it has no use for the room in the window: the next */
	return false;
}

void path_pace_timer(struct hca *h, struct path *p)
{
	struct pace *pc = &p->pace;
	uint64_t late = mono_since(h->now, pc->due);

	/* While this host had no core the peer may have had none either, and read nothing: they may be the same. */
	if (late > LATE_NS)
		pc->at = mono_min(mono_add(pc->at, late), h->now);
	while (!link_empty(&pc->waiters)) {
		struct qp *qp = LINK_OF(pc->waiters.next, struct qp, waiter);

		link_del(&qp->waiter);
		qp_ready(h, qp);
	}
}

void paths_pace_sent(struct hca *h)
{
	while (!link_empty(&h->paths.filled)) {
		struct pace *pc = LINK_OF(h->paths.filled.next, struct pace, filled);

		link_del(&pc->filled);
		pc->at = h->now;
	}
}

void path_loss(struct hca *h, struct path *p, bool timeout)
{
	/* The packets behind one loss are lost in one go: halve once for each window's worth. */
	if (p->local || (!timeout && p->acked < p->window))
		return;
	p->window = p->window / 2 > window_min(h) ? p->window / 2 : window_min(h);
	p->acked = 0;
}

/* ---- round trips --------------------------------------------------------- */

/* Time in which nothing is measured makes nothing forgotten. */
void path_timed(const struct hca *h, struct path *p, uint64_t ns)
{
	struct shortest *s = &p->rtt;

	if (mono_since(h->now, s->since) >= RTT_NS)
		*s = (struct shortest){ .now_ns = ns, .before_ns = s->now_ns, .since = h->now };
	else if (!s->now_ns || ns < s->now_ns)
		s->now_ns = ns;
}

uint64_t path_rtt_least(const struct path *p)
{
	const struct shortest *s = &p->rtt;

	return s->before_ns && s->before_ns < s->now_ns ? s->before_ns : s->now_ns;
}
