/* SPDX-License-Identifier: MIT */
/*
 * region.h - the memory of a client that an MR names, and the two ways into it.
 *
 * mem_vm reaches any memory by process_vm_readv/writev; mem_map has the very pages mapped
 * (a memfd or another file of the kernel's memory, or a dma-buf, sent with MSG_MR_REG).  A region may be part one, part
 * the other.  The core's struct mem_ops (region_mem_ops) and the UDP edge both work on spans.
 */
#ifndef DAEMON_REGION_H
#define DAEMON_REGION_H

#include <stdint.h>
#include <stdbool.h>
#include <sys/types.h>

#include "../../proto/mem.h"
#include "mem_map.h"

struct region;
#define REGION_LEN 128u /* bytes of heap of one, at most, without its mapping */

/*
 * The addresses [addr, addr+len) of a peer, which must outlive the region.  fd >= 0 (not taken over): a memfd or the like that
 * holds that part of them, else EINVAL; that it is what the program has there is its own affair.
 * 0 or a positive errno: EFAULT if the memory is not there (a first byte is read to see), EPERM if
 * this daemon may not reach into the process: ptrace rights are wanting.
 */
int region_new(struct region **, struct peer *, uint64_t addr, uint64_t len, int fd, const struct map_part *);
/*
 * The same with a part in a SysV segment: by its descriptor, or fd -1 and its id.  Besides: EINPROGRESS: the program has to
 * show that it has it (segment.h); EACCES, EPERM, EINVAL, EIDRM: it cannot be had, and region_new() without a mapping is the way.
 */
int region_new_segment(struct region **, struct peer *, uint64_t addr, uint64_t len, int fd, int id,
		       const struct map_part *);
/* Memory that need not be there yet: it is reached when it is used, by the addresses as they are then. */
int region_new_lazy(struct region **, struct peer *, uint64_t addr, uint64_t len);
/* len bytes of fd from off on, to be known as [addr, addr+len): a memfd with F_SEAL_SHRINK, or a dma-buf; else EINVAL.
 * The peer, whose user is charged with a mapping, must outlive the region. */
int region_new_fd(struct region **, const struct peer *, uint64_t addr, uint64_t len, int fd, uint64_t off);
/* The same of what is mapped here already, off bytes behind its start; the mapping must outlive the region. */
int region_new_held(struct region **, uint64_t addr, uint64_t len, struct held *, uint64_t off);
/* All addresses: zeros are read, what is written is dropped. */
int region_new_null(struct region **);
void region_free(struct region *);
/* Of memory of a program, which has closed the context: none of it can be reached any more, and who tries has an error. */
void region_orphan(struct region *);

extern const struct mem_ops region_mem_ops; /* mem_host is not used */

/* Where len bytes, off bytes behind the start of the spans, lie in this process in one piece; NULL: they do not. */
const uint8_t *region_look(const struct span *, unsigned n, uint64_t off, uint64_t len);

/*
 * on: from now on this thread's copies of a few bytes into memory that only a system call reaches may be put off,
 * in their order and before any other access, so that one call makes many of them.  off: carries them out.  One
 * that cannot be made any more - the program unmapped memory of an MR it has - is lost as it is with hardware, which
 * goes on writing to the pages that were there; that region's copies are not put off again, and fail in the open.
 */
void region_defer(bool on);

#endif
