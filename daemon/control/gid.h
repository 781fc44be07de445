/* SPDX-License-Identifier: MIT */
/* gid.h - the GID tables of the devices follow the addresses of the host.  Control thread. */
#ifndef DAEMON_GID_H
#define DAEMON_GID_H

#include "../base/device.h"

struct ev_loop;

/*
 * Fills the devices' GID tables, MTU, speed and state from the host's addresses (device_conf[] says
 * which), and follows their changes.  Once, before or after the shards are started.  0, or an errno that has been told.
 * A UDP port that is taken is tried again for a few seconds.  must: if it is that of an address that the configuration
 * names, this waits for it, and gives up with EADDRINUSE, or EINTR if SIGTERM or SIGINT is pending.
 */
int gid_start(struct ev_loop *, bool must);
void gid_stop(struct ev_loop *);
/* Its addresses change places: each goes to another row of the table. */
void gid_move(struct device *);

#endif
