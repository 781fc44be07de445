/* SPDX-License-Identifier: MIT */
/* routes.h - from each switch to each other one, all ports that lead there by the fewest links. */
#ifndef SIM_ROUTES_H
#define SIM_ROUTES_H

#include "switch.h"

/* The ports of all n switches are there; the first switch is node first. */
void routes_make(struct sw *, uint32_t n, uint32_t first);
void routes_free(struct sw *, uint32_t n);

#endif
