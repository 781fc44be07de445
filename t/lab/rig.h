/* SPDX-License-Identifier: MIT */
/* rig.h - packets as a host would offer them to rules: of one device with QPs whose numbers begin at 0x100. */
#ifndef T_LAB_RIG_H
#define T_LAB_RIG_H

#include "t/suite.h"

#include <string.h>

#include <rdmad/abi.h>

#include "lab/hold.h"
#include "lab/rule.h"
#include "proto/aeth.h"
#include "proto/hdr.h"
#include "proto/icrc.h"

#define QP(n) (0x100u + (n)) /* the n-th of the device: 1, 2, ... */
#define FIRST 0xfffff0u      /* its first PSN */
#define MS    1000000ull

struct lab {
	struct rules rules;
	struct flows flows;
	struct burst b;
	struct route route;
	struct tap_pkt p;
	struct rule_verdict v;
	struct span span;
	uint8_t payload[1024], room[TAP_PKT_MAX];
	uint64_t now;
};

static inline bool lab_qp(void *, unsigned, uint32_t qpn, struct tap_qp *qp)
{
	*qp = (struct tap_qp){
		.nth = qpn - 0x100,
		.prog = qpn & 1 ? "odd" : "even",
		.type = QPT_RC,
		.sq_psn = psn(FIRST),
		.rq_psn = psn(FIRST),
		.dest_qpn = qpn + 0x1000,
	};
	return qpn > 0x100;
}

static inline int lab_copy(void *, const struct span *dst, unsigned, const struct span *src, unsigned, uint64_t off)
{
	memcpy((void *)(uintptr_t)dst->addr, (const void *)(uintptr_t)(src->addr + off), dst->len);
	return 0;
}

static const struct mem_ops lab_mem = { .copy = lab_copy };

static inline void lab_begin(struct lab *l, const char *text)
{
	struct rule_error err;

	memset(l, 0, sizeof(*l));
	l->rules.device[0] = "rdmad0";
	l->rules.device[1] = "rdmad1";
	l->rules.device_n = 2;
	l->flows.qp = lab_qp;
	l->now = 1000 * MS;
	for (unsigned i = 0; i < sizeof(l->payload); i++)
		l->payload[i] = (uint8_t)i;
	ck_assert_msg(rules_add(&l->rules, text, strlen(text), &(struct rule_host){ .now = { l->now } }, &err) > 0,
		      "line %u: %s", err.line, err.text);
}

static inline void lab_end(struct lab *l)
{
	rules_fini(&l->rules);
	flows_fini(&l->flows);
}

/* clang-format off */
/* The next packet: rel PSNs behind the first of the QP. */
static inline struct tap_pkt *lab_pkt(struct lab *l, uint32_t qpn, enum tap_dir dir, unsigned op, int rel)
{
	const struct opcode *o = opcode_get((uint8_t)op);
	unsigned len = o->pay == PAY_NONE ? 0 : o->pay == PAY_8 ? 8 : o->pay == PAY_FULL ? 1024 : 100;

	l->route = (struct route){ .sgid = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, .dgid = { [10] = 0xff, 0xff, 10, 0, 0, 2 }, .hop_limit = 64 };
	l->span = (struct span){ .addr = (uintptr_t)l->payload, .len = len };
	l->b = (struct burst){
		.route = l->route, .op_first = (uint8_t)op, .op_last = (uint8_t)op, .dqpn = dir == TAP_IN ? qpn : qpn + 0x1000,
		.sqpn = qpn, .psn = psn(FIRST + (uint32_t)rel), .n = 1, .mtu = 1024, .pkey = 0xffff, .syndrome = aeth_ack(),
		.payload_len = len, .span = &l->span, .span_n = len != 0,
	};
	l->p = (struct tap_pkt){
		.dir = dir, .now = { l->now }, .qpn = qpn, .route = &l->route, .b = &l->b, .sport = ROCE_PORT, .mem = &lab_mem, .room = l->room,
	};
	return &l->p;
}
/* clang-format on */

static inline struct rule_verdict *lab_decide(struct lab *l)
{
	rules_decide(&l->rules, flow_note(&l->flows, &l->p), &l->p, &l->v);
	return &l->v;
}

/* Most tests: a packet that leaves. */
static inline bool lab_drops(struct lab *l, uint32_t qpn, unsigned op, int rel)
{
	lab_pkt(l, qpn, TAP_OUT, op, rel);
	return lab_decide(l)->drop;
}

#endif
