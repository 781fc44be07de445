/* SPDX-License-Identifier: MIT */
/*
 * term.h - a terminal as a screen: taken over, and given back whatever ends the program but SIGKILL.
 *
 * Between term_begin() and term_end() keys come one by one, and what is drawn replaces what was there.
 */
#ifndef CTL_TERM_H
#define CTL_TERM_H

#include <stdbool.h>
#include <stddef.h>

bool term_begin(void); /* false: there is no terminal; errno */
void term_end(void);
void term_size(int *columns, int *lines);

/* A key; 0: ms have passed, the size has changed, or it was one of several bytes; -1: a signal that ends programs came. */
int term_key(int ms);

/* One screen: lines of text, cut at the right edge; "\1...\2" is shown reversed, "\3...\2" bright red, "\4...\2" dim. */
void term_draw(const char *text);

#endif
