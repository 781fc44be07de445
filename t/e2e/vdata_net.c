/* SPDX-License-Identifier: MIT */
/*
 * vdata_net.c - how two vdata find each other, and their queue pairs: TCP carries addresses and
 * barriers, each thread has a connection and a QP of its own.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../nap.h"
#include "vdata.h"

void vd_die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	fputs("vdata: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	_exit(1); /* the other threads are in the middle of something */
}

uint64_t vd_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- TCP ----------------------------------------------------------------- */

void vd_swap(int fd, const void *mine, void *theirs, size_t len)
{
	size_t done;
	ssize_t n;

	for (done = 0; done < len; done += (size_t)n) {
		n = send(fd, (const char *)mine + done, len - done, MSG_NOSIGNAL);
		if (n <= 0)
			vd_die("the peer is gone (%s)", strerror(errno));
	}
	for (done = 0; done < len; done += (size_t)n) {
		n = recv(fd, (char *)theirs + done, len - done, 0);
		if (n <= 0)
			vd_die("the peer is gone (%s)", n ? strerror(errno) : "it closed");
	}
}

void vd_barrier(int fd)
{
	char mine = 'b', theirs;

	vd_swap(fd, &mine, &theirs, 1);
	if (theirs != 'b')
		vd_die("the peer is elsewhere in the program");
}

int vd_listen(const struct vd_opt *opt)
{
	struct addrinfo hint = { .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct addrinfo *res;
	char port[16];
	int fd, one = 1, zero = 0;

	snprintf(port, sizeof(port), "%d", opt->tcp_port);
	if (getaddrinfo(NULL, port, &hint, &res))
		vd_die("no address to listen at");
	fd = socket(res->ai_family, SOCK_STREAM, 0);
	if (fd < 0)
		vd_die("socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IPV6, 26 /* IPV6_V6ONLY */, &zero, sizeof(zero));
	if (bind(fd, res->ai_addr, res->ai_addrlen) || listen(fd, 64))
		vd_die("port %d: %s", opt->tcp_port, strerror(errno));
	freeaddrinfo(res);
	return fd;
}

int vd_accept(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		vd_die("accept: %s", strerror(errno));
	return fd;
}

int vd_connect(const struct vd_opt *opt)
{
	struct addrinfo hint = { .ai_socktype = SOCK_STREAM }, *res;
	char port[16];
	int fd;

	snprintf(port, sizeof(port), "%d", opt->tcp_port);
	if (getaddrinfo(opt->peer, port, &hint, &res))
		vd_die("no host %s", opt->peer);
	fd = socket(res->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, res->ai_addr, res->ai_addrlen))
		vd_die("%s port %d: %s", opt->peer, opt->tcp_port, strerror(errno));
	freeaddrinfo(res);
	return fd;
}

/* ---- the device ---------------------------------------------------------- */

void vd_node_open(struct vd_node *node, const struct vd_opt *opt)
{
	struct ibv_device **list;
	int i, n;

	memset(node, 0, sizeof(*node));
	node->opt = opt;
	list = ibv_get_device_list(&n);
	if (!list || !n)
		vd_die("no RDMA device (%s)", strerror(errno));
	for (i = 0; i < n; i++)
		if (!opt->dev || !strcmp(opt->dev, ibv_get_device_name(list[i])))
			break;
	if (i == n)
		vd_die("no device %s", opt->dev);
	node->ctx = ibv_open_device(list[i]);
	if (!node->ctx)
		vd_die("ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
	node->pd = ibv_alloc_pd(node->ctx);
	if (!node->pd)
		vd_die("ibv_alloc_pd: %s", strerror(errno));
	if (ibv_query_port(node->ctx, 1, &node->port))
		vd_die("ibv_query_port");
	if (ibv_query_gid(node->ctx, 1, opt->gid_index, &node->gid))
		vd_die("ibv_query_gid %d", opt->gid_index);
	node->counter = calloc(1, 4096);
	node->counter_mr = ibv_reg_mr(node->pd, node->counter, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (!node->counter_mr)
		vd_die("ibv_reg_mr: %s", strerror(errno));
}

void vd_node_close(struct vd_node *node)
{
	if (ibv_dereg_mr(node->counter_mr))
		vd_die("ibv_dereg_mr");
	if (ibv_dealloc_pd(node->pd))
		vd_die("ibv_dealloc_pd");
	if (ibv_close_device(node->ctx))
		vd_die("ibv_close_device");
	free(node->counter);
}

/* ---- queue pairs ---------------------------------------------------------- */

static void qp_to_init(struct vd_qp *q)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (q->want.type == IBV_QPT_UD) {
		attr.qkey = q->mine.qkey;
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = (unsigned)q->want.access;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	if (ibv_modify_qp(q->qp, &attr, mask))
		vd_die("QP to INIT: %s", strerror(errno));
}

static void qp_create(struct vd_qp *q)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = q->cq,
		.recv_cq = q->cq,
		.srq = q->srq,
		.qp_type = q->want.type,
		.pd = q->node->pd,
		.cap = { .max_send_wr = q->want.depth,
			 .max_recv_wr = q->srq ? 0 : q->want.depth,
			 .max_send_sge = 4,
			 .max_recv_sge = q->srq ? 0 : 4,
			 .max_inline_data = 128 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};

	if (q->want.type != IBV_QPT_UD)
		attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (q->want.type == IBV_QPT_RC)
		attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	q->qp = ibv_create_qp_ex(q->node->ctx, &attr);
	if (!q->qp)
		vd_die("ibv_create_qp_ex: %s", strerror(errno));
	q->ex = ibv_qp_to_qp_ex(q->qp);
	q->inline_max = attr.cap.max_inline_data;
	if (!q->ex || q->inline_max < 128)
		vd_die("ibv_create_qp_ex: no extended QP, or %u bytes inline", q->inline_max);
}

static void want_defaults(struct vd_want *w, const struct vd_opt *opt)
{
	w->depth = w->depth ? w->depth : 64;
	w->cqe = w->cqe ? w->cqe : 2 * w->depth;
	if (!w->access)
		w->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	if (w->type == IBV_QPT_RC && w->access == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
		w->access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	w->rd_atom = w->rd_atom ? w->rd_atom : 8;
	w->timeout = w->timeout ? w->timeout : opt->timeout;
	w->retry = w->retry ? w->retry : 7;
	w->rnr_retry = w->rnr_retry ? w->rnr_retry : 7;
	w->min_rnr = w->min_rnr ? w->min_rnr : 1;
}

void vd_qp_open(struct vd_qp *q, const struct vd_node *node, int fd, const struct vd_want *want)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_sge = 4 } };

	memset(q, 0, sizeof(*q));
	q->node = node;
	q->fd = fd;
	q->want = *want;
	want_defaults(&q->want, node->opt);
	if (node->opt->events) {
		q->channel = ibv_create_comp_channel(node->ctx);
		if (!q->channel)
			vd_die("ibv_create_comp_channel: %s", strerror(errno));
	}
	q->cq = ibv_create_cq(node->ctx, (int)q->want.cqe, q, q->channel, 0);
	if (!q->cq)
		vd_die("ibv_create_cq: %s", strerror(errno));
	if (q->channel && ibv_req_notify_cq(q->cq, 0))
		vd_die("ibv_req_notify_cq");
	srq.attr.max_wr = q->want.depth;
	if (q->want.srq && !(q->srq = ibv_create_srq(node->pd, &srq)))
		vd_die("ibv_create_srq: %s", strerror(errno));
	q->mine.qkey = 0x11111111;
	qp_create(q);
	qp_to_init(q);
	memcpy(q->mine.gid, &node->gid, 16);
	q->mine.qpn = q->qp->qp_num;
	q->mine.psn = VD_PSN_NEAR_WRAP;
	q->mine.mtu = node->opt->mtu ? node->opt->mtu : 128u << node->port.active_mtu;
	q->mine.counter = (struct vd_mem){ (uintptr_t)node->counter, node->counter_mr->rkey, 8 };
}

static enum ibv_mtu mtu_enum(unsigned mtu)
{
	return mtu >= 4096   ? IBV_MTU_4096
	       : mtu >= 2048 ? IBV_MTU_2048
	       : mtu >= 1024 ? IBV_MTU_1024
	       : mtu >= 512  ? IBV_MTU_512
			     : IBV_MTU_256;
}

static void qp_to_rtr(struct vd_qp *q, const struct ibv_ah_attr *ah)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_enum(q->mtu),
		.dest_qp_num = q->peer.qpn,
		.rq_psn = q->peer.psn,
		.max_dest_rd_atomic = q->want.no_responder ? 0 : (uint8_t)q->want.rd_atom,
		.min_rnr_timer = (uint8_t)q->want.min_rnr,
		.ah_attr = *ah,
	};
	int mask = IBV_QP_STATE;

	if (q->want.type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (q->want.type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (ibv_modify_qp(q->qp, &attr, mask))
		vd_die("QP to RTR: %s", strerror(errno));
}

static void qp_to_rts(struct vd_qp *q)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = q->mine.psn,
		.timeout = (uint8_t)q->want.timeout,
		.retry_cnt = (uint8_t)q->want.retry,
		.rnr_retry = (uint8_t)q->want.rnr_retry,
		.max_rd_atomic = (uint8_t)q->want.rd_atom,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (q->want.type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	if (ibv_modify_qp(q->qp, &attr, mask))
		vd_die("QP to RTS: %s", strerror(errno));
}

void vd_qp_connect(struct vd_qp *q)
{
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1 };

	vd_swap(q->fd, &q->mine, &q->peer, sizeof(q->mine));
	q->mtu = q->mine.mtu < q->peer.mtu ? q->mine.mtu : q->peer.mtu;
	memcpy(&ah.grh.dgid, q->peer.gid, 16);
	ah.grh.sgid_index = (uint8_t)q->node->opt->gid_index;
	ah.grh.hop_limit = 64;
	if (q->want.type == IBV_QPT_UD && !(q->ah = ibv_create_ah(q->node->pd, &ah)))
		vd_die("ibv_create_ah: %s", strerror(errno));
	qp_to_rtr(q, &ah);
	qp_to_rts(q);
	vd_barrier(q->fd);
}

void vd_qp_close(struct vd_qp *q)
{
	if (q->events)
		ibv_ack_cq_events(q->cq, q->events);
	if (q->ah && ibv_destroy_ah(q->ah))
		vd_die("ibv_destroy_ah");
	if (ibv_destroy_qp(q->qp))
		vd_die("ibv_destroy_qp");
	if (q->srq && ibv_destroy_srq(q->srq))
		vd_die("ibv_destroy_srq");
	if (ibv_destroy_cq(q->cq))
		vd_die("ibv_destroy_cq");
	if (q->channel && ibv_destroy_comp_channel(q->channel))
		vd_die("ibv_destroy_comp_channel");
}

void vd_recv(struct vd_qp *q, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;
	int err = q->srq ? ibv_post_srq_recv(q->srq, wr, &bad) : ibv_post_recv(q->qp, wr, &bad);

	if (err)
		vd_die("ibv_post_recv: %s", strerror(err));
}

/* Sleeps until the channel has an event, takes it and arms the CQ again. */
static void event_wait(struct vd_qp *q, int ms)
{
	struct pollfd p = { .fd = q->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *arg;

	if (poll(&p, 1, ms) != 1)
		return;
	if (ibv_get_cq_event(q->channel, &cq, &arg) || cq != q->cq || arg != q)
		vd_die("ibv_get_cq_event: not our CQ");
	q->events++;
	if (ibv_req_notify_cq(q->cq, 0))
		vd_die("ibv_req_notify_cq");
}

int vd_poll(struct vd_qp *q, struct ibv_wc *wc, int ms)
{
	uint64_t end = vd_now_ms() + (uint64_t)ms, now;
	unsigned spin, empty_n = 0;
	int n;

	for (spin = 0;; spin++) {
		n = ibv_poll_cq(q->cq, 1, wc);
		if (n < 0)
			vd_die("ibv_poll_cq: %d", n);
		if (n)
			return n;
		if (!q->channel && spin % 64)
			continue;
		now = vd_now_ms();
		if (now >= end)
			return 0;
		if (q->channel)
			event_wait(q, (int)(end - now));
		else
			nap(&empty_n);
	}
}
