/* SPDX-License-Identifier: MIT */
/* find.c - findings, one line or one JSON object each. */
#include "find.h"

#include <stdarg.h>
#include <stdio.h>

#include <rdmad/gid_text.h>

#define SHOWN 100u /* lines of text for a file; the rest is counted */

static const struct {
	const char *name, *text;
	unsigned excuse;
} rules[] = {
#define CHECK(id, name, excuse, text) { name, text, excuse },
#include "check.def"
#undef CHECK
};

const char *check_name(enum check_row r) { return rules[r].name; }
const char *check_text(enum check_row r) { return rules[r].text; }

static void found(struct find *f, const struct find_at *at, const char *rule, bool note, const char *what)
{
	char src[INET6_ADDRSTRLEN], dst[INET6_ADDRSTRLEN];
	double s = (double)(ns_since(at->frame->ns, f->begin_ns)) / 1e9;

	gid_text(at->frame->sgid, src);
	gid_text(at->frame->dgid, dst);
	if (f->json) {
		json_array_append_new(f->json, json_pack("{s:s, s:s, s:I, s:f, s:s, s:s, s:i, s:i, s:s, s:s}", "kind",
							 note ? "note" : "finding", "rule", rule, "packet",
							 (json_int_t)at->frame->no, "time", s, "from", src, "to", dst,
							 "qpn", (int)at->qpn, "psn", (int)at->psn, "opcode",
							 at->op ? at->op : "", "text", what));
		return;
	}
	if (note ? !f->verbose || f->notes > SHOWN : f->findings > SHOWN)
		return;
	printf("%s: packet %llu, %.6f s, %s > %s", f->file, (unsigned long long)at->frame->no, s, src, dst);
	if (at->op)
		printf(" QP %#x PSN %#x %s", at->qpn, at->psn, at->op);
	printf(": %s%s%s: %s\n", note ? "note" : "", note && *rule ? ", " : "", rule, what);
}

void find_breach(struct find *f, const struct find_at *at, enum check_row r, const char *fmt, ...)
{
	bool note = (rules[r].excuse & f->path) || (f->has_from && !gid_same(f->from, at->frame->sgid));
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (note)
		f->notes++;
	else
		f->findings++;
	found(f, at, rules[r].name, note, what);
}

void find_note(struct find *f, const struct find_at *at, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	f->notes++;
	found(f, at, "", true, what);
}
