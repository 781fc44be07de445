/* SPDX-License-Identifier: MIT */
/*
 * mem_map.h - memory of another process whose very pages are mapped here, too.
 */
#ifndef DAEMON_MEM_MAP_H
#define DAEMON_MEM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "held.h"

/* The program's addresses [addr, addr+len) are at ptr; len 0: nothing is mapped. */
struct mem_map {
	uint64_t addr, len;
	uint8_t *ptr;
	struct held *held;
};

/*
 * Maps len bytes at off of fd (which stays the caller's) as the program's addr.  EINVAL: neither memory of the kernel's
 * (foreign_is_memfd) nor a dma-buf, shorter than that, or addr and off lie differently in their pages.  EACCES: not open
 * for writing.
 */
int map_new(struct mem_map *, int fd, uint64_t addr, uint64_t len, uint64_t off);
/* It cannot be shortened: a memfd with F_SEAL_SHRINK, or a dma-buf. */
bool map_keeps_size(int fd);
void map_free(struct mem_map *);

#endif
