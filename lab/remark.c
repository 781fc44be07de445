/* SPDX-License-Identifier: MIT */
/* remark.c - packets and counters into words. */
#include "remark.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../proto/aeth.h"

#define QPS    4096u /* slots for QPs; one that finds its slot taken takes it over */
#define ECN_CE 3u

/* The subject of a responder's next NAK. */
struct about {
	uint32_t qpn;
	uint8_t device;
	uint32_t got;   /* PSN of the packet that was not expected */
	uint16_t fault; /* row + 1; 0: none */
};

struct remark {
	struct about qp[QPS];
};

struct remark *remark_new(void) { return calloc(1, sizeof(struct remark)); }
void remark_free(struct remark *r) { free(r); }

/* Does a line of it begin so? */
static bool says(const struct remark_text *t, const char *line, size_t n)
{
	for (size_t at = 0, end; at < t->n; at = end + 1) {
		for (end = at; end < t->n && t->s[end] != '\n'; end++)
			;
		if (end - at >= n && !memcmp(t->s + at, line, n))
			return true;
	}
	return false;
}

void remark_add(struct remark_text *t, const char *fmt, ...)
{
	char line[REMARK_LEN];
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	n = (size_t)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n >= sizeof(line))
		n = sizeof(line) - 1;
	if (says(t, line, n))
		return;
	if (t->n && t->n < REMARK_LEN)
		t->s[t->n++] = '\n';
	if (n > REMARK_LEN - t->n)
		n = REMARK_LEN - t->n;
	memcpy(t->s + t->n, line, n);
	t->n += n;
}

/* The QP's; made anew if it is not there. */
static struct about *about(struct remark *r, unsigned device, uint32_t qpn)
{
	struct about *a = &r->qp[(qpn * 0x9e3779b1u ^ device) % QPS];

	if (a->qpn != qpn || a->device != device)
		*a = (struct about){ .qpn = qpn, .device = (uint8_t)device };
	return a;
}

static bool is_answer(const struct burst *b) { return op_answers(opcode_get(b->op_first)); }
static bool reliable(const struct burst *b) { return SVC_OF(b->op_first) == SVC_RC || SVC_OF(b->op_first) == SVC_XRC; }

static void ecn(const struct burst *b, struct remark_text *t)
{
	if ((b->route.tclass & 3) == ECN_CE)
		remark_add(t, "ECN marked: congestion experienced");
	if (b->op_first == OPCODE_CNP)
		remark_add(t, "congestion notification");
}

static void rnr(const struct burst *b, struct remark_text *t)
{
	uint64_t us = rnr_timer_ns(aeth_code(b->syndrome)) / 1000;

	remark_add(t, "RNR NAK: wait %u.%02u ms", (unsigned)(us / 1000), (unsigned)(us % 1000 / 10));
}

/* The name of a NAK without the word NAK. */
static const char *nak_kind(uint8_t syndrome)
{
	const char *name = aeth_name(syndrome);

	return strncmp(name, "NAK ", 4) ? name : name + 4;
}

/* ---- out ------------------------------------------------------------------------------ */

static void nak_out(struct remark *r, unsigned device, uint32_t qpn, const struct burst *b, struct remark_text *t)
{
	struct about *a = about(r, device, qpn);

	if (aeth_type(b->syndrome) == AETH_RNR_NAK)
		rnr(b, t);
	else if (aeth_code(b->syndrome) != NAK_PSN_SEQ)
		remark_add(t, "NAK: %s%s%s", nak_kind(b->syndrome), a->fault ? ": " : "",
			   a->fault ? hca_fault_text(a->fault - 1u) : "");
	else if (a->got)
		remark_add(t, "NAK: expected %u, got %u", b->psn.v, a->got - 1);
	else
		remark_add(t, "NAK: expected %u", b->psn.v);
	a->got = 0;
	a->fault = 0;
}

void remark_out(struct remark *r, const struct hca *h, unsigned device, uint32_t qpn, const struct burst *b,
		unsigned times, struct remark_text *t)
{
	struct qp_info info;

	ecn(b, t);
	if (!reliable(b))
		return;
	if (opcode_get(b->op_first)->kind == KIND_ACK) {
		if (aeth_type(b->syndrome) != AETH_ACK)
			nak_out(r, device, qpn, b, t);
		else if (!hca_qp_info(h, qpn, &info))
			remark_add(t, "ACK of a queue pair that its program has destroyed");
	} else if (times) {
		remark_add(t, "%s %u of PSN %u", is_answer(b) ? "repetition" : "retransmission", times, b->psn.v);
	}
}

/* ---- in ------------------------------------------------------------------------------- */

void remark_before(struct remark_mark *m, const struct hca *h)
{
	for (unsigned i = 0; i < HCA_STATS; i++)
		m->stat[i] = hca_stat(h, i);
	for (unsigned i = 0; i < FAULT_N; i++)
		m->fault[i] = hca_fault_count(h, i);
}

/* Counters that say all there is to say. */
static const struct {
	enum hca_stat stat;
	const char *text;
} plain[] = {
	{ HCA_STAT_IMPLIED_NAK, "implied NAK: a response before it was lost" },
	{ HCA_STAT_STALE_RESP, "old or out of order, ignored" },
	{ HCA_STAT_MALFORMED, "dropped: malformed" },
	{ HCA_STAT_BAD_QPN, "dropped: no such queue pair" },
	{ HCA_STAT_BAD_STATE, "dropped: the queue pair does not receive in its state" },
	{ HCA_STAT_BAD_ROUTE, "dropped: not from the queue pair's peer, or not to its address" },
	{ HCA_STAT_BAD_PKEY, "dropped: P_Key" },
	{ HCA_STAT_BAD_QKEY, "dropped: Q_Key" },
	{ HCA_STAT_RP_CNP_HANDLED, "congestion notification: slower" },
	{ HCA_STAT_RP_CNP_IGNORED, "congestion notification, ignored" },
};

static void duplicate(const struct burst *b, struct remark_text *t)
{
	remark_add(t, opcode_get(b->op_first)->role == ROLE_MESSAGE ? "duplicate, ignored"
								    : "duplicate, answered as before");
}

static void gap(struct remark *r, const struct hca *h, unsigned device, uint32_t qpn, const struct burst *b,
		struct remark_text *t, bool first)
{
	struct qp_info info;

	if (hca_qp_info(h, qpn, &info))
		remark_add(t, "out of sequence, dropped: expected %u, got %u", info.rq_psn, b->psn.v);
	if (first)
		about(r, device, qpn)->got = b->psn.v + 1;
}

static void refused(struct remark *r, unsigned device, uint32_t qpn, unsigned fault, struct remark_text *t)
{
	const char *name = hca_fault_name(fault);

	if (!strncmp(name, "REQ_", 4)) {
		remark_add(t, "the queue pair goes to ERR: %s", hca_fault_text(fault));
		return;
	}
	remark_add(t, "%s: %s", strncmp(name, "RESP_", 5) || fault + 1 == FAULT_RESP_RNR ? "dropped" : "refused",
		   hca_fault_text(fault));
	about(r, device, qpn)->fault = (uint16_t)(fault + 1);
}

/* An answer that says no. */
static void nak_in(const struct burst *b, struct remark_text *t)
{
	if (opcode_get(b->op_first)->kind != KIND_ACK || !reliable(b))
		return;
	switch (aeth_type(b->syndrome)) {
	case AETH_RNR_NAK: rnr(b, t); break;
	case AETH_NAK:
		if (aeth_code(b->syndrome) == NAK_PSN_SEQ)
			remark_add(t, "NAK: expected %u", b->psn.v);
		else
			remark_add(t, "NAK: %s", nak_kind(b->syndrome));
		break;
	case AETH_RESERVED: remark_add(t, "a syndrome that does not exist: %#x", b->syndrome); break;
	case AETH_ACK: break;
	}
}

void remark_after(struct remark *r, const struct remark_mark *m, const struct hca *h, unsigned device, uint32_t qpn,
		  const struct burst *b, struct remark_text *t)
{
	bool first = hca_fault_count(h, FAULT_RESP_GAP - 1) != m->fault[FAULT_RESP_GAP - 1];

	ecn(b, t);
	nak_in(b, t);
	if (hca_stat(h, HCA_STAT_DUPLICATE_REQUEST) != m->stat[HCA_STAT_DUPLICATE_REQUEST])
		duplicate(b, t);
	if (hca_stat(h, HCA_STAT_OUT_OF_SEQ_REQUEST) != m->stat[HCA_STAT_OUT_OF_SEQ_REQUEST])
		gap(r, h, device, qpn, b, t, first);
	for (unsigned i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (hca_stat(h, plain[i].stat) != m->stat[plain[i].stat])
			remark_add(t, "%s", plain[i].text);
	for (unsigned i = 0; i < FAULT_N; i++)
		if (i + 1 != FAULT_RESP_GAP && hca_fault_count(h, i) != m->fault[i])
			refused(r, device, qpn, i, t);
}
