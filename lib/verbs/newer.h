/* SPDX-License-Identifier: MIT */
/*
 * newer.h - what rdma-core 45 and later have in verbs.h, for headers that lack it: numbers as macros, behind verbs.h, so that
 * a header which has them as enumerators does no harm; structures under names of our own (abi_check.c has their layout).
 */
#ifndef VERBS_NEWER_H
#define VERBS_NEWER_H

#include "base.h"

#define IBV_WR_FLUSH         14
#define IBV_WC_FLUSH         8
#define IBV_QP_EX_WITH_FLUSH (1u << 11)

/* ---- 59 and 64: the registration that has them all, DMA handles, buffers of the library's ------------ */

#define MR_MASK_IOVA      (1u << 0)
#define MR_MASK_ADDR      (1u << 1)
#define MR_MASK_FD        (1u << 2)
#define MR_MASK_FD_OFFSET (1u << 3)
#define MR_MASK_DMAH      (1u << 4)
#define MR_MASK_BUF       (1u << 5)

/* Of ibv_alloc_parent_domain(): buffers may be memory that a confidential guest shares with its host. */
#define PARENT_DOMAIN_CC (1u << 2)

struct newer_dmah {
	struct ibv_context *context;
};

struct rd_buf;

struct newer_mr_attr {
	size_t length;
	int access;
	uint64_t comp_mask; /* MR_MASK_...: nothing behind it is read without its bit */
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct newer_dmah *dmah;
	struct rd_buf *buf; /* 64 */
};

#define DMAH_MASK_CPU      (1u << 0)
#define DMAH_MASK_PH       (1u << 1)
#define DMAH_MASK_MEM_TYPE (1u << 2)
#define DMAH_MEM_TYPE_MAX  1 /* volatile, persistent */
#define DMAH_PH_MAX        3 /* two bits in a PCIe packet */

struct newer_dmah_attr {
	uint32_t comp_mask;
	uint32_t cpu_id;
	uint8_t ph;
	uint8_t mem_type;
};

/* ---- 65: completion counters ------------------------------------------------------------------------ */

#define CNTR_TYPE_BYTES 1u /* 0: requests */

struct newer_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

struct newer_cntr_attr {
	uint32_t comp_mask;
	uint32_t type;
	uint32_t flags;
};

struct newer_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t ops; /* bit per enum cntr_op */
};

struct newer_cntr_attach {
	uint32_t comp_mask;
	uint32_t ops;
};

#endif
