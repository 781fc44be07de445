/* SPDX-License-Identifier: MIT */
/* text.h - arguments of verbs for people: each in a buffer of the thread that the eighth call after it takes again. */
#ifndef CALLPRELOAD_TEXT_H
#define CALLPRELOAD_TEXT_H

#include "pre.h"

__attribute__((format(printf, 1, 2))) const char *text(const char *fmt, ...);
/* EINVAL, or its number; not in a buffer of the thread, unless it is a number. */
const char *errno_text(int err);
const char *gid_text(const union ibv_gid *);
const char *addr_text(const struct sockaddr *);
const char *access_text(unsigned int access);
const char *state_text(enum ibv_qp_state);
const char *attr_text(const struct ibv_qp_attr *, int mask);
/* qp: what was made, or NULL. */
const char *init_text(enum ibv_qp_type, const struct ibv_qp_cap *, const struct ibv_cq *send, const struct ibv_cq *recv,
		      const struct ibv_srq *, const struct ibv_qp *qp);
const char *ece_text(const struct ibv_ece *);
const char *param_text(const struct rdma_conn_param *);
const char *sges_text(const struct ibv_sge *, int n);
const char *sends_text(const struct ibv_send_wr *);
const char *recvs_text(const struct ibv_recv_wr *);
const char *wcs_text(int n, const struct ibv_wc *);
const char *wc_text(const struct ibv_wc *);

#endif
