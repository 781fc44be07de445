/* SPDX-License-Identifier: MIT */
/*
 * vma.h - this process's mappings, read from /proc/self/maps.
 *
 * No memory is allocated, so that it can be read in a forked child and while mappings change, and no lock is taken:
 * an open one can be read in a step of hold.h.
 */
#ifndef VERBS_VMA_H
#define VERBS_VMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vma {
	uintptr_t start, end;
	char perm[5]; /* "rw-p" */
	uint64_t off, ino;
	unsigned major, minor; /* of the file system */
	const char *name;      /* "": anonymous; good until the next call */
};

struct vma_reader {
	int fd;
	bool kept; /* fd is that of vma_keep() */
	long off;  /* of what is read next */
	size_t pos, len;
	bool eof;
	char buf[8192]; /* more than the longest line */
};

/*
 * A descriptor that stays open, for where /proc cannot be had later, or no descriptor.  In a child it shows the mappings of its
 * parent.  By one thread at a time, and so the next three.
 */
bool vma_keep(void);
void vma_drop(void);
bool vma_open(struct vma_reader *);               /* by the kept one, too, if it is of this process */
bool vma_open_kept(struct vma_reader *);          /* a forked child: of its parent */
void vma_again(struct vma_reader *);              /* from the first */
bool vma_next(struct vma_reader *, struct vma *); /* in order of address */
void vma_close(struct vma_reader *);
int vma_prot(const struct vma *); /* as for mmap() */

/* vma_attr.c */
/*
 * What vma_advise() gives to new mappings, so that they are like the one that has all of the range, which is private memory.  false: it cannot be
 * seen.  Maps a page for a moment: only in a step of hold.h.
 */
bool vma_try(struct vma_reader *, uintptr_t start, uintptr_t end, unsigned *advice);
/*
 * The same of any mappings; ODD: they differ, or have something that cannot be given; UNKNOWN: also while to find out would take much
 * of the time.  One call at a time.
 */
enum vma_like { VMA_LIKE, VMA_ODD, VMA_UNKNOWN };
enum vma_like vma_advice(uintptr_t start, uintptr_t end, unsigned *advice);
/* Calls told() for each mapping of a file of that name; advice NULL: it has something else, too.  While that is UNKNOWN: for none. */
typedef void vma_told(uint64_t ino, const unsigned *advice);
void vma_advice_each(const char *name, vma_told *);
void vma_advise(uintptr_t addr, size_t len, unsigned advice); /* also in a step of hold.h */

/* vma_policy.c; also in a step of hold.h */
struct vma_policy {
	int mode;
	unsigned long nodes[1024 / 8 / sizeof(unsigned long)];
};
bool vma_policy(uintptr_t at, struct vma_policy *); /* of the mapping there, and all of it; false: none of its own */
void vma_policy_set(uintptr_t at, size_t len, const struct vma_policy *);
void vma_policy_copy(uintptr_t from, uintptr_t to, size_t len);
bool vma_policy_same(uintptr_t a, uintptr_t b);
/* The policy of all that is mapped there becomes that of the first len bytes of a memfd, whoever maps or writes it. */
bool vma_policy_to_file(uintptr_t at, size_t len, int fd);

/*
 * Whether all that is there can be read, or written to, and whether what begins at start has gaps.  FITS also if that cannot be found
 * out, and if nothing is at start, where a stack may be about to grow to.  No page is touched.
 */
enum vma_fit { VMA_FITS, VMA_GAP, VMA_UNABLE };
enum vma_fit vma_fit(uintptr_t start, uintptr_t end, bool write);
/* Some of what is mapped there may be shared with others; also if the kernel cannot be asked. */
bool vma_shared(uintptr_t start, uintptr_t end);

#endif
