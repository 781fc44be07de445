/* SPDX-License-Identifier: MIT */
/*
 * impair.c - the rules of lab/rule.h in virtual time, as daemon/shard/tap.c has them in the real one.
 *
 * A packet is decided on where it leaves a node and once more where it arrives.  A packet that is put behind others is
 * only delayed here; of the events only qp-fatal happens.
 */
#include <string.h>

#include "sim.h"

static bool qp_of(void *host, unsigned device, uint32_t qpn, struct tap_qp *out)
{
	static uint32_t list[256];
	struct sim *s = host;
	struct hca *h = s->node[device].hca;
	uint32_t n = hca_qp_list(h, list, 256), i = 0;
	struct qp_info info;

	if (!hca_qp_info(h, qpn, &info))
		return false;
	while (i < n && list[i] != qpn)
		i++;
	*out = (struct tap_qp){ .nth = i + 1,
				.prog = "sim",
				.type = info.type,
				.sq_psn = psn(info.attr.sq_psn),
				.rq_psn = psn(info.attr.rq_psn),
				.dest_qpn = info.attr.dest_qpn };
	return true;
}

void impair_set(struct sim *s, struct rules *r, const char *text, const uint64_t *seed)
{
	struct rule_error err;

	memset(r, 0, sizeof *r);
	s->rules = r;
	s->flows.qp = qp_of;
	s->flows.host = s;
	r->device[0] = "node0";
	r->device[1] = "node1";
	r->device_n = s->node_n < 2 ? s->node_n : 2;
	if (rules_add(r, text, strlen(text), &(struct rule_host){ .now = sim_now(s), .seed = seed }, &err) < 0)
		sim_fail(s, "rules, line %u: %s", err.line, err.text);
}

static void answer(struct sim *s, const struct tap_pkt *t, const struct rule_verdict *v, struct node *sender,
		   struct node *other)
{
	struct pkt *a = pkt_get(s);
	struct route back;

	a->len = (uint32_t)rule_answer(v, t, t->dir == TAP_OUT ? t->qpn : t->qp.dest_qpn, &back, a->data);
	a->route = back;
	a->from = other;
	a->to = sender;
	a->corrupt = false;
	a->said[0] = '\0';
	a->ruled = true;
	a->ip_id = 0;
	capture_pkt(s, a, v->text);
	sim_push(s, s->now, SIM_ARRIVE, sender, a);
}

static void copies(struct sim *s, const struct pkt *p, const struct rule_verdict *v, uint64_t delay)
{
	for (unsigned i = 1; i <= v->copies; i++) {
		struct pkt *q = pkt_get(s);

		memcpy(q, p, sizeof *p);
		q->ruled = true;
		sim_push(s, s->now + delay + i * v->copy_ns, SIM_ARRIVE, p->to, q);
	}
}

static void events(struct sim *s)
{
	struct qp_attr attr = { .state = QPS_ERR };
	struct rule_event e;

	while (rules_event(s->rules, &e, sim_now(s)))
		for (unsigned i = 0; e.kind == ACT_QP_FATAL && e.qpn && i < s->node_n; i++)
			if (e.devices >> i & 1)
				hca_qp_modify(s->node[i].hca, e.qpn, &attr, QPA_STATE, sim_now(s));
}

bool impair_pkt(struct sim *s, struct pkt *p, const struct burst *b, enum tap_dir dir, uint64_t *delay)
{
	struct node *here = dir == TAP_OUT ? p->from : p->to;
	struct tap_pkt t = { .device = here->i,
			     .dir = dir,
			     .now = sim_now(s),
			     .qpn = dir == TAP_OUT ? b->sqpn : b->dqpn,
			     .route = &p->route,
			     .b = b,
			     .data = p->data,
			     .len = p->len };
	struct rule_verdict v;

	rules_decide(s->rules, flow_note(&s->flows, &t), &t, &v);
	events(s);
	*delay = 0;
	if (!v.text[0])
		return true;
	trace_burst(s, p->from, p->to, b, v.text);
	trace_mix(s, v.text, strlen(v.text));
	if (dir == TAP_OUT)
		memcpy(p->said, v.text, sizeof(p->said));
	s->link[p->from->i][p->to->i].harm_n++;
	if (v.answer)
		answer(s, &t, &v, p->from, p->to);
	if (v.drop)
		return false;
	if (rule_change(&v, &p->route, ROCE_PORT, p->data, p->len)) {
		p->corrupt |= !v.corrupt->fix;
		p->ip_id = v.corrupt->fix ? 0 : p->ip_id;
	}
	copies(s, p, &v, v.delay_ns);
	*delay = v.delay_ns;
	return true;
}
