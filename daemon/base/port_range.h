/* SPDX-License-Identifier: MIT */
/* port_range.h - the ports that whoever names none gets. */
#ifndef DAEMON_PORT_RANGE_H
#define DAEMON_PORT_RANGE_H

#include <stdint.h>

struct port_range {
	uint16_t low, high; /* both are in it; low is not 0 */
};

/* As the host has said within the last second.  Control thread. */
struct port_range port_range(void);

#endif
