/* SPDX-License-Identifier: MIT */
/* tape.c - packets of a run: from the daemon's list of decisions, to a file, and from it. */
#include "config.h"

#include "field.h"
#include "report.h"
#include "say.h"
#include "tape.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAPE_NOTED 4000 /* the daemon remembers 4096 decisions */
#define TAPE_KEY   "rdmad_recording"
#define TAPE_FORM  1

/* Rules that note the packets that are to be on a tape. */
static void tape_rules(FILE *f)
{
	static const char *const match[] = { "path: local", "path: wire, direction: both" };

	for (unsigned i = 0; i < 2; i++) /* within the daemon a packet that left has arrived */
		fprintf(f, "- name: %s\n  match: {%s}\n  when: {nth: 1..%d}\n  do: note\n", TAPE_NAME, match[i],
			TAPE_NOTED);
}

/* ---- from the list of decisions ----------------------------------------------------- */

static bool is_ours(const json_t *rules, long long id)
{
	json_t *r;
	size_t i;

	json_array_foreach(rules, i, r) if (num(r, "id") == id) return !strcmp(str(r, "name"), TAPE_NAME);
	return false;
}

/* A packet, and what was done to it; done is taken. */
static void packet_add(json_t *list, const json_t *note, json_t *done)
{
	json_t *j = json_object();

	json_object_set(j, "packet", json_object_get(note, "packet"));
	if (*str(note, "redo"))
		json_array_append(done, json_object_get(note, "redo"));
	if (json_array_size(done))
		json_object_set(j, "redo", done);
	if (json_is_true(json_object_get(note, "lost")))
		json_object_set_new(j, "lost", json_true());
	json_array_append_new(list, j);
	json_decref(done);
}

static bool same_packet(const json_t *a, const json_t *b)
{
	return json_equal(json_object_get(a, "packet"), json_object_get(b, "packet"));
}

/*
 * What is done to a packet that goes on is in the list before the packet itself: our own rules come last.  A packet that
 * is lost is in the list once.
 */
static json_t *packets_of(const json_t *dump)
{
	json_t *list = json_array(), *done = NULL, *note;
	const json_t *rules = json_object_get(dump, "rules"), *before = NULL;
	size_t i;

	json_array_foreach(json_object_get(dump, "log"), i, note)
	{
		if (!json_object_get(note, "packet"))
			continue;
		if (before && !same_packet(before, note)) { /* there was no room to note it */
			packet_add(list, before, done);
			before = NULL;
		}
		done = before ? done : json_array();
		if (!is_ours(rules, num(note, "rule")) && !json_is_true(json_object_get(note, "lost"))) {
			if (before && *str(before, "redo"))
				json_array_append(done, json_object_get(before, "redo"));
			before = note;
			continue;
		}
		if (before && *str(before, "redo"))
			json_array_append(done, json_object_get(before, "redo"));
		packet_add(list, note, done);
		before = NULL;
	}
	if (before)
		packet_add(list, before, done);
	return list;
}

/* All acts of a packet, as one "do". */
static const char *redo_text(json_t *j)
{
	json_t *redo = json_object_get(j, "redo"), *one;
	char *text = NULL;
	size_t i, len;
	FILE *f;

	if (!json_array_size(redo))
		return "";
	f = open_memstream(&text, &len);
	if (!f)
		abort();
	json_array_foreach(redo, i, one)
		fprintf(f, "%s%s", i ? ", " : "", json_string_value(one) ? json_string_value(one) : "");
	fclose(f);
	json_object_set_new(j, "do", json_string(text));
	free(text);
	return str(j, "do");
}

/* How often this packet was there already. */
static unsigned before_n(const struct tape *t, const struct packet *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->n; i++)
		n += packet_same(p, &t->v[i].p);
	return n;
}

static void tape_fill(struct tape *t)
{
	json_t *list = json_object_get(t->json, "packets"), *j;
	size_t i;

	t->of = (unsigned long long)num(t->json, "of");
	t->v = calloc(json_array_size(list) + 1, sizeof(*t->v));
	if (!t->v)
		abort();
	json_array_foreach(list, i, j)
	{
		struct taped *one = &t->v[t->n];

		if (!packet_read(&one->p, json_object_get(j, "packet")))
			continue;
		one->p.nth += before_n(t, &one->p);
		one->deeds = json_object_get(j, "redo");
		one->redo = redo_text(j);
		one->lost = json_is_true(json_object_get(j, "lost"));
		t->disturbed += *one->redo != '\0';
		t->deeds += json_array_size(one->deeds);
		t->n++;
	}
}

static void tape_take(struct tape *t, const json_t *dump)
{
	const json_t *rules = json_object_get(dump, "rules");
	json_t *list = packets_of(dump), *r;
	long long all = (long long)json_array_size(list);
	size_t i;

	json_array_foreach(rules, i, r) if (is_ours(rules, num(r, "id"))) all += num(r, "matches") - num(r, "hits");
	r = json_array_get(json_object_get(dump, "log"), 0);
	all += r ? num(r, "n") - 1 : 0;
	*t = (struct tape){ .json = json_pack("{s:o, s:I}", "packets", list, "of", (json_int_t)all) };
	tape_fill(t);
}

/* ---- the file -------------------------------------------------------------------------- */

/*
 * Of --record, opened once: a named pipe, as who reads it takes the first close for its end, and our own standard output or error,
 * as a file that is opened anew loses what it has, and the program's output.
 */
static FILE *whole;

static FILE *own_stream(const char *file)
{
	struct stat named, own;

	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && !stat(file, &named); fd++)
		if (!fstat(fd, &own) && own.st_dev == named.st_dev && own.st_ino == named.st_ino)
			return fdopen(fcntl(fd, F_DUPFD_CLOEXEC, 0), "w");
	return NULL;
}

/* It is written beside the old one, which is whole until then; /dev/null, /dev/stdout and the like have nothing beside them. */
static char *new_name(const char *file)
{
	struct stat st;
	char *name;

	if (whole || (!lstat(file, &st) && !S_ISREG(st.st_mode)))
		name = strdup(file);
	else if (asprintf(&name, "%s.new", file) < 0)
		name = NULL;
	if (!name)
		abort();
	return name;
}

static bool json_write(json_t *j, const char *file)
{
	if (!whole)
		return !json_dump_file(j, file, JSON_INDENT(1));
	return !json_dumpf(j, whole, JSON_INDENT(1)) && !fclose(whole);
}

static bool tape_save(const struct tape *t, const char *file, char **argv, int status)
{
	json_t *program = json_array(), *j;
	char *new = new_name(file);
	bool good;

	for (; *argv; argv++) {
		json_t *s = json_string(*argv);

		json_array_append_new(program, s ? s : json_null());
	}
	j = json_pack("{s:i, s:o, s:i}", TAPE_KEY, TAPE_FORM, "program", program, "exit_status", status);
	json_object_update(j, t->json);
	good = json_write(j, new) && (!strcmp(new, file) || !rename(new, file));
	if (!good)
		say_lost("--record %s: %s", file, strerror(errno));
	if (!good && strcmp(new, file))
		unlink(new);
	free(new);
	json_decref(j);
	return good;
}

static void tape_free(struct tape *t)
{
	json_decref(t->json);
	free(t->v);
	*t = (struct tape){ 0 };
}

static bool tape_load(struct tape *t, const char *file)
{
	json_error_t err;

	*t = (struct tape){ .json = json_load_file(file, 0, &err) };
	if (!t->json && err.line < 0)
		say("--replay %s: %s", file, strerror(errno));
	else if (num(t->json, TAPE_KEY) != TAPE_FORM || !json_is_array(json_object_get(t->json, "packets")))
		say("--replay %s: this is no recording; rdmad-run --record FILE PROGRAM makes one", file);
	else
		tape_fill(t);
	if (t->v && t->deeds <= REPLAY_MOST)
		return true;
	if (t->v)
		say("--replay %s: rules disturbed packets %zu times, and %u can be done again at most", file, t->deeds,
		    REPLAY_MOST);
	tape_free(t);
	return false;
}

/* The command that was recorded, for execvp(); NULL: said why. */
static char **tape_program(const struct tape *t, const char *file)
{
	json_t *list = json_object_get(t->json, "program"), *word;
	char **argv = calloc(json_array_size(list) + 1, sizeof(*argv));
	size_t i;

	if (!argv)
		abort();
	json_array_foreach(list, i, word)
	{
		argv[i] = (char *)json_string_value(word);
		if (!argv[i])
			break;
	}
	if (json_array_size(list) && i == json_array_size(list))
		return argv;
	say("--replay %s: the program is not in it: name the program to run", file);
	free(argv);
	return NULL;
}

/* ---- the options ------------------------------------------------------------------------- */

static struct tape replayed; /* of --replay */

/* Is there room for it?  So that the program does not run in vain. */
static bool record_can(const char *file)
{
	struct stat st;
	char *new;
	FILE *f;
	bool good;

	whole = own_stream(file);
	new = new_name(file);
	f = whole ? whole : fopen(new, "ae");
	if (f && !fstat(fileno(f), &st) && S_ISFIFO(st.st_mode))
		whole = f;
	good = whole || (f && !fclose(f));
	if (!good)
		say("--record %s: %s", new, strerror(errno));
	else if (strcmp(new, file))
		unlink(new);
	free(new);
	return good;
}

bool tape_prepare(const struct options *opt, char ***argv)
{
	if (opt->replay)
		return tape_load(&replayed, opt->replay) &&
		       (**argv || (*argv = tape_program(&replayed, opt->replay)) != NULL);
	return record_can(opt->record);
}

bool tape_begin(int hold, const struct options *opt)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	bool good;

	if (!f)
		abort();
	fputs("rules:\n", f);
	if (opt->replay)
		replay_rules(f, &replayed);
	tape_rules(f);
	fclose(f);
	good = impair_text(hold, opt, opt->replay ? opt->replay : opt->record, text);
	free(text);
	return good;
}

static void replay_tell(const struct options *opt, const struct tape *now, int status)
{
	char *text = NULL, *path = opt->report ? report_file(opt, "replay.txt") : NULL;
	const int was = (int)num(replayed.json, "exit_status");
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		abort();
	replay_compare(f, &replayed, now);
	if (status != was)
		fprintf(f, "the exit status was %d, and is %d now\n", was, status);
	fclose(f);
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		say("--replay %s: %.*s", opt->replay, (int)strcspn(line, "\n"), line);
	f = path ? fopen(path, "we") : NULL;
	if (path && (!f || fputs(text, f) < 0 || fclose(f)))
		say_lost("--report %s: %s", path, strerror(errno));
	free(path);
	free(text);
}

void tape_end(const struct options *opt, char **argv, const json_t *dump, int status)
{
	const char *option = opt->record ? "--record" : "--replay", *file = opt->record ? opt->record : opt->replay;
	struct tape t;

	if (!dump) {
		say_lost("%s %s: the daemon does not tell what happened to packets", option, file);
		return;
	}
	tape_take(&t, dump);
	if (t.of > json_array_size(json_object_get(t.json, "packets")))
		say("%s %s: %u packets of %llu are known: there were too many for the daemon to remember", option, file,
		    t.n, t.of);
	if (opt->replay)
		replay_tell(opt, &t, status);
	else if (tape_save(&t, file, argv, status))
		say("--record %s: %u packets, %u of them disturbed", file, t.n, t.disturbed);
	if (opt->record && t.deeds > REPLAY_MOST)
		say("--record %s: rules disturbed them %zu times, and %u can be done again: --replay will refuse the "
		    "file",
		    file, t.deeds, REPLAY_MOST);
	tape_free(&t);
}
