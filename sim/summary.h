/* SPDX-License-Identifier: MIT */
/* summary.h - a run in a few lines, for people. */
#ifndef SIM_SUMMARY_H
#define SIM_SUMMARY_H

#include <stdint.h>

struct fabric;
struct port;

/* The port of a switch that had the most to wait, on the average; NULL: none has sent anything. */
const struct port *summary_busiest(const struct fabric *);
struct summary_cost {
	uint64_t real_ns;           /* that the run took */
	uint64_t set_up_ns, run_ns; /* of processor: until all is there, and behind that */
	uint64_t memory_len;
};
void summary_print(const struct fabric *, const struct summary_cost *);

#endif
