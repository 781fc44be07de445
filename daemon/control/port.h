/* SPDX-License-Identifier: MIT */
/* port.h - the port of a device: its state, MTU and speed, and its events.  Control thread. */
#ifndef DAEMON_PORT_H
#define DAEMON_PORT_H

#include "../base/device.h"

struct host;

/* Takes MTU, speed and state from the interfaces that the rows of the GID table stand on. */
void port_follow(struct device *, const struct host *);
/* Its speed as ibv_port_attr states it: the codes of a lane's speed and of the number of lanes. */
void port_lanes(const struct device *, uint8_t *speed, uint8_t *width);
/* The port is taken down, or no longer, whatever its interfaces are. */
void port_cut(struct device *, bool cut);
/* The device is not there, or is again. */
void port_unplug(struct device *, bool gone);

/* Called for each event of a port: EV_GID_CHANGE, EV_PORT_ACTIVE or EV_PORT_ERR.  NULL: nobody is there yet, or any more. */
extern void (*port_notify)(struct device *, unsigned event_type);
void port_tell(struct device *, unsigned event_type);

#endif
