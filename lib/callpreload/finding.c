/* SPDX-License-Identifier: MIT */
/* finding.c - findings: told the first time, then counted. */
#include "pre.h"

#include "finding.h"

#include <fcntl.h>
#include <stdarg.h>

#include <rdmad/high.h>

#define PLACES_MAX 512 /* more are counted, and not told apart */

static const struct {
	const char *name, *advice;
} kinds[] = {
#define FINDING(id, name, advice) { name, advice },
#include "finding.def"
};

static struct place {
	enum finding_kind kind;
	void *pc[8]; /* four of each stack */
	unsigned long n;
} places[PLACES_MAX];
static size_t place_n;
static unsigned long counts[FINDINGS];
static const char *also_by;
static const struct stack *also;

/* Counts it; true: for the first time. */
static bool place_note(enum finding_kind kind, const struct stack *at, const struct stack *here)
{
	struct place p = { .kind = kind, .n = 1 };

	for (int i = 0; i < 4; i++) {
		p.pc[i] = at && i < at->n ? at->pc[i] : NULL;
		p.pc[4 + i] = i < here->n ? here->pc[i] : NULL;
	}
	counts[kind]++;
	for (size_t i = 0; i < place_n; i++)
		if (places[i].kind == kind && !memcmp(places[i].pc, p.pc, sizeof(p.pc)))
			return !places[i].n++;
	if (place_n == PLACES_MAX)
		return false;
	places[place_n++] = p;
	return true;
}

static void out_all(const char *text, size_t len)
{
	const char *log = getenv("RDMAD_CHECK_LOG");
	int fd = log && *log ? fd_high(open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644)) : -1;

	if (write(STDERR_FILENO, text, len) < 0) {
		/* nobody reads it there */
	}
	if (fd >= 0) {
		if (write(fd, text, len) < 0)
			fputs("rdmad-check: the log cannot be written\n", stderr);
		close(fd);
	}
}

/* No cancellation point: the thread has check_lock. */
static void out(const char *text, size_t len)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	out_all(text, len);
	pthread_setcancelstate(cancel, NULL);
}

void finding_also(const char *by, const struct stack *at)
{
	also_by = by;
	also = at;
}

void finding(enum finding_kind kind, const char *by, const struct stack *at, const char *fmt, ...)
{
	int err = errno;
	struct stack here;
	char *text = NULL;
	size_t len = 0;
	va_list ap;
	FILE *f;

	stack_take(&here);
	if (!place_note(kind, at, &here) || !(f = open_memstream(&text, &len))) {
		also = NULL;
		errno = err;
		return;
	}
	fprintf(f, "rdmad-check: %s (pid %d): %s: ", program_invocation_short_name, (int)getpid(), kinds[kind].name);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fputc('\n', f);
	if (at) {
		fprintf(f, "    %s\n", by);
		stack_put(f, at);
	}
	if (also) {
		fprintf(f, "    %s\n", also_by);
		stack_put(f, also);
		also = NULL;
	}
	fprintf(f, "    %s\n", at ? "found in a call by" : "called by");
	stack_put(f, &here);
	fprintf(f, "    to do: %s\n", kinds[kind].advice);
	fclose(f);
	out(text, len);
	free(text);
	errno = err;
}

bool finding_any(void) { return place_n; }

void finding_sum(const char *what)
{
	char text[1024];
	size_t n;
	const char *sep = ": ";

	n = (size_t)snprintf(text, sizeof(text), "rdmad-check: %s (pid %d): %s%s", program_invocation_short_name,
			     (int)getpid(), place_n ? "found" : "nothing found in ", place_n ? "" : what);
	for (size_t k = 0; k < FINDINGS; k++) {
		if (!counts[k])
			continue;
		n += (size_t)snprintf(text + n, sizeof(text) - n - 1, "%s%s %lu", sep, kinds[k].name, counts[k]);
		sep = ", ";
	}
	text[n++] = '\n';
	if (place_n)
		out(text, n);
	else if (write(STDERR_FILENO, text, n) < 0)
		return;
}

void finding_forget(void)
{
	place_n = 0;
	memset(counts, 0, sizeof(counts));
}
