/* SPDX-License-Identifier: MIT */
/* rs_ds_qp.c - the QPs of a datagram socket: memory, sending, completions. */
#include "rs_ds.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { GRH_LEN = 40, SENT = 1 };
#define WR_ID(kind, n) ((uint64_t)(kind) << 32 | (n))

static uint8_t *in_slot(const struct ds_qp *qp, uint32_t i) { return qp->mem + (size_t)i * DS_MSG_MAX; }

static uint8_t *out_slot(const struct ds *ds, const struct ds_qp *qp, uint32_t i)
{
	return qp->mem + (size_t)(ds->in_n + i) * DS_MSG_MAX;
}

/* ---- open and close ---------------------------------------------------------------------------- */

static int recv_post(const struct ds *ds, struct ds_qp *qp, uint32_t slot)
{
	struct ibv_sge sge[2] = {
		{ (uintptr_t)out_slot(ds, qp, ds->out_n), GRH_LEN, qp->mr->lkey }, /* nobody reads it */
		{ (uintptr_t)in_slot(qp, slot), DS_MSG_MAX, qp->mr->lkey },
	};
	struct ibv_recv_wr wr = { .wr_id = WR_ID(0, slot), .sg_list = sge, .num_sge = 2 }, *bad;

	return ibv_post_recv(qp->id->qp, &wr, &bad);
}

static int memory_make(const struct ds *ds, struct ds_qp *qp)
{
	size_t len = ((size_t)(ds->in_n + ds->out_n) * DS_MSG_MAX + GRH_LEN + 4095) & ~(size_t)4095;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return ENOMEM;
	qp->mem = p;
	qp->mem_len = len;
	qp->in = calloc(ds->in_n, sizeof(*qp->in));
	qp->free = calloc(ds->out_n, sizeof(*qp->free));
	if (!qp->in || !qp->free)
		return ENOMEM;
	for (uint32_t i = 0; i < ds->out_n; i++)
		qp->free[qp->free_n++] = ds->out_n - 1 - i;
	qp->mr = ibv_reg_mr(qp->id->pd, p, len, IBV_ACCESS_LOCAL_WRITE);
	return qp->mr ? 0 : errno;
}

static int cq_make(const struct ds *ds, struct ds_qp *qp)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = qp };

	qp->cc = ibv_create_comp_channel(qp->id->verbs);
	if (!qp->cc)
		return errno;
	fcntl(qp->cc->fd, F_SETFL, fcntl(qp->cc->fd, F_GETFL) | O_NONBLOCK);
	qp->cq = ibv_create_cq(qp->id->verbs, (int)(ds->in_n + ds->out_n), qp, qp->cc, 0);
	if (!qp->cq || epoll_ctl(ds->ep, EPOLL_CTL_ADD, qp->cc->fd, &e))
		return errno;
	/* Threads that sleep already are woken by this one, too. */
	qp->armed = true;
	return ibv_req_notify_cq(qp->cq, 0);
}

static int qp_make(const struct ds *ds, struct ds_qp *qp)
{
	struct ibv_qp_init_attr a = {
		.send_cq = qp->cq,
		.recv_cq = qp->cq,
		.cap = { .max_send_wr = ds->out_n, .max_recv_wr = ds->in_n, .max_send_sge = 1, .max_recv_sge = 2 },
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};
	struct ibv_port_attr port;
	int err = ibv_query_port(qp->id->verbs, qp->id->port_num, &port);

	if (err)
		return err;
	qp->mtu = 128u << port.active_mtu;
	if (rdma_create_qp(qp->id, NULL, &a))
		return errno;
	for (uint32_t i = 0; i < ds->in_n && !err; i++)
		err = recv_post(ds, qp, i);
	return err;
}

/* The id's port is any: on the wire it is the UDP socket's that counts. */
static int id_make(struct ds_qp *qp)
{
	union ds_addr a = qp->local;

	if (rdma_create_id(NULL, &qp->id, NULL, RDMA_PS_UDP))
		return errno;
	if (a.sa.sa_family == AF_INET)
		a.in.sin_port = 0;
	else
		a.in6.sin6_port = 0;
	if (rdma_bind_addr(qp->id, &a.sa))
		return errno;
	return qp->id->verbs ? 0 : ENODEV;
}

static void qp_free(struct ds_qp *qp)
{
	if (qp->id && qp->id->qp)
		rdma_destroy_qp(qp->id);
	if (qp->cq)
		ibv_destroy_cq(qp->cq);
	if (qp->cc)
		ibv_destroy_comp_channel(qp->cc);
	if (qp->mr)
		ibv_dereg_mr(qp->mr);
	if (qp->mem)
		munmap(qp->mem, qp->mem_len);
	if (qp->id)
		rdma_destroy_id(qp->id);
	free(qp->in);
	free(qp->free);
	free(qp);
}

int ds_qp_get(struct rsock *rs, const union ds_addr *local, struct ds_qp **out)
{
	struct ds *ds = rs->ds;
	struct ds_qp *qp;
	int err;

	for (qp = ds->qps; qp && !ds_addr_same(&qp->local, local); qp = qp->next)
		;
	*out = qp;
	if (qp)
		return 0;
	if (!ds->qps) { /* from now on the sizes are fixed */
		ds->in_n = rs->opts.rcvbuf / DS_MSG_MAX < rs->opts.rq_size ? rs->opts.rcvbuf / DS_MSG_MAX
									   : rs->opts.rq_size;
		ds->out_n = rs->opts.sndbuf / DS_MSG_MAX < rs->opts.sq_size ? rs->opts.sndbuf / DS_MSG_MAX
									    : rs->opts.sq_size;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return ENOMEM;
	qp->local = *local;
	qp->hdr_len = ds_hdr_make(qp->hdr, local);
	err = id_make(qp);
	if (!err)
		err = memory_make(ds, qp);
	if (!err)
		err = cq_make(ds, qp);
	if (!err)
		err = qp_make(ds, qp);
	if (err) {
		qp_free(qp);
		return err;
	}
	qp->next = ds->qps;
	ds->qps = qp;
	*out = qp;
	return 0;
}

void ds_qps_free(struct ds *ds)
{
	struct ds_qp *qp;

	while ((qp = ds->qps)) {
		ds->qps = qp->next;
		qp_free(qp);
	}
}

/* ---- data ------------------------------------------------------------------------------------------- */

int ds_qp_send(struct rsock *rs, struct ds_dest *d, const struct iovec *iov, size_t len)
{
	struct ds_qp *qp = d->qp;
	uint32_t slot = qp->free[qp->free_n - 1];
	uint8_t *at = out_slot(rs->ds, qp, slot);
	struct ibv_sge sge = { (uintptr_t)at, (uint32_t)(qp->hdr_len + len), qp->mr->lkey };
	struct ibv_send_wr wr =
				   {
					   .wr_id = WR_ID(SENT, slot),
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_SEND,
					   .wr.ud = {.ah = d->ah,
	                                             .remote_qpn = d->qpn,
	                                             .remote_qkey = RDMA_UDP_QKEY},
				   },
			   *bad;
	int err;

	memcpy(at, qp->hdr, qp->hdr_len);
	for (at += qp->hdr_len; len; iov++) {
		size_t n = iov->iov_len < len ? iov->iov_len : len;

		memcpy(at, iov->iov_base, n);
		at += n;
		len -= n;
	}
	err = ibv_post_send(qp->id->qp, &wr, &bad);
	if (!err)
		qp->free_n--;
	return err;
}

void ds_in_add(struct ds *ds, struct ds_in *in)
{
	in->next = NULL;
	*ds->last = in;
	ds->last = &in->next;
}

void ds_in_drop(struct rsock *rs)
{
	struct ds *ds = rs->ds;
	struct ds_in *in = ds->first;

	ds->first = in->next;
	if (!ds->first)
		ds->last = &ds->first;
	if (in->qp) {
		recv_post(ds, in->qp, in->slot);
		return;
	}
	ds->udp_n--;
	free(in);
}

static void on_recv(struct ds *ds, struct ds_qp *qp, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id;
	struct ds_in *in = &qp->in[slot];
	size_t len = wc->byte_len > GRH_LEN ? wc->byte_len - GRH_LEN : 0, hdr;

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	hdr = wc->status == IBV_WC_SUCCESS ? ds_hdr_parse(in_slot(qp, slot), len, &in->from) : 0;
	/* A connected socket hears its peer only. */
	if (!hdr || (ds->peer && !ds_addr_same(&in->from, &ds->peer->addr))) {
		recv_post(ds, qp, slot);
		return;
	}
	in->qp = qp;
	in->slot = slot;
	in->data = in_slot(qp, slot) + hdr;
	in->len = (uint32_t)(len - hdr);
	ds_in_add(ds, in);
}

static int qp_progress(struct ds *ds, struct ds_qp *qp)
{
	struct ibv_wc wc[16];
	int n, all = 0;

	do {
		n = ibv_poll_cq(qp->cq, ARRAY_N(wc), wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id >> 32 == SENT)
				qp->free[qp->free_n++] = (uint32_t)wc[i].wr_id;
			else
				on_recv(ds, qp, &wc[i]);
		}
		all += n > 0 ? n : 0;
	} while (n == ARRAY_N(wc));
	return all;
}

int ds_progress(struct rsock *rs)
{
	int all = 0;

	for (struct ds_qp *qp = rs->ds->qps; qp; qp = qp->next)
		all += qp_progress(rs->ds, qp);
	if (all)
		rs_wake(rs);
	return all;
}

/* ---- sleeping ---------------------------------------------------------------------------------- */

bool ds_arm(struct rsock *rs)
{
	for (struct ds_qp *qp = rs->ds->qps; qp; qp = qp->next) {
		if (!qp->armed)
			ibv_req_notify_cq(qp->cq, 0);
		qp->armed = true;
	}
	return !ds_progress(rs);
}

void ds_event_take(struct rsock *rs)
{
	struct ibv_cq *cq;
	void *context;

	for (struct ds_qp *qp = rs->ds->qps; qp; qp = qp->next) {
		if (ibv_get_cq_event(qp->cc, &cq, &context)) {
			rs->ds->gone |= errno == EIO;
			continue;
		}
		ibv_ack_cq_events(cq, 1);
		qp->armed = false;
		rs_wake(rs); /* others sleep because it was */
	}
}

int ds_sleep_fd(const struct rsock *rs) { return rs->ds->ep; }
