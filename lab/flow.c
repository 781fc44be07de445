/* SPDX-License-Identifier: MIT */
/* flow.c - QPs by number, and how often a PSN has been seen. */
#include "flow.h"

#include <stdlib.h>
#include <string.h>

#include <rdmad/abi.h>

#include "../proto/cm_msg.h"
#include "../proto/opcode.h"

#define COUNT_MIN 1024u
#define COUNT_MAX 65536u /* PSNs that are remembered of a stream; of older ones it is said that they came twice */

static void flow_free(struct flow *f)
{
	for (unsigned d = 0; d < 2; d++)
		for (unsigned k = 0; k < TAP_KINDS; k++)
			free(f->stream[d][k].count);
	free(f->count);
	free(f);
}

void flows_fini(struct flows *fs)
{
	struct flow *f;

	for (unsigned i = 0; i < FLOW_HASH; i++) {
		while ((f = fs->head[i])) {
			fs->head[i] = f->next;
			flow_free(f);
		}
	}
}

static struct flow **flow_at(struct flows *fs, unsigned device, uint32_t qpn)
{
	struct flow **p = &fs->head[((qpn ^ qpn >> 8) + device * 31u) % FLOW_HASH];

	while (*p && ((*p)->qpn != qpn || (*p)->device != device))
		p = &(*p)->next;
	return p;
}

void flow_gone(struct flows *fs, unsigned device, uint32_t qpn)
{
	struct flow **p = flow_at(fs, device, qpn), *f = *p;

	if (!f)
		return;
	*p = f->next;
	flow_free(f);
}

static struct flow *flow_get(struct flows *fs, unsigned device, uint32_t qpn)
{
	struct flow **p = flow_at(fs, device, qpn), *f = *p;

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->device = device;
	f->qpn = qpn;
	*p = f;
	return f;
}

uint32_t *flow_count(struct flow *f, unsigned rule)
{
	uint32_t *v;

	if (rule >= f->count_n) {
		v = realloc(f->count, (rule + 1) * sizeof(*v));
		if (!v)
			return NULL;
		memset(v + f->count_n, 0, (rule + 1 - f->count_n) * sizeof(*v));
		f->count = v;
		f->count_n = rule + 1;
	}
	return &f->count[rule];
}

/* ---- transmissions ------------------------------------------------------------------------ */

/* A packet too far back to be remembered counts as one that has come once. */
static bool stream_grow(struct stream *s, uint32_t size)
{
	uint8_t *v = calloc(1, size);

	if (!v)
		return false;
	for (uint32_t i = 0; s->size && i < size; i++) {
		psn_t p = psn_sub(s->max, i);

		if (psn_before(p, s->first))
			break;
		v[p.v & (size - 1)] = i < s->size ? s->count[p.v & (s->size - 1)] : 1;
	}
	free(s->count);
	s->count = v;
	s->size = size;
	return true;
}

static unsigned stream_note(struct stream *s, psn_t p)
{
	uint32_t size = s->size;
	uint8_t *at;
	int32_t ahead;

	if (!size) {
		if (!stream_grow(s, COUNT_MIN))
			return 1;
		s->max = s->first = p;
		size = COUNT_MIN;
	}
	ahead = psn_diff(p, s->max);
	for (int32_t i = 0; i < ahead && i < (int32_t)s->size; i++)
		s->count[psn_sub(p, (uint32_t)i).v & (s->size - 1)] = 0;
	if (ahead > 0)
		s->max = p;
	if (psn_diff(s->max, s->first) > (int32_t)COUNT_MAX) /* PSNs begin anew */
		s->first = psn_sub(s->max, COUNT_MAX);
	while (size < COUNT_MAX && (int32_t)size <= -ahead)
		size *= 2;
	if ((int32_t)size <= -ahead || (size > s->size && !stream_grow(s, size)))
		return 2;
	at = &s->count[p.v & (s->size - 1)];
	if (*at < UINT8_MAX)
		++*at;
	return *at;
}

static enum tap_kind kind_of(uint8_t opcode)
{
	switch (opcode_get(opcode)->role) {
	case ROLE_RESPONSE: return TAP_RESPONSE;
	case ROLE_ACK:
	case ROLE_NOTE: return TAP_ACK;
	}
	return TAP_REQUEST;
}

/* The attribute of a datagram of QP 1, if it is the CM's. */
static uint16_t cm_attr_of(struct tap_pkt *p)
{
	size_t at = opcode_get(p->b->op_first)->hdr_len;

	return p->b->dqpn == 1 && !tap_bytes(p) && p->len >= at + MAD_LEN ? cm_msg_attr(p->data + at) : 0;
}

struct flow *flow_note(struct flows *fs, struct tap_pkt *p)
{
	struct flow *f;
	bool mine;

	if (!p->b)
		return NULL;
	p->kind = kind_of(p->b->op_first);
	p->cm = cm_attr_of(p);
	if (!p->qpn || p->qpn == QPN_MCAST || !fs->qp || !fs->qp(fs->host, p->device, p->qpn, &p->qp))
		return NULL;
	p->known = true;
	f = flow_get(fs, p->device, p->qpn);
	if (!f)
		return NULL;
	/* Requests that it sends, and what comes back, count from sq_psn. */
	mine = (p->kind == TAP_REQUEST) == (p->dir == TAP_OUT);
	if (p->b->op_first == OPCODE_CNP)
		return f;
	p->has_rel = p->qp.type != QPT_UD || p->dir == TAP_OUT;
	p->rel = psn_diff(p->b->psn, mine ? p->qp.sq_psn : p->qp.rq_psn);
	if (p->qp.type != QPT_UD && p->qp.type != QPT_UC)
		p->iter = stream_note(flow_stream(f, p), p->b->psn);
	return f;
}
