/* SPDX-License-Identifier: MIT */
/*
 * mem_conv.c - which private pages may become pages of a memfd, and that memfd.
 *
 * While a piece moves (mem_pages.c) nothing may write to it: other threads are held (hold.h), signals are blocked, and no
 * RDMA or asynchronous I/O of the kernel reaches the pages.  What cannot be seen is another process that writes here by
 * process_vm_writev() at that very moment.
 */
#include "mem_map_in.h"

#include "direct.h"
#include "hold.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <rdmad/high.h>

#include "vma.h"

/* The file is much longer than what is mapped of it, so that mremap() can make the mapping longer as it could
 * before. */
#define FILE_LEN ((off_t)1 << 46)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

static struct vma_reader reader; /* of one function at a time, under the lock: too large for small stacks */

/* ---- may we? ---------------------------------------------------------------------- */

/* No page is pinned (adapters and the kernel would go on with the old one), and what this thread needs to work is elsewhere. */
static bool pages_free(uintptr_t start, uintptr_t end)
{
	uintptr_t stack = (uintptr_t)__builtin_frame_address(0), tls = (uintptr_t)&errno;

	return hold_status("\nVmPin:", 0) == 0 && !(stack >= start && stack < end) && !(tls >= start && tls < end);
}

/* Requests of these may be writing to our pages: the kernel holds on to the old ones. */
static bool writes_behind(const char *name)
{
	static const char *const memory[] = { "/dev/shm/", "/dev/zero", "/dev/hugepages/" };

	for (unsigned i = 0; i < sizeof(memory) / sizeof(*memory); i++)
		if (!strncmp(name, memory[i], strlen(memory[i])))
			return false;
	return strstr(name, "[aio]") || strstr(name, "io_uring") || strstr(name, "inode:kvm") ||
	       strstr(name, "inode:[vfio") || !strncmp(name, "/dev/", 5) || !strncmp(name, "socket:", 7);
}

/* The stack has neighbours that must not be torn; "[anon:...]" is a name given by prctl(). */
static bool is_plain(const struct vma *v)
{
	return !strcmp(v->perm, "rw-p") && !v->ino &&
	       (!*v->name || !strncmp(v->name, "[anon:", 6) || !strcmp(v->name, "[heap]"));
}

static bool is_of(const struct vma *v, const struct conv *c)
{
	return v->ino == c->ino && !strcmp(v->name, CONV_VMA) && v->perm[3] == 's' && v->start - v->off == c->start;
}

bool conv_plain(struct vma_reader *r, uintptr_t start, uintptr_t end)
{
	uintptr_t at = start;
	struct vma v;

	vma_again(r);
	while (vma_next(r, &v)) {
		if (writes_behind(v.name))
			return false;
		if (v.end <= at || v.start >= end)
			continue;
		if (v.start > at || !is_plain(&v))
			return false;
		at = v.end;
	}
	return at >= end;
}

bool conv_quiet(struct vma_reader *r) { return conv_plain(r, 0, 0); }

bool conv_suits(uintptr_t start, uintptr_t end)
{
	struct vma_reader *r = &reader;
	bool ok;

	if (!pages_free(start, end) || !vma_open(r))
		return false;
	ok = conv_plain(r, start, end);
	vma_close(r);
	return ok;
}

bool conv_at(struct vma_reader *r, const struct conv *c, uintptr_t at, struct vma *v)
{
	vma_again(r);
	while (vma_next(r, v))
		if (v->end > at)
			return v->start <= at && is_of(v, c);
	return false;
}

bool conv_there(struct vma_reader *r, const struct conv *c, uintptr_t start, uintptr_t end)
{
	uintptr_t at = start;
	struct vma v;

	vma_again(r);
	while (at < end && vma_next(r, &v)) {
		if (v.end <= at)
			continue;
		if (v.start > at || !is_of(&v, c))
			break;
		at = v.end;
	}
	return at >= end;
}

bool conv_intact(const struct conv *c, uintptr_t start, uintptr_t end)
{
	struct vma_reader *r = &reader;
	bool ok;

	if (!conv_has_file(c) || !vma_open(r))
		return false;
	ok = conv_there(r, c, start, end);
	vma_close(r);
	return ok;
}

/* A child that was made without handlers of fork() has its parent's, and would take the bytes away from both. */
bool conv_turns(struct conv *c)
{
	return c->owner == getpid() && conv_intact(c, c->start, c->end) && pages_free(c->start, c->end) &&
	       vma_advice(c->start, c->end, &c->advice) != VMA_ODD;
}

/* ---- advice ------------------------------------------------------------------------ */

struct conv *conv_next(const struct conv *c)
{
	struct conv *next = c ? c->next : maps.convs;

	return next || (c && c->lost) ? next : maps.lost;
}

struct conv *conv_with(uint64_t ino)
{
	struct conv *c = NULL;

	while ((c = conv_next(c)) && c->ino != ino)
		;
	return c;
}

static void told(uint64_t ino, const unsigned *advice)
{
	struct conv *c = conv_with(ino);

	if (!c)
		return;
	c->odd = !advice || (c->told && (c->odd || c->advice != *advice));
	if (advice)
		c->advice = *advice;
	c->told = true;
}

void conv_ask(void)
{
	for (struct conv *c = NULL; (c = conv_next(c));)
		c->told = false;
	vma_advice_each(CONV_VMA, told);
}

unsigned conv_advice(uint64_t ino, uintptr_t start, uintptr_t end)
{
	const struct conv *c = conv_with(ino);
	unsigned advice;

	if ((!c || c->odd) && vma_advice(start, end, &advice) == VMA_LIKE)
		return advice;
	return c ? c->advice : 0;
}

/* ---- the file ---------------------------------------------------------------------- */

/* A program may close descriptors that it does not know; what it opens then may have the number, and on another file system the inode. */
bool conv_has_file(const struct conv *c)
{
	struct statx st;

	return c->fd >= 0 && !syscall(SYS_statx, c->fd, "", AT_EMPTY_PATH, STATX_INO, &st) && st.stx_ino == c->ino &&
	       st.stx_dev_major == c->major && st.stx_dev_minor == c->minor;
}

static int file_make(struct conv *c)
{
	struct rlimit rl;
	struct statx st;
	int fd;

	/* Beyond the limit ftruncate() sends a signal. */
	if (getrlimit(RLIMIT_FSIZE, &rl) || rl.rlim_cur != RLIM_INFINITY)
		return -1;
	fd = memfd_create(CONV_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (fd < 0)
		fd = memfd_create(CONV_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fd = fd_high(fd);
	if (fd < 0)
		return -1;
	if (syscall(SYS_ftruncate, fd, FILE_LEN) || direct_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) ||
	    syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &st)) {
		direct_close(fd);
		return -1;
	}
	c->ino = st.stx_ino;
	c->major = st.stx_dev_major;
	c->minor = st.stx_dev_minor;
	return fd;
}

/* Not of malloc(): it may unmap memory, and programs that look after that (UCX) deregister some then, in this very thread. */
static struct conv pool[MAP_CONVS]; /* end 0: free */

struct conv *conv_make(uintptr_t start, uintptr_t end, size_t most)
{
	struct conv *c = pool;

	while (c < pool + MAP_CONVS && c->end)
		c++;
	if (c == pool + MAP_CONVS)
		return NULL;
	*c = (struct conv){ 0 };
	c->start = start;
	c->owner = getpid();
	c->fd = file_make(c);
	if (c->fd < 0)
		return NULL;
	c->end = pages_share(c, end, most);
	if (!c->advised && vma_advice(start, end, &c->advice) == VMA_LIKE) {
		c->advised = true;
		c->end = pages_share(c, end, most);
	}
	if (c->end > start)
		return c;
	conv_free(c);
	return NULL;
}

bool conv_remains(const struct conv *c)
{
	struct vma_reader *r = &reader;
	bool some = false;
	struct vma v;

	if (!vma_open(r))
		return true;
	while (!some && vma_next(r, &v))
		some = (!c || v.ino == c->ino) && !strcmp(v.name, CONV_VMA);
	vma_close(r);
	return some;
}

void conv_free(struct conv *c)
{
	if (conv_has_file(c))
		direct_close(c->fd);
	c->end = 0;
}
