/* SPDX-License-Identifier: MIT */
/*
 * mem_map.c - mapping a client's memfd or dma-buf.
 *
 * Pages beyond the end of a file that its owner cut short are gone.  The seal forbids that, and seals cannot be taken off
 * again: so it is enough to look once.  held.h deals with holes that are made later.
 */
#include "mem_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "foreign.h"

#define POPULATE_MAX (64ull << 20) /* a larger one is faulted in as it is used */

/* Of a file that keeps its size, else 0: a sealed memfd, or a dma-buf, which never changes it. */
static uint64_t file_size(int fd)
{
	struct stat st;
	int seals;
	off_t end;

	if (foreign_is_memfd(fd, &seals))
		return seals & F_SEAL_SHRINK && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	if (!foreign_is_dmabuf(fd))
		return 0;
	end = lseek(fd, 0, SEEK_END);
	return end > 0 ? (uint64_t)end : 0;
}

int map_new(struct mem_map *m, int fd, uint64_t addr, uint64_t len, uint64_t off)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), head = off & (page - 1);
	uint64_t size = file_size(fd);
	size_t block;
	int flags = 0, err;

	memset(m, 0, sizeof(*m));
	if (!len || addr + len < addr || off > size || len > size - off)
		return EINVAL;
	if ((addr & (page - 1)) != head)
		return EINVAL;

	if (len <= POPULATE_MAX)
		flags = MAP_POPULATE;
	block = off & (held_page(fd) - 1);
	err = held_map(&m->held, fd, off - block, len + block, flags);
	if (err)
		return err;
	m->addr = addr;
	m->len = len;
	m->ptr = m->held->base + block;
	return 0;
}

void map_free(struct mem_map *m)
{
	held_unmap(m->held);
	memset(m, 0, sizeof(*m));
}
