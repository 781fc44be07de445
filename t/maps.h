/* SPDX-License-Identifier: MIT */
/* maps.h - what is mapped in this process: /proc/self/maps, line by line. */
#ifndef T_MAPS_H
#define T_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"

struct mapping {
	unsigned long start, end;
	unsigned long ino;
	char perm[5]; /* "rw-p" */
	char name[256];
};

static inline FILE *maps_open(void) { return fopen("/proc/self/maps", "re"); }

static inline bool maps_next(FILE *f, struct mapping *m)
{
	char line[512];

	m->name[0] = 0;
	return fgets(line, sizeof(line), f) &&
	       sscanf(line, "%lx-%lx %4s %*x %*s %lu %255[^\n]", &m->start, &m->end, m->perm, &m->ino, m->name) >= 4;
}

/* The mapping that p is in; false: there is none, or it cannot be seen. */
static inline bool maps_at(const void *p, struct mapping *m)
{
	FILE *f = maps_open();
	bool found = false;

	while (f && !found && maps_next(f, m))
		found = (uintptr_t)p >= m->start && (uintptr_t)p < m->end;
	if (f)
		fclose(f);
	return found;
}

/* How many have this in their name; the last of them. */
static inline unsigned maps_named(const char *name, struct mapping *last)
{
	FILE *f = maps_open();
	struct mapping m;
	unsigned n = 0;

	ck_assert_ptr_nonnull(f);
	while (maps_next(f, &m))
		if (strstr(m.name, name)) {
			*last = m;
			n++;
		}
	fclose(f);
	return n;
}

#endif
