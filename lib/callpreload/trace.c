/* SPDX-License-Identifier: MIT */
/*
 * trace.c - lines of --trace.
 *
 *	PID/TID TIME VERB(ARGUMENTS) = RESULT <MICROSECONDS>
 *
 * A line is written by one write(2) when its call has returned, so lines of threads and processes stay whole.
 */
#include "trace.h"

#include "text.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <rdmad/clock.h>
#include <rdmad/high.h>

#define LINE_LEN 1600
#define TELL_NS  1000000000u

static const char *const names[] = {
#define VERB(name, ...)        #name,
#define MAKE(type, name, ...)  #name,
#define CM(level, name, ...)   #name,
#define NONE(level, name, ...) #name,
#include "calls.def"
#define S_VERB(where, slot, name, ...)       #name,
#define S_POLL(where, slot, name, ...)       #name,
#define S_MAKE(type, where, slot, name, ...) #name,
#include "slots.def"
#define EX(name, ...) "ibv_" #name,
#define EX_ID(name)   "ibv_" #name,
#include "ex.def"
};

static bool wanted[CALLS], any;
static int fd = STDERR_FILENO;
static const char *path; /* NULL: standard error */
static dev_t dev;        /* which file fd is */
static ino_t ino;
static _Thread_local unsigned depth[2]; /* by level */
static _Thread_local pid_t tid;

static _Thread_local struct {
	enum call_id id;
	unsigned long n; /* 0: none */
	uint64_t told_ns;
	char first[200]; /* the arguments */
	size_t len;
} empties;

const char *call_name(enum call_id id) { return names[id]; }

/* One of the list; with or without ibv_ and rdma_ in front. */
static bool matches(const char *pattern, const char *name)
{
	const char *bare = !strncmp(name, "ibv_", 4) ? name + 4 : !strncmp(name, "rdma_", 5) ? name + 5 : name;

	return !fnmatch(pattern, name, 0) || !fnmatch(pattern, bare, 0);
}

static void filter(char *list)
{
	bool first = true;

	for (char *save, *p = strtok_r(list, ",", &save); p; p = strtok_r(NULL, ",", &save), first = false) {
		bool no = *p == '-';
		bool found = false;

		for (unsigned i = 0; i < CALLS; i++) {
			if (first && no)
				wanted[i] = true;
			if (!matches(p + no, names[i]))
				continue;
			wanted[i] = !no;
			found = true;
		}
		if (!found)
			fprintf(stderr, "rdmad-trace: no call has the name %s\n", p + no);
	}
	for (unsigned i = 0; i < CALLS; i++)
		any |= wanted[i];
}

static bool file_open(void)
{
	struct stat st;

	fd = fd_high(open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
	if (fd < 0 || fstat(fd, &st))
		return false;
	dev = st.st_dev;
	ino = st.st_ino;
	return true;
}

/* A program may close what it has not opened, and its own file has the number then: ours is opened once more. */
static bool is_ours(void)
{
	struct stat st;

	return !path || (!fstat(fd, &st) && st.st_dev == dev && st.st_ino == ino) || file_open();
}

void trace_init(void)
{
	const char *list = getenv("RDMAD_TRACE"), *file = getenv("RDMAD_TRACE_FILE");
	char *copy = list && *list ? strdup(list) : NULL;

	if (!copy)
		return;
	filter(copy);
	free(copy);
	if (!file || !*file)
		return;
	path = strdup(file);
	if (!path || !file_open()) {
		fprintf(stderr, "rdmad-trace: %s: %s\n", file, strerror(errno));
		any = false;
		memset(wanted, 0, sizeof(wanted));
	}
}

void trace_forked(void) { tid = 0; }

bool call_inside(void) { return depth[LEVEL_VERBS] || depth[LEVEL_CM]; }

void call_begin(struct call *c, enum call_id id, enum call_level level)
{
	c->id = id;
	c->level = level;
	c->look = !depth[level];
	c->trace = any && wanted[id] && !depth[LEVEL_VERBS] && !depth[LEVEL_CM];
	depth[level]++;
	call_go(c); /* it may not be made */
}

void call_go(struct call *c)
{
	if (!c->trace)
		return;
	clock_gettime(CLOCK_REALTIME, &c->at);
	c->begin_ns = clock_ns(CLOCK_MONOTONIC);
}

void call_made(struct call *c)
{
	c->err = errno;
	if (c->trace)
		c->took_ns = clock_ns(CLOCK_MONOTONIC) - c->begin_ns;
}

void call_end(struct call *c)
{
	depth[c->level]--;
	errno = c->err;
}

static void line_put(const struct call *c, const char *args, const char *result)
{
	char line[LINE_LEN], when[16];
	struct tm tm;
	int n;

	if (!tid)
		tid = gettid();
	localtime_r(&c->at.tv_sec, &tm);
	strftime(when, sizeof(when), "%H:%M:%S", &tm);
	n = snprintf(line, sizeof(line), "%d/%d %s.%06ld %s(%s)%s <%.2f us>\n", (int)getpid(), (int)tid, when,
		     c->at.tv_nsec / 1000, names[c->id], args, result, (double)c->took_ns / 1000);
	if (n >= (int)sizeof(line)) {
		n = sizeof(line);
		line[n - 1] = '\n';
	}
	if (!is_ours() || (write(fd, line, (size_t)n) < 0 && errno != EAGAIN && errno != EINTR)) {
		bool told = !any;

		any = false; /* standard error: nobody reads it */
		if (path && !told)
			dprintf(STDERR_FILENO, "rdmad-trace: %s: %s; the trace of process %d ends here\n", path,
				strerror(errno), (int)getpid());
	}
}

static _Thread_local bool writing;

/* No cancellation point, as most verbs are none. */
static void line_out(const struct call *c, const char *args, const char *result)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	writing = true;
	line_put(c, args, result);
	writing = false;
	pthread_setcancelstate(cancel, NULL);
}

/* Empty polls that were counted are told before the next line of the thread, each second, and at the end. */
static void empties_out(const struct call *c)
{
	struct call was = *c;
	char result[48];

	if (!empties.n)
		return;
	was.id = empties.id;
	was.took_ns = 0;
	snprintf(result, sizeof(result), " = nothing, %lu times more", empties.n);
	line_out(&was, empties.first, result);
	empties.n = 0;
}

void trace_end(void)
{
	struct call c = { .id = empties.id };

	if (!any || writing) /* exit() in a handler: the C library may have a lock */
		return;
	clock_gettime(CLOCK_REALTIME, &c.at);
	empties_out(&c);
}

static void error_text(char *to, size_t len, int r, int err) { snprintf(to, len, " = %d (%s)", r, errno_text(err)); }

static void result_text(const struct call *c, enum result kind, intptr_t r, char *to, size_t len)
{
	to[0] = 0;
	switch (kind) {
	case RESULT_NONE: break;
	case RESULT_PTR:
		if (r)
			snprintf(to, len, " = %p", (void *)r);
		else
			snprintf(to, len, " = NULL (%s)", errno_text(c->err));
		break;
	case RESULT_INT: snprintf(to, len, " = %d", (int)r); break;
	case RESULT_ERR:
		if (r)
			error_text(to, len, (int)r, r > 0 ? (int)r : c->err);
		else
			snprintf(to, len, " = 0");
	}
}

void call_line(struct call *c, enum result kind, intptr_t r, bool empty, const char *fmt, ...)
{
	char args[LINE_LEN], result[96];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(args, sizeof(args), fmt, ap);
	va_end(ap);
	if (empty && empties.len && empties.id == c->id && n < (int)sizeof(empties.first) &&
	    !strcmp(args, empties.first)) {
		empties.n++;
		if (c->begin_ns - empties.told_ns >= TELL_NS) {
			empties_out(c);
			empties.told_ns = c->begin_ns;
		}
		return;
	}
	empties_out(c);
	empties.len = 0;
	if (empty && n < (int)sizeof(empties.first)) {
		memcpy(empties.first, args, (size_t)n + 1);
		empties.len = (size_t)n;
		empties.id = c->id;
		empties.told_ns = c->begin_ns;
	}
	result_text(c, kind, r, result, sizeof(result));
	line_out(c, args, result);
}
