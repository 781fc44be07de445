/* SPDX-License-Identifier: MIT */
/* plot.h - a script for gnuplot, which makes pictures of the tables beside it. */
#ifndef SIM_PLOT_H
#define SIM_PLOT_H

#include <stdio.h>

struct fabric;

void plot_write(const struct fabric *, FILE *);

#endif
