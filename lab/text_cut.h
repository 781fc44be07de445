/* SPDX-License-Identifier: MIT */
/* text_cut.h - text that was cut off to fit ends with a whole character. */
#ifndef LAB_TEXT_CUT_H
#define LAB_TEXT_CUT_H

#include <stddef.h>
#include <string.h>

/* s: UTF-8 up to its end, where a character may be cut; that one goes. */
static inline void text_cut(char *s)
{
	size_t n = strlen(s), at = n, whole = 1;

	while (at && n - at < 4 && ((unsigned char)s[at - 1] & 0xc0) == 0x80)
		at--;
	if (!at || (unsigned char)s[at - 1] < 0xc0)
		return;
	at--;
	for (unsigned char bit = 0x40; whole < 4 && (unsigned char)s[at] & bit; bit >>= 1)
		whole++;
	if (n - at < whole)
		s[at] = '\0';
}

#endif
