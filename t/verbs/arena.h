/* SPDX-License-Identifier: MIT */
/*
 * arena.h - stacks in registered memory: four times LEN, of which the first has stayed as it was filled.
 */
#ifndef T_VERBS_ARENA_H
#define T_VERBS_ARENA_H

#include "fixture.h"

#define LEN   ((size_t)1 << 20)
#define FORKS 20u
#define PAGE  4096u

#define ARENA_FAR \
	40000u /* bytes that each thread of this program has on its stack, between errno and what libc has of it */

extern struct arena {
	struct fix f;
	struct ibv_mr *m;
	struct ibv_qp *a, *b;
	unsigned char *arena;
} on;

void arena_open(void);
void arena_close(void);
void arena_forks(void);                             /* FORKS times; both go on */
void *arena_thread(void *);                         /* the same, and then RDMA reaches the stack as before */
void arena_run(void *lowest, void *(*run)(void *)); /* a thread with a stack there of LEN, which returns NULL */
void arena_with(void *(*run)(void *)); /* a whole test: an arena, with such a thread behind its first LEN */
void arena_small(void *lowest, size_t len, void *(*run)(void *));
void arena_fiber(void *lowest, void (*run)(void)); /* a fiber, of LEN */

#endif
