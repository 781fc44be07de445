/* SPDX-License-Identifier: MIT */
/* ladder_svg.c - the picture: rows, rails and heads as SVG, as page/draw.js draws them on the page. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rdmad/gid_text.h>

#include "ladder_fold.h"
#include "ladder_text.h"

#define HEAD 112 /* title and the boxes of the ends */

struct svg {
	FILE *f;
	const struct ladder *l;
	struct rows rows;
	bool both_ends; /* some packets were captured where they arrive, too */
};

static double left_of(uint32_t conn) { return MARGIN_LEFT + (double)COLUMN * conn + RAIL_AT; }
static double right_of(uint32_t conn) { return MARGIN_LEFT + (double)COLUMN * (conn + 1) - RAIL_AT; }

/* ---- words ------------------------------------------------------------------------- */

/* U+FFFE and U+FFFF, the only characters beyond ASCII that XML does not have. */
static bool no_xml(const char *s) { return !strncmp(s, "\xef\xbf\xbe", 3) || !strncmp(s, "\xef\xbf\xbf", 3); }

/* Text from a capture may be anything; what is no ASCII of ours but valid UTF-8 goes through. */
static void text(FILE *f, const char *s, size_t max)
{
	json_t *j = json_string(s);
	bool utf8 = j;

	for (const char *t = s; *t && utf8; t++)
		utf8 = !no_xml(t);
	for (size_t n = 0; *s && n < max; s++, n += (*s & 0xc0) != 0x80)
		switch (*s) {
		case '&': fputs("&amp;", f); break;
		case '<': fputs("&lt;", f); break;
		case '>': fputs("&gt;", f); break;
		case '"': fputs("&quot;", f); break;
		default: putc((unsigned char)*s < ' ' || *s == 127 || (!utf8 && *s & 0x80) ? '?' : *s, f);
		}
	if (*s)
		fputs("…", f);
	json_decref(j);
}

static const char *duration(char *buf, size_t len, uint64_t ns)
{
	static const struct {
		uint64_t unit;
		const char *name;
	} units[] = { { 1000000000, "s" }, { 1000000, "ms" }, { 1000, "µs" }, { 1, "ns" } };
	unsigned i = 0;
	double v;

	while (i < 3 && ns < units[i].unit)
		i++;
	v = (double)ns / (double)units[i].unit;
	snprintf(buf, len, v < 100 ? "%.3g %s" : "%.0f %s", v, units[i].name);
	return buf;
}

static const char *clock_of(char *buf, size_t len, const struct ladder *l, uint64_t ns)
{
	uint64_t t = ns_since(ns, l->begin), span = ns_since(l->last, l->begin);

	if (span < 2000000)
		snprintf(buf, len, "%.2f µs", (double)t / 1e3);
	else if (span < 2000000000)
		snprintf(buf, len, "%.3f ms", (double)t / 1e6);
	else
		snprintf(buf, len, "%.6f s", (double)t / 1e9);
	return buf;
}

static const char *size_of(char *buf, size_t len, uint64_t n)
{
	if (n < 10000)
		snprintf(buf, len, "%" PRIu64 " B", n);
	else if (n < 10 << 20)
		snprintf(buf, len, n < 100 << 10 ? "%.3g KiB" : "%.0f KiB", (double)n / 1024);
	else
		snprintf(buf, len, "%.4g MiB", (double)n / 1048576);
	return buf;
}

static const char *opcode(char *buf, size_t len, const struct rung *r, bool whole)
{
	const char *name = r->class == RUNG_ACK                                      ? "ACK"
			   : r->class == RUNG_RNR                                    ? "RNR NAK"
			   : r->class == RUNG_NAK && !strcmp(r->name, "ACKNOWLEDGE") ? "NAK"
										     : r->name;
	static const char *const cut[] = { "_FIRST", "_MIDDLE", "_LAST", "_ONLY", "_REQUEST" };
	size_t n = 0;

	for (const char *s = name; *s && n + 1 < len; s++) {
		unsigned i = whole ? 4 : 0;

		while (i < 5 && strncmp(s, cut[i], strlen(cut[i])))
			i++;
		if (i < 5)
			s += strlen(cut[i]) - 1;
		else
			buf[n++] = *s == '_' ? ' ' : *s;
	}
	buf[n] = 0;
	return buf;
}

/* ---- marks ------------------------------------------------------------------------------ */

static void arrow(FILE *f, double x, double y, int dir, double angle)
{
	fprintf(f, "<path class=\"head\" d=\"M0 0L-9 -4L-9 4Z\" transform=\"translate(%.1f %.1f) rotate(%.1f)\"/>", x,
		y, dir > 0 ? angle : 180 - angle);
}

static void chip(FILE *f, double x, double y, int side, const char *kind, const char *what)
{
	double w = 12, at;

	for (const char *s = what; *s; s++)
		w += (*s & 0xc0) == 0x80 ? 0 : 5.9;
	at = side > 0 ? x + 12 : x - 12 - w;
	fprintf(f,
		"<rect class=\"chip %s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"15\" rx=\"7.5\"/><text "
		"class=\"chip-text %s\" "
		"x=\"%.1f\" y=\"%.1f\">%s</text>",
		kind, at, y - 7.5, w, kind, at + w / 2, y + 3.7, what);
}

static void chips(FILE *f, const struct rung *r, double x0, double y0, double x1, double y1, int dir)
{
	char buf[32] = "again";

	if (r->again > 1)
		snprintf(buf, sizeof(buf), "again ×%u", r->again);
	if (r->again)
		chip(f, x0, y0, -dir, "warn", buf);
	if (r->fate == FATE_DISCARDED)
		chip(f, x1, y1, dir, "plain", "discarded");
	else if (r->fate == FATE_REFUSED)
		chip(f, x1, y1, dir, "bad", "refused");
	else if (r->dup && r->fate != FATE_LOST)
		chip(f, x1, y1, dir, "plain", r->class == RUNG_ACK ? "nothing new" : "duplicate");
}

/* The packet that an answer asks for. */
static void asks(FILE *f, const struct rung *r)
{
	const char *wait = r->class == RUNG_RNR && r->note ? strstr(r->note, "again in ") : NULL;
	size_t n = wait ? strlen(wait) : 0;

	if (r->class == RUNG_NAK && !strcmp(r->name, "ACKNOWLEDGE"))
		fputs("<tspan class=\"size\" dx=\"6\">go back</tspan>", f);
	else if (wait && n > 12 && !strcmp(wait + n - 3, " us"))
		fprintf(f, "<tspan class=\"size\" dx=\"6\">wait %.*s µs</tspan>", (int)n - 12, wait + 9);
	else if (wait)
		fprintf(f, "<tspan class=\"size\" dx=\"6\">wait %s</tspan>", wait + 9);
}

static void label(FILE *f, const struct rung *r, double x, double y, double angle)
{
	char buf[64];

	fprintf(f,
		"<text class=\"label\" x=\"%.1f\" y=\"%.1f\" transform=\"rotate(%.2f %.1f %.1f)\"><tspan "
		"class=\"what\">%s</tspan>",
		x, y - 4.5, angle, x, y, r->fate == FATE_MISSING ? "missing" : opcode(buf, sizeof(buf), r, true));
	if (r->class != RUNG_CM && r->n > 1)
		fprintf(f, "<tspan class=\"num\" dx=\"6\">%" PRId64 "–%" PRId64 "</tspan>", r->rel, r->rel + r->n - 1);
	else if (r->class != RUNG_CM)
		fprintf(f, "<tspan class=\"num\" dx=\"6\">%" PRId64 "</tspan>", r->rel);
	if (r->len && r->class != RUNG_CM)
		fprintf(f, "<tspan class=\"size\" dx=\"6\">%s</tspan>", size_of(buf, sizeof(buf), r->len));
	asks(f, r);
	fputs("</text>", f);
	if (!r->say)
		return;
	fprintf(f, "<text class=\"label says\" x=\"%.1f\" y=\"%.1f\" transform=\"rotate(%.2f %.1f %.1f)\">", x,
		y + 10.5, angle, x, y);
	text(f, r->say, 38);
	fputs("</text>", f);
}

static double letters(const struct rung *r)
{
	double says = r->say ? fmin(38, (double)strlen(r->say)) * 0.76 : 0; /* a smaller line of its own */
	char buf[64];

	return fmax(says, (double)(strlen(opcode(buf, sizeof(buf), r, true)) + (r->class == RUNG_CM ? 0 : 4) +
				   (r->len ? 6 : 0)));
}

static void group(FILE *f, const struct rung *r, const char *more)
{
	fprintf(f, "<g class=\"rung %s%s%s%s%s%s\">", class_name(r->class), r->fate ? " " : "",
		r->fate ? fate_name(r->fate) : "", r->dup ? " dup" : "",
		!r->request && r->class <= RUNG_RNR ? " answer" : "", more);
	fputs("<title>", f);
	if (r->no)
		fprintf(f, "packet %" PRIu64 ", PSN %#x", r->no, r->psn);
	if (r->note) {
		fputs(r->no ? ": " : "", f);
		text(f, r->note, 400);
	}
	fputs("</title>", f);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void rung(const struct svg *s, const struct row *row)
{
	const struct rung *r = &s->l->rung[row->first];
	int dir = r->from ? -1 : 1;
	double x0 = (r->from ? right_of(r->conn) : left_of(r->conn)) + dir * 5,
	       x1 = (r->from ? left_of(r->conn) : right_of(r->conn)) - dir * 5;
	double y0 = row->y, y1 = y0 + SLOPE, part, xe, ye, angle;
	FILE *f = s->f;

	if (r->arrived)
		y1 = fmax(y1, rows_y(&s->rows, s->l, r->arrived));
	part = r->fate == FATE_LOST ? 0.72 : r->fate == FATE_MISSING ? 0.5 : 1;
	xe = x0 + (x1 - x0) * part;
	ye = y0 + (y1 - y0) * part;
	angle = atan2(y1 - y0, fabs(x1 - x0)) * 180 / M_PI;
	group(f, r, "");
	fprintf(f,
		"<path class=\"wire\" d=\"M%.1f %.1fL%.1f %.1f\"/><circle class=\"tail\" cx=\"%.1f\" cy=\"%.1f\" "
		"r=\"2.4\"/>",
		x0, y0, xe, ye, x0, y0);
	if (part < 1)
		fprintf(f, "<path class=\"cross\" d=\"M%.1f %.1fl10 10m0 -10l-10 10\"/>", xe - 5, ye - 5);
	else
		arrow(f, xe, ye, dir, angle);
	if (r->fate == FATE_UNANSWERED)
		fprintf(f, "<text class=\"mark\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">?</text>", x1 - dir * 18,
			y1 - 7);
	/* Captured at both ends they cross: what they are stands near where they begin, beside the head of what ends there. */
	part = fmax(s->both_ends ? 0.24 : part / 2, fmin(0.6, (18 + letters(r) * 2.9) / fabs(x1 - x0)));
	label(f, r, x0 + (x1 - x0) * part, y0 + (y1 - y0) * part, dir * angle);
	chips(f, r, x0, y0, x1, y1, dir);
	fputs("</g>\n", f);
}

static void train(const struct svg *s, const struct row *row)
{
	const struct rung *r = &s->l->rung[row->first], *e = &s->l->rung[row->last];
	int dir = r->from ? -1 : 1;
	double x0 = (r->from ? right_of(r->conn) : left_of(r->conn)) + dir * 5,
	       x1 = (r->from ? left_of(r->conn) : right_of(r->conn)) - dir * 5;
	unsigned lines = row->packets < 6 ? row->packets : 6;
	double xm = (x0 + x1) / 2, ym = row->y + (row->h + SLOPE) / 2, y;
	FILE *f = s->f;
	char buf[64];

	group(f, r, " train-of");
	fprintf(f, "<path class=\"train\" d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fZ\"/>", x0, row->y, x1,
		row->y + SLOPE, x1, row->y + row->h + SLOPE, x0, row->y + row->h);
	for (unsigned k = 0; k <= lines; k++) {
		y = row->y + row->h * k / lines;
		fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>", k == 0 || k == lines ? "wire" : "hatch",
			x0, y, x1, y + SLOPE);
		if (k == 0 || k == lines)
			arrow(f, x1, y + SLOPE, dir, atan2(SLOPE, fabs(x1 - x0)) * 180 / M_PI);
	}
	fprintf(f,
		"<text class=\"label\" x=\"%.1f\" y=\"%.1f\" transform=\"rotate(%.2f %.1f %.1f)\"><tspan "
		"class=\"what\">%s ×%u</tspan>"
		"<tspan class=\"num\" dx=\"6\">%" PRId64 "–%" PRId64 "</tspan>",
		xm, ym + 4, dir * 1.7, xm, ym, opcode(buf, sizeof(buf), r, false), row->packets, r->rel, e->rel);
	if (row->bytes)
		fprintf(f, "<tspan class=\"size\" dx=\"6\">%s</tspan>", size_of(buf, sizeof(buf), row->bytes));
	fputs("</text>", f);
	chips(f, r, x0, row->y + row->h / 2, x1, ym + SLOPE / 2.0, dir);
	fputs("</g>\n", f);
}

/* A box that says what is folded there, in columns from.. */
static void folded(const struct svg *s, const struct row *row, uint32_t from, uint32_t n, const char *what)
{
	double x = MARGIN_LEFT + (double)COLUMN * from + 8, w = (double)COLUMN * n - 16;
	char buf[32];

	fprintf(s->f,
		"<g class=\"quiet-group\"><rect class=\"quiet\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
		"rx=\"8\"/>"
		"<text class=\"quiet-text\" x=\"%.1f\" y=\"%.1f\">%s · %s</text></g>\n",
		x, row->y, w, row->h, x + w / 2, row->y + row->h / 2 + 4, what,
		duration(buf, sizeof(buf), ns_since(s->l->rung[row->last].ns, s->l->rung[row->first].ns)));
}

static void quiet(const struct svg *s, const struct row *row)
{
	char what[64];

	snprintf(what, sizeof(what), "%u packets, nothing remarkable", row->packets);
	folded(s, row, 0, s->l->conns, what);
}

static void cycles(const struct svg *s, const struct row *row)
{
	char what[64];

	snprintf(what, sizeof(what), "resend and RNR NAK ×%u", row->cycles);
	folded(s, row, s->l->rung[row->first].conn, 1, what);
}

static void gap(const struct svg *s, const struct row *row)
{
	double y = row->y - GAP_HEIGHT / 2 - 9;
	char buf[32];

	for (uint32_t c = 0; c < s->l->conns; c++) {
		uint64_t ns = s->l->rung[row->first].ns;

		if (ns <= s->l->conn[c].begin || ns > s->l->conn[c].end)
			continue;
		fprintf(s->f,
			"<path class=\"break\" d=\"M%.1f %.1fv16M%.1f %.1fv16\"/><text class=\"gap\" x=\"%.1f\" "
			"y=\"%.1f\">%s of silence</text>\n",
			left_of(c), y - 7, right_of(c), y - 7, (left_of(c) + right_of(c)) / 2, y + 4,
			duration(buf, sizeof(buf), row->gap));
	}
}

static void row(const struct svg *s, const struct row *r)
{
	char buf[32];

	if (r->gap)
		gap(s, r);
	switch (r->kind) {
	case ROW_RUNG: rung(s, r); break;
	case ROW_TRAIN: train(s, r); break;
	case ROW_QUIET: quiet(s, r); break;
	case ROW_CYCLES: cycles(s, r); break;
	}
	fprintf(s->f, "<text class=\"time\" x=\"%d\" y=\"%.1f\">%s</text>\n", MARGIN_LEFT - 14, r->y + 4,
		clock_of(buf, sizeof(buf), s->l, s->l->rung[r->first].ns));
}

/* ---- rails ------------------------------------------------------------------------------------ */

static void bar(const struct svg *s, double x, double y, double y2, const char *state, const char *why)
{
	if (y2 <= y)
		return;
	fprintf(s->f,
		"<rect class=\"rail %s\" x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"%.1f\" "
		"rx=\"3\"><title>%s</title></rect>",
		state, x - 4, y, y2 - y, why);
}

static const struct band *band_next(const struct ladder *l, const struct conn_side *at, const struct band *b)
{
	for (b = b ? b + 1 : l->band; b < l->band + l->bands; b++)
		if (b->at.qpn == at->qpn && gid_same(b->at.gid, at->gid))
			return b;
	return NULL;
}

/* Rails last as long as their connection. */
static void rail(const struct svg *s, double x, uint32_t conn, unsigned side)
{
	const struct conn_side *at = &s->l->conn[conn].side[side];
	const struct band *b = s->l->bands ? band_next(s->l, at, NULL) : NULL, *next;
	double begin = fmax(0, rows_y(&s->rows, s->l, s->l->conn[conn].begin) - MARGIN_TOP);
	double y, end = fmin(s->rows.height, rows_y(&s->rows, s->l, s->l->conn[conn].end) + ROW_HEIGHT + 12),
		  named = -100;

	if (!b)
		bar(s, x, begin, end, "RTS rest", "its state is not known: it sends and receives");
	else
		bar(s, x, begin, rows_y(&s->rows, s->l, b->ns) - 4, "rest", "before: not known");
	for (; b; b = next) {
		next = band_next(s->l, at, b);
		if (next && next->ns == b->ns)
			continue;
		y = fmax(begin, rows_y(&s->rows, s->l, b->ns) - 4);
		bar(s, x, y, next ? rows_y(&s->rows, s->l, next->ns) - 4 : end, b->state, b->why);
		if (y - named > 12)
			fprintf(s->f, "<text class=\"state\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
				x + (side ? 10 : -10), y + 9, side ? "start" : "end", b->state);
		named = y;
	}
	putc('\n', s->f);
}

/* ---- heads, the whole ----------------------------------------------------------------------------- */

static void end_box(FILE *f, double x, const struct conn_side *at)
{
	char addr[INET6_ADDRSTRLEN], qp[32] = "QP not known";

	if (at->qpn)
		snprintf(qp, sizeof(qp), "QP %#x", at->qpn);
	fprintf(f,
		"<rect class=\"box\" x=\"%.1f\" y=\"56\" width=\"168\" height=\"42\" rx=\"9\"/><text class=\"who\" "
		"x=\"%.1f\" y=\"74\">%s</text>"
		"<text class=\"qp\" x=\"%.1f\" y=\"90\">%s</text>\n",
		x - 84, x, gid_text(at->gid, addr), x, qp);
}

static void heads(const struct svg *s)
{
	uint64_t packets = 0, again = 0, gone = 0, naks = 0;
	char buf[32];

	for (uint32_t c = 0; c < s->l->conns; c++) {
		const struct conn *v = &s->l->conn[c];

		packets += v->packets;
		again += v->again;
		gone += v->lost + v->missing;
		naks += v->nak + v->rnr;
		end_box(s->f, left_of(c), &v->side[0]);
		end_box(s->f, right_of(c), &v->side[1]);
		fprintf(s->f, "<text class=\"svc\" x=\"%.1f\" y=\"81\">%s</text>\n", (left_of(c) + right_of(c)) / 2,
			service_name(v->svc));
	}
	fputs("<text class=\"title\" x=\"16\" y=\"28\">", s->f);
	text(s->f, s->l->title, 70);
	fprintf(s->f,
		"</text><text class=\"sub\" x=\"16\" y=\"45\">%" PRIu64 " packets in %s: %" PRIu64 " %s, %" PRIu64
		" sent again, %" PRIu64 " NAKs</text>\n",
		packets, duration(buf, sizeof(buf), ns_since(s->l->last, s->l->begin)), gone, ladder_gone(s->l), again,
		naks);
}

bool ladder_svg(const struct ladder *l, const struct ladder_style *style, FILE *f)
{
	struct svg s = { .f = f, .l = l };
	double width = MARGIN_LEFT + (double)COLUMN * l->conns;

	for (uint32_t i = 0; i < l->n; i++)
		s.both_ends |= l->rung[i].arrived;
	if (!rows_fold(&s.rows, l, style->unfold))
		return false;
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"pic%s\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 "
		"0 %.0f %.0f\">\n<style>\n",
		style->theme == THEME_DARK ? " dark" : "", width, s.rows.height + HEAD, width, s.rows.height + HEAD);
	ladder_css(f, style->theme == THEME_AUTO);
	fputs("</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n", f);
	heads(&s);
	fprintf(f, "<g transform=\"translate(0 %d)\">\n", HEAD);
	for (uint32_t c = 0; c < l->conns; c++) {
		rail(&s, left_of(c), c, 0);
		rail(&s, right_of(c), c, 1);
	}
	for (uint32_t i = 0; i < s.rows.n; i++)
		row(&s, &s.rows.v[i]);
	fputs("</g>\n</svg>\n", f);
	free(s.rows.v);
	return true;
}
