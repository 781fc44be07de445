/* SPDX-License-Identifier: MIT */
/*
 * words.c - fuzz target: a recording of rdmad-run --record, and words of command lines.  A recording is refused, or departs
 * nowhere from itself; --fault of rdmad is refused, or says what can be done.
 */
#include <string.h>

#include <rdmad/gid.h>
#include <rdmad/gid_text.h>
#include <rdmad/number.h>
#include <rdmad/seed.h>

#include "daemon/control/impair_spec.h"
#include "file.h"
#include "lab/rule.h"
#include "run/tape.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* tape.c asks for these, but not of a file. */
bool impair_text(int, const struct options *, const char *, const char *) { return false; }
char *report_file(const struct options *, const char *) { return NULL; }

static void recording(const uint8_t *data, size_t len)
{
	const char *name = file_of(data, len);
	static struct rules rs;
	struct rule_error err;
	char *rules = NULL;
	struct tape t;
	size_t rules_len;
	FILE *f;

	if (!tape_load(&t, name))
		return;
	f = open_memstream(&rules, &rules_len);
	must(f);
	fputs("rules:\n", f);
	replay_rules(f, &t);
	tape_rules(f);
	must(!fclose(f));
	rules_add(&rs, rules, rules_len, &(struct rule_host){ .owner = 1 }, &err);
	rules_clear(&rs, 0, 0);
	rules_fini(&rs);
	free(rules);
	free(tape_program(&t, name));
	f = fopen("/dev/null", "w");
	must(f && replay_compare(f, &t, &t));
	fclose(f);
	tape_free(&t);
}

static void word(const uint8_t *data, size_t len)
{
	struct impair_spec s;
	const char *wrong;
	uint64_t seed;
	uint8_t gid[16];
	char *text = strndup((const char *)data, len);

	must(text);
	wrong = impair_spec_parse(text, &s);
	if (!wrong)
		must(s.loss >= 0 && s.loss <= 1 && s.dup >= 0 && s.dup <= 1 && s.delay_ns <= 3600000000000);
	if (number_read(text, &seed))
		must(strspn(text, "0123456789abcdefxABCDEFX") == strlen(text));
	gid_read(text, gid);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	quiet();
	recording(data, len);
	word(data, len);
	loud();
	return 0;
}
