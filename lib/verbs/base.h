/* SPDX-License-Identifier: MIT */
/* base.h - what each file of the library starts from. */
#ifndef VERBS_BASE_H
#define VERBS_BASE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

/* The public names are macros where the header has inlines in front of them. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

#define EXPORT     __attribute__((visibility("default")))
#define ARRAY_N(a) (sizeof(a) / sizeof((a)[0]))

/* As after the kernel's ioctl: programs look at errno also where a verb returns the number.  0: it stays. */
static inline int err_set(int err)
{
	if (err)
		errno = err;
	return err;
}

static inline void *err_null(int err)
{
	errno = err;
	return NULL;
}

#endif
