/* SPDX-License-Identifier: MIT */
/* sweep_case.c - one case: rdmad-run with its rules, in a network namespace of its own, and what its report says of it. */
#include "config.h"

#include "field.h"
#include "say.h"
#include "space.h"
#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- its directory -------------------------------------------------------------- */

char *case_file(const struct sweep *s, const struct sweep_case *c, const char *below, const char *name)
{
	char id[16] = "clean", *path = NULL;

	if (c->id)
		snprintf(id, sizeof(id), "%04u", c->id);
	if (asprintf(&path, "%s/%s%s%s%s%s", s->dir, id, *below ? "/" : "", below, *name ? "/" : "", name) < 0)
		abort();
	return path;
}

bool case_is_ours(const struct sweep *s, const char *name)
{
	char *path = NULL, text[sizeof(SWEEP_MARK)] = "";
	ssize_t n;
	int fd;

	if (asprintf(&path, "%s/%s/rules.yaml", s->dir, name) < 0)
		abort();
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	free(path);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 && !strcmp(text, SWEEP_MARK);
}

/* The mark goes last: what is left of a sweep that was killed here is still its own. */
static int one_remove(const char *path, const struct stat *, int, struct FTW *at)
{
	if (at->level == 0 || (at->level == 1 && !strcmp(path + at->base, "rules.yaml")))
		return 0;
	remove(path); /* and on, whatever came of it */
	return 0;
}

void case_remove(const struct sweep *s, const struct sweep_case *c, const char *below)
{
	char *top = case_file(s, c, "", ""), *dir = case_file(s, c, below, ""),
	     *mark = case_file(s, c, below, "rules.yaml");

	if (case_is_ours(s, top + strlen(s->dir) + 1)) {
		nftw(dir, one_remove, 16, FTW_DEPTH | FTW_PHYS);
		remove(mark);
		remove(dir);
	}
	free(top);
	free(dir);
	free(mark);
}

/* ---- its command --------------------------------------------------------------------- */

struct words {
	char **v;
	size_t n;
};

static void word_add(struct words *w, const char *text)
{
	w->v = realloc(w->v, (w->n + 2) * sizeof(*w->v));
	if (!w->v || !(w->v[w->n] = strdup(text)))
		abort();
	w->v[++w->n] = NULL;
}

static void words_free(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
}

static void profile_put(struct words *w, const struct options *opt)
{
	char *text;

	if (!opt->profile)
		return;
	if (asprintf(&text, "--as=%s%s%s", opt->profile, opt->profile_file ? ":" : "",
		     opt->profile_file ? opt->profile_file : "") < 0)
		abort();
	word_add(w, text);
	free(text);
}

/* Up to the program: what the user gave us for it, and what the case needs. */
static void words_put(struct words *w, const struct sweep *s, const char *name, double limit_s, const char *rules)
{
	char text[64];

	word_add(w, name);
	word_add(w, "--own");
	profile_put(w, s->opt);
	for (unsigned i = 0; i < s->opt->daemon_arg_n; i++) {
		word_add(w, "--daemon-arg");
		word_add(w, s->opt->daemon_args[i]);
	}
	if (s->opt->rsockets)
		word_add(w, "--rsockets");
	if (s->opt->sysfs) {
		snprintf(text, sizeof(text), "--sysfs=%s", sysfs_ways[s->opt->sysfs]);
		word_add(w, text);
	}
	snprintf(text, sizeof(text), "%.4g", limit_s);
	word_add(w, "--timeout");
	word_add(w, text);
	word_add(w, "--fault");
	word_add(w, rules);
}

/* For a shell. */
static void quoted_put(FILE *f, const char *word)
{
	if (*word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%")]) {
		fputs(word, f);
		return;
	}
	fputc('\'', f);
	for (; *word; word++)
		if (*word == '\'')
			fputs("'\\''", f);
		else
			fputc(*word, f);
	fputc('\'', f);
}

char *case_command(const struct sweep *s, const struct sweep_case *c)
{
	const struct sweep_case clean = { 0 };
	char *text = NULL, *rules = case_file(s, c, "", "rules.yaml"), *out = case_file(s, &clean, "", "stdout");
	struct words w = { 0 };
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		abort();
	words_put(&w, s, s->name, c->result == SWEEP_SLOW ? s->slow_s : s->limit_s, rules);
	for (char **a = s->argv; *a; a++)
		word_add(&w, *a);
	for (size_t i = 0; i < w.n; i++) {
		if (i)
			fputc(' ', f);
		quoted_put(f, w.v[i]);
	}
	if (c->result == SWEEP_CORRUPT || (c->result == SWEEP_UNSTEADY && s->opt->sweep.same_output)) {
		fputs(" | cmp - ", f);
		quoted_put(f, out);
	}
	fclose(f);
	words_free(&w);
	free(rules);
	free(out);
	return text;
}

/* ---- its run ------------------------------------------------------------------------------ */

static int file_open(const struct sweep *s, const struct sweep_case *c, const char *below, const char *name)
{
	char *path = case_file(s, c, below, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0)
		say("--report %s: %s", path, strerror(errno));
	free(path);
	return fd;
}

/* In the child. */
static void become(const struct sweep *s, const struct words *w, int out, int err)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const char *wrong = NULL;
	sigset_t none;

	dup2(null, 0);
	dup2(out, 1);
	dup2(err, 2);
	setpgid(0, 0); /* the terminal's signals are for us, and what the program leaves behind can be found */
	if (s->apart && (wrong = space_new(CLONE_NEWNET)) == NULL)
		wrong = space_loopback();
	if (wrong) {
		say("--sweep: no network namespace: %s", wrong);
		_exit(RUN_FAILED);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv(s->self, w->v);
	say("cannot run %s: %s", s->self, strerror(errno));
	_exit(RUN_FAILED);
}

bool case_start(struct sweep *s, struct sweep_case *c, const char *below)
{
	char *dir, *rules, *at;
	struct words w = { 0 };
	bool good;
	int out, err;

	case_remove(s, c, below);
	dir = case_file(s, c, below, "");
	rules = case_file(s, c, below, "rules.yaml");
	at = case_file(s, c, below, "");
	good = !mkdir(dir, 0777);
	if (!good)
		say("--report %s: %s", dir, strerror(errno));
	if (good) {
		good = c->id ? plan_rules(c, rules) : plan_note(rules);
		if (!good)
			remove(rules);
	}
	out = good ? file_open(s, c, below, "stdout") : -1;
	err = good ? file_open(s, c, below, "stderr") : -1;
	if (out >= 0 && err >= 0) {
		words_put(&w, s, s->name, s->limit_s, rules);
		word_add(&w, "--report");
		word_add(&w, at);
		for (char **a = s->argv; *a; a++)
			word_add(&w, *a);
		c->pid = fork();
		if (c->pid == 0)
			become(s, &w, out, err);
		if (c->pid < 0)
			say("--sweep: no process for %s: %s", dir, strerror(errno));
		else
			setpgid(c->pid, c->pid); /* it does so itself, too: whoever comes first */
	}
	good = out >= 0 && err >= 0 && c->pid > 0;
	if (!good)
		s->broken = errno ? errno : EIO;
	if (out >= 0)
		close(out);
	if (err >= 0)
		close(err);
	if (!good) {
		case_remove(s, c, below);
		rmdir(dir);
	}
	words_free(&w);
	free(dir);
	free(rules);
	free(at);
	return good;
}

/* ---- what became of it -------------------------------------------------------------------- */

static json_t *json_of(const struct sweep *s, const struct sweep_case *c, const char *below, const char *name)
{
	char *path = case_file(s, c, below, name);
	json_t *j = json_load_file(path, 0, NULL);

	free(path);
	return j;
}

enum met { MET_NOT, MET_ALL, MET_UNKNOWN };

/* Has each rule met its packet? */
static enum met met_of(const struct sweep *s, const struct sweep_case *c, const char *below)
{
	json_t *j = json_of(s, c, below, "rules.json"), *list = json_object_get(j, "rules"), *r;
	bool known = json_is_array(list);
	unsigned met = 0;
	size_t i;

	json_array_foreach(list, i, r) met += num(r, "hits") > 0;
	json_decref(j);
	if (!c->id || met == c->n)
		return MET_ALL;
	return known ? MET_NOT : MET_UNKNOWN;
}

bool case_same_output(const struct sweep *s, const struct sweep_case *c, const char *below)
{
	const struct sweep_case clean = { 0 };
	char *path[2] = { case_file(s, &clean, "", "stdout"), case_file(s, c, below, "stdout") };
	FILE *f[2] = { fopen(path[0], "re"), fopen(path[1], "re") };
	int a = f[0] && f[1] ? 0 : -1, b = 0;

	while (a == b && a != EOF) {
		a = getc(f[0]);
		b = getc(f[1]);
	}
	for (unsigned i = 0; i < 2; i++) {
		if (f[i])
			fclose(f[i]);
		free(path[i]);
	}
	return a == b;
}

/* The last line that the program of the case said, its beginning if it is long. */
static void last_line(const struct sweep *s, const struct sweep_case *c, const char *below, char *line, size_t len)
{
	char *path = case_file(s, c, below, "stderr");
	FILE *f = fopen(path, "re");
	bool begins = true;
	char part[256];

	line[0] = '\0';
	for (; f && fgets(part, sizeof(part), f); begins = strchr(part, '\n'))
		if (begins)
			snprintf(line, len, "%.*s", (int)strcspn(part, "\n"), part);
	if (f)
		fclose(f);
	free(path);
}

/* The first line of why.txt that tells of the program; our own rule is known.  Or the program's last words. */
static void why_read(const struct sweep *s, struct sweep_case *c, const char *below)
{
	char *path = case_file(s, c, below, "why.txt"), line[sizeof(c->why)];
	FILE *f = fopen(path, "re");

	c->why[0] = '\0';
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "what went wrong", 15)) /* says more than the waits before it */
			c->why[0] = '\0';
		if (!c->why[0] && line[0] == ' ' && strncmp(line, "  rule ", 7) != 0)
			snprintf(c->why, sizeof(c->why), "%s", line + strspn(line, " "));
	}
	if (f)
		fclose(f);
	free(path);
	if (!c->why[0])
		last_line(s, c, below, c->why, sizeof(c->why));
}

/* The last line of stderr is why rdmad-run failed. */
static void error_read(const struct sweep *s, struct sweep_case *c, const char *below, int status)
{
	char line[sizeof(c->detail)];

	last_line(s, c, below, line, sizeof(line));
	if (WIFSIGNALED(status))
		snprintf(c->detail, sizeof(c->detail), "rdmad-run was killed by signal %d", WTERMSIG(status));
	else
		snprintf(c->detail, sizeof(c->detail), "%s", line[0] ? line : "rdmad-run has left no report");
}

static enum sweep_result result_of(const struct sweep *s, struct sweep_case *c, const char *below, const json_t *j)
{
	char *text = c->detail;
	size_t len = sizeof(c->detail);

	text[0] = '\0';
	if (!json_is_true(json_object_get(j, "daemon_alive"))) {
		snprintf(text, len, "rdmad itself died");
		return SWEEP_FAILED;
	}
	if (json_is_true(json_object_get(j, "timed_out"))) {
		snprintf(text, len, "no end after %.3g s", s->limit_s);
		return SWEEP_HUNG;
	}
	if (num(j, "exit_status")) {
		snprintf(text, len, "%s", str(j, "ended"));
		return SWEEP_FAILED;
	}
	if (c->id && s->opt->sweep.same_output && !case_same_output(s, c, below)) {
		snprintf(text, len, "its output differs");
		return SWEEP_CORRUPT;
	}
	if (c->id && c->seconds > s->slow_s) {
		snprintf(text, len, "%.3g s instead of %.2g s", c->seconds, s->clean_s);
		return SWEEP_SLOW;
	}
	return SWEEP_OK;
}

void case_judge(const struct sweep *s, struct sweep_case *c, const char *below, int status)
{
	json_t *j = json_of(s, c, below, "report.json");
	enum met met;
	size_t at;

	c->pid = 0;
	if (!j) {
		c->result = SWEEP_ERROR;
		error_read(s, c, below, status);
		return;
	}
	c->seconds = json_real_value(json_object_get(j, "seconds"));
	c->result = result_of(s, c, below, j);
	why_read(s, c, below);
	json_decref(j);
	met = met_of(s, c, below);
	if (met == MET_UNKNOWN && c->result == SWEEP_OK) {
		c->result = SWEEP_ERROR;
		snprintf(c->detail, sizeof(c->detail), "rdmad-run has left no rules.json");
	}
	if (met != MET_NOT) /* a daemon that died tells nothing, and is a finding by itself */
		return;
	at = strlen(c->detail);
	if (c->result != SWEEP_OK)
		snprintf(c->detail + at, sizeof(c->detail) - at, ", though the packet did not come");
	c->result = c->result == SWEEP_OK ? SWEEP_MISSED : SWEEP_UNSTEADY;
}
