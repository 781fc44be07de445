/* SPDX-License-Identifier: MIT */
/* steer.h - flows with counters and RSS of a RAW_PACKET QP; include/rdmad/steer.h has the format that the library sends. */
#ifndef DAEMON_STEER_H
#define DAEMON_STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct steer_set;

/* Facts about a frame besides its bytes, from the kernel. */
struct steer_meta {
	bool vlan;
	uint16_t tci;
};

/* Control thread.  fd stays the caller's.  0, EINVAL: nonsense, or ENOMEM. */
int steer_read(struct steer_set **, int fd);
void steer_free(struct steer_set *); /* NULL: nothing */

/* Shard thread.  Is the frame the QP's?  Counts it. */
bool steer_take(struct steer_set *, const uint8_t *frame, size_t len, const struct steer_meta *);
/* The WQ that it is for; 0: it stays with the QP. */
uint32_t steer_wq(const struct steer_set *, const uint8_t *frame, size_t len);

#endif
