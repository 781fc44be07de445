/* SPDX-License-Identifier: MIT */
/*
 * notify.h - tells the service manager how the daemon is: sd_notify(3), by $NOTIFY_SOCKET.
 *
 * libsystemd's opens its socket for each message, and the sandbox has no way to it by then.  So the socket is connected once,
 * before anything is given up, and what is left of the protocol is a datagram with a few lines.
 * All of it is the control thread's, and does nothing where nobody listens.  A message that cannot be sent is lost.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdbool.h>

/* Connects, and takes the variable out of the environment; not so a private daemon, which is not what the manager means. */
void notify_begin(bool private);

void notify_ready(const char *status); /* it serves; status: a line for `systemctl status` */
void notify_reloading(void);           /* it reads its configuration; notify_ready() follows */
void notify_stopping(void);

#endif
