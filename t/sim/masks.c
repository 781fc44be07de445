/* SPDX-License-Identifier: MIT */
/*
 * masks.c - every pattern of losses among the first 12 packets of one direction, for a few
 * conversations: 4096 runs each, and all of them must end as if nothing had been lost.
 */
#include <string.h>

#include "model.h"
#include "runs.h"

#define MTU 256u

struct script {
	struct post post[10]; /* len 0 with op 0 and no flags: the end */
	unsigned late;        /* receives are posted so many microseconds after the work; 0: before */
	bool both;            /* B does the same */
	bool window;          /* through one that B has bound */
	bool leave;           /* B is destroyed as soon as it has received all: A must not notice */
	bool xrc;
};

#define S WR_SIGNALED

static const struct script scripts[] = {
	{ /* send */
	  .post = { { .op = WR_SEND, .flags = S, .len = 3 * MTU + 7 },
		    { .op = WR_SEND, .flags = S, .len = 0 },
		    { .op = WR_SEND_IMM, .flags = S | WR_SOLICITED, .len = 2 * MTU },
		    { .op = WR_SEND, .flags = S, .len = 1 } } },
	{ /* write_imm */
	  .post = { { .op = WR_WRITE, .flags = 0, .len = 4 * MTU },
		    { .op = WR_WRITE, .flags = S, .len = 4 * MTU, .again = true },
		    { .op = WR_WRITE_IMM, .flags = S, .len = 2 * MTU + 1 },
		    { .op = WR_WRITE_IMM, .flags = S, .len = 0 } } },
	{ /* read */
	  .post = { { .op = WR_READ, .flags = S, .len = 5 * MTU + 3 },
		    { .op = WR_READ, .flags = S, .len = 0 },
		    { .op = WR_READ, .flags = S, .len = MTU },
		    { .op = WR_READ, .flags = S, .len = 2 * MTU },
		    { .op = WR_READ, .flags = S, .len = 17 } } },
	{ /* atomic */
	  .post = { { .op = WR_FETCH_ADD, .flags = S, .len = 8 },
		    { .op = WR_CMP_SWP, .flags = S, .len = 8 },
		    { .op = WR_FETCH_ADD, .flags = S, .len = 8 },
		    { .op = WR_WRITE, .flags = S, .len = 8 },
		    { .op = WR_CMP_SWP, .flags = S, .len = 8 },
		    { .op = WR_FETCH_ADD, .flags = S, .len = 8, .word = 1 } } },
	{ /* mixed */
	  .post = { { .op = WR_WRITE, .flags = 0, .len = 2 * MTU },
		    { .op = WR_READ, .flags = S, .len = 2 * MTU, .again = true },
		    { .op = WR_SEND, .flags = S | WR_FENCE, .len = MTU + 1 },
		    { .op = WR_FETCH_ADD, .flags = S, .len = 8 },
		    { .op = WR_WRITE_IMM, .flags = S | WR_FENCE, .len = MTU },
		    { .op = WR_READ, .flags = S, .len = 3 * MTU } } },
	{ /* rnr */
	  .late = 300,
	  .post = { { .op = WR_SEND, .flags = S, .len = 2 * MTU },
		    { .op = WR_WRITE_IMM, .flags = S, .len = 2 * MTU },
		    { .op = WR_READ, .flags = S, .len = 2 * MTU },
		    { .op = WR_SEND_IMM, .flags = S, .len = 3 } } },
	{ /* leave */
	  .leave = true,
	  .post = { { .op = WR_SEND, .flags = S, .len = 2 * MTU + 9 },
		    { .op = WR_READ, .flags = S, .len = 2 * MTU },
		    { .op = WR_WRITE, .flags = S, .len = 2 * MTU },
		    { .op = WR_SEND_IMM, .flags = S, .len = 3 * MTU },
		    { .op = WR_WRITE_IMM, .flags = S, .len = 5 } } },
	{ /* both */
	  .both = true,
	  .post = { { .op = WR_SEND, .flags = S, .len = 2 * MTU },
		    { .op = WR_READ, .flags = S, .len = 2 * MTU },
		    { .op = WR_FETCH_ADD, .flags = S, .len = 8 },
		    { .op = WR_WRITE_IMM, .flags = S, .len = MTU } } },
	{ /* flush */
	  .post = { { .op = WR_WRITE, .len = 2 * MTU },
		    { .op = WR_FLUSH, .flags = S },
		    { .op = WR_ATOMIC_WRITE, .flags = S, .len = 8 },
		    { .op = WR_FLUSH, .flags = S },
		    { .op = WR_ATOMIC_WRITE, .flags = S, .len = 8, .inl = true },
		    { .op = WR_READ, .flags = S, .len = MTU + 1 } } },
	{ /* xrc */
	  .xrc = true,
	  .post = { { .op = WR_SEND, .flags = S, .len = 2 * MTU },
		    { .op = WR_READ, .flags = S, .len = 3 * MTU },
		    { .op = WR_CMP_SWP, .flags = S, .len = 8 },
		    { .op = WR_WRITE_IMM, .flags = S, .len = MTU + 1 },
		    { .op = WR_SEND_IMM, .flags = S, .len = 3 } } },
	{ /* window */
	  .window = true,
	  .post = { { .op = WR_WRITE, .flags = S, .len = 2 * MTU },
		    { .op = WR_READ, .flags = S, .len = 3 * MTU },
		    { .op = WR_FETCH_ADD, .flags = S, .len = 8 },
		    { .op = WR_SEND_INV, .flags = S, .len = MTU + 1 },
		    { .op = WR_SEND, .flags = S, .len = 1 } } },
};

unsigned masks_scripts(void) { return sizeof scripts / sizeof scripts[0]; }

struct masks {
	struct model m;
	const struct script *script;
	struct mqp *a, *b;
	struct mmw *mw;
};

static void receives(struct sim *s, void *arg)
{
	struct masks *k = arg;

	for (unsigned i = 0; i < 8; i++) {
		if (k->script->xrc ? model_srq_recv(k->b->srq, 4 * MTU, 2) : model_recv(k->b, 4 * MTU, 2))
			sim_fail(s, "model_recv");
		if (k->script->both && model_recv(k->a, 4 * MTU, 1))
			sim_fail(s, "model_recv");
	}
}

static void work(struct masks *k, struct mqp *q)
{
	const struct post *p = k->script->post;

	for (unsigned i = 0; i < 10 && (p[i].op || p[i].len); i++) {
		struct post post = p[i];

		post.mw = k->mw;
		if (model_send(q, &post))
			sim_fail(&k->m.s, "model_send");
	}
}

static void leave(struct model *m)
{
	struct mqp *b = ((struct masks *)m)->b;

	if (b->exists && model_may_leave(b))
		model_leave(b);
}

uint64_t masks_run(uint64_t seed, bool trace)
{
	static struct masks masks;
	struct masks *k = &masks;
	struct model_cfg c = {
		.kind = "masks", .seed = seed, .nodes = 2, .arena_len = 128 << 10, .hca = model_hca(), .trace = trace
	};
	struct mqp_cfg qc = { .type = QPT_RC, .max_send_wr = 16, .max_recv_wr = 16, .max_sge = 4 };
	struct link link = { .delay_ns = 2 * USEC, .rate = 10000000000 };
	struct qp_attr attr = model_attr();
	unsigned dir = seed >> MASKS_BITS & 1;

	memset(k, 0, sizeof *k);
	k->script = &scripts[(seed >> (MASKS_BITS + 1)) % masks_scripts()];
	model_init(&k->m, &c);
	k->m.s.verify_every = 32;
	sim_link(&k->m.s, 0, 1, &link);
	k->m.s.link[dir][!dir].mask = seed & ((1u << MASKS_BITS) - 1);
	k->m.s.link[dir][!dir].mask_n = MASKS_BITS;
	qc.type = k->script->xrc ? QPT_XRC_SEND : QPT_RC;
	k->a = model_qp(&k->m, 0, &qc);
	if (k->script->xrc) {
		qc.type = QPT_XRC_RECV;
		qc.srq = model_xsrq(&k->m, 1, 16, 1);
	}
	k->b = model_qp(&k->m, 1, &qc);
	model_connect(k->a, k->b, &attr, seed & 1, 0);
	if (k->script->window) { /* (nothing is sent for this) */
		k->mw = model_mw(k->b, 2);
		if (model_send(k->b, &(struct post){ .op = WR_BIND_MW, .flags = S, .mw = k->mw }))
			sim_fail(&k->m.s, "model_send");
		model_settle(&k->m);
	}
	if (!k->script->late)
		receives(&k->m.s, k);
	else
		sim_at(&k->m.s, k->script->late * USEC, receives, k);
	if (k->script->leave)
		k->m.on_settle = leave;
	work(k, k->a);
	if (k->script->both)
		work(k, k->b);
	model_settle(&k->m);
	model_end(&k->m);
	return k->m.s.hash;
}
