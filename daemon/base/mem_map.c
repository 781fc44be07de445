/* SPDX-License-Identifier: MIT */
/*
 * mem_map.c - mapping a client's dma-buf, or file of the kernel's memory: a memfd, or one of tmpfs or hugetlbfs.
 *
 * Pages beyond the end of a file that its owner cut short are gone, as those of a hole may be: held.h deals with both.
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

bool map_keeps_size(int fd)
{
	int seals;

	return foreign_is_memfd(fd, &seals) ? seals & F_SEAL_SHRINK : foreign_is_dmabuf(fd);
}

/* 0: none that could be mapped.  A file on a disk or of a server is not asked: it might not answer. */
static uint64_t file_size(int fd)
{
	struct stat st;
	off_t end;

	if (foreign_is_memfd(fd, NULL))
		return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
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
	if (err) /* that it can be mapped is its exporter's choice: memory of GPUs mostly cannot */
		return err == ENOMEM || foreign_is_memfd(fd, NULL) ? err : EOPNOTSUPP;
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
