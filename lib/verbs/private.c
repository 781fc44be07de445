/* SPDX-License-Identifier: MIT */
/*
 * private.c - the providers' interface: what libmlx5, libefa, pyverbs and others must find to be loaded at all, each in the
 * node of its own release.  The table is private.def.  Nearly all is never called for a device of ours, and refused.
 */
#include <rdmad/abi.h>
#include <rdmad/own.h>

#include "qp.h"
#include "query.h"
#include "symbol.h"

/* The symbol's name is given below, once for each node. */
#define PRIVATE(type, name, args, ...) \
	EXPORT type priv_##name args;  \
	type priv_##name args __VA_ARGS__

#define INT(name) PRIVATE(int, name, (void), { return EOPNOTSUPP; })
#define PTR(name) PRIVATE(void *, name, (void), { return err_null(EOPNOTSUPP); })
#define OWN(name)

#define PRIV34(kind, name) kind(name)
#define PRIV59(kind, name) kind(name)
#define PRIV64(kind, name) kind(name)
#define PRIV65(kind, name) kind(name)
#include "private.def"

EXPORT extern const bool priv_verbs_allow_disassociate_destroy;
const bool priv_verbs_allow_disassociate_destroy = false;

PRIVATE(void, __verbs_log, (void *, uint32_t, const char *, ...), {})
PRIVATE(void, verbs_set_ops, (void *, const void *), {})
PRIVATE(void, verbs_uninit_context, (void *), {})
PRIVATE(void, verbs_init_cq, (void *, void *, void *, void *), {})
PRIVATE(unsigned int, __ioctl_final_num_attrs, (unsigned int n, void *), { return n; })
PRIVATE(void, ibv_dmabuf_heap_destroy, (void *), {})
PRIVATE(void, ibv_dmabuf_heap_free, (void *, size_t, int), {})
PRIVATE(int, ibv_read_ibdev_sysfs_file, (void), {
	errno = ENOENT;
	return -1;
})

/* These two are called, by ibv_devinfo and pyverbs. */
PRIVATE(int, ibv_query_gid_type, (struct ibv_context * c, uint8_t port, unsigned int index, unsigned int *type),
	{ return gid_type_query(c, port, index, type); })
PRIVATE(const char *, ibv_wr_opcode_str, (unsigned int opcode), { return opcode_str(opcode); })

/* Constructors of vendor libraries call it, by the name of their release. */
#define REGISTER(node) SYMBOL(void, verbs_register_driver_##node, (const void *), {})
REGISTER(34)
REGISTER(57)
REGISTER(59)
REGISTER(64)
REGISTER(65)

/* ---- nodes -------------------------------------------------------------------------------- */

#define FIRST(name, node) __asm__(".symver priv_" #name ", " #name "@@IBVERBS_PRIVATE_" #node);
#define ALSO(name, node)                                                                                  \
	EXPORT extern __typeof__(priv_##name) priv_##name##_##node __attribute__((alias("priv_" #name))); \
	__asm__(".symver priv_" #name "_" #node ", " #name "@IBVERBS_PRIVATE_" #node);

#define AFTER_64(name) ALSO(name, 65)
#define AFTER_59(name) ALSO(name, 64) AFTER_64(name)
#define AFTER_57(name) ALSO(name, 59) AFTER_59(name)
#define AFTER_34(name) ALSO(name, 57) AFTER_57(name)

#define PRIV34(kind, name) FIRST(name, 34) AFTER_34(name)
#define PRIV59(kind, name) FIRST(name, 59) AFTER_59(name)
#define PRIV64(kind, name) FIRST(name, 64) AFTER_64(name)
#define PRIV65(kind, name) FIRST(name, 65)
#include "private.def"

/* RDMAD_1 */
EXPORT const uint32_t rdmad_verbs_abi = RDMAD_ABI;
