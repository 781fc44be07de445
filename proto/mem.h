/* SPDX-License-Identifier: MIT */
/*
 * mem.h - how the core reaches memory that is not its own.
 *
 * The core never sees a byte of a program's memory.  It moves spans: a region that the
 * host named when the MR was registered, an address in it, a length.  The host knows
 * how to get there (a mapping, process_vm_writev, an array of the simulator).
 */
#ifndef PROTO_MEM_H
#define PROTO_MEM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A run of bytes.  region NULL: addr is a pointer of this process (received bytes, inline data). */
struct span {
	void *region;  /* the host's name of a memory region (struct mr_attr.region) */
	uint64_t addr; /* the program's virtual address (not the iova) */
	uint32_t len;
};

/*
 * All return 0 or a positive errno.  The core calls them only with ranges inside a
 * region, after all checks; an error is the program's doing (it unmapped the memory).
 */
struct mem_ops {
	/*
	 * Copies as many bytes as dst[] holds, taken from src_off bytes into the bytes of src[] on
	 * (src[] has enough).  After an error any part of dst may have been written.
	 * ESRCH: a program that one side belongs to has ended.  EIO: src cannot be read.  Neither is the fault of
	 * who receives: the packets count as lost.  Any other error is about dst.
	 */
	int (*copy)(void *host, const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n,
		    uint64_t src_off);
	/* On the 8 aligned bytes at *at, as a number of the host's byte order; *old gets what was there. */
	int (*cmp_swap)(void *host, const struct span *at, uint64_t compare, uint64_t swap, uint64_t *old);
	int (*fetch_add)(void *host, const struct span *at, uint64_t add, uint64_t *old);
	/* All 8 bytes at once, as they lie in *value. */
	int (*store)(void *host, const struct span *at, uint64_t value);
	/* Copies that the host has put off are made now: a program is about to learn of them.  NULL: none is ever put off. */
	void (*settle)(void *host);
};

/* Of copy()'s results: nobody here is to blame, the packets count as lost. */
static inline bool mem_lost(int err) { return err == ESRCH || err == EIO; }

#endif
