/* SPDX-License-Identifier: MIT */
/* pd.h - protection domains, parent domains, thread domains; memory from the program's allocator. */
#ifndef VERBS_PD_H
#define VERBS_PD_H

#include "base.h"

struct rd_td {
	struct ibv_td td;
	uint32_t users; /* atomic; parent domains */
};

/* A PD, or a parent domain, which names one and has the same handle. */
struct rd_pd {
	struct ibv_pd pd;
	uint32_t
		users; /* atomic; address handles; parent domains of a PD; what lies in a parent domain, or in memory of its allocator */
	struct rd_pd *base; /* a parent domain's PD; NULL: this is none */
	struct rd_td *td;   /* or NULL */
	void *(*alloc)(struct ibv_pd *, void *, size_t, size_t, uint64_t);
	void (*free)(struct ibv_pd *, void *, void *, uint64_t);
	void *context;
};

static inline struct rd_pd *to_pd(struct ibv_pd *p) { return (struct rd_pd *)p; }

/* Of two contexts, or of two PDs?  A parent domain is the PD that it names. */
static inline bool pd_same(const struct ibv_pd *a, const struct ibv_pd *b)
{
	return a->context == b->context && a->handle == b->handle;
}

void pd_use(struct rd_pd *, int n);     /* n more address handles */
void pd_object(struct ibv_pd *, int n); /* n more objects that name it; NULL: none */

/* The kind of object that memory is for, as an allocator is told. */
enum res_type { RES_QP = 1, RES_CQ, RES_SRQ };

/*
 * Zeroed memory for the struct of an object; pd NULL or without an allocator: libc's.  *from: for
 * pd_free().  NULL: errno.
 */
void *pd_calloc(struct ibv_pd *pd, size_t len, enum res_type, struct rd_pd **from);
void pd_free(struct rd_pd *from, void *, enum res_type);

#endif
