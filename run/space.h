/* SPDX-License-Identifier: MIT */
/* space.h - namespaces of our own, for root and for others. */
#ifndef RUN_SPACE_H
#define RUN_SPACE_H

/*
 * This process gets new namespaces (CLONE_NEW...), if need be in a new user namespace, in which it keeps its number.  NULL, or
 * why not, as a clause that is good until the next call.
 */
const char *space_new(int flags);

/* The loopback of a new network namespace comes up.  NULL, or why not. */
const char *space_loopback(void);

#endif
