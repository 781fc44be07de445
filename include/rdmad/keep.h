/* SPDX-License-Identifier: MIT */
/*
 * keep.h - the memory of objects that a program has destroyed.
 *
 * Where librdmad-calls.so is preloaded (rdmad-run --check), it takes it instead of free(3), and keeps it as it is for a
 * while: what uses a destroyed object is then seen, and does no harm.
 */
#ifndef RDMAD_KEEP_H
#define RDMAD_KEEP_H

#include <stdlib.h>

extern void rdmad_keep(void *) __attribute__((weak));

static inline void keep_free(void *p)
{
	if (rdmad_keep)
		rdmad_keep(p);
	else
		free(p);
}

#endif
