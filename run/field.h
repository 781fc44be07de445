/* SPDX-License-Identifier: MIT */
/* field.h - fields of what the daemon tells in JSON; one that is not there is empty, or 0. */
#ifndef RUN_FIELD_H
#define RUN_FIELD_H

#include <jansson.h>

static inline const char *str(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

static inline long long num(const json_t *j, const char *key)
{
	return (long long)json_integer_value(json_object_get(j, key));
}

#endif
