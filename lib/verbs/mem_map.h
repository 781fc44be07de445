/* SPDX-License-Identifier: MIT */
/*
 * mem_map.h - memory that the daemon may map: what is shared already, and registered pages that become pages of a
 * memfd, in place.
 *
 * Of that the program sees no difference: same addresses, same bytes.  The one thing that a memfd would change - a
 * forked child would share the memory - is undone at fork.  When there is any doubt nothing is done, and the daemon
 * reaches the memory through the kernel, which is slower and always right.
 *
 * $RDMAD_MAP: the smallest region that is worth it, in bytes, or with K, M or G; 0: none is.  Default: MAP_LEAST with libc's
 * malloc, 0 with another; for what is shared already MAP_LEAST.
 */
#ifndef VERBS_MEM_MAP_H
#define VERBS_MEM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vma.h"

#define MAP_LEAST       4096u
#define MAP_SMALL       65536u       /* registering less than that takes several times as long with it, ... */
#define MAP_SMALL_TRIES 32u          /* ... so a program that does so again and again is spared */
#define MAP_MOST        (4ull << 30) /* bytes of a region that are copied: some seconds; what is not there costs nothing */
#define MAP_MOST_AGAIN  (1ull << 30)  /* of one that was turned back before, and will be again */
#define MAP_CONVS       128u          /* at most; each has a descriptor */
#define MAP_PAST        16u           /* ranges that are known again, ... */
#define MAP_KEEP        (32ull << 20) /* ... and kept while nobody uses them: bytes, at most */
#define MAP_SHARED_MOST 1024u         /* files of shared memory: each takes a mapping of the daemon, which has 65530 */

struct conv;
struct shared_file;

/* A registered range; lives in its MR. */
struct map_range {
	struct map_range *next, **prev;
	uintptr_t start, end;
	struct conv *conv;          /* or NULL */
	struct shared_file *shared; /* was passed as what it is; or NULL */
};

/* Sent with MSG_MR_REG: fd is valid until map_dereg(); -1: nothing to map. */
struct map_pass {
	int fd;
	bool once; /* fd is the caller's, who closes it, and may go on without it if the daemon does not take it */
	int seg;   /* it is the SysV segment of this id, plus 1, and fd may be -1; 0: it is none */
	uint64_t addr, len, off;
};

/*
 * The daemon asks for it (EINPROGRESS): changes something about the mapping of the segment, so that the kernel writes down that
 * this process has it.  false: cannot.
 */
bool map_show(const struct map_pass *);
/* Enters [addr, addr+len) and says what the daemon may map of it, if it can all be read, or written to. */
enum vma_fit map_reg(struct map_range *, const void *addr, size_t len, bool write, struct map_pass *);
/* Enters a range that the daemon reaches by its addresses: nothing there is converted, or turned back, while it is. */
void map_reg_lazy(struct map_range *, const void *addr, size_t len);
/* Moves the entry from one struct to another that is empty. */
void map_move(struct map_range *to, struct map_range *from);
/* The daemon does not use the range any more. */
void map_dereg(struct map_range *);
/* Nothing is kept for later, unless there are ranges still. */
void map_forget(void);

#endif
