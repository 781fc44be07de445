/* SPDX-License-Identifier: MIT */
/* cases.c - single rules and fixed bugs by name; the cases are in cases_*.c, each group with its table. */
#include <stdlib.h>

#include "cases.h"
#include "runs.h"

static const struct sim_case *const groups[] = { cases_state,  cases_rc, cases_ud, cases_wire,
						 cases_replay, cases_mw, cases_xrc };

static const struct sim_case *case_get(unsigned i)
{
	for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
		for (const struct sim_case *c = groups[g]; c->name; c++)
			if (!i--)
				return c;
	return NULL;
}

unsigned cases_n(void)
{
	unsigned n = 0;

	while (case_get(n))
		n++;
	return n;
}

uint64_t cases_run(uint64_t i, bool trace)
{
	static struct model model;
	struct model *m = &model;
	struct model_cfg c = {
		.kind = "cases", .seed = i, .nodes = 2, .arena_len = 1 << 20, .hca = model_hca(), .trace = trace
	};
	struct link link = { .delay_ns = 2 * USEC };
	const struct sim_case *k = i < cases_n() ? case_get((unsigned)i) : NULL;

	if (!k) {
		fprintf(stderr, "there is no case %llu\n", (unsigned long long)i);
		exit(2);
	}
	model_init(m, &c);
	m->s.verify_every = 1;
	m->s.about = k->name;
	trace_note(&m->s, "case %s", k->name);
	sim_link(&m->s, 0, 1, &link);
	k->run(m);
	model_end(m);
	return m->s.hash;
}

/* ---- helpers ------------------------------------------------------------------- */

void must(struct model *m, bool ok, const char *what)
{
	if (!ok)
		sim_fail(&m->s, "not so: %s", what);
}

struct duo duo_new(struct model *m, uint8_t type)
{
	struct mqp_cfg c = { .type = type, .max_send_wr = 16, .max_recv_wr = 16, .max_sge = 4 };
	struct duo d;

	if (type == QPT_XRC_SEND) {
		d.a = model_qp(m, 0, &c);
		c.type = QPT_XRC_RECV;
	}
	if (c.type == QPT_XRC_RECV) {
		c.srq = model_xsrq(m, 1, 16, 0);
		d.b = model_qp(m, 1, &c);
		if (type == QPT_XRC_RECV)
			d.a = model_qp(m, 0, &(struct mqp_cfg){ .type = QPT_XRC_SEND, .max_send_wr = 4, .max_sge = 4 });
		return d;
	}

	return (struct duo){ model_qp(m, 0, &c), model_qp(m, 1, &c) };
}

struct duo duo_rc(struct model *m, const struct qp_attr *attr)
{
	struct duo d = duo_new(m, QPT_RC);
	struct qp_attr a = attr ? *attr : model_attr();

	model_connect(d.a, d.b, &a, true, 0);
	return d;
}

struct duo duo_xrc(struct model *m, const struct qp_attr *attr)
{
	struct duo d = duo_new(m, QPT_XRC_SEND);
	struct qp_attr a = attr ? *attr : model_attr();

	model_connect(d.a, d.b, &a, true, 0);
	return d;
}

struct duo duo_uc(struct model *m)
{
	struct duo d = duo_new(m, QPT_UC);
	struct qp_attr a = model_attr();

	model_connect(d.a, d.b, &a, true, 0);
	return d;
}

struct duo duo_ud(struct model *m)
{
	struct duo d = duo_new(m, QPT_UD);

	model_ready(d.a, 0x11111111);
	model_ready(d.b, 0x22222222);
	return d;
}

void send_ok(struct mqp *q, const struct post *p)
{
	int e = model_send(q, p);

	if (e)
		sim_fail(&q->m->s, "post_send: %s", strerror(e));
}

void recv_ok(struct mqp *q, uint32_t len)
{
	int e = q->srq ? model_srq_recv(q->srq, len, 1) : model_recv(q, len, 1);

	if (e)
		sim_fail(&q->m->s, "post_recv: %s", strerror(e));
}

static void stop(struct sim *, void *arg) { *(bool *)arg = true; }

void run_for(struct model *m, uint64_t ns)
{
	bool over = false;

	sim_at(&m->s, m->s.now + ns, stop, &over);
	while (!over)
		sim_step(&m->s);
}

uint64_t stat_of(const struct node *n, enum hca_stat stat) { return hca_stat(n->hca, stat); }

uint32_t psn_of(const struct mqp *q)
{
	struct qp_info i;

	if (!hca_qp_info(q->node->hca, q->qpn, &i))
		sim_fail(&q->m->s, "hca_qp_info does not find QP 0x%x", q->qpn);
	return i.rq_psn;
}

bool in_err(struct mqp *q)
{
	model_watch(q);
	return q->state == QPS_ERR;
}

struct burst burst_to(const struct mqp *b, uint8_t opcode, uint32_t at)
{
	struct burst x = { .op_first = opcode,
			   .op_last = opcode,
			   .pkey = 0xffff,
			   .dqpn = b->qpn,
			   .psn = psn(at),
			   .n = 1,
			   .ackreq = true,
			   .syndrome = 0x1f };
	const struct node *from = b->peer ? b->peer->node : &b->node->sim->node[!b->node->i];

	memcpy(x.route.sgid, from->gid[b->attr.av.sgid_index], 16);
	memcpy(x.route.dgid, b->node->gid[b->attr.av.sgid_index], 16);
	x.route.hop_limit = 64;
	return x;
}

void inject(struct mqp *to, const struct burst *b, const void *payload, uint32_t len)
{
	struct span span = { NULL, (uintptr_t)payload, len };
	struct burst x = *b;

	x.payload_len = len;
	x.span = &span;
	x.span_n = len ? 1 : 0;
	trace_burst(&to->m->s, NULL, to->node, &x, "injected");
	hca_rx_burst(to->node->hca, &x, sim_now(&to->m->s));
	sim_dirty(to->node);
	sim_turns(&to->m->s);
}
