/* SPDX-License-Identifier: MIT */
/*
 * mem_shared.c - memory that is shared already: a memfd, tmpfs (/dev/shm), hugetlbfs, shmget(), MAP_SHARED without a file.
 *
 * The daemon can map the file itself.  A descriptor of it is had in one of three ways, the cheapest first:
 *
 *	/proc/self/map_files	any mapping; the kernel wants CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE for it
 *	the path		if the file has still its name
 *	/proc/self/fd		if the program has kept its descriptor, as with a memfd
 *
 * What shmget() has made is in /proc/self/maps as "/SYSV", its key and, as the inode, its id, which is no number of a file: a memfd
 * may have the same one.  A daemon for this user attaches it by that id, once this process has shown that it has it
 * mapped (map_show).  Without privileges MAP_SHARED without a file has none of all that.  Files on disks and of servers are not
 * passed: a page of theirs may take long, or never come, and the daemon would wait for it.
 */
#include "mem_map_in.h"

#include "direct.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <linux/magic.h>

#include "vma.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* Mappings one behind the other of one file, with nothing left out. */
struct run {
	uintptr_t start, end;
	uint64_t off, ino;
	unsigned major, minor;
	bool seg;                     /* SysV: ino is its id */
	uintptr_t vma_start, vma_end; /* the first */
	char path[512];
};

static bool is_segment(const char *name)
{
	if (strncmp(name, "/SYSV", 5))
		return false;
	for (name += 5; isxdigit((unsigned char)*name); name++)
		;
	return !strcmp(name, " (deleted)");
}

static bool vma_is_segment(const struct vma *v) { return is_segment(v->name) && v->ino < INT_MAX; }

static bool is_next(const struct run *r, const struct vma *v)
{
	return v->start == r->end && v->ino == r->ino && v->major == r->major && v->minor == r->minor &&
	       v->off == r->off + (r->end - r->start) && r->seg == vma_is_segment(v);
}

static void run_begin(struct run *r, const struct vma *v)
{
	*r = (struct run){ .start = v->start,
			   .off = v->off,
			   .ino = v->ino,
			   .major = v->major,
			   .minor = v->minor,
			   .seg = vma_is_segment(v),
			   .vma_start = v->start,
			   .vma_end = v->end };
	if (strlen(v->name) < sizeof(r->path))
		strcpy(r->path, v->name);
}

/* The longest run in [start, end); false: there is none. */
static bool run_find(struct run *best, uintptr_t start, uintptr_t end)
{
	static struct vma_reader r; /* under the lock; too large for small stacks */
	struct run now = { 0 };
	struct vma v;

	best->start = best->end = 0;
	if (!vma_open(&r))
		return false;
	while (vma_next(&r, &v) && v.start < end) {
		if (v.end <= start || v.perm[1] != 'w' || v.perm[3] != 's' || (!v.ino && !is_segment(v.name)))
			continue;
		if (!is_next(&now, &v))
			run_begin(&now, &v);
		now.end = v.end;
		if ((now.end < end ? now.end : end) - (now.start > start ? now.start : start) >
		    best->end - best->start) {
			*best = now;
			best->start = now.start > start ? now.start : start;
			best->end = now.end < end ? now.end : end;
			best->off = now.off + (best->start - now.start);
		}
	}
	vma_close(&r);
	return best->end > best->start;
}

static bool is_file(const struct run *r, int fd)
{
	struct statx st;

	return !syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_TYPE, &st) &&
	       S_ISREG(st.stx_mode) && st.stx_ino == r->ino && st.stx_dev_major == r->major &&
	       st.stx_dev_minor == r->minor;
}

/* Of the kernel's memory, may be written, and the one that is mapped. */
static bool is_run(const struct run *r, int fd)
{
	int seals = direct_fcntl(fd, F_GET_SEALS, 0), flags = direct_fcntl(fd, F_GETFL, 0);

	return seals >= 0 && !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) && (flags & O_ACCMODE) == O_RDWR &&
	       is_file(r, fd);
}

/* Looked at before it is opened: opening a device, or a file that somebody watches, would be seen. */
static int open_path(const struct run *r, const char *path)
{
	int at = direct_open(path, O_PATH), fd = -1;
	struct statfs fs;
	char self[64];

	if (at < 0)
		return -1;
	if (is_file(r, at) && !syscall(SYS_fstatfs, at, &fs) &&
	    (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC)) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
		fd = direct_open(self, O_RDWR);
	}
	direct_close(at);
	if (fd >= 0 && !is_run(r, fd)) {
		direct_close(fd);
		fd = -1;
	}
	return fd;
}

static int open_mapping(const struct run *r)
{
	char path[80];

	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)r->vma_start,
		 (unsigned long)r->vma_end);
	return open_path(r, path);
}

/* A copy, so that whatever the program does with its own is its affair. */
static int copy_descriptor(const struct run *r)
{
	int dir = direct_open("/proc/self/fd", O_RDONLY | O_DIRECTORY), fd = -1;
	char buf[2048] __attribute__((aligned(8)));
	long len = 0;

	while (dir >= 0 && fd < 0 && (len = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (long at = 0; fd < 0 && at < len; at += ((struct dirent64 *)(void *)(buf + at))->d_reclen) {
			const char *name = ((struct dirent64 *)(void *)(buf + at))->d_name;
			int n = *name == '.' ? -1 : atoi(name);

			if (n >= 0 && is_run(r, n))
				fd = direct_fcntl(n, F_DUPFD_CLOEXEC, 3);
			if (fd >= 0 && !is_run(r, fd)) { /* closed meanwhile, and another opened */
				direct_close(fd);
				fd = -1;
			}
		}
	if (dir >= 0)
		direct_close(dir);
	return fd;
}

/* ---- files that regions are in -------------------------------------------------------- */

/* Not of malloc(), as conversions (mem_conv.c). */
static struct shared_file pool[MAP_SHARED_MOST]; /* users 0: free */

static struct shared_file *pool_take(void)
{
	for (unsigned i = 0; i < MAP_SHARED_MOST; i++)
		if (!pool[i].users)
			return &pool[i];
	return NULL;
}

/* One more region; NULL: there are too many files. */
static struct shared_file *file_take(const struct run *r)
{
	struct shared_file *f = maps.shared;

	while (f && (f->ino != r->ino || f->major != r->major || f->minor != r->minor || f->seg != r->seg))
		f = f->next;
	if (!f)
		f = pool_take();
	if (f && !f->users) {
		*f = (struct shared_file){ maps.shared, r->ino, r->major, r->minor, 0, r->seg };
		maps.shared = f;
	}
	if (f)
		f->users++;
	return f;
}

void shared_done(struct shared_file *f)
{
	struct shared_file **p = &maps.shared;

	if (--f->users)
		return;
	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
}

struct shared_file *shared_pass(uintptr_t start, uintptr_t end, struct map_pass *pass)
{
	struct shared_file *f;
	struct run r;
	int fd;

	if (!vma_shared(start, end) || !run_find(&r, start, end))
		return NULL;
	f = file_take(&r);
	if (!f)
		return NULL;
	fd = open_mapping(&r);
	if (fd < 0 && *r.path == '/' && !r.seg)
		fd = open_path(&r, r.path);
	if (fd < 0 && !r.seg)
		fd = copy_descriptor(&r);
	if (fd < 0 && !r.seg) {
		shared_done(f);
		return NULL;
	}
	*pass = (struct map_pass){ .fd = fd, .addr = r.start, .len = r.end - r.start, .off = r.off, .once = true };
	if (r.seg)
		pass->seg = (int)r.ino + 1;
	return f;
}

/* A page of this very mapping once more: the id alone may be that of another segment, in another IPC namespace than it was. */
bool map_show(const struct map_pass *pass)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *at;

	if (!pass->seg)
		return false;
	at = mremap((void *)((uintptr_t)pass->addr & ~(page - 1)), 0, page, MREMAP_MAYMOVE);
	if (at != MAP_FAILED)
		return !syscall(SYS_munmap, at, page);
	if (errno != EINVAL)
		return false;
	/* Huge pages cannot be had twice in that way: there the id has to do, which is one of the IPC namespace of now. */
	at = shmat(pass->seg - 1, NULL, 0);
	return at != (void *)-1 && !shmdt(at);
}
