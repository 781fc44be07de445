/* SPDX-License-Identifier: MIT */
/* ends.c - rings of ended contexts and QPs; they are static, so that leak checks do not see them. */
#include <stdio.h>
#include <string.h>

#include "ends.h"
#include "session.h"
#include "sessions.h"
#include "why.h"

#define QPS_KEPT    512u
#define CTXS_KEPT   256u
#define OBJS_KEPT   2048u
#define OBJS_OF_CTX 64u /* of a kind: the rest is a number */
#define LOST_RUNS   64u

struct end_ctx {
	struct msg_runs runs;
	unsigned id, device;
	pid_t pid;
	uid_t uid;
	char prog[RDMAD_NAME_LEN];
	bool bye;
	unsigned left[OBJ_KINDS];
};

struct end_obj {
	unsigned ctx;
	enum obj_kind kind;
	uint32_t number;
	uint64_t addr, len; /* MR */
};

/* Rows of contexts that had to go, by their rdmad-run: it is to know that there were more. */
struct end_lost {
	struct msg_runs runs;
	uid_t uid;
	unsigned n;
};

static struct qp_row qps[QPS_KEPT];
static struct end_ctx ctxs[CTXS_KEPT];
static struct end_obj objs[OBJS_KEPT];
static struct end_lost lost[LOST_RUNS];
static uint64_t qps_n, ctxs_n, objs_n, lost_n, ctxs_ended; /* ever; ctxs_n of ctxs_ended have left something */

static const char *const kind_names[OBJ_KINDS] = {
	[OBJ_PD] = "pd", [OBJ_MR] = "mr", [OBJ_CHANNEL] = "channel", [OBJ_CQ] = "cq",     [OBJ_SRQ] = "srq",
	[OBJ_QP] = "qp", [OBJ_MW] = "mw", [OBJ_DM] = "dm",           [OBJ_XRCD] = "xrcd",
};

void ends_qp(const struct qp_row *r) { qps[qps_n++ % QPS_KEPT] = *r; }

static void qp_left(const struct obj *o)
{
	struct qp_row *r = &qps[qps_n++ % QPS_KEPT];

	qp_row_fill(r, o->ctx->shard, o->ctx->dev->index, o->number);
	r->left = true;
}

static void obj_keep(const struct obj *o)
{
	struct end_obj *e = &objs[objs_n++ % OBJS_KEPT];

	*e = (struct end_obj){ .ctx = o->ctx->id, .kind = o->kind, .number = o->number };
	if (o->kind == OBJ_MR) {
		e->addr = ((const struct ctx_mr *)o)->addr;
		e->len = ((const struct ctx_mr *)o)->len;
	}
}

/* Those that go on elsewhere are not left. */
static unsigned left_of(const struct ctx *c, unsigned kind, bool shared)
{
	return shared && (kind == OBJ_PD || kind == OBJ_MR || kind == OBJ_DM) ? 0 : c->obj_n[kind];
}

static void ctx_forget(const struct end_ctx *e)
{
	struct end_lost *l = lost;

	if (!e->runs.id[0])
		return;
	while (l < lost + LOST_RUNS && !(l->n && !memcmp(&l->runs, &e->runs, sizeof(l->runs)) && l->uid == e->uid))
		l++;
	if (l == lost + LOST_RUNS) {
		l = &lost[lost_n++ % LOST_RUNS];
		*l = (struct end_lost){ .runs = e->runs, .uid = e->uid };
	}
	l->n++;
}

void ends_ctx(const struct ctx *c, bool shared)
{
	struct end_ctx *e = &ctxs[ctxs_n % CTXS_KEPT];
	unsigned all = 0;

	ctxs_ended++;
	for (unsigned k = 0; k < OBJ_KINDS; k++)
		all += left_of(c, k, shared);
	if (!all) /* there is nothing to tell, and no row of another one goes for it */
		return;
	if (ctxs_n++ >= CTXS_KEPT)
		ctx_forget(e);
	*e = (struct end_ctx){
		.runs = c->runs, .id = c->id, .device = c->dev->index, .pid = c->pid, .uid = c->uid, .bye = c->bye
	};
	memcpy(e->prog, c->prog, sizeof(e->prog));
	for (unsigned k = 0; k < OBJ_KINDS; k++) {
		unsigned n = 0;

		e->left[k] = left_of(c, k, shared);
		if (!e->left[k])
			continue;
		for (const struct obj *o = c->objs[k]; o && n < OBJS_OF_CTX; o = o->next, n++) {
			obj_keep(o);
			if (k == OBJ_QP)
				qp_left(o);
		}
	}
}

const struct qp_row *ends_find(unsigned device, uint32_t qpn)
{
	for (uint64_t i = qps_n; i && qps_n - i < QPS_KEPT; i--) {
		const struct qp_row *r = &qps[(i - 1) % QPS_KEPT];

		if (r->device == device && r->info.qpn == qpn)
			return r;
	}
	return NULL;
}

/* ---- json ------------------------------------------------------------------------ */

static json_t *obj_json(const struct end_obj *o)
{
	json_t *j = json_pack("{s:s s:I}", "kind", kind_names[o->kind], "number", (json_int_t)o->number);

	if (o->kind == OBJ_MR) {
		char text[24];

		snprintf(text, sizeof(text), "%#llx", (unsigned long long)o->addr);
		json_object_set_new(j, "address", json_string(text));
		json_object_set_new(j, "length", json_integer((json_int_t)o->len));
	}
	return j;
}

static json_t *ctx_json(const struct end_ctx *c)
{
	json_t *left = json_object(), *list = json_array();
	unsigned n = 0;
	char name[16];

	for (unsigned k = 0; k < OBJ_KINDS; k++) {
		snprintf(name, sizeof(name), "%ss", kind_names[k]);
		json_object_set_new(left, name, json_integer(c->left[k]));
		n += c->left[k];
	}
	for (uint64_t i = objs_n > OBJS_KEPT ? objs_n - OBJS_KEPT : 0; n && i < objs_n; i++)
		if (objs[i % OBJS_KEPT].ctx == c->id)
			json_array_append_new(list, obj_json(&objs[i % OBJS_KEPT]));
	return json_pack("{s:i s:o s:s s:s s:i s:b s:o s:o}", "context", (int)c->id, "runs", runs_json(&c->runs),
			 "device", devices[c->device].name, "program", c->prog, "pid", (int)c->pid, "orderly",
			 (int)c->bye, "left", left, "objects", list);
}

static json_t *lost_json(const struct session *viewer)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < LOST_RUNS; i++)
		if (lost[i].n && why_sees(viewer, lost[i].uid))
			json_array_append_new(list, json_pack("{s:o s:i}", "runs", runs_json(&lost[i].runs), "contexts",
							      (int)lost[i].n));
	return list;
}

json_t *ends_json(const struct session *viewer)
{
	json_t *contexts = json_array(), *list = json_array(), *live = json_array();

	for (uint64_t i = ctxs_n > CTXS_KEPT ? ctxs_n - CTXS_KEPT : 0; i < ctxs_n; i++)
		if (why_sees(viewer, ctxs[i % CTXS_KEPT].uid))
			json_array_append_new(contexts, ctx_json(&ctxs[i % CTXS_KEPT]));
	for (uint64_t i = qps_n > QPS_KEPT ? qps_n - QPS_KEPT : 0; i < qps_n; i++) {
		json_t *q;

		if (!why_sees(viewer, qps[i % QPS_KEPT].uid))
			continue;
		q = qp_json(&qps[i % QPS_KEPT]);
		json_object_set_new(q, "left", json_boolean(qps[i % QPS_KEPT].left));
		json_array_append_new(list, q);
	}
	for (const struct session *s = sessions; s; s = s->next)
		if (s->ctx && why_sees(viewer, s->uid))
			json_array_append_new(live, json_pack("{s:i s:o s:i}", "context", (int)s->ctx->id, "runs",
							      runs_json(&s->ctx->runs), "pid", (int)s->pid));
	return json_pack("{s:o s:o s:o s:o s:I s:I}", "contexts", contexts, "lost", lost_json(viewer), "qps", list,
			 "live", live, "contexts_ever", (json_int_t)ctxs_ended, "qps_ever", (json_int_t)qps_n);
}
