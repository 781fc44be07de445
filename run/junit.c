/* SPDX-License-Identifier: MIT */
/* junit.c - the report as JUnit's XML: the program is one test case. */
#include "config.h"

#include "field.h"
#include "report.h"
#include "xml.h"

static void command_put(FILE *f, const json_t *command)
{
	json_t *word;
	size_t i;

	json_array_foreach(command, i, word)
	{
		if (i)
			fputc(' ', f);
		xml_text(f, json_string_value(word));
	}
}

void junit_put(FILE *f, const json_t *j, const char *why)
{
	const json_t *command = json_object_get(j, "command"), *leaks = json_object_get(j, "leaks");
	const double seconds = json_real_value(json_object_get(j, "seconds"));
	const long long status = num(j, "exit_status");
	char text[128];

	fprintf(f,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite name=\"rdmad-run\" tests=\"1\" "
		"failures=\"%d\" errors=\"0\" skipped=\"0\" time=\"%.3f\">\n  <testcase classname=\"rdmad-run\" "
		"name=\"",
		status != 0, seconds);
	command_put(f, command);
	fprintf(f, "\" time=\"%.3f\"", seconds);
	if (!status) {
		fputs("/>\n", f);
	} else {
		fputs("><failure type=\"failed\" message=\"", f);
		xml_text(f, str(j, "ended"));
		if (!strcmp(str(j, "ended"), "exit status 0")) {
			snprintf(text, sizeof(text), "%s%s: rdmad-run's exit status is %lld",
				 !json_is_true(json_object_get(j, "leaks_known")) ? "; what was left is not known"
				 : json_array_size(leaks)                         ? "; verbs objects left"
										  : "",
				 json_is_true(json_object_get(j, "misuse")) ? "; misuse found" : "", status);
			xml_text(f, text);
		}
		fputs("\">", f);
		xml_text(f, why ? why : "");
		fputs("</failure></testcase>\n", f);
	}
	fputs(" </testsuite>\n</testsuites>\n", f);
}
