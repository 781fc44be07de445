/* SPDX-License-Identifier: MIT */
/* why_name.c - names of numbers, and the rows of why.def. */
#include <stdio.h>
#include <string.h>

#include <rdmad/gid_text.h>
#include <rdmad/wr.h>

#include "why_text.h"

/* ---- text ------------------------------------------------------------------- */

struct words words_begin(char *buf, size_t len)
{
	buf[0] = 0;
	return (struct words){ buf, buf + len };
}

void words_put(struct words *w, const char *fmt, ...)
{
	size_t room = (size_t)(w->end - w->at);
	va_list ap;
	int n;

	if (room < 2)
		return;
	va_start(ap, fmt);
	n = vsnprintf(w->at, room, fmt, ap);
	va_end(ap);
	w->at += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

void gid_words(struct words *w, const uint8_t *gid)
{
	char text[INET6_ADDRSTRLEN];

	words_put(w, "%s", gid_text(gid, text));
}

void time_words(struct words *w, uint64_t ns)
{
	if (ns < 10000)
		words_put(w, "%llu ns", (unsigned long long)ns);
	else if (ns < 10000000)
		words_put(w, "%llu us", (unsigned long long)ns / 1000);
	else if (ns < 10000000000)
		words_put(w, "%llu ms", (unsigned long long)ns / 1000000);
	else
		words_put(w, "%llu s", (unsigned long long)ns / 1000000000);
}

/* ---- the table ----------------------------------------------------------------- */

static const struct row {
	const char *name, *what, *hint;
	enum why_grade grade;
} rows[WHY_CAUSES] = {
#define WHY(name, grade, what, hint)       [WHY_##name] = { #name, what, hint, WHY_##grade },
#define WHY_FAULT(name, grade, what, hint) [WHY_##name] = { #name, what, hint, WHY_##grade },
#define WHY_KEY(name, what, hint)          [WHY_##name] = { #name, what, hint, WHY_PART },
#include "../../proto/why.def"
#undef WHY
#undef WHY_FAULT
#undef WHY_KEY
};

const char *why_name(unsigned c) { return c < WHY_CAUSES && rows[c].name ? rows[c].name : ""; }
const char *why_what(unsigned c) { return c < WHY_CAUSES && rows[c].what ? rows[c].what : ""; }
const char *why_hint(unsigned c) { return c < WHY_CAUSES && rows[c].hint ? rows[c].hint : ""; }
enum why_grade why_grade(unsigned c) { return c < WHY_CAUSES ? rows[c].grade : WHY_PART; }

const char *why_advice(const struct why *w) { return w->key.why ? why_hint(w->key.why) : why_hint(w->cause); }

/* ---- names ------------------------------------------------------------------------ */

/* clang-format off */
const char *status_name(unsigned s)
{
	static const char *const names[] = {
		[WC_SUCCESS] = "SUCCESS", [WC_LOC_LEN_ERR] = "LOC_LEN_ERR", [WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
		[WC_LOC_PROT_ERR] = "LOC_PROT_ERR", [WC_WR_FLUSH_ERR] = "WR_FLUSH_ERR", [WC_MW_BIND_ERR] = "MW_BIND_ERR",
		[WC_BAD_RESP_ERR] = "BAD_RESP_ERR", [WC_LOC_ACCESS_ERR] = "LOC_ACCESS_ERR",
		[WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR", [WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR", [WC_REM_OP_ERR] = "REM_OP_ERR",
		[WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR", [WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR", [WC_FATAL_ERR] = "FATAL_ERR",
	};

	return s < sizeof(names) / sizeof(*names) && names[s] ? names[s] : "?";
}
/* clang-format on */

const char *wr_name(unsigned op)
{
	const struct wr_row *row = wr_row(op);

	return row ? row->name : "work request";
}

const char *type_name(uint8_t type)
{
	switch (type) {
	case QPT_RC: return "RC";
	case QPT_UC: return "UC";
	case QPT_UD: return "UD";
	case QPT_XRC_SEND: return "XRC_SEND";
	case QPT_XRC_RECV: return "XRC_RECV";
	case QPT_RAW: return "RAW";
	}
	return "?";
}
