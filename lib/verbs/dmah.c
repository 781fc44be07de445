/* SPDX-License-Identifier: MIT */
/*
 * dmah.c - DMA handles: a hint to the bus which CPU and what memory the bytes of an MR are for.  There is no bus, so nothing
 * is made of it; wrong hints get the errno that the kernel has for them.
 */
#include "dmah.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* EINVAL: no such CPU; EPERM: the program may not run there. */
static int cpu_check(uint32_t cpu)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);
	size_t room = n > CPU_SETSIZE ? (size_t)n : CPU_SETSIZE, len = CPU_ALLOC_SIZE(room);
	cpu_set_t *may;
	int err;

	if (n < 1 || cpu >= (unsigned long)n)
		return EINVAL;
	may = CPU_ALLOC(room);
	if (!may)
		return ENOMEM;
	err = sched_getaffinity(0, len, may) || CPU_ISSET_S(cpu, len, may) ? 0 : EPERM;
	CPU_FREE(may);
	return err;
}

static int attr_check(const struct newer_dmah_attr *a)
{
	if (a->comp_mask & ~(DMAH_MASK_CPU | DMAH_MASK_PH | DMAH_MASK_MEM_TYPE))
		return EOPNOTSUPP;
	if (a->comp_mask & DMAH_MASK_MEM_TYPE && a->mem_type > DMAH_MEM_TYPE_MAX)
		return EINVAL;
	if (a->comp_mask & DMAH_MASK_PH && a->ph > DMAH_PH_MAX)
		return EINVAL;
	return a->comp_mask & DMAH_MASK_CPU ? cpu_check(a->cpu_id) : 0;
}

EXPORT struct newer_dmah *dmah_alloc(struct ibv_context *, const struct newer_dmah_attr *) __asm__("ibv_alloc_dmah");
struct newer_dmah *dmah_alloc(struct ibv_context *context, const struct newer_dmah_attr *a)
{
	int err = attr_check(a);
	struct rd_dmah *d;

	if (err)
		return err_null(err);
	d = calloc(1, sizeof(*d));
	if (!d)
		return err_null(ENOMEM);
	d->dmah.context = context;
	return &d->dmah;
}

EXPORT int dmah_dealloc(struct newer_dmah *) __asm__("ibv_dealloc_dmah");
int dmah_dealloc(struct newer_dmah *ibd)
{
	struct rd_dmah *d = to_dmah(ibd);

	if (__atomic_load_n(&d->users, __ATOMIC_ACQUIRE))
		return EBUSY;
	free(d);
	return 0;
}
