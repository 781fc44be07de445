/* SPDX-License-Identifier: MIT */
/* conf_text.c - see conf_text.h. */
#include "conf_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *conf_text_read(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = f ? malloc(CONF_TEXT_MOST + 2) : NULL;
	size_t n;
	int err;

	if (!text) {
		err = errno;
		if (f)
			fclose(f);
		errno = err;
		return NULL;
	}
	n = fread(text, 1, CONF_TEXT_MOST + 1, f);
	err = ferror(f) ? errno : n > CONF_TEXT_MOST ? EFBIG : memchr(text, '\0', n) ? EILSEQ : 0;
	fclose(f);
	if (err) {
		free(text);
		errno = err;
		return NULL;
	}
	if (!n)
		text[n++] = '\n';
	text[n] = '\0';
	return text;
}

/* Braces of a line that are in no quotes and no comment: each has its other one there. */
static bool is_balanced(const char *line, size_t len)
{
	bool quoted = false;
	int depth = 0;

	for (size_t i = 0; i < len && depth >= 0 && (quoted || line[i] != '#'); i++) {
		quoted ^= line[i] == '"';
		depth += quoted ? 0 : (line[i] == '{') - (line[i] == '}');
		i += quoted && line[i] == '\\';
	}
	return !depth && !quoted;
}

bool conf_text_blank(char *text, int n)
{
	size_t len;

	while (*text && --n > 0) {
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	len = strcspn(text, "\n");
	if (n || !is_balanced(text, len) || strspn(text, " \t") >= len)
		return false;
	memset(text, ' ', len);
	return true;
}
