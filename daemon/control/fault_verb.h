/* SPDX-License-Identifier: MIT */
/* fault_verb.h - faults.h as the control half of the daemon has it.  Control thread. */
#ifndef DAEMON_FAULT_VERB_H
#define DAEMON_FAULT_VERB_H

#include <jansson.h>

#include "faults.h"

/* For faults_start(). */
void fault_event_do(const struct rule_event *, unsigned device);

void fault_session_end(uint64_t owner); /* its rules go with it */
json_t *fault_json(void);

#endif
