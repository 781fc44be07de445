/* SPDX-License-Identifier: MIT */
/* field.h - fields of what the daemon tells in JSON; one that is not there is empty, or 0. */
#ifndef RUN_FIELD_H
#define RUN_FIELD_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static inline const char *str(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

/* Text of others, in which what is not UTF-8 is a ? for each byte beyond ASCII. */
static inline json_t *text_json(const char *text)
{
	json_t *j = json_string(text);
	char *copy = j ? NULL : strdup(text);

	for (char *c = copy; c && *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	if (copy)
		j = json_string(copy);
	free(copy);
	return j;
}

static inline long long num(const json_t *j, const char *key)
{
	return (long long)json_integer_value(json_object_get(j, key));
}

#endif
