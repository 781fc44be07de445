/* SPDX-License-Identifier: MIT */
/* query.h - properties of the device and its ports. */
#ifndef VERBS_QUERY_H
#define VERBS_QUERY_H

#include "ctx.h"

/* Row of the GID table as the daemon has it; 0 or an errno (EINVAL: no such row). */
int gid_get(struct rd_ctx *, uint32_t port, uint32_t index, struct msg_gid *);

/* ibv_query_gid_type: tools import it, though no public header declares it.  0, or -1 and errno. */
int gid_type_query(struct ibv_context *, uint8_t port, unsigned int index, unsigned int *type);

#endif
