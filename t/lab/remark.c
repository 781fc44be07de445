/* SPDX-License-Identifier: MIT */
/* remark.c - two HCAs, and the words for each packet between them. */
#include "lab/remark.h"
#include "proto/opcode.h"
#include "t/proto/rig.h"
#include "t/suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct watch {
	struct remark *remark;
	uint64_t lose, twice; /* packets by number, the first is 0 */
	unsigned n;
	char log[16384]; /* "a SEND_ONLY 100: remark | remark\n" */
	size_t log_n;
};

static void words(struct watch *w, const char *who, const struct burst *b, const struct remark_text *t)
{
	const char *op = opcode_get(b->op_first)->name;

	w->log_n += (size_t)snprintf(w->log + w->log_n, sizeof(w->log) - w->log_n, "%s %s %u: ", who, op ? op : "?",
				     b->psn.v);
	for (size_t i = 0; i < t->n && w->log_n < sizeof(w->log) - 2; i++)
		w->log[w->log_n++] = t->s[i] == '\n' ? '|' : t->s[i];
	w->log[w->log_n++] = '\n';
	w->log[w->log_n] = 0;
}

static bool seen(struct rig *r, struct host *from, const struct burst *b)
{
	struct watch *w = r->hook_arg;
	struct host *to = from == &r->a ? &r->b : &r->a;
	unsigned i = w->n++, times = i < 64 && (w->twice >> i & 1) ? 2 : 1;
	struct remark_text t = { .n = 0 };
	struct remark_mark m;

	remark_out(w->remark, from->h, 0, from->qpn, b, 0, &t);
	words(w, from == &r->a ? "a>" : "b>", b, &t);
	if (i < 64 && (w->lose >> i & 1))
		return true;
	while (times--) {
		t.n = 0;
		remark_before(&m, to->h);
		hca_rx_burst(to->h, b, r->now);
		remark_after(w->remark, &m, to->h, 0, to->qpn, b, &t);
		words(w, to == &r->a ? ">a" : ">b", b, &t);
	}
	return true;
}

static void start(struct rig *r, struct watch *w, const struct link_conf *c)
{
	*w = (struct watch){ .remark = remark_new() };
	ck_assert_ptr_nonnull(w->remark);
	rig_init(r, LINK_WIRE);
	r->hook = seen;
	r->hook_arg = w;
	rig_connect(r, c);
}

static void end(struct rig *r, struct watch *w)
{
	remark_free(w->remark);
	rig_fini(r);
}

static void has(const struct watch *w, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	ck_assert_msg(strstr(w->log, line) != NULL, "no \"%s\" in\n%s", line, w->log);
}

#define P conf_rc.psn

START_TEST(gap)
{
	struct watch w;
	struct rig r;

	start(&r, &w, &conf_rc);
	w.lose = 1 << 2;
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 2500);
	rig_run(&r);
	has(&w, "a> RC_WRITE_FIRST %u: \n>b RC_WRITE_FIRST %u: \n", P, P);
	has(&w, ">b RC_WRITE_MIDDLE %u: out of sequence, dropped: expected %u, got %u\n", P + 3, P + 2, P + 3);
	has(&w, "b> RC_ACKNOWLEDGE %u: NAK: expected %u, got %u\n>a RC_ACKNOWLEDGE %u: NAK: expected %u\n", P + 2,
	    P + 2, P + 3, P + 2, P + 2);
	end(&r, &w);
}
END_TEST

START_TEST(not_ready)
{
	struct link_conf c = conf_rc;
	struct watch w;
	struct rig r;

	c.min_rnr = 12;
	start(&r, &w, &c);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_SEND, .len = 10);
	rig_run(&r);
	has(&w, ">b RC_SEND_ONLY %u: dropped: no receive WR", P);
	has(&w, "b> RC_ACKNOWLEDGE %u: RNR NAK: wait 0.64 ms\n>a RC_ACKNOWLEDGE %u: RNR NAK: wait 0.64 ms\n", P, P);
	end(&r, &w);
}
END_TEST

START_TEST(duplicates)
{
	struct watch w;
	struct rig r;

	start(&r, &w, &conf_rc);
	w.twice = 1 << 0 | 1 << 1;
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 10);
	rig_run(&r);
	has(&w, ">b RC_WRITE_ONLY %u: \n>b RC_WRITE_ONLY %u: duplicate, ignored\n", P, P);
	has(&w, ">a RC_ACKNOWLEDGE %u: \n>a RC_ACKNOWLEDGE %u: old or out of order, ignored\n", P, P);
	end(&r, &w);
}
END_TEST

START_TEST(refusal)
{
	struct watch w;
	struct rig r;

	start(&r, &w, &conf_rc);
	SEND_WR(&r, &r.a, .id = 1, .op = WR_WRITE, .len = 10, .rkey = 0x1234);
	rig_run(&r);
	has(&w, ">b RC_WRITE_ONLY %u: refused: rkey, its PD, rights or bounds\n", P);
	has(&w, "b> RC_ACKNOWLEDGE %u: NAK: remote access error: rkey, its PD, rights or bounds\n", P);
	has(&w, ">a RC_ACKNOWLEDGE %u: NAK: remote access error|the queue pair goes to ERR: NAK: remote access error\n",
	    P);
	end(&r, &w);
}
END_TEST

START_TEST(lost_response)
{
	struct watch w;
	struct rig r;

	start(&r, &w, &conf_rc);
	w.lose = 1 << 2;
	SEND_WR(&r, &r.a, .id = 1, .op = WR_READ, .len = 2500);
	rig_run(&r);
	has(&w, ">a RC_READ_RESP_MIDDLE %u: implied NAK: a response before it was lost\n", P + 2);
	has(&w, ">b RC_READ_REQUEST %u: duplicate, answered as before\n", P + 1);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_SUCCESS);
	end(&r, &w);
}
END_TEST

START_TEST(gone)
{
	struct watch w;
	struct rig r;
	struct burst b;

	start(&r, &w, &conf_rc);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, P);
	b.route.tclass |= 3;
	b.dqpn ^= 0x800;
	seen(&r, &r.a, &b);
	has(&w, "a> RC_WRITE_ONLY %u: ECN marked: congestion experienced\n", P);
	has(&w, ">b RC_WRITE_ONLY %u: ECN marked: congestion experienced|dropped: no such queue pair\n", P);
	end(&r, &w);
}
END_TEST

START_TEST(text)
{
	struct remark_text t = { .n = 0 };

	remark_add(&t, "%s %d", "one", 1);
	remark_add(&t, "two");
	ck_assert_uint_eq(t.n, 9);
	ck_assert_mem_eq(t.s, "one 1\ntwo", 9);
	remark_add(&t, "on");
	ck_assert_uint_eq(t.n, 9);
	remark_add(&t, "one 12");
	ck_assert_uint_eq(t.n, 16);
	for (unsigned i = 0; i < 100; i++)
		remark_add(&t, "%u: a line that is rather long, so that not all of them fit", i);
	ck_assert_uint_eq(t.n, REMARK_LEN);
}
END_TEST

START_TEST(times)
{
	struct remark_text t = { .n = 0 };
	struct watch w;
	struct rig r;
	struct burst b;

	start(&r, &w, &conf_rc);
	b = pkt_from(&r, &r.a, OP_WRITE_ONLY, 17);
	remark_out(w.remark, r.a.h, 0, r.a.qpn, &b, 2, &t);
	ck_assert_uint_eq(t.n, strlen("retransmission 2 of PSN 17"));
	ck_assert_mem_eq(t.s, "retransmission 2 of PSN 17", t.n);
	end(&r, &w);
}
END_TEST

TEST_MAIN("remark", gap, not_ready, duplicates, refusal, lost_response, gone, text, times)
