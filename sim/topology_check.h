/* SPDX-License-Identifier: MIT */
/* topology_check.h - whether what a file says can be, all of it together. */
#ifndef SIM_TOPOLOGY_CHECK_H
#define SIM_TOPOLOGY_CHECK_H

#include "lab/rule.h"

#include "topology.h"

/* Fills in what the file left open.  false: and the error says what to do. */
bool topology_check(struct topology *, struct rule_error *);

#endif
