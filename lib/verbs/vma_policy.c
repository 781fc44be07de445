/* SPDX-License-Identifier: MIT */
/* vma_policy.c - on which NUMA nodes the pages of a mapping lie: mbind(2), numa_alloc_onnode(3). */
#include "vma.h"
#include "direct.h"

#include <string.h>
#include <sys/mman.h>

#define OF_ADDR   2 /* MPOL_F_ADDR */
#define NODE_BITS (8 * sizeof(((struct vma_policy *)0)->nodes))

bool vma_policy(uintptr_t at, struct vma_policy *p)
{
	memset(p, 0, sizeof(*p));
	return !syscall(SYS_get_mempolicy, &p->mode, p->nodes, NODE_BITS, at, OF_ADDR) && p->mode;
}

/* (The kernel takes one bit less than it is told.) */
void vma_policy_set(uintptr_t at, size_t len, const struct vma_policy *p)
{
	syscall(SYS_mbind, at, len, p->mode, p->nodes, NODE_BITS + 1, 0);
}

void vma_policy_copy(uintptr_t from, uintptr_t to, size_t len)
{
	struct vma_policy p;

	if (vma_policy(from, &p))
		vma_policy_set(to, len, &p);
}

bool vma_policy_same(uintptr_t a, uintptr_t b)
{
	struct vma_policy p, q;

	vma_policy(a, &p);
	vma_policy(b, &q);
	return !memcmp(&p, &q, sizeof(p));
}

bool vma_policy_to_file(uintptr_t at, size_t len, int fd)
{
	struct vma_policy p;
	long to;
	bool ok;

	if (!vma_policy(at, &p))
		return true;
	to = syscall(SYS_mmap, NULL, len, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0L);
	if (to == -1)
		return false;
	vma_policy_set((uintptr_t)to, len, &p);
	ok = vma_policy_same(at, (uintptr_t)to);
	syscall(SYS_munmap, to, len);
	return ok;
}
