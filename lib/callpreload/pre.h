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

/* Of headers that have these: they are declared here as those that lack them need it. */
#define ibv_reg_mr_ex  header_reg_mr_ex
#define ibv_reg_buf_mr header_reg_buf_mr
#include <infiniband/verbs.h>
#undef ibv_reg_mr_ex
#undef ibv_reg_buf_mr
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* The public names are macros where the header has inlines in front of them. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

#define EXPORT     __attribute__((visibility("default")))
#define ARRAY_N(a) (sizeof(a) / sizeof((a)[0]))

/* As in rdma-core 59 and 64. */
enum { REG_IOVA = 1, REG_ADDR = 2, REG_FD = 4 };

struct reg_attr {
	size_t length;
	int access;
	uint64_t comp_mask; /* nothing behind it is read without its bit */
	uint64_t iova;
	void *addr;
	int fd;
};

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *, struct reg_attr *);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *, void *buf, void *addr, size_t len, int access);

/* As in rdma-core 60. */
int rdma_write_cm_event(struct rdma_cm_id *, enum rdma_cm_event_type, int status, uint64_t arg);
int rdma_resolve_addrinfo(struct rdma_cm_id *, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *, struct rdma_addrinfo **);

/* The function of that name behind ours. */
void *real_find(const char *name);

#endif
