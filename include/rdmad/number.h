/* SPDX-License-Identifier: MIT */
/* number.h - whole numbers on command lines and in files. */
#ifndef RDMAD_NUMBER_H
#define RDMAD_NUMBER_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* All of the text: decimal, or hexadecimal with 0x; 010 is refused, as in a file of rules, and so are signs and blanks. */
static inline bool number_read(const char *text, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !*end && !errno && (*text != '0' || !text[1] || (text[1] | 0x20) == 'x');
}

#endif
