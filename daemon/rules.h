/* SPDX-License-Identifier: MIT */
/* rules.h - flows with counters and RSS of a RAW_PACKET QP; include/rdmad/rules.h says what the library sends. */
#ifndef DAEMON_RULES_H
#define DAEMON_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rules_set;

/* What the kernel says of a frame besides its bytes. */
struct rules_meta { bool vlan; uint16_t tci; };

/* Control thread.  fd stays the caller's.  0, EINVAL: nonsense, or ENOMEM. */
int rules_read(struct rules_set **, int fd);
void rules_free(struct rules_set *);		/* NULL: nothing */

/* Shard thread.  Is the frame the QP's?  Counts it. */
bool rules_take(struct rules_set *, const uint8_t *frame, size_t len, const struct rules_meta *);
/* The WQ that it is for; 0: it stays with the QP. */
uint32_t rules_wq(const struct rules_set *, const uint8_t *frame, size_t len);

#endif
