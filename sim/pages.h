/* SPDX-License-Identifier: MIT */
/*
 * pages.h - what packets need of many hosts lies in few, large pages.
 *
 *	small objects, side by side: hosts, QPs, their queues     tables, apart: much of each is never touched
 *	|-------- huge pages, if the kernel has some --------|    |--- ordinary pages, there when touched ---|
 *
 * With 10000 hosts a packet would else miss the cache of page addresses with nearly every object that it needs.
 */
#ifndef SIM_PAGES_H
#define SIM_PAGES_H

#include <stddef.h>

void pages_begin(void); /* before hosts are made: tables lie apart from now on */
void pages_join(void);  /* all are there: what is small comes into huge pages */
/* n elements, all zero, for what is touched as a whole; NULL: there is no memory. */
void *pages_new(size_t n, size_t each);

#endif
