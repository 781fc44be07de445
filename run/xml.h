/* SPDX-License-Identifier: MIT */
/* xml.h - text within XML, also within an attribute. */
#ifndef RUN_XML_H
#define RUN_XML_H

#include <stdio.h>
#include <string.h>

static inline void xml_text(FILE *f, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (strchr("<>&\"\n", c))
			fprintf(f, "&#%u;", c);
		else
			fputc(c >= ' ' && c < 127 ? c : '?', f);
	}
}

#endif
