/* SPDX-License-Identifier: MIT */
/* vma.c - /proc/self/maps: "start-end perm offset major:minor inode      name". */
#include "vma.h"
#include "direct.h"

#include <rdmad/high.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* PROCMAP_QUERY of Linux 6.11: the mapping at an address or behind it, without the text of all those before. */
struct query {
	uint64_t size, how, addr, start, end, flags, page, off, ino;
	uint32_t major, minor, name_len, build_len;
	uint64_t name, build;
};
#define QUERY          _IOWR('f', 17, struct query)
#define QUERY_NEXT     16u
#define QUERY_READABLE 1u
#define QUERY_WRITABLE 2u
#define QUERY_SHARED   8u

void vma_again(struct vma_reader *r)
{
	r->off = 0;
	r->pos = r->len = 0;
	r->eof = false;
}

static bool open_new(struct vma_reader *r)
{
	r->kept = false;
	r->fd = direct_open("/proc/self/maps", O_RDONLY);
	vma_again(r);
	return r->fd >= 0;
}

static struct {
	int fd;
	pid_t pid;
	uint64_t ino;
	unsigned major, minor;
} kept = { .fd = -1 };

static bool kept_stat(struct statx *st)
{
	return kept.fd >= 0 && !syscall(SYS_statx, kept.fd, "", AT_EMPTY_PATH, STATX_INO, st);
}

/* The program may have closed it, and given the number to a file of its own. */
static bool kept_is(void)
{
	struct statx st;

	return kept_stat(&st) && st.stx_ino == kept.ino && st.stx_dev_major == kept.major &&
	       st.stx_dev_minor == kept.minor;
}

bool vma_keep(void)
{
	struct statx st;

	if (kept_is() && kept.pid == getpid())
		return true;
	vma_drop();
	kept.fd = fd_high(direct_open("/proc/self/maps", O_RDONLY));
	if (!kept_stat(&st))
		return false;
	kept.pid = getpid();
	kept.ino = st.stx_ino;
	kept.major = st.stx_dev_major;
	kept.minor = st.stx_dev_minor;
	return true;
}

void vma_drop(void)
{
	if (kept_is())
		direct_close(kept.fd);
	kept.fd = -1;
}

bool vma_open_kept(struct vma_reader *r)
{
	r->kept = true;
	r->fd = kept.fd;
	vma_again(r);
	return kept_is();
}

bool vma_open(struct vma_reader *r) { return open_new(r) || (kept.pid == getpid() && vma_open_kept(r)); }

void vma_close(struct vma_reader *r)
{
	if (!r->kept)
		direct_close(r->fd);
}

/* The next line without its newline, or NULL. */
static char *line_next(struct vma_reader *r)
{
	for (;;) {
		char *line = r->buf + r->pos, *nl = memchr(line, '\n', r->len - r->pos);
		long n;

		if (nl) {
			*nl = 0;
			r->pos = (size_t)(nl - r->buf) + 1;
			return line;
		}
		if (r->eof)
			return NULL;
		memmove(r->buf, line, r->len - r->pos);
		r->len -= r->pos;
		r->pos = 0;
		if (r->len == sizeof(r->buf))
			return NULL;
		n = syscall(SYS_pread64, r->fd, r->buf + r->len, sizeof(r->buf) - r->len, r->off);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			r->eof = true;
		else
			r->len += (size_t)n;
		r->off += n > 0 ? n : 0;
	}
}

bool vma_next(struct vma_reader *r, struct vma *v)
{
	char *p = line_next(r), *end;

	if (!p)
		return false;
	v->start = strtoul(p, &end, 16);
	if (*end != '-')
		return false;
	v->end = strtoul(end + 1, &end, 16);
	if (*end != ' ' || strlen(end) < 6)
		return false;
	memcpy(v->perm, end + 1, 4);
	v->perm[4] = 0;
	v->off = strtoull(end + 6, &end, 16);
	v->major = (unsigned)strtoul(end, &end, 16);
	if (*end != ':')
		return false;
	v->minor = (unsigned)strtoul(end + 1, &end, 16);
	v->ino = strtoull(end, &end, 10);
	while (*end == ' ')
		end++;
	v->name = end;
	return true;
}

int vma_prot(const struct vma *v)
{
	return (v->perm[0] == 'r' ? PROT_READ : 0) | (v->perm[1] == 'w' ? PROT_WRITE : 0) |
	       (v->perm[2] == 'x' ? PROT_EXEC : 0);
}

static struct vma_reader reader; /* where the kernel cannot be asked; under the lock of mem_map.h */

/* Of a mapping that has the byte at, or is the next one behind it. */
static enum vma_fit fit_one(uintptr_t start, uintptr_t end, uintptr_t at, uintptr_t from, bool able)
{
	if (from > at && at > start)
		return VMA_GAP;
	return able || from >= end ? VMA_FITS : VMA_UNABLE;
}

/* false: this kernel cannot be asked. */
static bool fit_ask(int fd, uintptr_t start, uintptr_t end, uint64_t flag, enum vma_fit *fit)
{
	struct query q = { .size = sizeof(q), .how = QUERY_NEXT };

	*fit = VMA_FITS;
	for (q.addr = start; q.addr < end && *fit == VMA_FITS; q.addr = q.end) {
		if (syscall(SYS_ioctl, fd, QUERY, &q)) {
			*fit = q.addr > start ? VMA_GAP : VMA_FITS;
			return errno == ENOENT;
		}
		*fit = fit_one(start, end, q.addr, q.start, q.flags & flag);
	}
	return true;
}

static enum vma_fit fit_read(struct vma_reader *r, uintptr_t start, uintptr_t end, bool write)
{
	enum vma_fit fit = VMA_FITS;
	uintptr_t at = start;
	struct vma v;

	while (at < end && fit == VMA_FITS && vma_next(r, &v)) {
		if (v.end <= at)
			continue;
		fit = fit_one(start, end, at, v.start, write ? v.perm[1] == 'w' : v.perm[0] == 'r');
		at = v.end;
	}
	return fit == VMA_FITS && at > start && at < end ? VMA_GAP : fit;
}

enum vma_fit vma_fit(uintptr_t start, uintptr_t end, bool write)
{
	struct vma_reader *r = &reader;
	enum vma_fit fit;

	if (!vma_open(r))
		return VMA_FITS;
	if (!fit_ask(r->fd, start, end, write ? QUERY_WRITABLE : QUERY_READABLE, &fit))
		fit = fit_read(r, start, end, write);
	vma_close(r);
	return fit;
}

bool vma_shared(uintptr_t start, uintptr_t end)
{
	struct query q = { .size = sizeof(q), .how = QUERY_NEXT };
	struct vma_reader *r = &reader;
	bool may = false;

	if (!vma_open(r))
		return false;
	for (q.addr = start; q.addr < end && !may; q.addr = q.end) {
		if (syscall(SYS_ioctl, r->fd, QUERY, &q)) {
			may = errno != ENOENT;
			break;
		}
		may = q.start < end && q.flags & QUERY_SHARED;
	}
	vma_close(r);
	return may;
}
