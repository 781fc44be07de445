/* SPDX-License-Identifier: MIT */
/* runs.h - the three kinds of run.  Each aborts with its seed if something is wrong, and returns the trace's
 * hash. */
#ifndef SIM_RUNS_H
#define SIM_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MASKS_BITS 12u

uint64_t swarm_run(uint64_t seed, bool trace);

/* seed: (script * 2 + direction) << 12 | which of the first 12 packets are lost */
unsigned masks_scripts(void);
uint64_t masks_run(uint64_t seed, bool trace);

unsigned cases_n(void);
uint64_t cases_run(uint64_t i, bool trace);

/*
 * A hundred messages under rules that lose, repeat and delay.  sim_seed is of everything but the rules, whose seed is
 * seed.  The decisions go to log, a line each, but none about acknowledgements, of which chance makes more or fewer.
 */
uint64_t impair_run(uint64_t sim_seed, uint64_t seed, char *log, size_t len);

#endif
