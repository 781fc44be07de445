/* SPDX-License-Identifier: MIT */
/*
 * why_json.c - DUMP_WHY and DUMP_TRACE: causes and records as JSON, which also has their text for people: programs that
 * print them do not have to put it together.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdmad/clock.h>

#include "dump.h"
#include "ends.h"
#include "why.h"
#include "../shard/inbox.h"
#include "../base/clock.h"

#define RECORDS_MAX 16384u /* of an answer */
#define REPORT_LEN  8192u
#define AT_ONCE_NS  1000000000u

/* ---- times ------------------------------------------------------------------------ */

static void clock_put(struct words *t, uint64_t wall_ns)
{
	time_t s = (time_t)(wall_ns / 1000000000u);
	struct tm tm;

	localtime_r(&s, &tm);
	words_put(t, "%02d:%02d:%02d.%06u", tm.tm_hour, tm.tm_min, tm.tm_sec, (unsigned)(wall_ns % 1000000000u / 1000));
}

static void before_put(struct words *t, uint64_t ns)
{
	words_put(t, "%6llu.%03llu ms before  ", (unsigned long long)ns / 1000000,
		  (unsigned long long)ns / 1000 % 1000);
}

/* ---- causes ------------------------------------------------------------------------ */

static void lines_put(struct words *t, const struct why_entry *e, const struct why_entry *other, const char *there)
{
	const struct why *w = &e->w;
	const char *hint = why_entry_hint(e, other);

	if (e->when_ns) {
		clock_put(t, e->when_ns);
		words_put(t, " ");
	}
	words_put(t, "%s (pid %d)%s%s\n", e->owner.prog, (int)e->owner.pid, e->device >= 0 ? " " : "",
		  e->device >= 0 ? devices[e->device].name : "");
	if (*e->own)
		words_put(t, "  %s\n", e->own);
	words_put(t, "  %s\n", e->text);
	if (e->again) {
		words_put(t, "  and %u more like it, the last at ", (unsigned)e->again);
		clock_put(t, e->last_ns);
		words_put(t, "\n");
	}
	if (other && *other->own)
		words_put(t, "  there: %s\n", other->own);
	if (other)
		words_put(t, "  there: %s (pid %d): %s\n", other->owner.prog, (int)other->owner.pid, other->text);
	if (other && *other->there)
		words_put(t, "  there: %s\n", other->there);
	if (*there)
		words_put(t, "  there: %s\n", there);
	if (e->core && (w->flush_sq || w->flush_rq))
		words_put(t, "  then: %u send%s and %u receive%s that were posted were flushed (WR_FLUSH_ERR)\n",
			  (unsigned)w->flush_sq, w->flush_sq == 1 ? "" : "s", (unsigned)w->flush_rq,
			  w->flush_rq == 1 ? "" : "s");
	for (unsigned i = 0; e->core && w->to != w->from && !w->mask && i < w->log_n; i++) {
		const struct trace_rec *r = &w->log[i];

		words_put(t, "  ");
		before_put(t, mono_since(w->at, r->at));
		words_put(t, "%-9s ", trace_word(r->event));
		trace_words(t, r);
		words_put(t, "\n");
	}
	if (*hint)
		words_put(t, "  hint: %s\n", hint);
}

static json_t *log_json(const struct why *w)
{
	json_t *list = json_array();
	char buf[WHY_TEXT];

	for (unsigned i = 0; i < w->log_n; i++) {
		const struct trace_rec *r = &w->log[i];
		struct words t = words_begin(buf, sizeof(buf));

		trace_words(&t, r);
		json_array_append_new(list, json_pack("{s:I s:s s:i s:s}", "before_ns",
						      (json_int_t)(mono_since(w->at, r->at)), "event",
						      trace_word(r->event), "psn", (int)r->psn, "text", buf));
	}
	return list;
}

/* A CQ that is full fails all queue pairs that have it: is that a row of one of them, which tells of the others? */
static bool overrun_same(const json_t *row, const struct why_entry *e)
{
	return !strcmp(json_string_value(json_object_get(row, "cause")), why_name(e->cause)) &&
	       json_integer_value(json_object_get(row, "cq")) == (json_int_t)e->w.cqn &&
	       json_integer_value(json_object_get(row, "context")) == (json_int_t)e->owner.ctx &&
	       !json_integer_value(json_object_get(row, "twin")) &&
	       strlen(json_string_value(json_object_get(row, "text"))) < WHY_TEXT;
}

/* Behind words of it in a row: the QP. */
static void name_put(json_t *row, const char *key, size_t at, uint32_t qpn, bool first)
{
	const char *old = json_string_value(json_object_get(row, key));
	char *text;

	if (asprintf(&text, "%.*s%s0x%x%s", (int)at, old, first ? ", as of QP " : ", ", (unsigned)qpn, old + at) < 0)
		return;
	json_object_set_new(row, key, json_string(text));
	free(text);
}

/* The number of that row; 0: there is none. */
static uint64_t overrun_of(const json_t *rows, const struct why_entry *e)
{
	if (e->cause != WHY_CQ_OVERRUN)
		return 0;
	for (size_t i = json_array_size(rows); i-- > 0;) {
		json_t *row = json_array_get(rows, i);
		const char *text = json_string_value(json_object_get(row, "text")), *report, *at;
		bool first = !strstr(text, ", as of QP ");

		if ((uint64_t)json_integer_value(json_object_get(row, "time_ns")) + AT_ONCE_NS < e->when_ns)
			return 0;
		if (!overrun_same(row, e))
			continue;
		report = json_string_value(json_object_get(row, "report"));
		at = strstr(report, text);
		if (at)
			name_put(row, "report", (size_t)(at - report) + strlen(text), e->qpn, first);
		name_put(row, "text", strlen(text), e->qpn, first);
		return (uint64_t)json_integer_value(json_object_get(row, "number"));
	}
	return 0;
}

static void core_json(json_t *j, const struct why_entry *e)
{
	const struct why *w = &e->w;
	char peer[64] = "";
	struct words t = words_begin(peer, sizeof(peer));

	if (!gid_is_empty(w->dgid))
		gid_words(&t, w->dgid);
	json_object_set_new(j, "peer", json_string(peer));
	json_object_set_new(j, "dest_qpn", json_integer(w->dqpn));
	json_object_set_new(j, "type", json_string(type_name(w->type)));
	json_object_set_new(j, "status", json_string(w->status ? status_name(w->status) : ""));
	json_object_set_new(j, "psn", json_integer(w->psn));
	json_object_set_new(j, "wr_id", w->is_wr ? json_integer((json_int_t)w->wr_id) : json_null());
	json_object_set_new(j, "cq", json_integer(w->cqn));
	json_object_set_new(j, "timeouts", json_integer(w->timeouts));
	json_object_set_new(j, "timeout_ns", json_integer((json_int_t)w->timeout_ns));
	json_object_set_new(j, "flushed_sends", json_integer(w->flush_sq));
	json_object_set_new(j, "flushed_receives", json_integer(w->flush_rq));
	json_object_set_new(j, "key", json_string(w->key.why ? why_name(w->key.why) : ""));
	json_object_set_new(j, "chain", log_json(w));
}

static const char *grade_name(const struct why_entry *e)
{
	enum why_grade g = why_entry_grade(e);

	return g == WHY_NOTE ? "note" : g == WHY_WAIT ? "wait" : "error";
}

/* The row of the other end is told of by this one. */
static void twin_mark(json_t *list, const struct why_entry *other, const struct why_entry *e)
{
	json_t *row;
	size_t i;

	json_array_foreach(list, i,
			   row) if (json_integer_value(json_object_get(row, "number")) == (json_int_t)other->number)
		json_object_set_new(row, "twin", json_integer((json_int_t)e->number));
}

void why_entry_json(const struct why_entry *e, void *arg)
{
	static char text[REPORT_LEN]; /* the control thread's */
	const struct why_entry *other = why_other_end(e);
	struct words t = words_begin(text, sizeof(text));
	const struct why_list *l = arg;
	const char *there = *e->all && why_sees(l->viewer, 0) ? e->all : e->there;
	json_t *j;

	if (other)
		twin_mark(l->rows, other, e);
	lines_put(&t, e, other, there);
	j = json_pack("{s:I s:I s:s s:s s:s s:s s:i s:o s:s s:i s:i s:I s:i}", "number", (json_int_t)e->number,
		      "time_ns", (json_int_t)e->when_ns, "grade", grade_name(e), "cause", why_name(e->cause), "text",
		      e->text, "device", e->device >= 0 ? devices[e->device].name : "", "qpn", (int)e->qpn, "runs",
		      runs_json(&e->owner.runs), "program", e->owner.prog, "pid", (int)e->owner.pid, "uid",
		      (int)e->owner.uid, "context", (json_int_t)e->owner.ctx, "core", (int)e->core);
	if (!j)
		return;
	json_object_set_new(j, "hint", json_string(why_entry_hint(e, other)));
	json_object_set_new(j, "again", json_integer((json_int_t)e->again));
	json_object_set_new(j, "twin", json_integer((json_int_t)(e->twin ? e->twin : overrun_of(l->rows, e))));
	json_object_set_new(j, "rules", json_string(e->own));
	json_object_set_new(j, "refused", json_string(e->refused ? why_name(e->refused) : ""));
	json_object_set_new(j, "there", json_string(other ? other->text : there));
	if (e->core)
		core_json(j, e);
	json_object_set_new(j, "report", json_string(text));
	json_array_append_new(l->rows, j);
}

/* The text of DUMP_WHY on its way: causes, then blanks while waits are looked for, then those. */
struct why_text {
	const struct session *viewer;
	uint32_t qpn;
	struct waits *waits; /* NULL: the causes come first */
	bool ended;
};

/* A list in the object; the list is taken. */
static char *list_text(const char *before, json_t *list, const char *behind)
{
	char *text = json_dumps(list, JSON_INDENT(1)), *all = NULL;

	if (text && asprintf(&all, "%s%s%s", before, text, behind) < 0)
		all = NULL;
	free(text);
	json_decref(list);
	return all;
}

static char *why_next(void *arg, int *err)
{
	struct why_text *t = arg;
	struct why_list l = { .viewer = t->viewer };
	char *text;

	if (t->ended)
		return NULL;
	if (!t->waits) {
		l.rows = json_array();
		why_each(t->viewer, t->qpn, why_entry_json, &l);
		t->waits = waits_begin(t->viewer, t->qpn);
		text = list_text("{\"causes\": ", l.rows, ",\n");
		if (!t->waits) {
			free(text);
			text = NULL;
		}
	} else if (waits_look(t->waits)) {
		text = strdup(" "); /* who reads sees that it goes on */
	} else {
		text = list_text("\"waits\": ", waits_json(t->waits), "}\n");
		t->ended = true;
	}
	if (!text)
		*err = ENOMEM;
	return text;
}

static void why_end(void *arg)
{
	struct why_text *t = arg;

	waits_end(t->waits);
	free(t);
}

int why_send(struct call *call, uint32_t qpn)
{
	struct why_text *t = calloc(1, sizeof(*t));
	struct dump_source from = { why_next, why_end, t, sizeof(*t) + waits_len() };

	if (!t)
		return ENOMEM;
	t->viewer = call->s;
	t->qpn = qpn;
	return dump_send(call, &from);
}

/* ---- records ------------------------------------------------------------------------- */

/* How far a session has read. */
struct trace_reader {
	uint64_t from[SHARDS_MAX][DEVICES_MAX];
	bool bursts;
};

static unsigned bursts_n; /* sessions that want each burst */

struct got {
	struct trace_rec rec;
	unsigned device;
};

struct fetch {
	struct trace_reader *reader;
	const struct session *viewer;
	uint32_t qpn;
	struct got *v;
	uint32_t n;
	uint64_t lost;
};

static bool may_see(const struct fetch *f, struct shard *s, unsigned device, uint32_t qpn)
{
	const struct obj *o;
	const struct qp_row *was;

	if (f->qpn && f->qpn != qpn)
		return false;
	o = obj_find(s, OBJ_QP, device, qpn);
	if (o)
		return why_sees(f->viewer, o->ctx->uid);
	was = ends_find(device, qpn);
	return why_sees(f->viewer, was ? was->uid : 0);
}

static void fetch_job(struct shard *s, void *arg)
{
	struct fetch *f = arg;
	struct trace_rec part[64];

	for (unsigned d = 0; d < devices_n; d++) {
		uint64_t lost;
		uint32_t n = 64;

		while (f->n + 64 <= RECORDS_MAX &&
		       (n = hca_trace(s->hca[d], &f->reader->from[s->index][d], part, 64, &lost))) {
			f->lost += lost;
			for (uint32_t i = 0; i < n; i++)
				if (may_see(f, s, d, part[i].qpn))
					f->v[f->n++] = (struct got){ part[i], d };
		}
	}
}

static int by_time(const void *a, const void *b)
{
	const struct got *x = a, *y = b;

	return x->rec.at.ns < y->rec.at.ns ? -1 : x->rec.at.ns > y->rec.at.ns;
}

static json_t *record_json(const struct got *g, uint64_t wall_off)
{
	char text[WHY_TEXT], line[WHY_TEXT + 128];
	struct words t = words_begin(text, sizeof(text)), l = words_begin(line, sizeof(line));
	uint64_t wall = g->rec.at.ns + wall_off;

	trace_words(&t, &g->rec);
	clock_put(&l, wall);
	words_put(&l, " %s 0x%06x %-9s %s", devices[g->device].name, (unsigned)g->rec.qpn, trace_word(g->rec.event),
		  text);
	return json_pack("{s:I s:s s:i s:s s:i s:s s:s}", "time_ns", (json_int_t)wall, "device",
			 devices[g->device].name, "qpn", (int)g->rec.qpn, "event", trace_word(g->rec.event), "psn",
			 (int)g->rec.psn, "text", text, "line", line);
}

static void bursts_job(struct shard *s, void *arg)
{
	for (unsigned d = 0; d < devices_n; d++)
		hca_trace_bursts(s->hca[d], *(bool *)arg);
}

static void bursts_set(bool on)
{
	for (unsigned i = 0; i < shards_n; i++)
		shard_call(shards[i], bursts_job, &on);
}

static struct trace_reader *reader_get(struct session *s, bool bursts)
{
	if (!s->reader)
		s->reader = calloc(1, sizeof(*s->reader));
	if (s->reader && bursts && !s->reader->bursts) {
		s->reader->bursts = true;
		if (!bursts_n++)
			bursts_set(true);
	}
	return s->reader;
}

void trace_end(struct session *s)
{
	if (s->reader && s->reader->bursts && !--bursts_n)
		bursts_set(false);
	free(s->reader);
	s->reader = NULL;
}

static uint64_t wall_offset(void) { return clock_ns(CLOCK_REALTIME) - clock_now().ns; }

json_t *trace_json(struct session *viewer, uint32_t qpn, bool bursts)
{
	struct fetch f = { .viewer = viewer, .qpn = qpn, .reader = reader_get(viewer, bursts) };
	uint64_t off = wall_offset();
	json_t *list;

	f.v = malloc(RECORDS_MAX * sizeof(*f.v));
	if (!f.v || !f.reader) {
		free(f.v);
		return NULL;
	}
	for (unsigned i = 0; i < shards_n; i++)
		shard_call(shards[i], fetch_job, &f);
	qsort(f.v, f.n, sizeof(*f.v), by_time);
	list = json_array();
	for (uint32_t i = 0; i < f.n; i++)
		json_array_append_new(list, record_json(&f.v[i], off));
	free(f.v);
	return json_pack("{s:o s:I}", "records", list, "lost", (json_int_t)f.lost);
}
