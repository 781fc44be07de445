/* SPDX-License-Identifier: MIT */
/*
 * told.h - rows of DUMP_WHY as people read them: a summary, then each, once; in a terminal wrapped to its width, and in colour
 * unless NO_COLOR is set.  For rdmactl and rdmad-run; elsewhere lines are as the daemon made them.
 */
#ifndef RDMAD_TOLD_H
#define RDMAD_TOLD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TOLD_NARROW 40u /* no line is made shorter */

struct told {
	FILE *f;
	unsigned width; /* 0: as long as they are */
	bool colour;
};

static inline struct told told_begin(FILE *f)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	struct told t = { .f = f };
	struct winsize size;

	if (!isatty(fileno(f)))
		return t;
	t.colour = !(no && *no) && term && strcmp(term, "dumb") != 0;
	if (!ioctl(fileno(f), TIOCGWINSZ, &size) && size.ws_col)
		t.width = size.ws_col < TOLD_NARROW ? TOLD_NARROW : size.ws_col;
	return t;
}

static inline const char *told_str(const json_t *row, const char *key)
{
	const char *s = json_string_value(json_object_get(row, key));

	return s ? s : "";
}

/* Does the row of the other end, in the same list, tell of this one, too? */
static inline bool told_by_twin(const json_t *list, const json_t *row)
{
	json_int_t twin = json_integer_value(json_object_get(row, "twin"));
	json_t *r;
	size_t i;

	json_array_foreach(list, i,
			   r) if (twin && json_integer_value(json_object_get(r, "number")) == twin) return true;
	return false;
}

/* ---- the summary ------------------------------------------------------------ */

static inline unsigned told_count(const json_t *list, const char *grade, const char *cause)
{
	unsigned n = 0;
	json_t *r;
	size_t i;

	json_array_foreach(list, i, r)
	{
		if (!strcmp(told_str(r, "grade"), grade) && !told_by_twin(list, r) &&
		    (!cause || !strcmp(told_str(r, "cause"), cause)))
			n += 1 + (unsigned)json_integer_value(json_object_get(r, "again")); /* 0 if it is not there */
	}
	return n;
}

/* The first of its cause and grade?  A rule makes a wait of what is a note elsewhere. */
static inline bool told_is_first(const json_t *list, size_t at)
{
	const json_t *r = json_array_get(list, at);

	for (size_t i = 0; i < at; i++)
		if (!strcmp(told_str(json_array_get(list, i), "cause"), told_str(r, "cause")) &&
		    !strcmp(told_str(json_array_get(list, i), "grade"), told_str(r, "grade")) &&
		    !told_by_twin(list, json_array_get(list, i)))
			return false;
	return true;
}

/* "2 errors (RETRY_DEAF 2 times), 1 note (KILLED)"; nothing if there are none. */
static inline void told_summary(FILE *f, const json_t *list)
{
	static const char *const grades[] = { "error", "note", "wait" };
	const char *comma = "";
	json_t *r;
	size_t i;

	for (unsigned g = 0; g < 3; g++) {
		unsigned n = told_count(list, grades[g], NULL), k;
		const char *next = " (";

		if (!n)
			continue;
		fprintf(f, "%s%u %s%s", comma, n, grades[g], n == 1 ? "" : "s");
		json_array_foreach(list, i, r)
		{
			if (strcmp(told_str(r, "grade"), grades[g]) != 0 || told_by_twin(list, r) ||
			    !told_is_first(list, i))
				continue;
			k = told_count(list, grades[g], told_str(r, "cause"));
			fprintf(f, "%s%s", next, told_str(r, "cause"));
			if (k > 1)
				fprintf(f, " %u times", k);
			next = ", ";
		}
		fputc(')', f);
		comma = ", ";
	}
}

/* ---- one of them ------------------------------------------------------------ */

/* The columns of UTF-8 text. */
static inline unsigned told_columns(const char *s, size_t len)
{
	unsigned n = 0;

	for (size_t i = 0; i < len; i++)
		n += (s[i] & 0xc0) != 0x80;
	return n;
}

/* A line of len bytes, its rest indented by 2 more. */
static inline void told_line(const struct told *t, const char *line, size_t len)
{
	unsigned indent = (unsigned)strspn(line, " "), at = 0;
	size_t i = 0;

	while (i < len) {
		size_t blanks = strspn(line + i, " \n"), word;

		if (blanks > len - i)
			blanks = len - i;
		word = strcspn(line + i + blanks, " \n");
		if (word > len - i - blanks)
			word = len - i - blanks;
		if (t->width && at > indent && at + blanks + told_columns(line + i + blanks, word) > t->width) {
			fprintf(t->f, "\n%*s", (int)indent + 2, "");
			at = indent + 2;
		} else {
			fprintf(t->f, "%*s", (int)blanks, "");
			at += (unsigned)blanks;
		}
		fwrite(line + i + blanks, 1, word, t->f);
		at += told_columns(line + i + blanks, word);
		i += blanks + word;
	}
}

static inline const char *told_colour(const json_t *row, const char *line, size_t len, bool first)
{
	const char *text = told_str(row, "text"), *grade = told_str(row, "grade");

	if (first)
		return "\033[1m";
	if (len > 2 && strlen(text) == len - 2 && !strncmp(line + 2, text, len - 2))
		return !strcmp(grade, "error") ? "\033[31m" : !strcmp(grade, "wait") ? "\033[33m" : "";
	return !strncmp(line, "  hint: ", 8) ? "\033[32m" : "";
}

/* The report of a row, or other words in its place. */
static inline void told_put(const struct told *t, const json_t *row, const char *report)
{
	bool first = true;

	for (const char *line = report, *end; *line; line = *end ? end + 1 : end, first = false) {
		const char *colour;

		end = line + strcspn(line, "\n");
		colour = t->colour ? told_colour(row, line, (size_t)(end - line), first) : "";
		fputs(colour, t->f);
		told_line(t, line, (size_t)(end - line));
		fputs(*colour ? "\033[m\n" : "\n", t->f);
	}
}

static inline void told_row(const struct told *t, const json_t *row) { told_put(t, row, told_str(row, "report")); }

/* A line: what, then a summary of both lists. */
static inline void told_heading(const struct told *t, const char *what, const json_t *list, const json_t *more)
{
	char *text = NULL;
	size_t len = 0;
	FILE *m = open_memstream(&text, &len);

	if (!m)
		return;
	fputs(what, m);
	told_summary(m, list);
	if (json_array_size(list) && json_array_size(more))
		fputs(", ", m);
	told_summary(m, more);
	if (!fclose(m)) {
		told_line(t, text, len);
		fputc('\n', t->f);
	}
	free(text);
}

#endif
