/* SPDX-License-Identifier: MIT */
/*
 * mem_map.h - memory of another process whose very pages are mapped here, too.
 *
 * What one client sends of one file shares a mapping, which reaches a good way around what was asked for: so a program can
 * have more regions than a process can have mappings.  Control thread.
 */
#ifndef DAEMON_MEM_MAP_H
#define DAEMON_MEM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "held.h"

struct map_file;
struct peer;
struct touch;

/* The program's addresses [addr, addr+len) are at ptr; len 0: nothing is mapped. */
struct mem_map {
	uint64_t addr, len;
	uint8_t *ptr;
	struct held *held;
	struct map_file *file; /* NULL: the mapping is another's, and stays */
	struct touch *touch;   /* its file's; NULL: huge pages, a dma-buf, or a mapping of another's */
};

/* The program's addresses [addr, addr+len) are the bytes from off on of a file. */
struct map_part {
	uint64_t addr, len, off;
};

/*
 * Maps that part of fd (which stays the caller's); the client outlives the mapping, and a new one is charged to its user.
 * segment: it is a SysV segment, as the client says.  EINVAL: neither memory of the kernel's (foreign_is_memfd) nor a dma-buf,
 * shorter than that, or addr and off lie differently in their pages.  EACCES: not open for writing.  ENOMEM: its user has all that
 * he may have.
 */
int map_new(struct mem_map *, const struct peer *client, int fd, bool segment, const struct map_part *);
/*
 * The same of the SysV segment of that id, of which all is mapped.  EINPROGRESS, EACCES, EPERM, EIDRM: see segment.h; EINVAL: it
 * is shorter, or there is none.
 */
int map_new_segment(struct mem_map *, struct peer *client, int id, const struct map_part *);
/* It cannot be shortened: a memfd with F_SEAL_SHRINK, or a dma-buf. */
bool map_keeps_size(int fd);
void map_free(struct mem_map *);

#endif
