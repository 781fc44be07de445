/* SPDX-License-Identifier: MIT */
/* play_json.c - the world, and the tables that explain it, as JSON for the page. */
#include "play.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/wr.h>

#include "proto/aeth.h"
#include "proto/hdr.h"
#include "proto/qp_state.h"

static char *text;
static size_t len, room;

static void put(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(text ? text + len : NULL, room - len, fmt, ap);
	va_end(ap);
	if (n >= 0 && len + (size_t)n >= room) {
		room = 2 * room + (size_t)n + 4096;
		text = realloc(text, room);
		if (!text)
			abort();
		n = vsnprintf(text + len, room - len, fmt, again);
	}
	va_end(again);
	len += (size_t)(n < 0 ? 0 : n);
}

static void begin(void) { len = 0; }

static void quote(const char *s, size_t n)
{
	put("\"");
	for (; n && *s; s++, n--)
		if (*s == '"' || *s == '\\')
			put("\\%c", *s);
		else if ((unsigned char)*s < ' ')
			put("\\n");
		else
			put("%c", *s);
	put("\"");
}

/* ",": of all but the first. */
static const char *comma(unsigned i) { return i ? "," : ""; }

/* ---- the world -------------------------------------------------------------------- */

static void qp_json(const struct pair *p, unsigned side)
{
	struct node *n = &world.node[p->node[side]];
	struct qp_info q;

	if (!hca_qp_info(n->hca, p->qpn[side], &q)) {
		put("null");
		return;
	}
	put("{\"node\":%u,\"qpn\":%u,\"state\":\"%s\",\"first\":%u,\"next\":%u,\"acked\":%u,\"expects\":%u,\"msn\":%u,",
	    n->i, q.qpn, qp_state_name(q.state), p->sq_psn[side], q.sq_psn_next, q.sq_psn_acked, q.rq_psn,
	    hca_qp_heard(n->hca, q.qpn));
	put("\"sends\":%u,\"recvs\":%u,\"retry\":%u,\"rnr\":%u,\"retrans\":%llu,\"window\":%llu,\"inflight\":%llu,"
	    "\"dest\":%u}",
	    q.sq_len, q.rq_len, q.retry_left, q.rnr_left, (unsigned long long)q.retrans, (unsigned long long)q.window,
	    (unsigned long long)q.inflight, q.attr.dest_qpn);
}

static void pairs_json(void)
{
	put("\"pairs\":[");
	for (unsigned i = 0; i < world.pairs; i++) {
		const struct pair *p = &world.pair[i];
		const struct qp_attr *a = &p->attr;

		put("%s{\"type\":%u,\"cm\":%u,\"mtu\":%u,\"timeout\":%u,\"retry\":%u,\"rnr\":%u,\"rnr_timer\":%u,"
		    "\"qp\":[",
		    comma(i), p->type, p->cm, 128u << a->path_mtu, a->timeout, a->retry_cnt, a->rnr_retry,
		    a->min_rnr_timer);
		qp_json(p, 0);
		put(",");
		qp_json(p, 1);
		put("]}");
	}
	put("],");
}

static void pkts_json(void)
{
	static const char *const states[] = { "flying", "arrived", "lost" };

	put("\"packets\":[");
	for (unsigned i = 0; i < world.pkts; i++) {
		const struct pkt *p = &world.pkt[i];

		put("%s{\"from\":%u,\"to\":%u,\"state\":\"%s\",\"kind\":%u,\"bad\":%u,\"made\":%u,\"iter\":%u,\"qpn\":%"
		    "u,\"order\":%u,"
		    "\"sent\":%llu,\"at\":%llu,\"said\":",
		    comma(i), p->from, p->to, states[p->state], p->kind, p->bad, p->made, p->iter, p->qpn, p->order,
		    (unsigned long long)p->sent, (unsigned long long)p->at);
		quote(p->said.s, p->said.n);
		put(",\"data\":\"");
		for (uint32_t k = 0; k < p->len; k++)
			put("%02x", p->data[k]);
		put("\"}");
	}
	put("],");
}

#define WHY_ROW(name, what, hint) [WHY_##name] = { what, hint },
static const struct {
	const char *what, *hint;
} whys[WHY_CAUSES] = {
#define WHY(name, grade, what, hint)       WHY_ROW(name, what, hint)
#define WHY_FAULT(name, grade, what, hint) WHY_ROW(name, what, hint)
#define WHY_KEY(name, what, hint)          WHY_ROW(name, what, hint)
#include "proto/why.def"
#undef WHY
#undef WHY_FAULT
#undef WHY_KEY
};

static void cqe_json(const struct cqe *c)
{
	put("\"kind\":\"cqe\",\"qpn\":%u,\"id\":%llu,\"status\":%u,\"op\":%u,\"len\":%u,\"imm\":%u,\"flags\":%u,"
	    "\"send\":%u",
	    c->qpn, (unsigned long long)c->wr_id, c->status, c->op, c->byte_len, __builtin_bswap32(c->imm), c->flags,
	    c->is_send);
}

static void trace_json(const struct trace_rec *t)
{
	static const char *const words[] = {
#define TRACE(name, word, what) [TR_##name] = word,
#include "proto/trace.def"
#undef TRACE
	};

	put("\"kind\":\"trace\",\"what\":\"%s\",\"qpn\":%u,\"psn\":%u,\"a\":%u,\"b\":%u,\"op\":%u,\"n\":%u",
	    words[t->event], t->qpn, t->psn, t->a, t->b, t->op, t->n);
	if (t->event == TR_STATE)
		put(",\"from\":\"%s\",\"to\":\"%s\"", qp_state_name((uint8_t)t->a), qp_state_name((uint8_t)t->b));
}

static void note_json(const struct note *n)
{
	put("{\"node\":%u,\"order\":%u,\"at\":%llu,", n->node, n->order, (unsigned long long)n->at);
	switch (n->kind) {
	case NOTE_POST:
	case NOTE_RECV:
		put("\"kind\":\"%s\",\"qpn\":%u,\"op\":%u,\"len\":%u,\"id\":%llu",
		    n->kind == NOTE_POST ? "post" : "recv", n->post.qpn, n->post.op, n->post.len,
		    (unsigned long long)n->post.id);
		break;
	case NOTE_CQE: cqe_json(&n->cqe); break;
	case NOTE_TRACE: trace_json(&n->trace); break;
	case NOTE_EVENT: put("\"kind\":\"event\",\"type\":%u,\"qpn\":%u", n->event.type, n->event.number); break;
	case NOTE_MODIFY:
		put("\"kind\":\"modify\",\"qpn\":%u,\"to\":\"%s\"", n->modify.qpn, qp_state_name(n->modify.state));
		break;
	case NOTE_CM: put("\"kind\":\"cm\",\"what\":\"%s\"", cm_event_name(n->cm)); break;
	case NOTE_WHY:
		put("\"kind\":\"why\",\"qpn\":%u,\"what\":", n->why.qpn);
		quote(whys[n->why.cause].what, SIZE_MAX);
		put(",\"hint\":");
		quote(whys[n->why.key ? n->why.key : n->why.cause].hint, SIZE_MAX);
		break;
	}
	put("}");
}

static void nodes_json(void)
{
	put("\"nodes\":[");
	for (unsigned i = 0; i < world.nodes; i++) {
		const struct node *n = &world.node[i];
		mono_t d = mono_min(hca_deadline(n->hca), cm_deadline(n->cm));
		uint64_t word, result;

		memcpy(&word, n->mem + AREA_WORD, 8);
		memcpy(&result, n->mem + AREA_RESULT, 8);
		put("%s{\"key\":%u,\"timer\":%lld,\"word\":\"%llu\",\"result\":\"%llu\",\"counters\":{", comma(i),
		    n->key, mono_is_never(d) ? -1ll : (long long)d.ns, (unsigned long long)word,
		    (unsigned long long)result);
		for (unsigned k = 0, any = 0; k < HCA_STATS; k++)
			if (hca_stat(n->hca, k))
				put("%s\"%s\":%llu", comma(any++), hca_stat_name(k),
				    (unsigned long long)hca_stat(n->hca, k));
		put("}}");
	}
	put("],");
}

const char *json_world(void)
{
	begin();
	put("{\"now\":%llu,", (unsigned long long)world.now);
	nodes_json();
	pairs_json();
	pkts_json();
	put("\"notes\":[");
	for (unsigned i = 0; i < world.notes; i++) {
		put("%s", comma(i));
		note_json(&world.note[i]);
	}
	put("]}");
	return text;
}

/* ---- tables ------------------------------------------------------------------------ */

struct field {
	const char *header, *name, *about;
	unsigned at, bits;
};

static const struct header {
	const char *name, *title, *about;
	unsigned len, bit;
} headers[] = {
#define HEADER(name, len, bit, title, about) { #name, title, about, len, bit },
#define FIELD(header, at, bits, name, about)
#include "fields.def"
#undef HEADER
#undef FIELD
};

static const struct field fields[] = {
#define HEADER(name, len, bit, title, about)
#define FIELD(header, at, bits, name, about) { #header, name, about, at, bits },
#include "fields.def"
#undef HEADER
#undef FIELD
};

static void header_json(const struct header *h)
{
	unsigned any = 0;

	put("{\"name\":\"%s\",\"bit\":%u,\"len\":%u,\"title\":", h->name, h->bit, h->len);
	quote(h->title, SIZE_MAX);
	put(",\"about\":");
	quote(h->about, SIZE_MAX);
	put(",\"fields\":[");
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		if (strcmp(fields[i].header, h->name))
			continue;
		put("%s{\"at\":%u,\"bits\":%u,\"name\":\"%s\",\"about\":", comma(any++), fields[i].at, fields[i].bits,
		    fields[i].name);
		quote(fields[i].about, SIZE_MAX);
		put("}");
	}
	put("]}");
}

static void opcodes_json(void)
{
	put("\"opcodes\":{");
	for (unsigned i = 0, any = 0; i < 256; i++) {
		const struct opcode *o = opcode_get((uint8_t)i);

		if (o->name)
			put("%s\"%u\":{\"name\":\"%s\",\"kind\":%u,\"role\":%u,\"place\":%u,\"hdrs\":%u,\"len\":%u}",
			    comma(any++), i, o->name, o->kind, o->role, o->place, o->hdrs, o->hdr_len);
	}
	put("},");
}

const char *json_tables(void)
{
	begin();
	put("{");
	opcodes_json();
	put("\"kinds\":[\"none\"");
#define KIND(name, role, word) put(",\"" #name "\"");
#define OP(code, name, kind, place, hdrs, pay, uc)
#include "proto/opcode.def"
#undef KIND
#undef OP
	put("],\"wr\":{");
#define WR(name, code, kind, packet, on, data, len, right, wc, text) \
	put("%s\"%u\":{\"name\":\"%s\",\"on\":%u}", comma(code), code, #name, (unsigned)(on));
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC
	put("},\"wc\":{\"0\":\"SEND\"");
#define WR(name, code, kind, packet, on, data, len, right, wc, text)
#define WC(name, code, text) \
	if (code)            \
		put(",\"%u\":\"%s\"", code, #text);
#include <rdmad/wr.def>
#undef WR
#undef WC
	put("},\"rnr\":[");
	for (unsigned i = 0; i < 32; i++)
		put("%s%llu", comma(i), (unsigned long long)rnr_timer_ns((uint8_t)i));
	put("],\"credits\":[");
	for (unsigned i = 0; i < AETH_NO_CREDITS; i++)
		put("%s%u", comma(i), aeth_credits((uint8_t)i));
	put("],\"headers\":[");
	for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
		put("%s", comma((unsigned)i));
		header_json(&headers[i]);
	}
	put("]}");
	return text;
}
