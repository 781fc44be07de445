/* SPDX-License-Identifier: MIT */
/*
 * taken.h - UDP ports that are somebody else's: another rdmad's, or the module's rdma_rxe.
 *
 * Each picture of the host's addresses says anew which they are: taken_none(), then taken_put() for each.  Control thread.
 */
#ifndef DAEMON_TAKEN_H
#define DAEMON_TAKEN_H

#include "../base/device.h"

struct ev_loop;

void taken_none(void);
void taken_put(const struct device *, const uint8_t gid[16]);
/*
 * After a picture: an address that is taken is told of once, and tried again for a few seconds, each time by a picture (look).
 * It may also be free later: with each change of the host's addresses it is tried again.
 */
void taken_follow(struct ev_loop *, int (*look)(void));
/*
 * Waits until the addresses that the configuration names are free.  A private daemon is made for the addresses that it was given:
 * without them it would be of no use, and not say so.  0; EADDRINUSE, if it takes too long; EINTR: SIGTERM or SIGINT is
 * pending; or what look says.  It has been told.
 */
int taken_wait(int (*look)(void));
void taken_end(struct ev_loop *);

#endif
