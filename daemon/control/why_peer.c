/* SPDX-License-Identifier: MIT */
/* why_peer.c - what is known of the other end of a queue pair: if it is ours, and if packets reach it. */
#include "why.h"

#include <errno.h>
#include <string.h>

#include <rdmad/gid.h>

#include "../base/clock.h"
#include "../cma/cma.h"
#include "../shard/inbox.h"
#include "../shard/net_refusal.h"
#include "ends.h"
#include "impair.h"

#define UC_IDLE_NS 1000000000u
#define STALE_NS   1000000u

struct look {
	int device;             /* -1: none of ours */
	unsigned shard;         /* of the QP there, or if none of ours, of the one here */
	const struct why *from; /* NULL: it is not about a way */
	struct refusal refusal; /* err 0: there was none */
	uint32_t qpn;
	struct qp_row row;
	bool there;
};

static struct looks {
	struct look v[WHY_PEERS];
	unsigned n;
} looks; /* the control thread's */

/* Of one that has been heard since, only how long packets may be. */
static void refusal_look(struct look *l, struct shard *s)
{
	if (!l->from || !refusal_find(s->net, l->from->sgid, l->from->dgid, l->from->dqpn, l->from->since, &l->refusal))
		return;
	if (l->refusal.err != EMSGSIZE && mono_before(l->refusal.at, l->from->rx_last))
		l->refusal.err = 0;
}

static void look_job(struct shard *s, void *)
{
	for (unsigned i = 0; i < looks.n; i++) {
		struct look *l = &looks.v[i];
		struct qp_info info;

		if (l->shard != s->index)
			continue;
		if (l->device < 0) {
			refusal_look(l, s);
			continue;
		}
		l->there = hca_qp_info(s->hca[l->device], l->qpn, &info);
		if (l->there)
			qp_row_fill(&l->row, s, (unsigned)l->device, l->qpn);
	}
}

const struct gid_row *why_inside_only(const struct why_entry *e)
{
	const struct device *dev = e->device >= 0 ? &devices[e->device] : NULL;
	int row = dev ? device_row(dev, e->w.sgid) : -1;

	if (!e->core || gid_is_empty(e->w.dgid) || device_of_gid(e->w.dgid) >= 0)
		return NULL;
	return row < 0 || dev->gid[row].wire ? NULL : &dev->gid[row];
}

/* Of programs of others nothing is told that packets do not show: the end of a connection with them. */
static bool may_tell(const struct why_entry *e, uid_t viewer, const struct qp_row *r)
{
	const struct qp_attr *a = &r->info.attr;

	return why_user_sees(viewer, r->uid) ||
	       (r->info.state >= QPS_RTR && a->dest_qpn == e->w.qpn && device_of_gid(a->av.dgid) == e->device);
}

static bool gone_put(struct words *t, const struct why_entry *e, uid_t viewer, unsigned device)
{
	const struct qp_row *was = ends_find(device, e->w.dqpn);

	if (was ? !may_tell(e, viewer, was) : !why_user_sees(viewer, 0))
		return false;
	words_put(t, "; there is no QP 0x%x%s", (unsigned)e->w.dqpn, was ? " any more" : "");
	if (was && why_user_sees(viewer, was->uid))
		words_put(t, ": %s (pid %d) %s", was->prog, (int)was->pid, was->left ? "ended" : "destroyed it");
	return true;
}

static bool there_put(struct words *t, const struct why_entry *e, uid_t viewer, const struct qp_row *r)
{
	const struct qp_info *i = &r->info;
	bool sees = why_user_sees(viewer, r->uid);
	mono_t since;

	if (!may_tell(e, viewer, r))
		return false;
	words_put(t, "; QP 0x%x", (unsigned)i->qpn);
	if (sees)
		words_put(t, " of %s (pid %d)", r->prog, (int)r->pid);
	if (i->state < QPS_RTR || i->state == QPS_ERR)
		words_put(t, " is in %s", i->state == QPS_RESET ? "RESET" : i->state == QPS_INIT ? "INIT" : "ERR");
	else if (i->attr.dest_qpn != e->w.qpn)
		words_put(t, " is connected to QP 0x%x, not to this one", (unsigned)i->attr.dest_qpn);
	else if (impair_wedged(r->device, &since))
		words_put(t, ": its device is wedged");
	else
		words_put(t, " is in a state to answer");
	if (sees && i->state == QPS_ERR && i->err_at.ns) {
		words_put(t, " for ");
		time_words(t, mono_since(clock_now(), i->err_at));
	}
	return i->state == QPS_ERR;
}

static bool peer_matters(unsigned cause)
{
	return cause == WHY_RETRY_SILENT || cause == WHY_RETRY_INSIDE || cause == WHY_RETRY_DEAF ||
	       cause == WHY_RETRY_PSN || cause == WHY_WAIT_RECV || cause == WHY_WAIT_ACK || cause == WHY_WAIT_PSN;
}

/* The other end sends to this one, has sent something, and nothing for a while: so it has come, or never will. */
static bool uc_sent(const struct why_entry *e, const struct qp_info *i)
{
	return i->type == QPT_UC && (i->state == QPS_RTS || i->state == QPS_SQD) && i->tx_pkts &&
	       i->attr.dest_qpn == e->w.qpn && device_of_gid(i->attr.av.dgid) == e->device && !i->sq_len &&
	       mono_since(clock_now(), i->moved) > UC_IDLE_NS;
}

/*
 * No packet follows that would show the loss of the last ones: but if we have the sender, too, he knows how many there were.
 * Those that a rule holds back count as lost until they come.  UC takes any PSN at first: before something has come the two
 * have to agree on it.
 */
static void uc_compare(struct why_entry *e, uid_t viewer, const struct qp_row *r)
{
	psn_t came = psn(e->w.psn), sent = psn(r->info.sq_psn_next);

	if (e->cause != WHY_WAIT_RECV || e->w.type != QPT_UC || !uc_sent(e, &r->info) || !may_tell(e, viewer, r) ||
	    (e->w.psn == e->w.rq_psn && r->info.attr.sq_psn != e->w.rq_psn) || !psn_before(came, sent))
		return;
	e->cause = e->w.cause = WHY_WAIT_UC;
	e->w.got = psn_dist(came, sent);
}

static void inside_put(struct words *t, const struct why_entry *e)
{
	const struct gid_row *r = peer_matters(e->cause) ? why_inside_only(e) : NULL;

	if (!r)
		return;
	gid_words(t, r->gid);
	words_put(t, ", row %u of %s, is no address of an interface: no packet leaves this daemon from it",
		  (unsigned)(r - devices[e->device].gid), devices[e->device].name);
}

static bool way_matters(unsigned cause)
{
	return cause == WHY_RETRY_SILENT || cause == WHY_RETRY_DEAF || cause == WHY_RETRY_LOSS ||
	       cause == WHY_WAIT_ACK || cause == WHY_UD_REFUSED || cause == WHY_CM_UNREACHABLE || cause == WHY_WAIT_CM;
}

static unsigned refused_as(const struct refusal *r)
{
	return r->prohibited            ? WHY_REFUSED_FILTER
	       : r->err == ECONNREFUSED ? WHY_REFUSED_PORT
	       : r->err == EMSGSIZE     ? WHY_REFUSED_SIZE
					: WHY_REFUSED_WAY;
}

static void refusal_put(struct words *t, const struct refusal *r)
{
	if (r->here || gid_is_empty(r->by))
		words_put(t, "this host");
	else
		gid_words(t, r->by);
	words_put(t, " says by ICMP: ");
	if (r->err == EMSGSIZE && r->mtu)
		words_put(t, "packets of at most %u bytes go on from there", (unsigned)r->mtu);
	else
		words_put(t, "%s", r->prohibited ? "administratively prohibited" : strerror(r->err));
}

/* The peer is none of ours. */
static void way_put(struct why_entry *e, const struct look *l)
{
	struct words t = words_begin(e->there, sizeof(e->there));

	inside_put(&t, e);
	if (!l->refusal.err)
		return;
	refusal_put(&t, &l->refusal);
	e->refused = (uint8_t)refused_as(&l->refusal);
}

void why_cm_way(struct why_entry *e, const struct cma_id *id, mono_t since)
{
	memcpy(e->w.sgid, id->sgid, 16);
	memcpy(e->w.dgid, id->dgid, 16);
	e->w.dqpn = QPN_GSI;
	/* The first message of it has found what was said of earlier ones. */
	e->w.since = e->w.rx_last = mono_add(since, STALE_NS);
}

void why_peers_look(struct why_entry *v, unsigned n, uid_t viewer)
{
	bool ask[SHARDS_MAX] = { false };

	looks.n = n;
	for (unsigned i = 0; i < n; i++) {
		struct look *l = &looks.v[i];

		const struct why_entry *e = &v[i];

		*l = (struct look){ .qpn = e->w.dqpn, .device = -1, .from = way_matters(e->cause) ? &e->w : NULL };
		if (e->core && peer_matters(e->cause))
			l->device = device_of_gid(e->w.dgid);
		if (e->core) /* what is not is of shard 0: the connection manager's */
			l->shard = qpn_owner(l->device < 0 ? e->w.qpn : l->qpn);
		if ((l->device >= 0 || l->from) && l->shard < shards_n) /* 3 shards have 2 bits */
			ask[l->shard] = true;
	}
	for (unsigned i = 0; i < shards_n; i++)
		if (ask[i])
			shard_call(shards[i], look_job, NULL);
	for (unsigned i = 0; i < n; i++) {
		const struct look *l = &looks.v[i];
		struct words t = words_begin(v[i].there, sizeof(v[i].there));

		if (l->device < 0) {
			way_put(&v[i], l);
			continue;
		}
		words_put(&t, "%s is a device of this daemon", devices[l->device].name);
		if ((l->there ? there_put(&t, &v[i], viewer, &l->row)
			      : gone_put(&t, &v[i], viewer, (unsigned)l->device)) &&
		    v[i].cause == WHY_WAIT_RECV)
			v[i].cause = v[i].w.cause = WHY_WAIT_PEER;
		if (l->there)
			uc_compare(&v[i], viewer, &l->row);
	}
}
