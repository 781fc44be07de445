/* SPDX-License-Identifier: MIT */
/* report.c - asks the daemon when the program has ended, and picks out what belongs to the program. */
#include "config.h"

#include "field.h"
#include "report.h"
#include "say.h"
#include "tape.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdmad/msg.h>
#include <rdmad/sock.h>

#define SETTLE_MS       2000 /* for the daemon to notice that the program has gone */
#define END_PATIENCE_MS 1000 /* for a killed daemon to be gone */

static const char *const files[] = { "report.txt", "report.json", "daemon.log", "stats-before.json", "stats-after.json",
				     "qps.json",   "why.txt",     "why.json",   "rules.txt",         "rules.json",
				     "junit.xml",  "replay.txt",  "check.txt" };

/* ---- files ------------------------------------------------------------------------- */

char *report_file(const struct options *opt, const char *name)
{
	char *path = NULL;

	if (asprintf(&path, "%s/%s", opt->report, name) < 0)
		abort();
	return path;
}

bool report_place(const struct options *opt)
{
	bool good = true;

	if (mkdir(opt->report, 0777) && errno != EEXIST) {
		say("--report %s: %s", opt->report, strerror(errno));
		return false;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && good; i++) {
		char *path = report_file(opt, files[i]);

		good = !unlink(path) || errno == ENOENT;
		if (!good)
			say("--report %s: cannot remove the old one: %s", path, strerror(errno));
		free(path);
	}
	if (good && access(opt->report, W_OK | X_OK)) {
		say("--report %s: cannot write there: %s", opt->report, strerror(errno));
		good = false;
	}
	return good;
}

static void put_json(const struct report *r, const char *name, const json_t *j)
{
	char *path = report_file(r->opt, name);
	FILE *f = j ? fopen(path, "we") : NULL;

	if (f) {
		json_dumpf(j, f, JSON_INDENT(1));
		fputc('\n', f);
	}
	if (j && (!f || fclose(f)))
		say_lost("--report %s: %s", path, strerror(errno));
	free(path);
}

/* ---- what is ours -------------------------------------------------------------------- */

/* Of who was turned away the daemon knows nothing; by one of our own it was ours. */
static bool is_ours(const struct report *r, const json_t *row)
{
	json_t *run;
	size_t i;

	json_array_foreach(json_object_get(row, "runs"), i,
			   run) if ((uint64_t)json_integer_value(run) == r->opt->run) return true;
	return r->opt->own && !strcmp(str(row, "cause"), "NOT_SERVED");
}

json_t *report_ours(const struct report *r, const json_t *list)
{
	json_t *out = json_array(), *row;
	size_t i;

	json_array_foreach(list, i, row) if (is_ours(r, row)) json_array_append(out, row);
	return out;
}

/* Contexts whose process is gone will end as soon as the daemon looks. */
static bool settled(const json_t *live)
{
	json_t *row;
	size_t i;

	json_array_foreach(live, i, row) if (kill((pid_t)num(row, "pid"), 0) && errno == ESRCH) return false;
	return true;
}

static json_t *ends_get(const struct report *r)
{
	struct timespec pause = { .tv_nsec = 5000000 };
	json_t *ends = NULL, *live = NULL;

	for (unsigned i = 0; i < SETTLE_MS / 5; i++) {
		json_decref(live);
		json_decref(ends);
		ends = hold_dump(r->daemon, DUMP_ENDS);
		live = ends ? report_ours(r, json_object_get(ends, "live")) : NULL;
		if (!ends || settled(live))
			break;
		nanosleep(&pause, NULL);
	}
	json_decref(live);
	return ends;
}

/* ---- the report ---------------------------------------------------------------------------- */

static void ended_text(char *buf, size_t len, const struct outcome *o)
{
	if (o->timed_out)
		snprintf(buf, len, "time was up: ended by rdmad-run");
	else if (WIFSIGNALED(o->status))
		snprintf(buf, len, "killed by signal %d (%s)", WTERMSIG(o->status), strsignal(WTERMSIG(o->status)));
	else
		snprintf(buf, len, "exit status %d", WEXITSTATUS(o->status));
}

/* Counters of a device that differ, from the stats of before and after. */
static json_t *changes(const json_t *before, const json_t *after)
{
	json_t *out = json_object(), *dev, *v;
	const char *key;
	size_t i;

	json_array_foreach(json_object_get(after, "devices"), i, dev)
	{
		const json_t *was = json_object_get(json_array_get(json_object_get(before, "devices"), i), "counters");
		json_t *diff = json_object();

		json_object_foreach(json_object_get(dev, "counters"), key,
				    v) if (json_integer_value(v) != num(was, key))
			json_object_set_new(diff, key, json_integer(json_integer_value(v) - num(was, key)));
		json_object_set_new(out, str(dev, "name"), diff);
	}
	return out;
}

static void left_add(pid_t pid, void *list)
{
	char name[32];

	watch_name(pid, name);
	if (!watch_is_helper(name) &&
	    strcmp(name, "rdmad-run")) /* not those of an rdmad-run below: they end by themselves */
		json_array_append_new(list, json_pack("{s:i s:o}", "pid", (int)pid, "name", text_json(name)));
}

static json_t *words(char **argv)
{
	json_t *list = json_array();

	for (; *argv; argv++)
		json_array_append_new(list, text_json(*argv));
	return list;
}

static int daemon_pidfd(int daemon)
{
	struct ucred is = { 0 };
	socklen_t len = sizeof(is);

	return getsockopt(daemon, SOL_SOCKET, SO_PEERCRED, &is, &len) ? -1 : (int)syscall(SYS_pidfd_open, is.pid, 0);
}

/*
 * A process that is being killed closes its connections one by one before it has ended: its end is waited for, briefly.
 * Where its number means nothing here, the socket is asked; somebody else may listen there by now.
 */
static bool daemon_lives(const struct report *r)
{
	struct pollfd end = { .fd = r->pidfd, .events = POLLIN };
	struct ucred was = { 0 }, is = { 0 };
	socklen_t len = sizeof(was);
	int fd;

	if (r->pidfd >= 0)
		return poll(&end, 1, END_PATIENCE_MS) <= 0;
	fd = sock_connect(r->addr, 1, &is);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && !getsockopt(r->daemon, SOL_SOCKET, SO_PEERCRED, &was, &len) && was.pid == is.pid;
}

static json_t *report_json(const struct report *r, const struct outcome *o, int status, const json_t *ends,
			   json_t *leaks, json_t *after)
{
	char text[128];
	json_t *left = json_array(), *j;

	ended_text(text, sizeof(text), o);
	watch_left(left_add, left);
	j = json_pack("{s:o s:s s:i s:b s:f s:o s:b}", "command", words(r->argv), "ended", text, "exit_status", status,
		      "timed_out", (int)o->timed_out, "seconds", (double)o->took_ms / 1000, "daemon",
		      text_json(r->addr), "daemon_alive", (int)r->alive);
	json_object_set_new(j, "daemon_answers", json_boolean(ends));
	json_object_set_new(j, "signal",
			    WIFSIGNALED(o->status) && !o->timed_out ? json_integer(WTERMSIG(o->status)) : json_null());
	json_object_set(j, "leaks", leaks);
	json_object_set_new(j, "leaks_known", json_boolean(ends));
	json_object_set_new(j, "leaks_forgotten", json_integer(r->lost));
	json_object_set_new(j, "misuse", json_boolean(r->misuse));
	json_object_set_new(j, "processes_left", left);
	json_object_set_new(j, "processes_ended", r->ended ? json_incref(r->ended) : json_array());
	json_object_set_new(j, "counters", changes(r->before, after));
	return j;
}

static void report_text(const struct report *r, FILE *f, const json_t *j, const json_t *qps, const json_t *rules)
{
	json_t *row, *v;
	const char *key, *name;
	size_t i;

	fputs("program:", f);
	json_array_foreach(json_object_get(j, "command"), i, row) fprintf(f, " %s", json_string_value(row));
	fprintf(f, "\nended:   %s, after %.3f s (rdmad-run's exit status: %lld)\ndaemon:  %s%s%s\n", str(j, "ended"),
		json_real_value(json_object_get(j, "seconds")), num(j, "exit_status"), r->addr,
		!r->alive                                            ? ", which DIED before the program's end: see "
		: json_is_true(json_object_get(j, "daemon_answers")) ? ""
								     : ", which lives, but DOES NOT ANSWER",
		!r->alive ? r->opt->log : "");
	rules_put(f, rules);
	if (r->misuse)
		fputs("check:   misuse of verbs was found: see check.txt\n", f);
	fprintf(f, "\nleft undestroyed%s\n",
		!json_is_true(json_object_get(j, "leaks_known"))          ? ": not known"
		: json_array_size(json_object_get(j, "leaks")) || r->lost ? ":"
									  : ": nothing");
	json_array_foreach(json_object_get(j, "leaks"), i, row)
	{
		fputs("  ", f);
		leak_show(f, row, qps);
	}
	if (r->lost)
		fputs("  ", f);
	leaks_lost_show(f, r->lost);
	json_array_foreach(json_object_get(j, "processes_left"), i, row)
		fprintf(f, "still running: %s (pid %lld)\n", str(row, "name"), num(row, "pid"));
	json_array_foreach(json_object_get(j, "processes_ended"), i, row)
		fprintf(f, "outlived the program, and was ended: %s (pid %lld)\n", str(row, "name"), num(row, "pid"));
	json_object_foreach(json_object_get(j, "counters"), name, row)
	{
		fprintf(f, "\ncounters of %s that changed\n", name);
		json_object_foreach(row, key, v) fprintf(f, "  %-24s %+lld\n", key, (long long)json_integer_value(v));
	}
	fputs("\nqueue pairs at their end\n", f);
	json_array_foreach(qps, i, row) fprintf(
		f,
		"  %#llx  %s, %s%s, %s (pid %lld), peer %s %#llx, %lld bytes out, %lld in, %lld packets sent again\n",
		num(row, "qpn"), str(row, "type"), str(row, "state"),
		json_is_true(json_object_get(row, "live"))   ? ", open still"
		: json_is_true(json_object_get(row, "left")) ? ", left"
							     : "",
		str(row, "program"), num(row, "pid"), *str(row, "peer") ? str(row, "peer") : "none",
		num(row, "dest_qpn"), num(row, "tx_bytes"), num(row, "rx_bytes"), num(row, "retrans"));
}

static void report_write(const struct report *r, const json_t *j, const json_t *qps, const json_t *after,
			 const json_t *rules)
{
	char *path = report_file(r->opt, "report.txt"), *log = report_file(r->opt, "daemon.log");
	FILE *f = fopen(path, "we");
	struct stat st;

	put_json(r, "report.json", j);
	put_json(r, "stats-before.json", r->before);
	put_json(r, "stats-after.json", after);
	put_json(r, "qps.json", qps);
	if (f)
		report_text(r, f, j, qps, rules);
	if (!f || fclose(f))
		say_lost("--report %s: %s", path, strerror(errno));
	if (!stat(log, &st) && !st.st_size)
		unlink(log); /* the daemon ran already: we do not have its log */
	free(path);
	free(log);
}

/* Queue pairs that are no more, and those of processes that still run. */
static json_t *qps_get(const struct report *r, const json_t *ends)
{
	json_t *list = report_ours(r, json_object_get(ends, "qps")), *all = hold_dump(r->daemon, DUMP_QPS), *live, *q;
	size_t i;

	live = report_ours(r, json_object_get(all, "qps"));
	json_array_foreach(live, i, q) json_object_set_new(q, "live", json_true());
	json_array_extend(list, live);
	json_decref(live);
	json_decref(all);
	return list;
}

/* Asks the daemon what went wrong for this run. */
static json_t *causes_get(const struct report *r)
{
	json_t *all = hold_dump(r->daemon, DUMP_WHY), *mine = report_ours(r, json_object_get(all, "causes"));

	json_decref(all);
	return mine;
}

static void causes_write(const struct report *r, const json_t *causes, const struct outcome *o)
{
	char *path;
	FILE *f;

	if (!explain_wrong(causes) && !o->timed_out)
		return;
	put_json(r, "why.json", causes);
	path = report_file(r->opt, "why.txt");
	f = fopen(path, "we");
	if (f)
		explain_put(f, causes, r->waits, o);
	if (!f || fclose(f))
		say_lost("--report %s: %s", path, strerror(errno));
	free(path);
}

static void junit_write(const struct report *r, const json_t *j, const json_t *causes, const struct outcome *o)
{
	char *path = report_file(r->opt, "junit.xml"), *why = NULL;
	size_t len;
	FILE *f = open_memstream(&why, &len);

	if (f) {
		if (explain_wrong(causes) || o->timed_out)
			explain_put(f, causes, r->waits, o);
		fclose(f);
	}
	f = fopen(path, "we");
	if (f)
		junit_put(f, j, why);
	if (!f || fclose(f))
		say_lost("--report %s: %s", path, strerror(errno));
	free(why);
	free(path);
}

bool report_begin(struct report *r, const struct options *opt, const char *addr, char **argv)
{
	*r = (struct report){ .opt = opt, .addr = addr, .argv = argv, .daemon = hold_look(addr) };
	if (r->daemon < 0)
		return false;
	r->pidfd = daemon_pidfd(r->daemon);
	r->before = hold_dump(r->daemon, DUMP_STATS);
	return true;
}

void report_outlived(pid_t pid, const char *name, void *arg)
{
	struct report *r = arg;

	say("%s (pid %d) has outlived the program by %.1f s (--grace), and is ended", name, (int)pid,
	    (double)r->opt->grace_ms / 1000);
	r->ended = r->ended ? r->ended : json_array();
	json_array_append_new(r->ended, json_pack("{s:i s:o}", "pid", (int)pid, "name", text_json(name)));
}

void report_time_up(void *arg)
{
	struct report *r = arg;
	json_t *all = hold_dump(r->daemon, DUMP_WHY);

	r->waits = report_ours(r, json_object_get(all, "waits"));
	json_decref(all);
}

/* All that the daemon knew at the end. */
struct known {
	json_t *ends, *after, *leaks, *qps, *causes, *rules;
};

static void known_get(struct report *r, struct known *k)
{
	k->ends = ends_get(r);
	k->after = hold_dump(r->daemon, DUMP_STATS);
	k->leaks = leaks_of(r, k->ends);
	k->qps = qps_get(r, k->ends);
	k->causes = causes_get(r);
	k->rules = hold_dump(r->daemon, DUMP_IMPAIR);
	r->lost = leaks_lost(r, k->ends);
	r->alive = k->ends || daemon_lives(r);
	r->misuse = check_found(r->opt);
}

static void known_free(struct known *k)
{
	json_decref(k->ends);
	json_decref(k->after);
	json_decref(k->leaks);
	json_decref(k->qps);
	json_decref(k->causes);
	json_decref(k->rules);
}

static int status_of(const struct report *r, const struct outcome *o, const struct known *k)
{
	int status = outcome_status(o);

	if (!status && r->opt->leaks && (!k->ends || json_array_size(k->leaks) || r->lost))
		status = r->opt->leak_status;
	if (!status && r->misuse)
		status = r->opt->check_status;
	return !status && said_lost() ? RUN_FAILED : status;
}

static void files_write(const struct report *r, const struct outcome *o, const struct known *k, int status)
{
	json_t *j = report_json(r, o, status, k->ends, k->leaks, k->after);

	report_write(r, j, k->qps, k->after, k->rules);
	causes_write(r, k->causes, o);
	junit_write(r, j, k->causes, o);
	if (rules_write(r->opt, k->rules))
		put_json(r, "rules.json", k->rules);
	json_decref(j);
}

static void say_all(const struct report *r, const struct outcome *o, const struct known *k)
{
	json_t *ctx;
	size_t i;

	if (!k->ends)
		say(r->alive ? "the daemon at %s does not answer: what it knows of the program is not told"
			     : "the daemon at %s died before the program's end; what it knew of the program is lost",
		    r->addr);
	if (r->opt->explain)
		explain_put(stderr, k->causes, r->waits, o);
	if (!r->opt->leaks)
		return;
	if (!k->ends)
		say("what the program left undestroyed is not known");
	json_array_foreach(k->leaks, i, ctx)
	{
		fputs("rdmad-run: ", stderr);
		leak_show(stderr, ctx, k->qps);
	}
	if (r->lost)
		fputs("rdmad-run: ", stderr);
	leaks_lost_show(stderr, r->lost);
}

int report_end(struct report *r, const struct outcome *o)
{
	struct known k;
	bool lost;
	int status;

	known_get(r, &k);
	status = status_of(r, o, &k);
	if (r->opt->report) /* the files first: nobody may read what is said */
		files_write(r, o, &k, status);
	lost = said_lost();
	if (r->opt->record || r->opt->replay)
		tape_end(r->opt, r->argv, k.rules, status);
	if (r->opt->report && !lost && said_lost()) /* the recording: the files have the status of before */
		files_write(r, o, &k, status_of(r, o, &k));
	say_all(r, o, &k);
	known_free(&k);
	json_decref(r->waits);
	json_decref(r->ended);
	json_decref(r->before);
	close(r->daemon);
	if (r->pidfd >= 0)
		close(r->pidfd);
	return !status && said_lost() ? RUN_FAILED : status;
}
