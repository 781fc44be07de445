/* SPDX-License-Identifier: MIT */
/* idrule.h - does a GSO send over IPv4 number its packets from 0? */
#ifndef DAEMON_IDRULE_H
#define DAEMON_IDRULE_H

#include <stdbool.h>

bool id_rule_holds(void); /* asked once, any thread */

#endif
