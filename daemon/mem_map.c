/* SPDX-License-Identifier: MIT */
/*
 * mem_map.c - mapping a client's memfd or dma-buf.
 *
 * A file that its owner could cut short would kill the daemon with SIGBUS at the next access.  The
 * seal forbids that, and seals cannot be taken off again: so it is enough to look once.
 */
#include "mem_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#define POPULATE_MAX	(64ull << 20)	/* a larger one is faulted in as it is used */

/* Of a file that keeps its size, else 0: a sealed memfd, or a dma-buf, which never changes it. */
static uint64_t file_size(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;
	off_t end;

	if (seals >= 0)
		return seals & F_SEAL_SHRINK && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	if (fstatfs(fd, &fs) < 0 || fs.f_type != DMA_BUF_MAGIC)
		return 0;
	end = lseek(fd, 0, SEEK_END);
	return end > 0 ? (uint64_t)end : 0;
}

int map_new(struct mem_map *m, int fd, uint64_t addr, uint64_t len, uint64_t off)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), head = off & (page - 1);
	uint64_t size = file_size(fd);
	int flags = MAP_SHARED;

	memset(m, 0, sizeof(*m));
	if (!len || addr + len < addr || off > size || len > size - off)
		return EINVAL;
	if ((addr & (page - 1)) != head)
		return EINVAL;

	if (len <= POPULATE_MAX)
		flags |= MAP_POPULATE;
	m->base_len = len + head;
	m->base = mmap(NULL, m->base_len, PROT_READ | PROT_WRITE, flags, fd, (off_t)(off - head));
	if (m->base == MAP_FAILED) {
		memset(m, 0, sizeof(*m));
		return errno;
	}
	m->addr = addr;
	m->len = len;
	m->ptr = (uint8_t *)m->base + head;
	return 0;
}

void map_free(struct mem_map *m)
{
	if (m->len)
		munmap(m->base, m->base_len);
	memset(m, 0, sizeof(*m));
}
