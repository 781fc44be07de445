/* SPDX-License-Identifier: MIT */
/*
 * trace.c - what happened, as lines for a person and as a hash for the machine.
 *
 * Without --trace the lines are not made; sim_fail() then says which seed to replay.
 */
#include <stdarg.h>
#include <string.h>

#include "sim.h"

static void stamp(const struct sim *s) { printf("%12.3f us  ", (double)s->now / 1e3); }

void trace_mix(struct sim *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = s->hash ^ s->now;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	s->hash = h;
}

void trace_note(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (!s->trace)
		return;
	stamp(s);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static const char *opcode_text(uint8_t op, char *buf, size_t len)
{
	static const char *const svc[8] = { "", "UC ", "RD ", "UD ", "CNP ", "XRC ", "? ", "? " };
	const struct opcode *o = opcode_get(op);

	snprintf(buf, len, "%s%s", svc[op >> 5], o->name ? o->name : "?");
	return buf;
}

static void headers_text(const struct burst *b)
{
	unsigned hdrs = opcode_get(b->op_first)->hdrs | opcode_get(b->op_last)->hdrs;

	if (hdrs & (HDR_RETH | HDR_ATOMIC))
		printf(" va 0x%llx rkey 0x%x", (unsigned long long)b->va, b->rkey);
	if (hdrs & HDR_RETH)
		printf(" dma %u", b->dma_len);
	if (hdrs & HDR_ATOMIC)
		printf(" swap_add 0x%llx compare 0x%llx", (unsigned long long)b->swap_add,
		       (unsigned long long)b->compare);
	if (hdrs & HDR_AETH) {
		unsigned type = b->syndrome >> 5;

		printf(" %s 0x%02x msn %u", type == 0 ? "ack" : type == 1 ? "RNR" : "NAK", b->syndrome, b->msn);
	}
	if (hdrs & HDR_ATOMIC_ACK)
		printf(" orig 0x%llx", (unsigned long long)b->orig);
	if (hdrs & HDR_DETH)
		printf(" qkey 0x%x sqpn 0x%x", b->qkey, b->sqpn);
	if (hdrs & HDR_IMM)
		printf(" imm 0x%x", b->imm);
	if (hdrs & HDR_IETH)
		printf(" inv 0x%x", b->inv_rkey);
}

void trace_burst(struct sim *s, const struct node *from, const struct node *to, const struct burst *b, const char *what)
{
	char first[40], last[40];

	if (!s->trace)
		return;
	stamp(s);
	printf("%c>%c QP 0x%x %s", from ? 'A' + from->i : '?', to ? 'A' + to->i : '?', b->dqpn,
	       opcode_text(b->op_first, first, sizeof first));
	if (b->n > 1)
		printf("..%s x%u", opcode_text(b->op_last, last, sizeof last), b->n);
	printf(" psn 0x%x len %llu%s%s", b->psn.v, (unsigned long long)b->payload_len, b->ackreq ? " ackreq" : "",
	       b->se ? " se" : "");
	headers_text(b);
	printf("%s%s\n", *what ? "   " : "", what);
}

void trace_cqe(struct sim *s, const struct node *n, const struct cqe *c)
{
	struct cqe plain = *c;

	trace_mix(s, &plain, sizeof plain);
	if (!s->trace)
		return;
	stamp(s);
	printf("%c QP 0x%x %s wr_id %llu status %u op %u len %u flags 0x%x imm 0x%x wqe %u%s\n", 'A' + n->i, c->qpn,
	       c->is_send ? "SEND-CQE" : "RECV-CQE", (unsigned long long)c->wr_id, c->status, c->op, c->byte_len,
	       c->flags, c->imm, c->wqe, c->solicited ? " solicited" : "");
}

void trace_last(struct sim *s)
{
	if (!s->trace)
		fprintf(stderr, "to see it: t/sim/replay --kind %s --seed %llu --trace\n", s->kind,
			(unsigned long long)s->seed);
}
