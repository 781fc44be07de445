/* SPDX-License-Identifier: MIT */
/*
 * capture.c - fuzz target: any bytes as a capture, for all that reads captures: check and ladder of rdmactl.  What they print as
 * JSON is JSON.
 */
#include <string.h>

#include <jansson.h>

#include "ctl/command.h"
#include "ctl/ladder_live.h"
#include "ctl/show.h"
#include "file.h"

#include <getopt.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

typedef int command(int argc, char **argv, const struct ask *);

/* Its standard output, which the caller frees. */
static char *run(command *main, const char *const *words, int *status)
{
	static const struct ask ask;
	FILE *out = stdout;
	char *argv[10], *text = NULL;
	size_t len;
	int argc = 0;

	while (words[argc]) {
		argv[argc] = (char *)(uintptr_t)words[argc];
		argc++;
	}
	argv[argc] = NULL;
	stdout = open_memstream(&text, &len);
	must(stdout);
	optind = 0;
	*status = main(argc, argv, &ask);
	fclose(stdout);
	stdout = out;
	return text;
}

static void json(command *main, const char *const *words)
{
	int status;
	char *text = run(main, words, &status);
	json_t *j = json_loads(text, 0, NULL);

	must(j || !*text);
	json_decref(j);
	free(text);
}

static void text(command *main, const char *const *words)
{
	int status;

	free(run(main, words, &status));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *name = file_of(data, len);

	quiet();
	json(check_main, (const char *const[]){ "check", "-j", "-v", name, NULL });
	text(check_main, (const char *const[]){ "check", "-v", "-p", "loss,dup,reorder", name, NULL });
	json(ladder_main, (const char *const[]){ "ladder", "-j", name, name, NULL });
	text(ladder_main,
	     (const char *const[]){ "ladder", "-l", "1", "-u", "-f", "svg", "-o", "/dev/null", name, NULL });
	text(ladder_main, (const char *const[]){ "ladder", "-f", "html", "-o", "/dev/null", name, NULL });
	loud();
	return 0;
}

/* Not of files. */
int ladder_live(struct ladder *l, const struct ask *ask, const char *count, const char *seconds,
		void (*each)(void *, const struct source *, const struct pcapng_item *, uint64_t), void *arg)
{
	(void)l, (void)ask, (void)count, (void)seconds, (void)each, (void)arg;
	return 2;
}
