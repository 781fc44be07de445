/* SPDX-License-Identifier: MIT */
/*
 * poll.c - completions handed to the program: ibv_poll_cq() and the start_poll family.
 *
 * A program that polls an empty CQ is waiting for the daemon, which may be waiting for the core that the
 * program burns: so an empty poll gives the core away now and then (idle_due).  The program may also wait in vain, for a
 * daemon that died: then polling ends in an error.
 *
 * The core may be away for milliseconds, so a poll looks again when it is back: "empty" is to be as new as an adapter's.  Programs
 * that find a CQ empty look for the end of the connection next, and destroy the queue pair, with the completions that they have
 * not seen (libfabric's rxm): the last message before a peer's disconnect would be lost.
 *
 * A thread that yields still gets its fair share: half of the core, if the daemon has enough to do.  So where
 * the sends that are still to be carried out take long (struct pace), the thread sleeps briefly instead.
 *
 * Where cores are few, two programs that send each other messages by turns share one, beside the daemon's.  The one that has sent
 * gives it away at once.  The other one has it before the daemon has carried that message over, and to give it back would take two
 * changes of program, longer than to wait for the daemon.  So it is kept for KEEP_NS, or until something is found.
 *
 * Where cores are few, a thread whose sends are carried out as fast as it posts them never finds its CQ empty.  The program that is
 * to receive them may wait for this very core, and has no receives left before it comes to post new ones: then an RNR NAK makes
 * both wait for a millisecond, again and again.  So the core is given away after some SENDs, too (turn_due).
 */
#include "alone.h"
#include "cq.h"
#include "crowd.h"
#include "nap.h"
#include "qp.h"
#include "way.h"

#include <sched.h>
#include <time.h>

#include <rdmad/clock.h>
#include <rdmad/cores.h>
#include <rdmad/own.h>

#define IDLE_SHORT   4u /* empty polls between two yields where cores are short */
#define IDLE_LONG    512u
#define IDLE_LOOK    64u     /* yields between two looks whether the daemon is there */
#define DEEP_NS      300000u /* longer than a thread could sleep by mistake */
#define NAP_AFTER_NS 10000u  /* without a completion */
#define NAP_NS       100000  /* besides the timer slack of the thread, mostly 50 us */
#define KEEP_NS      700u    /* a message through the daemon; two changes of program take twice that, or more */
#define SENT_MOST    384u    /* SENDs; programs that stream them have more receives than that, mostly 512 */

static uint32_t idle_every(void)
{
	static uint32_t every; /* the same for all threads, so a race to set it is harmless */
	uint32_t n = __atomic_load_n(&every, __ATOMIC_RELAXED);

	if (!n) {
		n = cores_few() ? IDLE_SHORT : IDLE_LONG;
		__atomic_store_n(&every, n, __ATOMIC_RELAXED);
	}
	return n;
}

static _Thread_local uint64_t backlog_ns; /* of what the thread waits for, when it began to */
static _Thread_local uint64_t empty_at;   /* the first yield since something was found that was measured; 0: none yet */
static _Thread_local bool came_back;      /* the core did, and nothing was found since */
static _Thread_local uint64_t keep_until; /* then; 0: it is not known yet */

/* The daemon may be at work for this thread, on another core. */
static bool keeps_core(const struct rd_ctx *c)
{
	uint64_t now;

	if (!came_back || !way_is_free(c->bell))
		return false;
	now = clock_ns(CLOCK_MONOTONIC);
	if (!keep_until)
		keep_until = now + KEEP_NS;
	return now < keep_until;
}

static void core_back(void)
{
	came_back = idle_every() == IDLE_SHORT;
	keep_until = 0;
}

/*
 * It has met neighbours that compute, and they are not threads of its own program that wait as well: those would all be on the daemon's
 * core then.
 */
static bool beside_others(void) { return nap_beside() && !crowd_mixed(clock_ns(CLOCK_MONOTONIC_COARSE)); }

static void yield_measured(struct rd_cq *cq, bool crowd)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC), now;

	if (!empty_at)
		empty_at = start;
	if (crowd && start - empty_at < CROWD_SPIN_NS)
		return;
	if (backlog_ns >= DEEP_NS && start - empty_at >= NAP_AFTER_NS) {
		nanosleep(&(struct timespec){ 0, NAP_NS }, NULL);
		nap_slept(start + backlog_ns, clock_ns(CLOCK_MONOTONIC));
		return;
	}
	if (!crowd && beside_others())
		way_join(to_ctx(cq->cq.context)->bell);
	if (nap(cq, start))
		return;
	sched_yield();
	now = clock_ns(CLOCK_MONOTONIC);
	nap_yielded(start + backlog_ns, now);
	if (nap_is_on(now))
		way_was_bad(to_ctx(cq->cq.context)->bell, now);
	core_back();
}

static bool in_crowd(void)
{
	if (alone())
		return false;
	crowd_waits();
	return crowd_was() && crowd_is_on(clock_ns(CLOCK_MONOTONIC));
}

static void idle_yield(struct rd_cq *cq)
{
	bool crowd = in_crowd();

	if (idle_every() == IDLE_SHORT && !crowd && !beside_others())
		way_make(to_ctx(cq->cq.context)->bell);
	if (crowd || backlog_ns >= DEEP_NS || nap_near()) {
		yield_measured(cq, crowd);
		return;
	}
	nap_yield();
	core_back();
}

/* Counts a poll, with the lock held: true if it is time to give the core away.  Looks after the daemon as
 * well. */
static bool idle_due(struct rd_cq *cq, bool empty)
{
	if (!empty) {
		cq->empty_n = cq->idle_n = 0;
		empty_at = 0;
		came_back = false;
		if (nap_slice)
			nap_found(clock_ns(CLOCK_MONOTONIC));
		return false;
	}
	if (++cq->empty_n < idle_every())
		return false;
	cq->empty_n = cq->sent_n = 0;
	if (keeps_core(to_ctx(cq->cq.context)))
		return false;
	backlog_ns = pace_backlog(&cq->pace);
	if (!(++cq->idle_n % IDLE_LOOK))
		cq->gone = conn_gone(&to_ctx(cq->cq.context)->conn);
	return true;
}

/* Is it the receiver's turn?  With the lock held, when something was found. */
static bool turn_due(struct rd_cq *cq)
{
	if (cq->sent_n < SENT_MOST || idle_every() != IDLE_SHORT)
		return false;
	cq->sent_n = 0;
	return true;
}

/* Not beside a neighbour that does not give the core back. */
static void turn_give(void)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	if (nap_is_on(start))
		return;
	sched_yield();
	nap_yielded(start, clock_ns(CLOCK_MONOTONIC));
}

static void wc_fill(struct ibv_wc *wc, const struct cqe *e)
{
	wc->wr_id = e->wr_id;
	wc->status = e->status;
	wc->opcode = e->op;
	wc->vendor_err = e->vendor_err;
	wc->byte_len = e->byte_len;
	wc->imm_data = e->imm;
	wc->qp_num = e->qpn;
	wc->src_qp = e->src_qp;
	wc->wc_flags = e->flags;
	wc->pkey_index = e->pkey_index;
	wc->slid = e->slid;
	wc->sl = e->sl;
	wc->dlid_path_bits = 0;
}

/* With the lock held, which is free while the core is given away: true if it was, and the CQ is to be looked at again. */
static bool idle_was(struct rd_cq *cq, bool empty, bool entered)
{
	if (!idle_due(cq, empty))
		return false;
	cq_leave(cq, entered);
	idle_yield(cq);
	if (entered)
		pthread_mutex_lock(&cq->lock);
	return true;
}

static int wc_take(struct rd_cq *cq, int max, struct ibv_wc *wc)
{
	struct cqe *e;
	int n = 0;

	while (n < max && (e = cqe_next(cq))) {
		wc_fill(&wc[n++], e);
		cqe_done(cq);
	}
	return n;
}

/* A poll begins.  Most of who waits: nothing is there, and nothing is to be done.  With the lock held. */
static inline bool is_vain(struct rd_cq *cq)
{
	__atomic_store_n(&cq->heard, false, __ATOMIC_RELAXED);
	if (cq->empty_n + 1 >= idle_every() || !cq_is_empty(cq))
		return false;
	cq->empty_n++;
	return true;
}

/* With the lock held.  turn: the core is to be given away once it is not. */
static int wc_find(struct rd_cq *cq, int max, struct ibv_wc *wc, bool entered, bool *turn)
{
	int n = wc_take(cq, max, wc);

	if (idle_was(cq, !n, entered) && (n = wc_take(cq, max, wc)))
		idle_due(cq, false);
	*turn = n > 0 && turn_due(cq);
	return !n && cq->gone ? -1 : n;
}

int cq_poll(struct ibv_cq *ibcq, int max, struct ibv_wc *wc)
{
	struct rd_cq *cq = to_cq(ibcq);
	bool turn = false, entered = cq_enter(cq);
	int n = 0;

	if (!is_vain(cq))
		n = wc_find(cq, max, wc, entered, &turn);
	cq_leave(cq, entered);
	if (turn)
		turn_give();
	return n;
}

EXPORT void rdmad_cq_idle(struct ibv_cq *ibcq)
{
	struct rd_cq *cq = to_cq(ibcq);

	cq_lock(cq);
	idle_was(cq, true, !cq->single);
	cq_unlock(cq);
}

EXPORT void rdmad_cq_join(struct ibv_cq *cq)
{
	crowd_waits();
	if (!crowd_mixed(clock_ns(CLOCK_MONOTONIC_COARSE)))
		way_join(to_ctx(cq->context)->bell);
}

EXPORT void rdmad_cq_look(struct ibv_cq *ibcq)
{
	struct rd_cq *cq = to_cq(ibcq);

	cq_lock(cq);
	cq->gone = conn_gone(&to_ctx(cq->cq.context)->conn);
	cq_unlock(cq);
}

/* ---- start_poll, next_poll, end_poll: the CQ stays locked in between -------------- */

static int ex_take(struct rd_cq *cq)
{
	cq->now = cqe_next(cq);
	if (!cq->now)
		return ENOENT;
	cq->ex.wr_id = cq->now->wr_id;
	cq->ex.status = cq->now->status;
	return 0;
}

static int ex_start(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct rd_cq *cq = ex_to_cq(ex);
	bool entered;
	int err;

	if (attr->comp_mask)
		return EINVAL;
	entered = cq_enter(cq);
	if (is_vain(cq)) {
		cq_leave(cq, entered);
		return ENOENT;
	}
	if (!entered) /* before the end the program may make a thread */
		cq_lock(cq);
	err = ex_take(cq);
	if (idle_was(cq, err, !cq->single) && !(err = ex_take(cq)))
		idle_due(cq, false);
	if (!err) {
		if (!cq->single)
			__atomic_store_n(&cq->poller, thread_me(), __ATOMIC_RELAXED);
		return 0;
	}
	if (cq->gone)
		err = EIO;
	cq_unlock(cq);
	return err;
}

static void ex_drop(struct rd_cq *cq)
{
	if (cq->now)
		cqe_done(cq);
	cq->now = NULL;
}

static int ex_next(struct ibv_cq_ex *ex)
{
	struct rd_cq *cq = ex_to_cq(ex);

	ex_drop(cq);
	return ex_take(cq);
}

static void ex_end(struct ibv_cq_ex *ex)
{
	struct rd_cq *cq = ex_to_cq(ex);
	bool turn;

	ex_drop(cq);
	__atomic_store_n(&cq->poller, 0, __ATOMIC_RELAXED);
	turn = turn_due(cq);
	cq_unlock(cq);
	if (turn)
		turn_give();
}

static const struct cqe *now(struct ibv_cq_ex *ex)
{
	static const struct cqe none;
	const struct cqe *e = ex_to_cq(ex)->now;

	return e ? e : &none;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex) { return now(ex)->op; }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return now(ex)->vendor_err; }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return now(ex)->byte_len; }
static __be32 read_imm_data(struct ibv_cq_ex *ex) { return now(ex)->imm; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return now(ex)->qpn; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return now(ex)->src_qp; }
static unsigned int read_wc_flags(struct ibv_cq_ex *ex) { return now(ex)->flags; }
static uint32_t read_slid(struct ibv_cq_ex *ex) { return now(ex)->slid; }
static uint8_t read_sl(struct ibv_cq_ex *ex) { return now(ex)->sl; }
static uint8_t read_dlid_path_bits(struct ibv_cq_ex *) { return 0; }
static uint64_t read_completion_ts(struct ibv_cq_ex *ex) { return now(ex)->time_ns; }
static uint16_t read_cvlan(struct ibv_cq_ex *) { return 0; }
static uint32_t read_flow_tag(struct ibv_cq_ex *) { return 0; }

static void read_tm_info(struct ibv_cq_ex *, struct ibv_wc_tm_info *info) { memset(info, 0, sizeof(*info)); }

static uint64_t read_wallclock(struct ibv_cq_ex *ex)
{
	return now(ex)->time_ns + clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
}

void cq_ex_ops(struct ibv_cq_ex *ex)
{
	ex->start_poll = ex_start;
	ex->next_poll = ex_next;
	ex->end_poll = ex_end;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_cvlan = read_cvlan;
	ex->read_flow_tag = read_flow_tag;
	ex->read_tm_info = read_tm_info;
	ex->read_completion_wallclock_ns = read_wallclock;
}
