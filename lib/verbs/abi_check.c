/* SPDX-License-Identifier: MIT */
/*
 * abi_check.c - nothing but assertions: our numbers are those of the verbs, and the public structures lie as
 * in every program that was ever compiled against them.
 */
#include "newer.h"
#include "qp.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is " #theirs)

#define WR(name, code, kind, packet, on, data, len, right, wc, text) SAME(WR_##name, IBV_WR_##text);
#define WC(name, code, text)                                         SAME(WC_OP_##name, IBV_WC_##text);
#include <rdmad/wr.def>
#undef WR
#undef WC

SAME(WR_FENCE, IBV_SEND_FENCE);
SAME(WR_SIGNALED, IBV_SEND_SIGNALED);
SAME(WR_SOLICITED, IBV_SEND_SOLICITED);
SAME(WR_INLINE, IBV_SEND_INLINE);
SAME(WR_IP_CSUM, IBV_SEND_IP_CSUM);

SAME(WC_SUCCESS, IBV_WC_SUCCESS);
SAME(WC_LOC_LEN_ERR, IBV_WC_LOC_LEN_ERR);
SAME(WC_LOC_QP_OP_ERR, IBV_WC_LOC_QP_OP_ERR);
SAME(WC_LOC_EEC_OP_ERR, IBV_WC_LOC_EEC_OP_ERR);
SAME(WC_LOC_PROT_ERR, IBV_WC_LOC_PROT_ERR);
SAME(WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR);
SAME(WC_MW_BIND_ERR, IBV_WC_MW_BIND_ERR);
SAME(WC_BAD_RESP_ERR, IBV_WC_BAD_RESP_ERR);
SAME(WC_LOC_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR);
SAME(WC_REM_INV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
SAME(WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
SAME(WC_REM_OP_ERR, IBV_WC_REM_OP_ERR);
SAME(WC_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR);
SAME(WC_RNR_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR);
SAME(WC_FATAL_ERR, IBV_WC_FATAL_ERR);
SAME(WC_RESP_TIMEOUT_ERR, IBV_WC_RESP_TIMEOUT_ERR);
SAME(WC_GENERAL_ERR, IBV_WC_GENERAL_ERR);

SAME(WC_GRH, IBV_WC_GRH);
SAME(WC_WITH_IMM, IBV_WC_WITH_IMM);
SAME(WC_IP_CSUM_OK, IBV_WC_IP_CSUM_OK);
SAME(WC_WITH_INV, IBV_WC_WITH_INV);

SAME(QPT_RC, IBV_QPT_RC);
SAME(QPT_UC, IBV_QPT_UC);
SAME(QPT_UD, IBV_QPT_UD);
SAME(QPT_RAW, IBV_QPT_RAW_PACKET);
SAME(QPT_XRC_SEND, IBV_QPT_XRC_SEND);
SAME(QPT_XRC_RECV, IBV_QPT_XRC_RECV);

SAME(QPS_RESET, IBV_QPS_RESET);
SAME(QPS_INIT, IBV_QPS_INIT);
SAME(QPS_RTR, IBV_QPS_RTR);
SAME(QPS_RTS, IBV_QPS_RTS);
SAME(QPS_SQD, IBV_QPS_SQD);
SAME(QPS_SQE, IBV_QPS_SQE);
SAME(QPS_ERR, IBV_QPS_ERR);

SAME(ACC_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE);
SAME(ACC_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE);
SAME(ACC_REMOTE_READ, IBV_ACCESS_REMOTE_READ);
SAME(ACC_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC);
SAME(ACC_MW_BIND, IBV_ACCESS_MW_BIND);
SAME(ACC_ZERO_BASED, IBV_ACCESS_ZERO_BASED);
SAME(ACC_ON_DEMAND, IBV_ACCESS_ON_DEMAND);
SAME(ACC_HUGETLB, IBV_ACCESS_HUGETLB);
SAME(ACC_RELAXED_ORDERING, IBV_ACCESS_RELAXED_ORDERING);

SAME(QPA_STATE, IBV_QP_STATE);
SAME(QPA_CUR_STATE, IBV_QP_CUR_STATE);
SAME(QPA_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY);
SAME(QPA_ACCESS_FLAGS, IBV_QP_ACCESS_FLAGS);
SAME(QPA_PKEY_INDEX, IBV_QP_PKEY_INDEX);
SAME(QPA_PORT, IBV_QP_PORT);
SAME(QPA_QKEY, IBV_QP_QKEY);
SAME(QPA_AV, IBV_QP_AV);
SAME(QPA_PATH_MTU, IBV_QP_PATH_MTU);
SAME(QPA_TIMEOUT, IBV_QP_TIMEOUT);
SAME(QPA_RETRY_CNT, IBV_QP_RETRY_CNT);
SAME(QPA_RNR_RETRY, IBV_QP_RNR_RETRY);
SAME(QPA_RQ_PSN, IBV_QP_RQ_PSN);
SAME(QPA_MAX_QP_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC);
SAME(QPA_ALT_PATH, IBV_QP_ALT_PATH);
SAME(QPA_MIN_RNR_TIMER, IBV_QP_MIN_RNR_TIMER);
SAME(QPA_SQ_PSN, IBV_QP_SQ_PSN);
SAME(QPA_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_DEST_RD_ATOMIC);
SAME(QPA_PATH_MIG_STATE, IBV_QP_PATH_MIG_STATE);
SAME(QPA_CAP, IBV_QP_CAP);
SAME(QPA_DEST_QPN, IBV_QP_DEST_QPN);
SAME(QPA_RATE_LIMIT, IBV_QP_RATE_LIMIT);

SAME(EV_CQ_ERR, IBV_EVENT_CQ_ERR);
SAME(EV_QP_FATAL, IBV_EVENT_QP_FATAL);
SAME(EV_QP_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
SAME(EV_QP_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
SAME(EV_COMM_EST, IBV_EVENT_COMM_EST);
SAME(EV_SQ_DRAINED, IBV_EVENT_SQ_DRAINED);
SAME(EV_DEVICE_FATAL, IBV_EVENT_DEVICE_FATAL);
SAME(EV_PORT_ACTIVE, IBV_EVENT_PORT_ACTIVE);
SAME(EV_PORT_ERR, IBV_EVENT_PORT_ERR);
SAME(EV_SRQ_ERR, IBV_EVENT_SRQ_ERR);
SAME(EV_SRQ_LIMIT, IBV_EVENT_SRQ_LIMIT_REACHED);
SAME(EV_QP_LAST_WQE, IBV_EVENT_QP_LAST_WQE_REACHED);
SAME(EV_GID_CHANGE, IBV_EVENT_GID_CHANGE);

SAME(sizeof(struct sge), sizeof(struct ibv_sge));
SAME(offsetof(struct sge, len), offsetof(struct ibv_sge, length));
SAME(offsetof(struct sge, lkey), offsetof(struct ibv_sge, lkey));

/* ---- where programs look, on a 64-bit machine ------------------------------------------- */

#if UINTPTR_MAX == UINT64_MAX
SAME(sizeof(struct ibv_device), 664);
SAME(sizeof(struct ibv_context), 328);
SAME(offsetof(struct ibv_context, ops), 8);
SAME(sizeof(struct ibv_context_ops), 256);
SAME(offsetof(struct ibv_context, cmd_fd), 264);
SAME(offsetof(struct ibv_context, async_fd), 268);
SAME(offsetof(struct ibv_context, num_comp_vectors), 272);
SAME(offsetof(struct ibv_context, abi_compat), 320);
/* Operations are found by their distance from the end: those of 44 begin 648 bytes in front of it. */
SAME(sizeof(struct verbs_context) - offsetof(struct verbs_context, query_port), 648);
SAME(sizeof(struct verbs_context) - offsetof(struct verbs_context, sz), 336);
SAME(sizeof(struct verbs_context) - offsetof(struct verbs_context, close_xrcd), 352);
SAME(sizeof(struct newer_mr_attr), 72);
SAME(offsetof(struct newer_mr_attr, comp_mask), 16);
SAME(offsetof(struct newer_mr_attr, fd), 40);
SAME(offsetof(struct newer_mr_attr, buf), 64);
SAME(sizeof(struct newer_dmah_attr), 12);
SAME(sizeof(struct newer_cntr), 16);
SAME(sizeof(struct newer_cntr_attr), 12);
SAME(sizeof(struct newer_cntr_caps), 16);
SAME(sizeof(struct newer_cntr_attach), 8);
_Static_assert(sizeof(struct ibv_port_attr) >= 52, "port attributes only grow");
_Static_assert(sizeof(struct ibv_qp_ex) >= 352, "the wr_* pointers only grow");
#endif
SAME(offsetof(struct rd_ctx, v) + sizeof(struct verbs_context), sizeof(struct rd_ctx));
SAME(offsetof(struct rd_qp, qp), 0);
SAME(offsetof(struct rd_cq, cq), 0);
SAME(offsetof(struct ibv_cq_ex, async_events_completed), offsetof(struct ibv_cq, async_events_completed));
