/* SPDX-License-Identifier: MIT */
/* stack.h - who called: return addresses, without those of this library. */
#ifndef CALLPRELOAD_STACK_H
#define CALLPRELOAD_STACK_H

#include <stdbool.h>
#include <stdio.h>

#define STACK_MAX 12

struct stack {
	int n;
	void *pc[STACK_MAX];
};

/* Loads what is needed later on, so that this allocates nothing when it matters. */
void stack_ready(void);
void stack_take(struct stack *);
void stack_put(FILE *, const struct stack *);

#endif
