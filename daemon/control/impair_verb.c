/* SPDX-License-Identifier: MIT */
/* impair_verb.c - rules about ports, devices and QPs are carried out; requests of rdmactl about rules. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdmad/seed.h>

#include "impair_verb.h"
#include "call.h"
#include "impair.h"
#include "../../proto/cm_msg.h"
#include "../../proto/opcode.h"
#include "../../proto/why.h"
#include "../base/foreign.h"
#include "../cma/cma.h"
#include "../base/log.h"
#include "../base/rights.h"
#include "../shard/tap.h"
#include "../shard/publish.h"
#include "../shard/inbox.h"
#include "../base/clock.h"
#include "gid.h"
#include "port.h"

/* ---- events ----------------------------------------------------------------------------- */

struct strike {
	struct rule_event e;
	unsigned device;
};

static bool is_fatal(enum rule_act_kind kind) { return kind == ACT_DEVICE_FATAL || kind == ACT_UNPLUG; }

static bool is_meant(const struct strike *j, const struct shard *s, const struct ctx_qp *qp)
{
	struct tap_qp known;
	bool yes;

	if (is_fatal(j->e.kind))
		return true;
	if (!tap_qp_info((void *)(uintptr_t)s, j->device, qp->obj.number, &known))
		return false;
	yes = rule_about_qp(impair_lock(), &j->e, j->device, qp->obj.number, &known);
	impair_unlock();
	return yes;
}

static void qp_fatal(struct ctx_qp *qp, bool tell, mono_t now)
{
	hca_qp_fail(qp->obj.ctx->hca, qp->obj.number, WHY_RULE_FATAL, now);
	qp_hint(qp);
	if (tell)
		event_of(&qp->obj, EV_QP_FATAL);
}

static void cq_overrun(struct ctx_qp *qp, mono_t now)
{
	struct ctx *c = qp->obj.ctx;
	struct qp_info info;
	struct obj *cq;

	if (!hca_qp_info(c->hca, qp->obj.number, &info))
		return;
	cq = obj_get(c, OBJ_CQ, info.send_cqn);
	if (cq)
		publish_overrun((struct ctx_cq *)cq, now);
}

static void job_in_shard(struct shard *s, void *arg)
{
	struct strike *j = arg;
	mono_t now = clock_now();
	bool was_dead;

	if (j->e.kind == ACT_WEDGE || j->e.kind == ACT_UNWEDGE)
		hca_stall(s->hca[j->device], j->e.kind == ACT_WEDGE);
	if (rule_act_about(j->e.kind) == ABOUT_DEVICE && !is_fatal(j->e.kind))
		return;
	for (struct ctx *c = s->ctxs; c; c = c->next) {
		if (c->dev->index != j->device)
			continue;
		for (struct obj *o = c->objs[OBJ_QP]; o; o = o->next) {
			struct ctx_qp *qp = (struct ctx_qp *)o;

			if (!is_meant(j, s, qp))
				continue;
			if (j->e.kind == ACT_CQ_OVERRUN)
				cq_overrun(qp, now);
			else
				qp_fatal(qp, j->e.kind == ACT_QP_FATAL, now);
		}
		was_dead = c->dead;
		c->dead |= j->e.kind == ACT_UNPLUG;
		RING_STORE(&c->bell->dead, c->dead); /* before the program hears of it */
		if (is_fatal(j->e.kind) && !was_dead)
			event_send(c, EV_DEVICE_FATAL, 0, 0);
	}
}

/* In the turn between there were the events of what the end of the queue pairs has flushed. */
static void events_end(struct shard *s, void *arg)
{
	const struct strike *j = arg;

	for (struct ctx *c = s->ctxs; c; c = c->next)
		if (c->dead && c->dev->index == j->device)
			publish_end(c);
}

static void all_shards(void (*fn)(struct shard *, void *), struct strike *j)
{
	for (unsigned i = 0; i < shards_n; i++)
		if (shards[i])
			shard_call(shards[i], fn, j);
}

static void strike(struct strike *j)
{
	all_shards(job_in_shard, j);
	if (j->e.kind == ACT_UNPLUG || j->e.kind == ACT_PLUG)
		port_unplug(&devices[j->device], j->e.kind == ACT_UNPLUG);
	if (j->e.kind != ACT_UNPLUG)
		return;
	cma_device_gone(&devices[j->device]);
	all_shards(events_end, j);
}

void impair_event_do(const struct rule_event *e, unsigned device)
{
	struct strike j = { .e = *e, .device = device };

	log_note("%s: %s, by rule %u", devices[device].name, rule_act_word(e->kind), e->rule);
	switch (e->kind) {
	case ACT_PORT_DOWN:
	case ACT_PORT_UP: port_cut(&devices[device], e->kind == ACT_PORT_DOWN); return;
	case ACT_FLAP: return; /* comes as these two */
	case ACT_WEDGE:
	case ACT_UNWEDGE:
	case ACT_UNPLUG:
	case ACT_PLUG: strike(&j); return;
	case ACT_GID_MOVE: gid_move(&devices[device]); return;
	case ACT_GID_CHANGE: port_tell(&devices[device], EV_GID_CHANGE); return;
	case ACT_DEVICE_FATAL:
	case ACT_QP_FATAL:
	case ACT_CQ_OVERRUN: strike(&j); return;
#define CASE_PACKET(name) case ACT_##name:
#define CASE_DEVICE(name)
#define CASE_QP(name)
#define ACT(name, about, value, without, word) CASE_##about(name)
#include "../../lab/act.def"
#undef ACT
	case ACTS: return; /* these do not come here */
	}
}

/* ---- rdmactl ----------------------------------------------------------------------------- */

void impair_session_end(uint64_t owner)
{
	unsigned n = impair_clear(0, owner);

	if (n)
		log_info("%u rule%s removed with the client that added %s", n, n == 1 ? "" : "s",
			 n == 1 ? "it" : "them");
}

/* A descriptor that no client can keep us waiting on: a memfd. */
static int fd_text(int fd, char **text, size_t *len)
{
	struct stat st;
	ssize_t n;

	if (fd < 0 || !foreign_is_memfd(fd, NULL) || fstat(fd, &st))
		return EINVAL;
	if (st.st_size > RULES_TEXT_MOST)
		return EMSGSIZE;
	*text = malloc((size_t)st.st_size + 1);
	if (!*text)
		return ENOMEM;
	n = pread(fd, *text, (size_t)st.st_size, 0);
	*len = n < 0 ? 0 : (size_t)n;
	return 0;
}

int verb_impair(struct call *call)
{
	struct msg_rep *rep = call->rep;
	struct rule_error err = { 0 };
	char *text = NULL;
	size_t len;
	int n, e;

#ifdef WITHOUT_LAB
	return EOPNOTSUPP;
#endif
	if (call->s->uid && call->s->uid != rights_owner())
		return EPERM;
	if (call->req->impair.what == IMPAIR_CLEAR) {
		rep->impair.n = impair_clear(call->req->impair.id, 0);
		return call->req->impair.id && !rep->impair.n ? ENOENT : 0;
	}
	if (call->req->impair.what != IMPAIR_ADD)
		return EINVAL;
	e = fd_text(call->fd_in, &text, &len);
	if (e)
		return e;
	n = impair_add(text, len, call->req->impair.keep ? 0 : (uintptr_t)call->s,
		       call->req->impair.seeded ? &call->req->impair.seed : NULL, &err);
	free(text);
	if (n < 0) {
		rep->impair.wrong = 1;
		rep->impair.line = err.line;
		snprintf(rep->impair.text, sizeof(rep->impair.text), "%s", err.text);
		return 0;
	}
	rep->impair.n = (uint32_t)n;
	log_note("%s (pid %d) has added %d rule%s", call->s->prog, (int)call->s->pid, n, n == 1 ? "" : "s");
	return 0;
}

/* The packet by all that is the same in another run of the same program. */
static json_t *packet_json(const struct rules *rs, const struct rule_note *n)
{
	static const char *const kinds[] = {
		[TAP_REQUEST] = "request", [TAP_RESPONSE] = "response", [TAP_ACK] = "ack"
	};
	const struct opcode *op = opcode_get(n->opcode);
	json_t *j = json_pack("{ss ss ss ss sb}", "kind", kinds[n->kind], "device",
			      n->device < rs->device_n ? rs->device[n->device] : "", "direction",
			      n->dir == TAP_OUT ? "out" : "in", "opcode", op->name ? op->name : "", "local",
			      (int)n->local);

	if (n->known && n->nth)
		json_object_set_new(j, "qp_nth", json_integer((int32_t)n->nth));
	if (n->sender)
		json_object_set_new(j, "qp_sender", json_integer(n->sender));
	if (n->cm)
		json_object_set_new(j, "cm", json_string(cm_attr_name(n->cm)));
	if (n->has_rel)
		json_object_set_new(j, "psn_rel", json_integer(n->rel));
	if (n->iter)
		json_object_set_new(j, "iter", json_integer(n->iter));
	if (op->role == ROLE_ACK)
		json_object_set_new(j, "syndrome", json_integer(n->syndrome));
	json_object_set_new(j, "bytes", json_integer(n->payload_len));
	return j;
}

static json_t *notes_json(const struct rules *rs)
{
	json_t *list = json_array();
	char text[300];
	uint64_t n = rs->note_n;

	for (uint64_t i = n > RULES_LOG ? n - RULES_LOG + 1 : 1; i <= n; i++) {
		const struct rule_note *note = rules_note_get(rs, i);
		json_t *j;

		if (!rules_note(rs, i, text, sizeof(text)))
			continue;
		j = json_pack("{sI sI si si si ss}", "n", (json_int_t)i, "at_ns", (json_int_t)note->at.ns, "rule",
			      (int)note->rule, "qpn", (int)note->qpn, "psn", (int)note->psn.v, "text", text);
		if (!note->event)
			json_object_set_new(j, "packet", packet_json(rs, note));
		if (note->lost)
			json_object_set_new(j, "lost", json_true());
		if (note->redo[0])
			json_object_set_new(j, "redo", json_string(note->redo));
		json_array_append_new(list, j);
	}
	return list;
}

json_t *impair_json(void)
{
	json_t *list = json_array(), *j;
	const struct rules *rs;
	char does[200];

	rs = impair_lock();
	for (unsigned i = 0; i < rs->n; i++) {
		const struct rule *r = rs->v[i];

		rule_about(r, does, sizeof(does));
		json_array_append_new(list, json_pack("{si ss ss sI sI so si}", "id", (int)r->id, "name", r->name, "do",
						      does, "matches", (json_int_t)r->seen, "hits", (json_int_t)r->hits,
						      "seed", seed_json(r->seed), "line", (int)r->line));
	}
	j = json_pack("{so so}", "rules", list, "log", notes_json(rs));
	impair_unlock();
	return j;
}
