/* SPDX-License-Identifier: MIT */
/* ladder_text.h - parts that the picture and the page have in common. */
#ifndef CTL_LADDER_TEXT_H
#define CTL_LADDER_TEXT_H

#include <stdbool.h>
#include <stdio.h>

/* Colours and marks; viewers_theme: dark if the viewer prefers that. */
void ladder_css(FILE *, bool viewers_theme);

#endif
