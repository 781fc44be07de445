/* SPDX-License-Identifier: MIT */
/*
 * raw.h - the packet sockets of RAW_PACKET QPs.
 *
 * The client opened the socket, which shows that it may, and steers by the filters that it sets on its own copy of the
 * descriptor: whatever comes out of it is for the QP.
 */
#ifndef DAEMON_RAW_H
#define DAEMON_RAW_H

#include "ctx.h"

#define RAW_LEN 131072u /* bytes of heap of one, with its rules, at most */

/* Control thread: takes over fd.  0, EINVAL: not a packet socket, EXDEV: not of this network namespace. */
int raw_new(struct raw **, int fd, uid_t);
void raw_free(struct raw *); /* NULL: nothing */

/* Shard thread: these from now on, NULL: none; the old ones. */
struct steer_set;
struct steer_set *raw_steer(struct raw *, struct steer_set *);
/* Shard thread: the QP, which has its number, receives from now on; 0, ENOMEM: too many. */
int raw_begin(struct ctx_qp *);
void raw_end(struct ctx_qp *);
void raw_ready(struct shard *, unsigned slot);
bool raw_hot(const struct shard *); /* there may be frames */
void raw_rx(struct shard *, mono_t now);
/* Frames that there was no room for: when they are tried again; and doing that, true: some were. */
mono_t raw_deadline(const struct shard *);
bool raw_again(struct shard *, mono_t now);
/* As how many bytes what raw_tx() sends of a frame counts. */
uint64_t raw_cost(const struct burst *);
void raw_tx(struct shard *, struct hca *, unsigned device, const struct burst *, mono_t now);

#endif
