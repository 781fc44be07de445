/* SPDX-License-Identifier: MIT */
/* query.h - what no public header declares, though tools import it (IBVERBS_PRIVATE_34). */
#ifndef VERBS_QUERY_H
#define VERBS_QUERY_H

struct ibv_context;
int ibv_query_gid_type(struct ibv_context *, uint8_t port, unsigned index, unsigned *type);

#endif
