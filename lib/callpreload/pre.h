/* SPDX-License-Identifier: MIT */
/*
 * pre.h - a look at each call of libibverbs and librdmacm: a library to be preloaded (rdmad-run --check, --trace).
 *
 * Its functions have the names of theirs.  Verbs that are inlines in the headers go through tables in the context, in a CQ
 * and in a QP: there ours are put in front when the object is made.  The libraries below know nothing of it, so a program
 * that is not looked at pays nothing, and those of rdma-core can be looked at as well.
 *
 *	calls.def, slots.def	the calls: names, arguments, what is done before and behind
 *	wrap.c  slot.c  ex.c	the functions that are made of them
 *	trace.c  text.c		--trace: a line for each call
 *	object.c		--check: what there is, and what there was
 *	work.c  poll.c		requests that are posted, and their completions
 *	region.c  content.c	their memory: keys, rights, bounds, and whether it changes
 *	finding.def  finding.c  stack.c		what is told
 *
 * A call within a call is the library's own, and is left alone: on two levels, as librdmacm calls verbs.  Objects are known
 * by their pointers.  check_lock guards all that --check knows; each QP, CQ and SRQ has a lock besides, its turn, that is
 * held over the call itself, so that what is noted has the order of what was done.
 */
#ifndef CALLPRELOAD_PRE_H
#define CALLPRELOAD_PRE_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* The public names are macros where the header has inlines in front of them. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

#define EXPORT     __attribute__((visibility("default")))
#define ARRAY_N(a) (sizeof(a) / sizeof((a)[0]))

/* The function of that name behind ours. */
void *real_find(const char *name);

#endif
