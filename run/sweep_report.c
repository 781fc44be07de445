/* SPDX-License-Identifier: MIT */
/* sweep_report.c - what the sweep found: for people, as JSON, and as JUnit's XML. */
#include "config.h"

#include "field.h"
#include "say.h"
#include "sweep.h"
#include "xml.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdmad/seed.h>

static const char *const result_word[SWEEP_RESULTS] = {
	[SWEEP_WAITS] = "not run", [SWEEP_OK] = "ok",     [SWEEP_MISSED] = "missed",   [SWEEP_FAILED] = "failed",
	[SWEEP_HUNG] = "hung",     [SWEEP_SLOW] = "slow", [SWEEP_CORRUPT] = "corrupt", [SWEEP_UNSTEADY] = "unsteady",
	[SWEEP_ERROR] = "error",
};

static char *path_of(const struct sweep *s, const char *name)
{
	char *path = NULL;

	if (asprintf(&path, "%s/%s", s->dir, name) < 0)
		abort();
	return path;
}

static unsigned findings(const struct sweep *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n; i++)
		n += case_is_finding(&s->c[i]);
	return n;
}

/* ---- for people ---------------------------------------------------------------------- */

/* Both tell the same story: of many packets of a stream one is enough to read. */
static bool are_alike(const struct sweep_case *a, const struct sweep_case *b)
{
	if (a->result != b->result || a->n != b->n)
		return false;
	for (unsigned i = 0; i < a->n; i++)
		if (a->part[i].fault != b->part[i].fault || strcmp(a->part[i].pkt->word, b->part[i].pkt->word) ||
		    strcmp(a->part[i].pkt->opcode, b->part[i].pkt->opcode))
			return false;
	return a->result == SWEEP_SLOW || !strcmp(a->detail, b->detail);
}

static bool was_told(const struct sweep *s, unsigned i)
{
	for (unsigned k = 0; k < i; k++)
		if (case_is_finding(&s->c[k]) && are_alike(&s->c[k], &s->c[i]))
			return true;
	return false;
}

static void finding_put(const struct sweep *s, FILE *f, unsigned i)
{
	const struct sweep_case *c = &s->c[i];
	char text[256], *command = case_command(s, c);
	unsigned more = 0;

	for (unsigned k = i + 1; k < s->n; k++)
		more += case_is_finding(&s->c[k]) && are_alike(c, &s->c[k]);
	plan_tell(c, text, sizeof(text));
	fprintf(f, "\n%s: %s, if %s\n", result_word[c->result], c->detail, text);
	if (c->why[0])
		fprintf(f, "  %s\n", c->why);
	fprintf(f, "  %s\n", command);
	if (more)
		fprintf(f, "  (and %u more like it)\n", more);
	free(command);
}

static void text_put(const struct sweep *s, FILE *f)
{
	unsigned n = findings(s), run = s->n - s->result_n[SWEEP_WAITS];

	fprintf(f, "sweep of");
	for (char **a = s->argv; *a; a++)
		fprintf(f, " %s", *a);
	fprintf(f, "\nclean run: %.2f s, %llu packets", s->clean_s, s->sent_n);
	if (s->pkt_n < s->sent_n)
		fprintf(f, ", %u of them swept", s->pkt_n);
	fprintf(f, "\ncases: %u single faults, %u pairs (seed %llu): %u ok, %u missed (the packet did not come)",
		s->single_n, s->pair_n, (unsigned long long)(s->opt->seeded ? s->opt->seed : 1), s->result_n[SWEEP_OK],
		s->result_n[SWEEP_MISSED]);
	for (unsigned r = SWEEP_FAILED; r < SWEEP_RESULTS; r++)
		if (s->result_n[r])
			fprintf(f, ", %u %s", s->result_n[r], result_word[r]);
	if (s->single_left || s->pair_left)
		fprintf(f, "\nleft out by --sweep-limit %u: %u single faults, %u pairs", s->opt->sweep.limit,
			s->single_left, s->pair_left);
	if (s->stopped)
		fprintf(f, "\nstopped by signal %d: %u of %u cases have run", s->stopped, run, s->n);
	else if (s->broken)
		fprintf(f, "\nstopped, a run could not be started (%s): %u of %u cases have run", strerror(s->broken),
			run, s->n);
	fprintf(f, "\n%u finding%s\n", n, n == 1 ? "" : "s");
	for (unsigned i = 0; i < s->n; i++)
		if (case_is_finding(&s->c[i]) && !was_told(s, i))
			finding_put(s, f, i);
	for (unsigned i = 0; i < s->n; i++)
		if (s->c[i].result == SWEEP_ERROR)
			fprintf(f, "\nerror: case %u: %s\n", s->c[i].id, s->c[i].detail);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static json_t *parts_json(const struct sweep_case *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->n; i++) {
		const struct packet *p = c->part[i].pkt;
		json_t *j = json_pack("{ss ss}", "fault", c->part[i].fault->word, p->cm ? "cm" : "opcode", p->opcode);

		if (!p->cm)
			json_object_set_new(j, "qp_sender", json_integer(p->sender));
		if (p->has_rel)
			json_object_set_new(j, "psn_rel", json_integer(p->rel));
		if (p->iter)
			json_object_set_new(j, "iter", json_integer(p->iter));
		json_object_set_new(j, "nth", json_integer(p->nth));
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *case_json(const struct sweep *s, const struct sweep_case *c)
{
	char text[256], *path;
	json_t *j;

	plan_name(c, text, sizeof(text));
	j = json_pack("{si ss so ss}", "case", (int)c->id, "name", text, "faults", parts_json(c), "result",
		      result_word[c->result]);
	if (c->result != SWEEP_WAITS)
		json_object_set_new(j, "seconds", json_real(c->seconds));
	if (c->result < SWEEP_FAILED)
		return j;
	json_object_set_new(j, "detail", text_json(c->detail));
	json_object_set_new(j, "why", text_json(c->why));
	path = case_file(s, c, "", "rules.yaml");
	json_object_set_new(j, "rules", text_json(path));
	free(path);
	path = case_command(s, c);
	json_object_set_new(j, "command", text_json(path));
	free(path);
	return j;
}

static void json_put(const struct sweep *s, FILE *f)
{
	json_t *program = json_array(), *cases = json_array(), *j;

	for (char **a = s->argv; *a; a++)
		json_array_append_new(program, text_json(*a));
	for (unsigned i = 0; i < s->n; i++)
		json_array_append_new(cases, case_json(s, &s->c[i]));
	j = json_pack("{so so sf sI si si si si so}", "program", program, "seed",
		      seed_json(s->opt->seeded ? s->opt->seed : 1), "clean_seconds", s->clean_s, "packets",
		      (json_int_t)s->sent_n, "packets_swept", (int)s->pkt_n, "singles_left_out", (int)s->single_left,
		      "pairs_left_out", (int)s->pair_left, "findings", (int)findings(s), "cases", cases);
	json_object_set_new(j, "stopped", s->stopped ? json_integer(s->stopped) : json_null());
	json_object_set_new(j, "broken", s->broken ? json_string(strerror(s->broken)) : json_null());
	json_dumpf(j, f, JSON_INDENT(1));
	fputc('\n', f);
	json_decref(j);
}

/* ---- JUnit --------------------------------------------------------------------------------- */

static void xml_case(const struct sweep *s, FILE *f, const struct sweep_case *c)
{
	char text[256], *command;

	plan_name(c, text, sizeof(text));
	fputs("  <testcase classname=\"sweep\" name=\"", f);
	xml_text(f, text);
	fprintf(f, "\" time=\"%.3f\"", c->seconds);
	if (c->result == SWEEP_OK) {
		fputs("/>\n", f);
	} else if (c->result < SWEEP_FAILED) {
		fprintf(f, "><skipped message=\"%s\"/></testcase>\n", result_word[c->result]);
	} else {
		command = case_command(s, c);
		fprintf(f, "><%s type=\"%s\" message=\"", c->result == SWEEP_ERROR ? "error" : "failure",
			result_word[c->result]);
		xml_text(f, c->detail);
		fputs("\">", f);
		xml_text(f, c->why);
		fputc('\n', f);
		xml_text(f, command);
		fprintf(f, "</%s></testcase>\n", c->result == SWEEP_ERROR ? "error" : "failure");
		free(command);
	}
}

static void xml_put(const struct sweep *s, FILE *f)
{
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite name=\"", f);
	xml_text(f, s->argv[0]);
	fprintf(f, "\" tests=\"%u\" failures=\"%u\" errors=\"%u\" skipped=\"%u\">\n", s->n, findings(s),
		s->result_n[SWEEP_ERROR], s->result_n[SWEEP_MISSED] + s->result_n[SWEEP_WAITS]);
	for (unsigned i = 0; i < s->n; i++)
		xml_case(s, f, &s->c[i]);
	fputs(" </testsuite>\n</testsuites>\n", f);
}

/* ---- files ----------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*put)(const struct sweep *, FILE *);
} files[] = { { "sweep.txt", text_put }, { "sweep.json", json_put }, { "sweep.xml", xml_put } };

bool sweep_report_remove(const struct sweep *s)
{
	bool good = true;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files) && good; i++) {
		char *path = path_of(s, files[i].name);

		good = !unlink(path) || errno == ENOENT;
		if (!good)
			say("--report %s: cannot remove the old one: %s", path, strerror(errno));
		free(path);
	}
	return good;
}

void sweep_report(const struct sweep *s)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char *path = path_of(s, files[i].name);
		FILE *f = fopen(path, "we");

		if (f)
			files[i].put(s, f);
		if (!f || fclose(f))
			say("--report %s: %s", path, strerror(errno));
		free(path);
	}
	text_put(s, stdout);
	fflush(stdout);
}
