/* SPDX-License-Identifier: MIT */
/* beside.h - rdmad-run, which is beside this program. */
#ifndef CTL_BESIDE_H
#define CTL_BESIDE_H

#include <stdbool.h>

#define BESIDE_PATH 4096

/* The path of this very program; false: not to be had. */
bool beside_self(char path[BESIDE_PATH]);
/* Becomes rdmad-run with these arguments, argv[0] as well is set; returns, with errno, if that cannot be done. */
void beside_run(char **argv);

#endif
