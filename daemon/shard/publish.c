/* SPDX-License-Identifier: MIT */
/*
 * publish.c - completions and events go from the HCAs to the programs.
 *
 * Completions are written to the CQ rings and published once per CQ and turn; then, if the CQ is armed, its
 * cookie goes into the channel.  A channel or an event socket that is full harms only its
 * reader: what did not fit is kept (a CQ's event as one bit, async events up to EVENTS_MAX), and the control
 * thread calls outlet_retry() when the descriptor can be written.
 *
 * Both are sockets: writing into one waits for nothing, whereas a pipe is locked as long as its reader's memory makes it wait.
 */
#include "publish.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../base/clock.h"
#include "../base/log.h"
#include "hooks.h"
#include "idle.h"
#include "inbox.h"

#define WAKES      16   /* threads at a completion: the others wake by themselves */
#define UNREAD     512u /* events that a socket holds, and more */
#define TURN_TIMES 64u  /* moderated events whose time has come, in one turn */

/* ---- completion channels ----------------------------------------------------------- */

static void outlet_block(struct ctx *c, struct outlet *o)
{
	if (o->stuck)
		return;
	o->stuck = true;
	outlet_push(c, o);
	hooks.outlet_stuck();
}

/* As of a kernel whose device is gone: poll() says so, and reads no longer wait. */
static void outlet_end(const struct outlet *o)
{
	if (o->ends && !o->stuck)
		shutdown(o->fd, SHUT_RDWR);
}

/* true: written, or nobody will ever read it. */
static bool outlet_write(const struct outlet *o, const void *p, size_t len)
{
	ssize_t n;

	do
		n = send(o->fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n >= 0 || (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM);
}

static bool cookie_write(const struct channel *ch, uint64_t cookie)
{
	return outlet_write(&ch->out, &cookie, sizeof(cookie));
}

void publish_event(struct ctx_cq *cq)
{
	struct channel *ch = cq->channel;

	if (!ch || !link_empty(&cq->in_due))
		return;
	if (link_empty(&ch->due) && cookie_write(ch, cq->cookie))
		return;
	link_add_tail(&ch->due, &cq->in_due);
	outlet_block(ch->obj.ctx, &ch->out);
}

/* Whether the program has not polled one that it waits for. */
static bool cq_unpolled(struct ctx_cq *cq)
{
	uint32_t n = ring_behind(&cq->ring);

	return RING_LOAD(&cq->ring.hdr->arm) == CQ_ARM_SOLICITED ? cq->ring.pos - cq->wakes < n : n > 0;
}

void publish_asked(const struct ctx *c, uint32_t handle)
{
	struct ctx_cq *cq = (struct ctx_cq *)obj_get(c, OBJ_CQ, handle);

	if (cq && cq_unpolled(cq) && cq_disarm(cq->ring.hdr))
		publish_event(cq);
}

static void channel_retry(struct channel *ch)
{
	ch->out.stuck = false;
	while (!link_empty(&ch->due)) {
		struct ctx_cq *cq = LINK_OF(ch->due.next, struct ctx_cq, in_due);

		if (!cookie_write(ch, cq->cookie)) {
			outlet_block(ch->obj.ctx, &ch->out);
			return;
		}
		link_del(&cq->in_due);
	}
	outlet_end(&ch->out);
}

/* ---- async events ------------------------------------------------------------------- */

static bool event_write(const struct ctx *c, const struct msg_event *ev)
{
	return outlet_write(&c->event_out, ev, sizeof(*ev));
}

void event_send(struct ctx *c, uint32_t type, uint32_t port, uint64_t cookie)
{
	struct msg_event ev = { .type = type, .port = port, .cookie = cookie };

	if (!c->event_n && event_write(c, &ev))
		return;
	if (c->event_n == EVENTS_MAX) {
		if (!c->events_lost++)
			log_info("context %u (%s, pid %d) does not read its async events: some are lost", c->id,
				 c->prog, (int)c->pid);
		return;
	}
	c->event[(c->event_pos + c->event_n++) % EVENTS_MAX] = ev;
	outlet_block(c, &c->event_out);
}

static uint64_t cookie_of(const struct obj *o)
{
	switch (o->kind) {
	case OBJ_CQ: return ((const struct ctx_cq *)o)->cookie;
	case OBJ_SRQ: return ((const struct ctx_srq *)o)->cookie;
	default: return ((const struct ctx_qp *)o)->cookie;
	}
}

void event_of(struct obj *o, uint32_t type)
{
	o->told = true;
	event_send(o->ctx, type, 0, cookie_of(o));
}

/*
 * As with a kernel, where destroying an object takes its events back: a client that polls the descriptor must find something
 * there.  So all that waits is read at the client's end, and the rest sent once more.  The client may read at the same time,
 * and gets what it finds.  A reader locks that end as long as its memory makes it wait: without event_in only what has not
 * been sent is taken back.  Where nothing can be sent any more, nobody waits for what is not there.
 */
void events_forget(struct obj *o)
{
	struct msg_event ev[UNREAD + EVENTS_MAX];
	struct ctx *c = o->ctx;
	unsigned n = 0;

	if (!o->told || c->event_out.ends)
		return;
	while (c->event_in >= 0 && n < UNREAD && recv(c->event_in, &ev[n], sizeof(*ev), MSG_DONTWAIT) == sizeof(*ev))
		n++;
	for (; c->event_n; c->event_n--) {
		ev[n++] = c->event[c->event_pos];
		c->event_pos = (c->event_pos + 1) % EVENTS_MAX;
	}
	for (unsigned i = 0; i < n; i++)
		if (ev[i].cookie != cookie_of(o))
			event_send(c, ev[i].type, ev[i].port, ev[i].cookie);
}

void outlet_retry(struct ctx *c, struct outlet *o)
{
	if (o != &c->event_out) {
		channel_retry((struct channel *)((char *)o - offsetof(struct channel, out)));
		return;
	}
	c->event_out.stuck = false;
	while (c->event_n) {
		if (!event_write(c, &c->event[c->event_pos])) {
			outlet_block(c, &c->event_out);
			return;
		}
		c->event_pos = (c->event_pos + 1) % EVENTS_MAX;
		c->event_n--;
	}
	outlet_end(&c->event_out);
}

static void events_publish(struct shard *s, unsigned device, const struct hca_event *ev)
{
	struct obj *o;

	switch (ev->type) {
	case EV_CQ_ERR:
		o = obj_find(s, OBJ_CQ, device, ev->number);
		if (o)
			event_of(o, ev->type);
		break;
	case EV_SRQ_ERR:
	case EV_SRQ_LIMIT:
		o = obj_find(s, OBJ_SRQ, device, ev->number);
		if (o)
			event_of(o, ev->type);
		break;
	default:
		for (o = obj_find(s, OBJ_QP, device, ev->number); o; o = obj_other(o)) {
			qp_hint((struct ctx_qp *)o);
			event_of(o, ev->type);
		}
	}
}

/* ---- moderated events ------------------------------------------------------------------ */

static void moderated_del(struct ctx_cq *cq) { timer_del(&cq->obj.ctx->shard->moderated, &cq->mod.timer); }

static void cq_fire_moderated(struct ctx_cq *cq)
{
	moderated_del(cq);
	if (cq_fire(cq->ring.hdr, cq->mod.solicited))
		publish_event(cq);
	cq->mod.n = 0;
	cq->mod.solicited = false;
}

/* n more completions: the event comes now, or when it is time. */
static void cq_moderate(struct ctx_cq *cq, uint32_t n, mono_t now)
{
	cq->mod.n += n;
	cq->mod.solicited |= cq->solicited;
	if (cq->mod.count ? cq->mod.n >= cq->mod.count : !cq->mod.period_ns) {
		cq_fire_moderated(cq);
	} else if (!cq->mod.timer.pos && cq->mod.period_ns) {
		timer_set(&cq->obj.ctx->shard->moderated, &cq->mod.timer, mono_add(now, cq->mod.period_ns));
	}
}

mono_t ctx_deadline(const struct shard *s)
{
	mono_t t = heap_next(&s->moderated);

	for (const struct ctx_cq *cq = s->kept; cq; cq = cq->kept_next)
		t = mono_min(t, cq->kept.until);
	return t;
}

/* A few in each turn: a user may have thousands that are due at once. */
static bool moderated_publish(struct shard *s, mono_t now)
{
	struct timer *t;
	unsigned n = 0;

	while (n < TURN_TIMES && (t = heap_due(&s->moderated, now))) {
		cq_fire_moderated(LINK_OF(t, struct ctx_cq, mod.timer));
		n++;
	}
	return n;
}

void publish_moderate(struct ctx_cq *cq, uint32_t count, uint64_t period_ns)
{
	cq->mod.count = count;
	cq->mod.period_ns = period_ns;
	if (cq->mod.n)
		cq_fire_moderated(cq); /* what was put off by the rule before */
}

/* ---- a completion that waits for the answer (answer.h) ------------------------------------- */

static void kept_del(struct ctx_cq *cq)
{
	struct ctx_cq **p = &cq->obj.ctx->shard->kept;

	if (!cq->kept.on)
		return;
	while (*p != cq)
		p = &(*p)->kept_next;
	*p = cq->kept_next;
	cq->kept.on = false;
}

/* The one completion of the batch is kept back. */
static bool cq_keep(struct ctx_cq *cq, mono_t now)
{
	struct ctx *c = cq->obj.ctx;
	struct ctx_qp *qp;

	if (!c->shard->few_cores || cq->batch_n != 1 || !cq->last.sent || cq->kept.on || cq->mod.count > 1 ||
	    cq->mod.period_ns || RING_LOAD(&cq->ring.hdr->arm) != CQ_ARM_NONE || RING_LOAD(&cq->ring.hdr->dozes))
		return false;
	qp = (struct ctx_qp *)obj_find(c->shard, OBJ_QP, c->dev->index, cq->last.qpn);
	if (!qp || RING_LOAD(&qp->sq.hdr->prod) != cq->last.wqe)
		return false;
	cq->kept.qpn = cq->last.qpn;
	cq->kept.heard = hca_qp_heard(c->hca, cq->last.qpn);
	if (!answer_awaited(&qp->answer, cq->kept.heard, now))
		return false;
	cq->kept.on = true;
	__atomic_store_n(&c->shard->keeps, true, __ATOMIC_RELAXED);
	cq->kept.until = mono_add(now, ANSWER_NS);
	cq->kept_next = c->shard->kept;
	c->shard->kept = cq;
	return true;
}

/* ---- completions ----------------------------------------------------------------------- */

/* Whether there were any. */
static bool sleepers_wake(uint32_t *word)
{
	return word_sleeps(word) && syscall(SYS_futex, word, FUTEX_WAKE, WAKES, NULL, NULL, 0) > 0;
}

/* They sleep because a neighbour never gives its core away: there the shard sleeps, too (spin.c, 3). */
static void nappers_wake(struct ctx *c)
{
	if (sleepers_wake(&c->bell->naps))
		c->shard->naps = true;
}

static void cq_flush(struct ctx_cq *cq, mono_t now)
{
	if (!cq->batch_n)
		return;
	kept_del(cq);
	idle_stir(cq->obj.ctx, now);
	ring_publish(&cq->ring, cq->batch_n);
	if (cq->solicited)
		cq->wakes = cq->ring.pos;
	cq->published = now;
	if (cq->mod.count > 1 || cq->mod.period_ns)
		cq_moderate(cq, cq->batch_n, now);
	else if (cq_fire(cq->ring.hdr, cq->solicited))
		publish_event(cq);
	sleepers_wake(&cq->ring.hdr->dozes);
	nappers_wake(cq->obj.ctx);
	cq->batch_n = 0;
	cq->solicited = false;
}

void publish_overrun(struct ctx_cq *cq, mono_t now)
{
	cq->overrun = true;
	RING_STORE(&cq->ring.hdr->err, 1);
	hca_cq_overrun(cq->obj.ctx->hca, cq->obj.number, now);
}

/* Room for one more, or the CQ has overrun. */
static bool cq_has_room(struct ctx_cq *cq, mono_t now)
{
	if (cq->overrun)
		return false;
	if (ring_room(&cq->ring) > cq->batch_n)
		return true;
	/* ring_room() may have an old index of the consumer: with the batch published it looks again. */
	cq_flush(cq, now);
	if (ring_room(&cq->ring))
		return true;
	publish_overrun(cq, now);
	return false;
}

/* Of a receive it matters what came before it by another queue pair. */
static void cqe_number(struct shard *s, struct cqe *e)
{
	e->nth = 0;
	if (e->is_send)
		return;
	s->cqe_nth = e->time_ns == s->cqe_ns ? s->cqe_nth + 1 : 0;
	s->cqe_ns = e->time_ns;
	e->nth = s->cqe_nth;
}

/* If the CQ overruns here, the core makes completions, and e is gone. */
static void cqe_publish(struct ctx_cq *cq, struct cqe *e, struct ctx_cq ***touched_end, mono_t now)
{
	struct ctx *c = cq->obj.ctx;
	struct ctx_qp *qp = NULL;

	if (e->status != WC_SUCCESS || (c->skips && e->is_send))
		qp = (struct ctx_qp *)obj_find(c->shard, OBJ_QP, c->dev->index, e->qpn);
	if (qp && e->is_send)
		e->wqe += qp->sq_skipped;
	if (qp && e->status != WC_SUCCESS && qp->state != QPS_ERR)
		qp_hint(qp);
	if (!cq_has_room(cq, now))
		return;
	if (cq->times)
		e->time_ns = clock_now().ns;
	cqe_number(c->shard, e);
	memcpy(ring_slot(&cq->ring, cq->ring.pos + cq->batch_n), e, sizeof(*e));
	cq->batch_n++;
	cq->last.qpn = e->qpn;
	cq->last.wqe = e->wqe;
	cq->last.sent = e->is_send && e->status == WC_SUCCESS;
	cq->solicited |= e->solicited || e->status != WC_SUCCESS;
	if (!cq->touched) {
		cq->touched = true;
		cq->touched_next = NULL;
		**touched_end = cq;
		*touched_end = &cq->touched_next;
	}
}

static bool hca_publish(struct shard *s, unsigned device, mono_t now)
{
	struct hca *hca = s->hca[device];
	struct ctx_cq *touched = NULL, **touched_end = &touched, *cq = NULL;
	struct hca_event ev[16];
	bool any = false;
	unsigned n;

	hooks.why_collect(s, device); /* why, before what: its program may end all that it was about */
	for (struct cqe *e; (e = hca_completion(hca));) {
		any = true;
		if (!cq || cq->obj.number != e->cqn)
			cq = (struct ctx_cq *)obj_find(s, OBJ_CQ, device, e->cqn);
		if (cq)
			cqe_publish(cq, e, &touched_end, now);
	}
	/*
	 * In the order of their first completions: a program with one channel for several CQs may count on it
	 * (ib_send_lat -e takes the event of its send before that of the answer).
	 */
	while (touched) {
		if (!cq_keep(touched, now))
			cq_flush(touched, now);
		touched->touched = false;
		touched = touched->touched_next;
	}
	while ((n = hca_events(hca, ev, sizeof(ev) / sizeof(ev[0])))) {
		any = true;
		for (unsigned i = 0; i < n; i++)
			events_publish(s, device, &ev[i]);
	}
	hooks.why_collect(s, device); /* of CQs that had no room */
	return any;
}

static bool kept_publish(struct shard *s, mono_t now)
{
	bool any = false;

	for (struct ctx_cq *cq = s->kept, *next; cq; cq = next) {
		next = cq->kept_next;
		if (hca_qp_heard(cq->obj.ctx->hca, cq->kept.qpn) != cq->kept.heard ||
		    mono_reached(now, cq->kept.until)) {
			cq_flush(cq, now);
			any = true;
		}
	}
	return any;
}

void publish_kept(struct ctx_cq *cq) { cq_flush(cq, clock_now()); }

void publish_kept_of(const struct ctx *c, uint32_t qpn)
{
	for (struct ctx_cq *cq = c->shard->kept, *next; cq; cq = next) {
		next = cq->kept_next;
		if (cq->obj.ctx->hca == c->hca && cq->kept.qpn == qpn)
			publish_kept(cq);
	}
}

static void kept_all(struct shard *s, void *)
{
	for (struct ctx_cq *cq = s->kept, *next; cq; cq = next) {
		next = cq->kept_next;
		publish_kept(cq);
	}
}

void publish_before(struct shard *s)
{
	if (__atomic_load_n(&s->keeps, __ATOMIC_RELAXED))
		shard_call(s, kept_all, NULL);
}

bool ctx_publish(struct shard *s, mono_t now)
{
	bool any = false;

	for (unsigned d = 0; d < devices_n; d++)
		any |= hca_publish(s, d, now);
	any |= kept_publish(s, now);
	return any | moderated_publish(s, now);
}

void publish_end(struct ctx *c)
{
	for (struct obj *o = c->objs[OBJ_CQ]; o; o = o->next)
		if (((struct ctx_cq *)o)->mod.timer.pos)
			cq_fire_moderated((struct ctx_cq *)o);
	for (struct obj *o = c->objs[OBJ_CHANNEL]; o; o = o->next) {
		((struct channel *)o)->out.ends = true;
		outlet_end(&((struct channel *)o)->out);
	}
	c->event_out.ends = true;
	outlet_end(&c->event_out);
}

void publish_forget_cq(struct ctx_cq *cq)
{
	kept_del(cq);
	moderated_del(cq);
	link_del(&cq->in_due);
}
