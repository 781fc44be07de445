/* SPDX-License-Identifier: MIT */
/* inject.h - what inject.c and those who tell it have in common. */
#ifndef T_SCARCE_INJECT_H
#define T_SCARCE_INJECT_H

#include <stdint.h>

#define INJECT_PAGE "SCARCE_PAGE" /* the environment of a process that is told by another one: the file of its page */

struct inject {         /* atomic, all of them */
	uint32_t n;     /* the call that fails, counted from 1; 0: none */
	uint32_t count; /* so many there were */
	int64_t live;   /* blocks of memory that the process has */
	char what[16];  /* failed last */
};

struct inject *inject_page(void); /* this process's; by dlsym() */

#endif
