/* SPDX-License-Identifier: MIT */
/* conf_text.h - the text of a configuration, which is parsed once more without each line that the parser stumbled over. */
#ifndef DAEMON_CONF_TEXT_H
#define DAEMON_CONF_TEXT_H

#include <stdbool.h>

#define TEXT_MOST (1u << 20)

/* All of a file or a pipe, for free(); NULL and errno: it cannot be read, is longer than TEXT_MOST (EFBIG), or has a NUL (EILSEQ). */
char *text_load(const char *path);
/* The same, never empty, and without the mark that editors of Windows put first. */
char *conf_text_read(const char *path);

/* Comments become blanks: libconfuse takes each for several lines. */
void conf_text_plain(char *text);

/*
 * What has no end in the text, and the line where it begins: a string, a comment, or, if sections is set, a section; libconfuse
 * takes the end of the text for theirs.  NULL: nothing.
 */
const char *conf_text_open(char *text, bool sections, int *line);

/*
 * The next key that is set a second time in its section, behind that of t, whose key is NULL at first.  The text is whole, as
 * conf_text_open() sees it.
 */
struct conf_text_twice {
	const char *key;
	int len, first, again; /* lines */
};
bool conf_text_twice(char *text, struct conf_text_twice *t);

/*
 * Line n (from 1) of a text without comments becomes empty.  False: there is no such line, or it has nothing, or a brace without its
 * other one: without that the lines behind it would mean something else.
 */
bool conf_text_blank(char *text, int n);

#endif
