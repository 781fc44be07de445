/* SPDX-License-Identifier: MIT */
/*
 * check.c - --check and --trace: what librdmad-calls.so is told, and what it has found.
 *
 *	RDMAD_CHECK=1, RDMAD_CHECK_LOG		look for misuse; findings go to that file, too, and to standard error
 *	RDMAD_TRACE, RDMAD_TRACE_FILE		which calls get a line, and where that goes
 */
#include "config.h"

#include "report.h"
#include "run.h"
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *outer_log; /* of a rdmad-run around us, or NULL */
static char *temporary; /* goes with us, whatever becomes of the program */

char *path_absolute(const char *path)
{
	char dir[PATH_MAX], *all;

	if (*path == '/' || !getcwd(dir, sizeof(dir)))
		return strdup(path);
	return asprintf(&all, "%s/%s", dir, path) < 0 ? NULL : all;
}

static void temporary_remove(void) { unlink(temporary); }

/* A new file: DIR/check.txt of the report, or one that goes with us. */
static char *log_make(const struct options *opt)
{
	const char *tmp = getenv("TMPDIR");
	char *path, *full;
	int fd;

	if (opt->report)
		path = report_file(opt, "check.txt");
	else if (asprintf(&path, "%s/rdmad-check.XXXXXX", tmp && *tmp ? tmp : "/tmp") < 0)
		abort();
	fd = opt->report ? -1 : mkstemp(path);
	if (fd < 0 && !opt->report) {
		say("--check: cannot make %s: %s", path, strerror(errno));
		return NULL;
	}
	if (fd >= 0)
		close(fd);
	full = path_absolute(path);
	if (!full)
		abort();
	free(path);
	if (!opt->report) {
		temporary = full;
		atexit(temporary_remove);
	}
	return full;
}

static bool is_writable(const char *file)
{
	FILE *f = fopen(file, "ae");

	return f && !fclose(f);
}

/* The inherited value stays if nothing was asked for: it is that of a rdmad-run around us. */
static void env_put(const char *name, const char *value)
{
	if (value && setenv(name, value, 1))
		abort();
}

bool check_prepare(const struct install *in, struct options *opt)
{
	char *file = opt->trace_file ? path_absolute(opt->trace_file) : NULL;

	if (!opt->check && !opt->trace)
		return true;
	if (!preload_can(opt->check ? "--check" : "--trace", in->call_lib, "librdmad-calls.so"))
		return false;
	if (file && !is_writable(file)) {
		say("--trace-file %s: %s", file, strerror(errno));
		return false;
	}
	outer_log = getenv("RDMAD_CHECK_LOG");
	outer_log = outer_log ? strdup(outer_log) : NULL;
	if ((opt->check_status || (opt->check && opt->report)) && !(opt->check_log = log_make(opt)))
		return false;
	env_put("RDMAD_CHECK", opt->check ? "1" : NULL);
	env_put("RDMAD_CHECK_LOG", opt->check_log);
	env_put("RDMAD_TRACE", opt->trace);
	env_put("RDMAD_TRACE_FILE", file);
	free(file);
	return true;
}

bool check_found(const struct options *opt)
{
	struct stat st;

	return opt->check_log && !stat(opt->check_log, &st) && st.st_size;
}

/* Our findings are also those of a rdmad-run around us. */
static void log_pass_on(const char *from, const char *to)
{
	FILE *in = fopen(from, "re"), *out = fopen(to, "ae");
	char text[4096];
	size_t n;

	while (in && out && (n = fread(text, 1, sizeof(text), in)) > 0)
		fwrite(text, 1, n, out);
	if (in)
		fclose(in);
	if (out)
		fclose(out);
}

void check_end(const struct options *opt)
{
	if (check_found(opt) && outer_log && *outer_log)
		log_pass_on(opt->check_log, outer_log);
}
