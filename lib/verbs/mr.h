/* SPDX-License-Identifier: MIT */
/* mr.h - memory regions. */
#ifndef VERBS_MR_H
#define VERBS_MR_H

#include <rdmad/abi.h>

#include "ctx.h"
#include "dmah.h"
#include "mem_map.h"

struct rd_mr {
	struct ibv_mr mr;
	struct hash_node hash;
	uint64_t iova;
	uint32_t key; /* its lkey, whatever the program does to the public one */
	uint32_t access;
	uint32_t kind; /* enum msg_mr_kind */
	uint32_t pd;   /* its handle: a parent domain, the public one, may be gone */
	bool listed;   /* in the table by lkey */
	struct map_range range;
	struct rd_dmah *dmah; /* or NULL */
};

/* Where the bytes of an MR come from. */
struct mr_src {
	enum msg_mr_kind kind;
	int fd;       /* MR_DMABUF */
	uint32_t dm;  /* MR_DM: its handle */
	uint64_t off; /* in either */
};

/* Registers it: access has been checked.  NULL: errno. */
struct ibv_mr *mr_make(struct ibv_pd *, void *addr, size_t len, uint64_t iova, unsigned access, const struct mr_src *);
/* 0 or an errno. */
int mr_access_check(unsigned access);
/* The MR of this lkey, or NULL; with ctx->map_lock held. */
struct rd_mr *mr_find(struct rd_ctx *, uint32_t lkey);

/*
 * The bytes that an sge names, if the library may read them: the lkey is of an MR of this context and covers
 * them. NULL: let the daemon find out what is wrong.  *cache, *gen: the caller's, the MR it used last.
 */
struct mr_cache {
	uint32_t lkey, gen;
	uint64_t iova, len;
	const uint8_t *addr;
};
const void *mr_bytes(struct rd_ctx *, struct mr_cache *, const struct sge *);

#endif
