/* SPDX-License-Identifier: MIT */
/*
 * spare.h - UDP sockets with large buffers, made while the daemon has the right to that, for addresses that come later.
 *
 * A buffer is memory only when something lies in it, so a spare socket costs a descriptor.
 */
#ifndef DAEMON_SPARE_H
#define DAEMON_SPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Can large buffers be had? */
bool spare_may(uint32_t rcvbuf);
/* If so: makes them, for the user that the daemon will be; before there are shards. */
void spare_begin(unsigned v4, unsigned v6, uid_t, uint32_t rcvbuf);
void spare_end(void);

/*
 * A datagram socket, or -1 and errno; without a spare one its buffers are what every user can have, and the log says so
 * if it receives.  Any thread.
 */
int spare_take(bool ipv6, bool receives);
/* One that could not be bound: for the next try.  Any thread. */
void spare_give(bool ipv6, int fd);

/* How many are left. */
unsigned spare_n(void);

/* Buffers for a socket of the data path, as large as can be had; those of a spare one remain.  rcvbuf: bytes. */
void spare_buffers(int fd, uint32_t rcvbuf);

#endif
