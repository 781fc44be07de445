/* SPDX-License-Identifier: MIT */
/*
 * spy.h - the helper that holds other threads: the library's clone() and waitpid() are those of this program.
 */
#ifndef T_VERBS_SPY_H
#define T_VERBS_SPY_H

extern struct spy {
	void (*before)(void); /* it is made; in the thread that asks */
	int (*first)(void *); /* runs in it, and calls body */
	int (*body)(void *);
	unsigned made;
	int status; /* of its end */
} spy;

#endif
