/* SPDX-License-Identifier: MIT */
/* impair_verb.h - impair.h as the control half of the daemon has it.  Control thread. */
#ifndef DAEMON_IMPAIR_VERB_H
#define DAEMON_IMPAIR_VERB_H

#include <jansson.h>

#include "impair.h"

/* For impair_start(). */
void impair_event_do(const struct rule_event *, unsigned device);

void impair_session_end(uint64_t owner); /* its rules go with it */
json_t *impair_json(void);

#endif
