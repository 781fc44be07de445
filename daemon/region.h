/* SPDX-License-Identifier: MIT */
/*
 * region.h - the memory of a client that an MR names, and the two ways into it.
 *
 * mem_vm reaches any memory by process_vm_readv/writev; mem_map has the very pages mapped
 * (a memfd sealed against shrinking, sent with MSG_MR_REG).  A region may be part one, part
 * the other.  The core's struct mem_ops (region_mem_ops) and the UDP edge both work on spans.
 */
#ifndef DAEMON_REGION_H
#define DAEMON_REGION_H

#include <sys/types.h>
#include <sys/uio.h>

#include "../proto/mem.h"

struct region;

/*
 * The addresses [addr, addr+len) of process pid.  map_fd >= 0 (not taken over): a memfd that
 * holds [map_addr, map_addr+map_len) at map_off; it must carry F_SEAL_SHRINK, else EINVAL.
 * 0 or a positive errno: EFAULT if the memory cannot be reached (a first byte is read to see; EPERM
 * with a log line that says what to do about ptrace rights).
 */
int region_new(struct region **, pid_t pid, uint64_t addr, uint64_t len,
	       int map_fd, uint64_t map_addr, uint64_t map_len, uint64_t map_off);
void region_free(struct region *);

extern const struct mem_ops region_mem_ops;	/* mem_host is not used */

/*
 * len bytes from src_off bytes into src[] on, for sending: fills iov with pointers into mappings where it can and
 * copies the rest to bounce (which must have len bytes).  Returns the number of iov used, or -errno.
 */
int region_gather(const struct span *src, unsigned src_n, uint64_t src_off, uint32_t len,
		  struct iovec *iov, unsigned iov_max, uint8_t *bounce);

#endif
