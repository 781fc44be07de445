/* SPDX-License-Identifier: MIT */
/* top_take.c - samples of queue pairs and counters; rates between two of them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdmad/clock.h>

#include "daemon.h"
#include "show.h"
#include "top.h"

static const char *const sums[6] = { "completer_retry_err", "rcvd_rnr_err",       "rcvd_seq_err",
				     "local_ack_timeout",   "retry_exceeded_err", "icrc_err" };

void top_free(struct top_sample *s)
{
	free(s->qp);
	*s = (struct top_sample){ 0 };
}

static void copy(char *to, size_t room, const json_t *j, const char *key)
{
	snprintf(to, room, "%s", show_str(j, key));
	for (; *to; to++)
		if ((unsigned char)*to < ' ')
			*to = '?';
}

static void qp_get(struct top_qp *q, const json_t *j)
{
	long long left = show_num(j, "retry_left"), max = show_num(j, "retry_cnt");

	copy(q->device, sizeof(q->device), j, "device");
	copy(q->program, sizeof(q->program), j, "program");
	copy(q->peer, sizeof(q->peer), j, "peer");
	copy(q->type, sizeof(q->type), j, "type");
	copy(q->state, sizeof(q->state), j, "state");
	q->qpn = (uint32_t)show_num(j, "qpn");
	q->dest_qpn = (uint32_t)show_num(j, "dest_qpn");
	q->pid = show_num(j, "pid");
	q->tx = (uint64_t)show_num(j, "tx_bytes");
	q->rx = (uint64_t)show_num(j, "rx_bytes");
	q->packets = (uint64_t)(show_num(j, "tx_pkts") + show_num(j, "rx_pkts"));
	q->retrans = (uint64_t)show_num(j, "retrans");
	q->rnrs = (uint64_t)show_num(j, "rnrs");
	q->window = (uint64_t)show_num(j, "window");
	q->inflight = (uint64_t)show_num(j, "inflight");
	q->sends = (unsigned)show_num(j, "sq_len");
	q->recvs = (unsigned)show_num(j, "rq_len");
	q->retry_max = (unsigned)max;
	q->retries = !strcmp(q->state, "RTS") && left < max ? (unsigned)(max - left) : 0;
}

/* ---- rates -------------------------------------------------------------------- */

static double rate(uint64_t now, uint64_t before, double s)
{
	return now > before && s > 0 ? (double)(now - before) / s : 0;
}

static int by_qpn(const void *va, const void *vb)
{
	const struct top_qp *a = va, *b = vb;
	int d = strcmp(a->device, b->device);

	return d ? d : a->qpn < b->qpn ? -1 : a->qpn > b->qpn;
}

static void rates(struct top_sample *s, const struct top_sample *old)
{
	double t = s->at - old->at;

	for (size_t i = 0; i < s->n; i++) {
		struct top_qp *q = &s->qp[i], *o = old->n ? bsearch(q, old->qp, old->n, sizeof(*q), by_qpn) : NULL;

		q->fresh = !o || o->pid != q->pid || q->packets < o->packets;
		if (q->fresh)
			continue;
		q->tx_rate = rate(q->tx, o->tx, t);
		q->rx_rate = rate(q->rx, o->rx, t);
		q->packet_rate = rate(q->packets, o->packets, t);
		q->retrans_rate = rate(q->retrans, o->retrans, t);
	}
	for (unsigned i = 0; i < 6 && old->at > 0; i++)
		s->rate[i] = rate(s->sum[i], old->sum[i], t);
}

/* ---- asking ---------------------------------------------------------------------- */

static bool dumps(struct top_sample *s, json_t *qps, json_t *stats)
{
	json_t *list = json_object_get(qps, "qps"), *j;
	size_t i;

	s->at = (double)clock_ns(CLOCK_MONOTONIC) / 1e9;
	s->n = json_array_size(list);
	s->qp = calloc(s->n + 1, sizeof(*s->qp));
	if (!s->qp)
		return false;
	json_array_foreach(list, i, j) qp_get(&s->qp[i], j);
	qsort(s->qp, s->n, sizeof(*s->qp), by_qpn);
	copy(s->version, sizeof(s->version), json_object_get(stats, "daemon"), "version");
	list = json_object_get(stats, "devices");
	s->devices = (unsigned)json_array_size(list);
	json_array_foreach(list, i, j) for (unsigned k = 0; k < 6; k++)
		s->sum[k] += (uint64_t)show_num(json_object_get(j, "counters"), sums[k]);
	return true;
}

bool top_take(struct top_sample *s, int *fd, const struct ask *ask, const struct top_sample *old)
{
	json_t *qps = NULL, *stats = NULL;
	bool good;

	*s = (struct top_sample){ 0 };
	if (*fd < 0)
		*fd = daemon_open(ask->socket);
	if (*fd >= 0)
		qps = daemon_dump(*fd, DUMP_QPS);
	if (qps)
		stats = daemon_dump(*fd, DUMP_STATS);
	good = stats && dumps(s, qps, stats);
	json_decref(qps);
	json_decref(stats);
	if (good) {
		rates(s, old);
		return true;
	}
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return false;
}

/* ---- order -------------------------------------------------------------------------- */

static double busy(const struct top_qp *q) { return q->tx_rate + q->rx_rate; }

#define DOWN(a, b) ((a) > (b) ? -1 : (a) < (b))

static int by_rate(const void *va, const void *vb)
{
	const struct top_qp *a = va, *b = vb;
	int d = DOWN(busy(a), busy(b));

	d = d ? d : DOWN(a->packet_rate, b->packet_rate);
	return d ? d : by_qpn(a, b);
}

static int by_again(const void *va, const void *vb)
{
	const struct top_qp *a = va, *b = vb;
	int d = DOWN(a->retrans_rate, b->retrans_rate);

	d = d ? d : DOWN(a->retrans + a->rnrs, b->retrans + b->rnrs);
	return d ? d : by_rate(a, b);
}

static int by_flight(const void *va, const void *vb)
{
	const struct top_qp *a = va, *b = vb;
	int d = DOWN(a->inflight, b->inflight);

	return d ? d : by_rate(a, b);
}

static int by_program(const void *va, const void *vb)
{
	const struct top_qp *a = va, *b = vb;
	int d = strcmp(a->program, b->program);

	d = d ? d : a->pid < b->pid ? -1 : a->pid > b->pid;
	return d ? d : by_qpn(a, b);
}

void top_order(struct top_sample *s, enum top_sort sort)
{
	static int (*const by[])(const void *, const void *) = { by_rate, by_again, by_flight, by_qpn, by_program };

	qsort(s->qp, s->n, sizeof(*s->qp), by[sort]);
}
