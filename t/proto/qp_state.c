/* SPDX-License-Identifier: MIT */
/*
 * qp_state.c - every (type, from, to), each with all masks that matter, against the table of the
 * specification written down a second time, as text, type by type.
 */
#include "proto/qp_state.h"
#include "t/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rdmad/abi.h>

static const struct {
	const char *name;
	uint32_t bit;
} attrs[] = {
	{ "CUR", 1 },  { "SQDN", 2 },  { "ACC", 3 },   { "PKEY", 4 },   { "PORT", 5 },  { "QKEY", 6 },
	{ "AV", 7 },   { "MTU", 8 },   { "TMO", 9 },   { "RETRY", 10 }, { "RNRR", 11 }, { "RQPSN", 12 },
	{ "RDA", 13 }, { "ALT", 14 },  { "RNRT", 15 }, { "SQPSN", 16 }, { "DRDA", 17 }, { "MIG", 18 },
	{ "CAP", 19 }, { "DQPN", 20 }, { "RATE", 25 },
};

#define ALWAYS                                                                              \
	"RESET>RESET: ; INIT>RESET: ; RTR>RESET: ; RTS>RESET: ; SQD>RESET: ; ERR>RESET: ; " \
	"INIT>ERR: ; RTR>ERR: ; RTS>ERR: ; SQD>ERR: ; ERR>ERR: ; "
#define WITH_SQE "SQE>RESET: ; SQE>ERR: ; "

/* from>to: required / optional; */
static const struct {
	uint8_t type;
	const char *table;
} types[] = {
	{ QPT_RC, ALWAYS "RESET>INIT: PKEY PORT ACC; INIT>INIT: / PKEY PORT ACC; "
			 "INIT>RTR: AV MTU DQPN RQPSN DRDA RNRT / ALT ACC PKEY; "
			 "RTR>RTS: TMO RETRY RNRR SQPSN RDA / CUR ALT ACC MIG RNRT RATE; "
			 "RTS>RTS: / CUR ALT ACC MIG RNRT RATE; SQD>RTS: / CUR ALT ACC MIG RNRT RATE; RTS>SQD: / SQDN; "
			 "SQD>SQD: / PORT AV TMO RETRY RNRR RDA DRDA ALT ACC PKEY RNRT MIG; " },
	{ QPT_UC, ALWAYS WITH_SQE
	  "RESET>INIT: PKEY PORT ACC; INIT>INIT: / PKEY PORT ACC; "
	  "INIT>RTR: AV MTU DQPN RQPSN / ALT ACC PKEY; "
	  "RTR>RTS: SQPSN / CUR ALT ACC MIG RATE; RTS>RTS: / CUR ALT ACC MIG RATE; SQD>RTS: / CUR ALT ACC MIG RATE; "
	  "RTS>SQD: / SQDN; SQD>SQD: / AV ALT ACC PKEY MIG; SQE>RTS: / CUR ACC; " },
	{ QPT_UD, ALWAYS WITH_SQE "RESET>INIT: PKEY PORT QKEY; INIT>INIT: / PKEY PORT QKEY; INIT>RTR: / PKEY QKEY; "
				  "RTR>RTS: SQPSN / CUR QKEY RATE; RTS>RTS: / CUR QKEY RATE; SQD>RTS: / CUR QKEY RATE; "
				  "RTS>SQD: / SQDN; SQD>SQD: / PKEY QKEY; SQE>RTS: / CUR QKEY; " },
	{ QPT_RAW, ALWAYS WITH_SQE
	  "RESET>INIT: PORT; INIT>INIT: / PORT; INIT>RTR: ; RTR>RTS: / RATE; RTS>RTS: / RATE; SQD>RTS: / RATE; "
	  "RTS>SQD: ; SQD>SQD: ; SQE>RTS: ; " },
	{ QPT_XRC_SEND, ALWAYS "RESET>INIT: PKEY PORT ACC; INIT>INIT: / PKEY PORT ACC; "
			       "INIT>RTR: AV MTU DQPN RQPSN / ALT ACC PKEY; "
			       "RTR>RTS: TMO RETRY RNRR SQPSN RDA / CUR ALT ACC MIG RATE; "
			       "RTS>RTS: / CUR ALT ACC MIG RATE; SQD>RTS: / CUR ALT ACC MIG RATE; RTS>SQD: / SQDN; "
			       "SQD>SQD: / PORT AV TMO RETRY RNRR RDA ALT ACC PKEY MIG; " },
	{ QPT_XRC_RECV, ALWAYS "RESET>INIT: PKEY PORT ACC; INIT>INIT: / PKEY PORT ACC; "
			       "INIT>RTR: AV MTU DQPN RQPSN DRDA RNRT / ALT ACC PKEY; "
			       "RTR>RTS: TMO SQPSN / CUR ALT ACC MIG RNRT; "
			       "RTS>RTS: / CUR ALT ACC MIG RNRT; SQD>RTS: / CUR ALT ACC MIG RNRT; RTS>SQD: / SQDN; "
			       "SQD>SQD: / PORT AV TMO DRDA ALT ACC PKEY RNRT MIG; " },
};

static const char *const states[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

/* The bits of the names between p and end. */
static uint32_t bits(const char *p, const char *end)
{
	uint32_t m = 0;

	while (p < end) {
		size_t n, i, known = sizeof(attrs) / sizeof(*attrs);

		p += strspn(p, " ");
		n = strcspn(p, " ;/");
		if (p + n > end || !n)
			break;
		for (i = 0; i < known; i++)
			if (strlen(attrs[i].name) == n && !memcmp(attrs[i].name, p, n))
				break;
		ck_assert_msg(i < known, "the test's own table: %.*s", (int)n, p);
		m |= 1u << attrs[i].bit;
		p += n;
	}
	return m;
}

/* The text's entry for an edge; false: there is none. */
static bool expect(const char *table, unsigned from, unsigned to, uint32_t *required, uint32_t *optional)
{
	char key[32];
	const char *row, *slash, *end;

	snprintf(key, sizeof(key), "%s>%s:", states[from], states[to]);
	row = strstr(table, key);
	if (!row)
		return false;
	row += strlen(key);
	end = strchr(row, ';');
	slash = memchr(row, '/', (size_t)(end - row));
	*required = bits(row, slash ? slash : end);
	*optional = slash ? bits(slash + 1, end) : 0;
	return true;
}

static unsigned edges;

static void check_edge(uint8_t type, const char *table, uint8_t from, uint8_t to)
{
	uint32_t req = 0, opt = 0;
	bool edge = expect(table, from, to, &req, &opt);

	ck_assert_msg(qp_state_edge(type, from, to) == edge, "type %u %s>%s", type, states[from], states[to]);
	edges += edge;
	for (unsigned bit = 0; bit < 32; bit++) {
		uint32_t b = 1u << bit;
		bool ok = edge && (bit == 0 || ((req | opt) & b));

		/* everything required and this one */
		ck_assert_msg(qp_state_check(type, from, to, QPA_STATE | req | b) == (ok ? 0 : EINVAL),
			      "type %u %s>%s: bit %u", type, states[from], states[to], bit);
		/* everything allowed but this one */
		if (bit)
			ck_assert_int_eq(qp_state_check(type, from, to, (QPA_STATE | req | opt) & ~b),
					 edge && !(req & b) ? 0 : EINVAL);
	}
	ck_assert_int_eq(qp_state_check(type, from, to, QPA_STATE | req | opt), edge ? 0 : EINVAL);
	ck_assert_int_eq(qp_state_check(type, from, to, req | opt), edge && from == to ? 0 : EINVAL);
	ck_assert_int_eq(qp_state_check(type, from, to, UINT32_MAX), EINVAL);
}

START_TEST(every_edge) /* conf: section 5 */
{
	edges = 0;
	for (size_t k = 0; k < sizeof(types) / sizeof(*types); k++)
		for (uint8_t from = 0; from < 7; from++)
			for (uint8_t to = 0; to < 7; to++)
				check_edge(types[k].type, types[k].table, from, to);
	ck_assert_uint_eq(edges, 3 * 19 + 3 * 22);
}
END_TEST

START_TEST(nonsense_is_refused) /* conf: section 5 */
{
	for (unsigned type = 0; type < 256; type++) {
		bool known = false;

		for (size_t k = 0; k < sizeof(types) / sizeof(*types); k++)
			known |= types[k].type == type;
		ck_assert(qp_state_edge((uint8_t)type, QPS_RTS, QPS_ERR) == known);
	}
	for (unsigned s = 7; s < 256; s++) {
		ck_assert(!qp_state_edge(QPT_RC, (uint8_t)s, QPS_RESET));
		ck_assert(!qp_state_edge(QPT_RC, QPS_RTS, (uint8_t)s));
		ck_assert_int_eq(qp_state_check(QPT_RC, (uint8_t)s, (uint8_t)s, 0), EINVAL);
	}
}
END_TEST

START_TEST(names)
{
	for (uint8_t s = 0; s < 7; s++)
		ck_assert_str_eq(qp_state_name(s), states[s]);
	ck_assert_str_eq(qp_state_name(7), "?");
	ck_assert_str_eq(qp_state_name(255), "?");
}
END_TEST

TEST_MAIN("qp_state", every_edge, nonsense_is_refused, names)
