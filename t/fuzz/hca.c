/* SPDX-License-Identifier: MIT */
/*
 * hca.c - fuzz target: an HCA between a hostile program and a hostile network.
 *
 * Input: a script.  Each step is a byte that says what happens - packets for QPs in all states, posts, time,
 * modify, destroy, dereg, faults of the host - and the bytes that it needs; after each one hca_verify().
 * Two windows can be bound and invalidated; 7 sends by XRC to 8.
 * QPs 0 and 1 are RC and connected, 2 and 6 (on an SRQ) RC with themselves, 3 and 4 UC, 5 UD; what the HCA
 * sends goes back into it or is lost, as the script says.
 *
 * The memory is an array; the core may touch only what is registered now.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/hca.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define QPS   9u
#define MWS   2u
#define MRS   3u
#define MEM   4096u
#define STEPS 400u

struct input {
	const uint8_t *p;
	size_t n;
};

struct world {
	struct hca *h;
	struct input in;
	mono_t now;
	uint32_t pdn, cqn, srqn, xrcdn, xsrqn, qpn[QPS], key[MRS], mw[MWS];
	struct {
		uint32_t qpn, psn;
	} gone[QPS]; /* the QPs before these, and what they expected */
	bool live[MRS];
	uint8_t mem[MRS][MEM] __attribute__((aligned(64)));
	uint8_t gid[16], peer[16];
};

static uint8_t u8(struct input *in)
{
	if (!in->n)
		return 0;
	in->n--;
	return *in->p++;
}

static uint16_t u16(struct input *in)
{
	unsigned hi = u8(in);

	return (uint16_t)(hi << 8 | u8(in));
}

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* ---- memory -------------------------------------------------------------------- */

static uint8_t *bytes_of(struct world *w, const struct span *s)
{
	uintptr_t i = (uintptr_t)s->region - 1;

	if (!s->region)
		return (uint8_t *)(uintptr_t)s->addr;
	must(i < MRS && w->live[i] && s->addr <= MEM && s->len <= MEM - s->addr);
	return w->mem[i] + s->addr;
}

static int copy(void *host, const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n,
		uint64_t off)
{
	unsigned k = 0;
	uint32_t skip;

	while (k < src_n && off >= src[k].len)
		off -= src[k++].len;
	skip = (uint32_t)off;
	for (unsigned i = 0; i < dst_n; i++)
		for (uint32_t at = 0; at < dst[i].len;) {
			uint32_t n;

			must(k < src_n);
			n = src[k].len - skip < dst[i].len - at ? src[k].len - skip : dst[i].len - at;
			memmove(bytes_of(host, &dst[i]) + at, bytes_of(host, &src[k]) + skip, n);
			at += n;
			skip += n;
			if (skip == src[k].len)
				k++, skip = 0;
		}
	return 0;
}

static int cmp_swap(void *host, const struct span *at, uint64_t compare, uint64_t swap, uint64_t *old)
{
	uint8_t *p = bytes_of(host, at);

	must(at->len == 8 && at->addr % 8 == 0);
	memcpy(old, p, 8);
	if (*old == compare)
		memcpy(p, &swap, 8);
	return 0;
}

static int fetch_add(void *host, const struct span *at, uint64_t add, uint64_t *old)
{
	uint8_t *p = bytes_of(host, at);

	must(at->len == 8 && at->addr % 8 == 0);
	memcpy(old, p, 8);
	add += *old;
	memcpy(p, &add, 8);
	return 0;
}

static int store(void *host, const struct span *at, uint64_t value)
{
	must(at->len == 8 && at->addr % 8 == 0);
	memcpy(bytes_of(host, at), &value, 8);
	return 0;
}

static const struct mem_ops ops = { copy, cmp_swap, fetch_add, store, NULL };

/* ---- objects ---------------------------------------------------------------------- */

static void mr_new(struct world *w, unsigned i)
{
	const uint32_t all = ACC_LOCAL_WRITE | ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC | ACC_MW_BIND |
			     ACC_FLUSH_GLOBAL;
	struct mr_attr a = { .pdn = w->pdn,
			     .access = i == 2 ? ACC_LOCAL_WRITE : all,
			     .addr = 0,
			     .len = MEM,
			     .iova = 0,
			     .region = (void *)(uintptr_t)(i + 1) };

	must(!hca_mr_reg(w->h, &a, &w->key[i]));
	w->live[i] = true;
}

static uint32_t first_psn(unsigned i) { return (0xfffffa + 3 * i) & PSN_MASK; }

static void qp_state(struct world *w, unsigned i, uint8_t state)
{
	static const uint32_t rtr = QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN,
			      rts = QPA_STATE | QPA_SQ_PSN;
	unsigned to = i < 2 ? 1 - i : i == 3 || i == 4 ? 7 - i : i >= 7 ? 15 - i : i;
	struct qp_attr a = { .state = state,
			     .port = 1,
			     .path_mtu = 1,
			     .timeout = 8,
			     .retry_cnt = 2,
			     .rnr_retry = 1,
			     .min_rnr_timer = 1,
			     .max_rd_atomic = 2,
			     .max_dest_rd_atomic = 2,
			     .access = 15 | ACC_FLUSH_GLOBAL,
			     .qkey = 0x1111,
			     .en_sqd_async_notify = 1 };
	uint32_t mask = QPA_STATE;

	a.dest_qpn = w->qpn[to];
	a.sq_psn = first_psn(i);
	a.rq_psn = first_psn(to);
	memcpy(a.av.dgid, w->gid, 16);
	if (state == QPS_INIT)
		mask |= QPA_PKEY_INDEX | QPA_PORT | (i == 5 ? QPA_QKEY : QPA_ACCESS_FLAGS);
	if (state == QPS_RTR && i != 5)
		mask = i == 3 || i == 4 || i == 7 ? rtr : rtr | QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
	if (state == QPS_RTS)
		mask = i == 8            ? rts | QPA_TIMEOUT
		       : i >= 3 && i < 6 ? rts
					 : rts | QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC;
	if (hca_qp_modify(w->h, w->qpn[i], &a, mask, w->now) && state == QPS_RTS)
		hca_qp_modify(w->h, w->qpn[i], &a, QPA_STATE, w->now); /* from SQD or SQE */
}

static void qp_new(struct world *w, unsigned i)
{
	struct qp_init q = { .type = i == 5             ? QPT_UD
				     : i == 3 || i == 4 ? QPT_UC
							: QPT_RC,
			     .sq_sig_all = i == 1,
			     .pdn = w->pdn,
			     .send_cqn = w->cqn,
			     .recv_cqn = w->cqn,
			     .srqn = i == 6 ? w->srqn : 0,
			     .cap = { 8, i == 6 ? 0 : 8, 3, 3, 64 } };

	if (i == 7) {
		q.type = QPT_XRC_SEND;
		q.recv_cqn = q.cap.max_recv_wr = q.cap.max_recv_sge = 0;
	} else if (i == 8) {
		q = (struct qp_init){ .type = QPT_XRC_RECV, .xrcdn = w->xrcdn };
	}
	must(!hca_qp_create(w->h, &q, &w->qpn[i]));
}

static void world_new(struct world *w)
{
	struct hca_cfg c = { .mem = &ops,
			     .mem_host = w,
			     .seed = 1,
			     .mtu = 3,
			     .burst_len = 2048,
			     .local_burst_len = 4096,
			     .window_len = 8192,
			     .selective = true,
			     .max_qp = 16,
			     .max_cq = 4,
			     .max_srq = 4,
			     .max_mr = 8,
			     .max_pd = 4 };
	struct srq_init s = { .max_wr = 8, .max_sge = 3 };

	w->h = hca_new(&c);
	must(w->h != NULL);
	w->gid[0] = w->peer[0] = 0xfd;
	w->peer[15] = 1;
	must(!hca_gid_set(w->h, 0, w->gid));
	must(!hca_pd_alloc(w->h, &w->pdn));
	must(!hca_cq_create(w->h, 64, &w->cqn));
	s.pdn = w->pdn;
	must(!hca_srq_create(w->h, &s, &w->srqn));
	must(!hca_xrcd_alloc(w->h, &s.xrcdn));
	w->xrcdn = s.xrcdn;
	s.cqn = w->cqn;
	must(!hca_srq_create(w->h, &s, &w->xsrqn));
	for (unsigned i = 0; i < MWS; i++)
		must(!hca_mw_alloc(w->h, w->pdn, i + 1, &w->mw[i]));
	for (unsigned i = 0; i < MRS; i++)
		mr_new(w, i);
	for (unsigned i = 0; i < QPS; i++)
		qp_new(w, i);
	for (unsigned i = 0; i < QPS; i++) {
		qp_state(w, i, QPS_INIT);
		qp_state(w, i, QPS_RTR);
		qp_state(w, i, QPS_RTS);
	}
}

/* ---- steps ---------------------------------------------------------------------------- */

static void step_packet(struct world *w)
{
	static uint8_t payload[8192];
	struct input *in = &w->in;
	unsigned i = u8(in) % QPS;
	struct qp_info info = { 0 };
	uint8_t op = u8(in), how = u8(in);
	struct burst b = { .op_first = op, .op_last = op, .n = 1, .mtu = 256, .pkey = 0xffff, .dqpn = w->qpn[i] };
	struct span s = { NULL, (uintptr_t)payload, 0 };

	if (!opcode_get(op)->name)
		return;
	hca_qp_info(w->h, w->qpn[i], &info);
	if (how & 64 && w->gone[i].qpn) {
		b.dqpn = w->gone[i].qpn;
		info.rq_psn = w->gone[i].psn;
	}
	b.psn = psn_add(psn(how & 1 ? info.sq_psn_acked : info.rq_psn), (uint32_t)(int8_t)u8(in));
	b.se = how & 2;
	b.ackreq = how & 4;
	b.va = u16(in) & (how & 8 ? 0xff8 : 0x1fff);
	b.rkey = w->key[u8(in) % MRS];
	b.dma_len = u16(in);
	b.inv_rkey = w->mw[1];
	b.feth = b.dma_len & 0x33;
	b.srqn = how & 64 ? w->srqn : w->xsrqn;
	if (how & 128)
		b.rkey = w->mw[b.dma_len & 1];
	b.syndrome = u8(in);
	b.qkey = 0x1111;
	b.sqpn = w->qpn[5];
	b.swap_add = b.compare = u8(in);
	memcpy(b.route.sgid, how & 16 ? w->peer : w->gid, 16);
	memcpy(b.route.dgid, w->gid, 16);
	switch (opcode_get(op)->pay) {
	case PAY_NONE: break;
	case PAY_8: s.len = 8; break;
	case PAY_FULL: s.len = how & 32 ? u16(in) % 1025 : 256; break;
	default: s.len = u16(in) % 1025;
	}
	if (opcode_get(op)->pay == PAY_SOME && !s.len)
		s.len = 1;
	b.payload_len = s.len;
	b.span = &s;
	b.span_n = s.len != 0;
	hca_rx_burst(w->h, &b, w->now);
}

static void step_raw(struct world *w)
{
	struct route r = { .hop_limit = 1 };
	size_t n = u16(&w->in) % 300;
	uint8_t *copy_of;

	if (n > w->in.n)
		n = w->in.n;
	memcpy(r.sgid, w->gid, 16);
	memcpy(r.dgid, w->gid, 16);
	copy_of = malloc(n + 1);
	must(copy_of != NULL);
	memcpy(copy_of, w->in.p, n);
	w->in.p += n;
	w->in.n -= n;
	hca_rx(w->h, &r, copy_of, n, w->now);
	free(copy_of);
}

static unsigned sges(struct world *w, struct sge *sge, unsigned n)
{
	for (unsigned k = 0; k < n; k++)
		sge[k] = (struct sge){ u16(&w->in) & 0x10ff, u16(&w->in) & 0x7ff, w->key[u8(&w->in) % MRS] };
	return n;
}

static void step_send(struct world *w)
{
	struct input *in = &w->in;
	struct {
		struct send_wr wr;
		struct sge sge[4];
		uint8_t data[64];
	} x = { 0 };
	unsigned i = u8(in) % QPS, to = u8(in) % QPS;

	x.wr.wr_id = 1;
	x.wr.op = u8(in) % 17;
	x.wr.flags = u8(in) & 7;
	x.wr.rkey = w->key[to % MRS];
	x.wr.remote_addr = u16(in) & 0x10f8;
	x.wr.imm = u8(in);
	if (x.wr.op == WR_LOCAL_INV || x.wr.op == WR_SEND_INV)
		x.wr.imm = w->mw[x.wr.imm & 1];
	if (i != 5)
		x.wr.xrc.srqn = x.wr.imm & 64 ? w->srqn : w->xsrqn;
	if (x.wr.op == WR_FLUSH) {
		x.wr.flush.type = x.wr.imm & 3;
		x.wr.flush.level = x.wr.imm >> 2 & 1;
		x.wr.flush.len = x.wr.imm;
	} else if (x.wr.op == WR_BIND_MW) {
		unsigned k = x.wr.imm & 1;

		w->mw[k] ^= x.wr.imm >> 1 & 3;
		x.wr.rkey = w->mw[k];
		x.wr.bind.len = (uint64_t)u8(in) << 4;
		x.wr.bind.lkey = w->key[to % MRS];
		x.wr.bind.access = u8(in) & 0x12e;
	} else if (x.wr.imm & 128) {
		x.wr.rkey = w->mw[x.wr.imm & 1];
	}
	if (x.wr.op == WR_BIND_MW || x.wr.op == WR_LOCAL_INV || x.wr.op == WR_FLUSH) {
		hca_post_send(w->h, w->qpn[i], &x.wr, w->now);
		return;
	}
	if (i == 5) {
		x.wr.ud.dqpn = to == 6 ? QPN_MCAST : w->qpn[to];
		x.wr.ud.qkey = 0x1111;
		memcpy(x.wr.ud.av.dgid, w->gid, 16);
		x.wr.ud.av.sgid_index = to == 4;
	}
	x.wr.sge_n = (uint16_t)sges(w, x.sge, u8(in) % 5);
	if (x.wr.sge_n == 4) {
		x.wr.sge_n = 0;
		x.wr.inline_len = u8(in) % 65;
		x.wr.flags |= WR_INLINE;
	}
	hca_post_send(w->h, w->qpn[i], &x.wr, w->now);
}

static void step_recv(struct world *w, bool srq)
{
	struct {
		struct recv_wr wr;
		struct sge sge[4];
	} x = { 0 };
	unsigned i = u8(&w->in) % QPS;

	x.wr.wr_id = 2;
	x.wr.sge_n = (uint16_t)sges(w, x.sge, u8(&w->in) % 4);
	if (srq)
		hca_post_srq_recv(w->h, i >= 7 ? w->xsrqn : w->srqn, &x.wr, w->now);
	else
		hca_post_recv(w->h, w->qpn[i], &x.wr, w->now);
}

/* what & 3: 0 lost, 1 arrives, 2 the host cannot read it, or what is behind (what >> 2 & 3) packets of it, 3 arrives in two halves */
static void step_tx(struct world *w, uint8_t what)
{
	struct span spans[RD_MAX_SGE + 1];
	struct burst b, half;

	for (unsigned n = 1 + (what >> 4); n; n--) {
		if (!hca_tx(w->h, &b, w->now))
			return;
		must(b.n && b.span_n <= RD_MAX_SGE + 1);
		if ((what & 3) == 1)
			hca_rx_burst(w->h, &b, w->now);
		else if ((what & 3) == 2)
			hca_tx_fault(w->h, &b, (what >> 2 & 3) % b.n, w->now);
		else if ((what & 3) == 3) {
			burst_slice(&b, b.n / 2, b.n - b.n / 2, &half, spans);
			hca_rx_burst(w->h, &half, w->now);
		}
	}
}

static void step_time(struct world *w, uint8_t how)
{
	mono_t d = hca_deadline(w->h);

	w->now = mono_add(w->now, 1000u << how % 20);
	if (how & 0x80 && !mono_is_never(d) && mono_before(w->now, d))
		w->now = d;
	hca_tick(w->h, w->now);
}

static void step_reap(struct world *w)
{
	struct hca_event ev[3];
	struct cqe cqe[5];

	while (hca_completions(w->h, cqe, 5))
		;
	while (hca_events(w->h, ev, 3))
		;
}

static void qp_gone(struct world *w, unsigned i)
{
	struct qp_info info = { 0 };

	hca_qp_info(w->h, w->qpn[i], &info);
	w->gone[i].qpn = w->qpn[i];
	w->gone[i].psn = info.rq_psn;
}

static void step_object(struct world *w, uint8_t how)
{
	unsigned i = how % QPS, r = how % MRS;
	static const uint8_t mgid[16] = { 0xff, 0x0e };

	switch (how >> 5) {
	case 0:
		qp_gone(w, i);
		must(how & 16 ? !hca_qp_retire(w->h, w->qpn[i], w->now) : !hca_qp_destroy(w->h, w->qpn[i]));
		qp_new(w, i);
		break;
	case 1:
		if (w->live[r]) {
			int err = hca_mr_dereg(w->h, w->key[r]);

			must(!err || err == EBUSY); /* a window is bound to it */
			w->live[r] = err;
		} else {
			mr_new(w, r);
		}
		break;
	case 2: hca_srq_limit(w->h, w->srqn, how & 7); break;
	case 3: hca_srq_resize(w->h, w->srqn, 1 + (how & 15)); break;
	case 4: hca_mcast_attach(w->h, w->qpn[i], mgid); break;
	case 5: hca_mcast_detach(w->h, w->qpn[i], mgid); break;
	case 6: hca_cq_overrun(w->h, w->cqn, w->now); break;
	default: hca_local_set(w->h, w->gid, how & 1); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct world *w = calloc(1, sizeof *w);
	unsigned i;

	must(w != NULL);
	w->in = (struct input){ data, len };
	w->now.ns = 1000000;
	world_new(w);
	for (unsigned n = 0; w->in.n && n < STEPS; n++) {
		switch (u8(&w->in) % 12) {
		case 0:
		case 1: step_packet(w); break;
		case 2: step_raw(w); break;
		case 3:
		case 4: step_send(w); break;
		case 5: step_recv(w, false); break;
		case 6: step_recv(w, true); break;
		case 7:
		case 8: step_tx(w, u8(&w->in)); break;
		case 9:
			step_time(w, u8(&w->in));
			step_reap(w);
			break;
		case 10:
			i = u8(&w->in) % QPS;
			qp_state(w, i, u8(&w->in) % 7);
			break;
		default: step_object(w, u8(&w->in));
		}
		hca_verify(w->h);
	}
	for (i = 0; i < QPS; i++)
		must(!hca_qp_destroy(w->h, w->qpn[i]));
	must(!hca_srq_destroy(w->h, w->srqn) && !hca_srq_destroy(w->h, w->xsrqn) && !hca_xrcd_free(w->h, w->xrcdn));
	must(!hca_cq_destroy(w->h, w->cqn));
	for (i = 0; i < MWS; i++)
		must(!hca_mw_dealloc(w->h, w->mw[i]));
	for (i = 0; i < MRS; i++)
		must(!w->live[i] || !hca_mr_dereg(w->h, w->key[i]));
	must(!hca_pd_free(w->h, w->pdn));
	hca_verify(w->h);
	hca_free(w->h);
	free(w);
	return 0;
}
