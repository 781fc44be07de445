/* SPDX-License-Identifier: MIT */
/* ns_text.h - a time as people read it: 1.5 ms. */
#ifndef LAB_NS_TEXT_H
#define LAB_NS_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns text, which has len bytes, 16 are enough. */
static inline const char *ns_text(char *text, size_t len, uint64_t ns)
{
	static const char *const unit[] = { "ns", "us", "ms", "s" };
	double v = (double)ns;
	unsigned i = 0;

	for (; v >= 1000 && i < 3; v /= 1000)
		i++;
	/* Whole numbers from 100 on: of 999.6 and more three digits would be 1e+03. */
	snprintf(text, len, v < 100 ? "%.3g %s" : "%.0f %s", v, unit[i]);
	return text;
}

#endif
