/* SPDX-License-Identifier: MIT */
/* leaks.c - of the report: what contexts left undestroyed. */
#include "config.h"

#include "field.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

/* Kinds of objects, as the daemon names their number, and for people. */
static const struct kind {
	const char *many, *name;
} kinds[] = {
	{ "qps", "QP" },           { "mrs", "MR" }, { "cqs", "CQ" }, { "pds", "PD" },
	{ "srqs", "SRQ" },         { "mws", "MW" }, { "dms", "DM" }, { "channels", "completion channel" },
	{ "xrcds", "XRC domain" },
};

json_t *leaks_of(const struct report *r, const json_t *ends)
{
	json_t *mine = report_ours(r, json_object_get(ends, "contexts")), *out = json_array(), *ctx, *n;
	const char *key;
	size_t i;

	json_array_foreach(mine, i, ctx)
	{
		long long left = 0;

		json_object_foreach(json_object_get(ctx, "left"), key, n) left += json_integer_value(n);
		if (left)
			json_array_append(out, ctx);
	}
	json_decref(mine);
	return out;
}

long long leaks_lost(const struct report *r, const json_t *ends)
{
	json_t *mine = report_ours(r, json_object_get(ends, "lost")), *row;
	long long n = 0;
	size_t i;

	json_array_foreach(mine, i, row) n += num(row, "contexts");
	json_decref(mine);
	return n;
}

/* The last state of that QP among those that are no more. */
static const json_t *qp_of(const json_t *qps, long long ctx, long long qpn)
{
	const json_t *found = NULL;
	json_t *q;
	size_t i;

	json_array_foreach(qps, i, q) if (num(q, "context") == ctx && num(q, "qpn") == qpn) found = q;
	return found;
}

static void leak_object(FILE *f, const json_t *ctx, const json_t *o, const json_t *qps)
{
	const char *kind = str(o, "kind");
	const json_t *q = !strcmp(kind, "qp") ? qp_of(qps, num(ctx, "context"), num(o, "number")) : NULL;

	if (q)
		fprintf(f, "    QP %#llx  %s, %s, peer %s %#llx, %lld sends and %lld receives outstanding\n",
			num(o, "number"), str(q, "type"), str(q, "state"), *str(q, "peer") ? str(q, "peer") : "none",
			num(q, "dest_qpn"), num(q, "sq_len"), num(q, "rq_len"));
	else if (!strcmp(kind, "mr"))
		fprintf(f, "    MR key %#llx  %lld bytes at %s\n", num(o, "number"), num(o, "length"),
			str(o, "address"));
	else
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (!strncmp(kinds[i].many, kind, strlen(kind)) && kinds[i].many[strlen(kind)] == 's')
				fprintf(f, "    %s %lld\n", kinds[i].name, num(o, "number"));
}

void leak_show(FILE *f, const json_t *ctx, const json_t *qps)
{
	const json_t *left = json_object_get(ctx, "left");
	const char *comma = " ";
	json_t *o;
	size_t i;

	fprintf(f, "%s (pid %lld) %s on %s without destroying", str(ctx, "program"), num(ctx, "pid"),
		json_is_true(json_object_get(ctx, "orderly")) ? "ended" : "was killed, or ended by _exit,",
		str(ctx, "device"));
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		long long n = num(left, kinds[i].many);

		if (n) {
			fprintf(f, "%s%lld %s%s", comma, n, kinds[i].name, n == 1 ? "" : "s");
			comma = ", ";
		}
	}
	fputc('\n', f);
	json_array_foreach(json_object_get(ctx, "objects"), i, o) leak_object(f, ctx, o, qps);
}

void leaks_lost_show(FILE *f, long long n)
{
	if (n)
		fprintf(f, "%lld contexts more have left something: the daemon remembers the last ones only\n", n);
}
