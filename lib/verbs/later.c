/* SPDX-License-Identifier: MIT */
/*
 * later.c - exported symbols that the headers we are built with do not have.
 *
 * There are two kinds: public verbs of releases after 44, which a program built on a newer system imports, and the
 * providers' private interface (IBVERBS_PRIVATE_34), which libmlx5, libefa and others must find to be loaded
 * at all.  None of the latter is ever called for a device of ours.  Each is refused.  The C names differ from
 * the symbols, so that newer headers do not clash.
 */
#include <rdmad/abi.h>

#include "base.h"

#define SYMBOL(type, name, args, body)                \
	EXPORT type newer_##name args __asm__(#name); \
	type newer_##name args body

#define REFUSE_INT(name) SYMBOL(int, name, (void), { return EOPNOTSUPP; })
#define REFUSE_PTR(name) SYMBOL(void *, name, (void), { return err_null(EOPNOTSUPP); })

#define NEWER_INT(name) REFUSE_INT(name)
#define NEWER_PTR(name) REFUSE_PTR(name)
#include "verbs.def"
SYMBOL(int, ibv_export_buf_dmabuf_fd, (void), {
	errno = EOPNOTSUPP;
	return -1;
})

/*
 * IBVERBS_1.0, "historical": the real librdmacm's conversions of kernel structures.  There is no
 * kernel behind us; that library stops at its missing device long before.
 */
SYMBOL(void, ibv_copy_path_rec_from_kern, (void *, const void *), {})
SYMBOL(void, ibv_copy_path_rec_to_kern, (void *, const void *), {})
SYMBOL(void, ibv_copy_qp_attr_from_kern, (void *, const void *), {})
SYMBOL(void, ibv_copy_ah_attr_from_kern, (void *, const void *), {})

/* IBVERBS_PRIVATE_34 */
EXPORT extern const bool newer_allow __asm__("verbs_allow_disassociate_destroy");
const bool newer_allow = false;

SYMBOL(void, verbs_register_driver_34, (const void *), {})
SYMBOL(void, __verbs_log, (void *, uint32_t, const char *, ...), {})
SYMBOL(void, verbs_set_ops, (void *, const void *), {})
SYMBOL(void, verbs_uninit_context, (void *), {})
SYMBOL(void, verbs_init_cq, (void *, void *, void *, void *), {})
SYMBOL(unsigned int, __ioctl_final_num_attrs, (unsigned int n, void *), { return n; })
SYMBOL(int, ibv_read_ibdev_sysfs_file, (void), {
	errno = ENOENT;
	return -1;
})
REFUSE_PTR(_verbs_init_and_alloc_context)
REFUSE_PTR(verbs_open_device)
REFUSE_INT(ibv_cmd_create_flow)
REFUSE_INT(execute_ioctl)
REFUSE_INT(ibv_cmd_advise_mr)
REFUSE_INT(ibv_cmd_alloc_dm)
REFUSE_INT(ibv_cmd_alloc_mw)
REFUSE_INT(ibv_cmd_alloc_pd)
REFUSE_INT(ibv_cmd_attach_mcast)
REFUSE_INT(ibv_cmd_close_xrcd)
REFUSE_INT(ibv_cmd_create_ah)
REFUSE_INT(ibv_cmd_create_counters)
REFUSE_INT(ibv_cmd_create_cq)
REFUSE_INT(ibv_cmd_create_cq_ex)
REFUSE_INT(ibv_cmd_create_flow_action_esp)
REFUSE_INT(ibv_cmd_create_qp)
REFUSE_INT(ibv_cmd_create_qp_ex)
REFUSE_INT(ibv_cmd_create_qp_ex2)
REFUSE_INT(ibv_cmd_create_rwq_ind_table)
REFUSE_INT(ibv_cmd_create_srq)
REFUSE_INT(ibv_cmd_create_srq_ex)
REFUSE_INT(ibv_cmd_create_wq)
REFUSE_INT(ibv_cmd_dealloc_mw)
REFUSE_INT(ibv_cmd_dealloc_pd)
REFUSE_INT(ibv_cmd_dereg_mr)
REFUSE_INT(ibv_cmd_destroy_ah)
REFUSE_INT(ibv_cmd_destroy_counters)
REFUSE_INT(ibv_cmd_destroy_cq)
REFUSE_INT(ibv_cmd_destroy_flow)
REFUSE_INT(ibv_cmd_destroy_flow_action)
REFUSE_INT(ibv_cmd_destroy_qp)
REFUSE_INT(ibv_cmd_destroy_rwq_ind_table)
REFUSE_INT(ibv_cmd_destroy_srq)
REFUSE_INT(ibv_cmd_destroy_wq)
REFUSE_INT(ibv_cmd_detach_mcast)
REFUSE_INT(ibv_cmd_free_dm)
REFUSE_INT(ibv_cmd_get_context)
REFUSE_INT(ibv_cmd_modify_cq)
REFUSE_INT(ibv_cmd_modify_flow_action_esp)
REFUSE_INT(ibv_cmd_modify_qp)
REFUSE_INT(ibv_cmd_modify_qp_ex)
REFUSE_INT(ibv_cmd_modify_srq)
REFUSE_INT(ibv_cmd_modify_wq)
REFUSE_INT(ibv_cmd_open_qp)
REFUSE_INT(ibv_cmd_open_xrcd)
REFUSE_INT(ibv_cmd_poll_cq)
REFUSE_INT(ibv_cmd_post_recv)
REFUSE_INT(ibv_cmd_post_send)
REFUSE_INT(ibv_cmd_post_srq_recv)
REFUSE_INT(ibv_cmd_query_context)
REFUSE_INT(ibv_cmd_query_device_any)
REFUSE_INT(ibv_cmd_query_mr)
REFUSE_INT(ibv_cmd_query_port)
REFUSE_INT(ibv_cmd_query_qp)
REFUSE_INT(ibv_cmd_query_srq)
REFUSE_INT(ibv_cmd_read_counters)
REFUSE_INT(ibv_cmd_reg_dm_mr)
REFUSE_INT(ibv_cmd_reg_dmabuf_mr)
REFUSE_INT(ibv_cmd_reg_mr)
REFUSE_INT(ibv_cmd_req_notify_cq)
REFUSE_INT(ibv_cmd_rereg_mr)
REFUSE_INT(ibv_cmd_resize_cq)

/* RDMAD_1 */
EXPORT extern const uint32_t rdmad_verbs_abi;
const uint32_t rdmad_verbs_abi = RDMAD_ABI;
