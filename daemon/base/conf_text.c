/* SPDX-License-Identifier: MIT */
/* conf_text.c - see conf_text.h. */
#include "conf_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *text_load(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = f ? malloc(TEXT_MOST + 2) : NULL;
	size_t n;
	int err;

	if (!text) {
		err = errno;
		if (f)
			fclose(f);
		errno = err;
		return NULL;
	}
	n = fread(text, 1, TEXT_MOST + 1, f);
	err = ferror(f) ? errno : n > TEXT_MOST ? EFBIG : memchr(text, '\0', n) ? EILSEQ : 0;
	fclose(f);
	if (err) {
		free(text);
		errno = err;
		return NULL;
	}
	text[n] = '\0';
	return text;
}

char *conf_text_read(const char *path)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8 */
	char *text = text_load(path);

	if (text && !strncmp(text, mark, sizeof(mark) - 1))
		memset(text, ' ', sizeof(mark) - 1);
	if (text && !*text)
		strcpy(text, "\n");
	return text;
}

static bool is_comment(const char *p) { return *p == '#' || !strncmp(p, "//", 2) || !strncmp(p, "/*", 2); }

static size_t word_len(const char *p) { return strcspn(p, " #\"'\t\n\r={}()+,*"); }

/* Behind the word, string, comment or sign that begins at p, as libconfuse takes them.  NULL: it has no end. */
static char *piece_end(char *p)
{
	size_t word = word_len(p);
	char *end;

	if (!strncmp(p, "/*", 2)) {
		end = strstr(p + 2, "*/");
		return end ? end + 2 : NULL;
	}
	if (is_comment(p))
		return p + strcspn(p, "\n");
	if (*p != '"' && *p != '\'')
		return p + (word ? word : 1);
	for (end = p + 1; *end && *end != *p; end++)
		end += *end == '\\' && end[1];
	return *end ? end + 1 : NULL;
}

void conf_text_plain(char *text)
{
	for (char *p = text, *end; *p && (end = piece_end(p)); p = end) {
		if (!is_comment(p))
			continue;
		for (; p < end; p++)
			*p = *p == '\n' ? '\n' : ' ';
	}
}

const char *conf_text_open(char *text, bool sections, int *line)
{
	int depth = 0, now = 1;

	for (char *p = text, *end; *p; p = end) {
		end = piece_end(p);
		if (!end) {
			*line = now;
			return *p == '/' ? "this comment has no end; put */ behind it"
					 : "this string has no end; put the quote behind it that is before it";
		}
		if (*p == '{' && !depth++)
			*line = now;
		depth -= *p == '}' && depth;
		for (; p < end; p++)
			now += *p == '\n';
	}
	return depth && sections ? "this section has no end; put } behind its last line" : NULL;
}

/* A key that ends there gets a value; by += it gets one more. */
static bool is_set(const char *end) { return end[strspn(end, " \t\n\r")] == '='; }

/* The same key in the rest of its section, or NULL. */
static const char *set_again(const char *key, char *p)
{
	const size_t len = (size_t)(p - key);
	int depth = 0;

	for (char *end; *p && depth >= 0; p = end) {
		end = piece_end(p);
		depth += (*p == '{') - (*p == '}');
		if (!depth && (size_t)(end - p) == len && !memcmp(p, key, len) && is_set(end))
			return p;
	}
	return NULL;
}

static int lines(const char *from, const char *to)
{
	int n = 0;

	for (; from < to; from++)
		n += *from == '\n';
	return n;
}

bool conf_text_twice(char *text, struct conf_text_twice *t)
{
	const char *again;

	for (char *p = text, *end; *p; p = end) {
		end = piece_end(p);
		if ((t->key && p <= t->key) || !word_len(p) || !is_set(end) || !(again = set_again(p, end)))
			continue;
		*t = (struct conf_text_twice){ p, (int)(end - p), 1 + lines(text, p), 1 + lines(text, again) };
		return true;
	}
	return false;
}

/* Braces of a line that are in no quotes: each has its other one there. */
static bool is_balanced(char *line, const char *line_end)
{
	int depth = 0;

	for (char *end; line < line_end && depth >= 0; line = end) {
		depth += (*line == '{') - (*line == '}');
		end = piece_end(line);
		if (!end || end > line_end)
			return false;
	}
	return !depth;
}

bool conf_text_blank(char *text, int n)
{
	size_t len;

	while (*text && --n > 0) {
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	len = strcspn(text, "\n");
	if (n || !is_balanced(text, text + len) || strspn(text, " \t") >= len)
		return false;
	memset(text, ' ', len);
	return true;
}
