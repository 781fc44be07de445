/* SPDX-License-Identifier: MIT */
/*
 * region.h - memory that requests use: which region it is of, and whether that may be.
 *
 * All with check_lock, but for those behind calls.
 */
#ifndef CALLPRELOAD_REGION_H
#define CALLPRELOAD_REGION_H

#include "object.h"
#include "work.h"

/* Behind a call that made it. */
void region_made(struct ibv_mr *, uint64_t iova, unsigned int access, bool plain);
void region_ex_made(struct ibv_mr *, const struct reg_attr *);
void region_changed(struct ibv_mr *, int flags, unsigned int access);

/* A request that is about to be posted to o: its keys, bounds and rights. */
void region_check(const struct object *o, const struct note *, const struct ibv_sge *, int sge_n);
/* Where the memory of an sge lies; NULL: it is not memory that the program may look at.  May others write to it, by that key? */
const char *region_at(const struct object *o, const struct ibv_sge *, bool *others);
/* May others write to that memory, by the key of any region? */
bool region_others(const char *at, size_t len);

#endif
