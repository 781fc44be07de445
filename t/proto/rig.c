/* SPDX-License-Identifier: MIT */
/* rig.c - see rig.h. */
#include "rig.h"

#include <errno.h>

/* clang-format off */
const struct link_conf conf_rc = {
	.type = QPT_RC, .mtu = 2, .timeout = 14, .retry = 7, .rnr_retry = 7, .min_rnr = 12, .rd_atomic = 16,
	.dest_rd_atomic = 16, .psn = 0xfffff0, .sq_depth = 64, .rq_depth = 64,
	.access = ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC,
};
/* clang-format on */

/* ---- memory ------------------------------------------------------------- */

static uint8_t *at(const struct span *s)
{
	const struct region *r = s->region;

	return r && (r->gone || r->ended) ? NULL : (uint8_t *)(uintptr_t)s->addr;
}

/* Where at() is NULL. */
static int why_not(const struct span *s)
{
	const struct region *r = s->region;

	return r->ended ? ESRCH : EFAULT;
}

static int mem_copy(void *, const struct span *dst, unsigned dst_n, const struct span *src, unsigned src_n,
		    uint64_t off)
{
	unsigned k = 0;
	uint64_t done = 0;

	for (unsigned i = 0; i < src_n; i++)
		if (!at(&src[i]))
			return why_not(&src[i]);
	for (; dst_n; dst++, dst_n--) {
		for (done = 0; done < dst->len;) {
			uint64_t n;

			while (k < src_n && off >= src[k].len)
				off -= src[k++].len;
			ck_assert_uint_lt(k, src_n);
			n = src[k].len - off < dst->len - done ? src[k].len - off : dst->len - done;
			if (!at(dst))
				return why_not(dst);
			memmove(at(dst) + done, at(&src[k]) + off, n);
			done += n;
			off += n;
		}
	}
	return 0;
}

static int mem_cmp_swap(void *, const struct span *s, uint64_t compare, uint64_t swap, uint64_t *old)
{
	if (!at(s))
		return why_not(s);
	memcpy(old, at(s), 8);
	if (*old == compare)
		memcpy(at(s), &swap, 8);
	return 0;
}

static int mem_fetch_add(void *, const struct span *s, uint64_t add, uint64_t *old)
{
	uint64_t sum;

	if (!at(s))
		return why_not(s);
	memcpy(old, at(s), 8);
	sum = *old + add;
	memcpy(at(s), &sum, 8);
	return 0;
}

static int mem_store(void *, const struct span *s, uint64_t value)
{
	if (!at(s))
		return why_not(s);
	memcpy(at(s), &value, 8);
	return 0;
}

static const struct mem_ops mem = { mem_copy, mem_cmp_swap, mem_fetch_add, mem_store, NULL };

/* ---- making --------------------------------------------------------------- */

static const uint16_t pkeys[2][RIG_PKEYS] = { { PKEY_DEFAULT, 0x8001, 0x0002, 0x8003, 0x0004 },
					      { PKEY_DEFAULT, 0x0004, 0x0003, 0x8002, 0x8001 } };

uint16_t rig_pkey(const struct rig *r, const struct host *x, unsigned row) { return pkeys[x == &r->b][row]; }

uint32_t rig_no_kinds;
uint8_t rig_least_timeout;

static void host_init(struct host *x, enum link_mode mode, unsigned number, uint64_t seed)
{
	struct hca_cfg cfg = { .mem = &mem,
			       .no_kinds = rig_no_kinds,
			       .least_timeout = rig_least_timeout,
			       .seed = seed,
			       .qpn_low = number,
			       .qpn_low_bits = 1,
			       .mtu = 5,
			       .burst_len = 61440,
			       .local_burst_len = 1 << 20,
			       .window_len = 1 << 20,
			       .peer_room = RIG_ROOM,
			       .early_retrans = mode == LINK_EARLY || mode == LINK_KEEP,
			       .selective = mode == LINK_KEEP };
	struct mr_attr mr;

	memcpy(cfg.pkey, &pkeys[number][1], sizeof(pkeys[number]) - sizeof(pkeys[number][0]));
	x->h = hca_new(&cfg);
	ck_assert_ptr_nonnull(x->h);
	memcpy(x->gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0", 15);
	x->gid[15] = (uint8_t)(number + 1);
	ck_assert_int_eq(hca_gid_set(x->h, 1, x->gid), 0);
	ck_assert_int_eq(hca_pd_alloc(x->h, &x->pdn), 0);
	ck_assert_int_eq(hca_cq_create(x->h, WCS, &x->cqn), 0);
	x->buf = aligned_alloc(4096, BUF_LEN);
	memset(x->buf, 0, BUF_LEN);
	mr = (struct mr_attr){ .pdn = x->pdn,
			       .access = 0x31f,
			       .addr = (uintptr_t)x->buf,
			       .len = BUF_LEN,
			       .iova = (uintptr_t)x->buf,
			       .region = &x->region };
	ck_assert_int_eq(hca_mr_reg(x->h, &mr, &x->key), 0);
}

void rig_init(struct rig *r, enum link_mode mode)
{
	memset(r, 0, sizeof(*r));
	r->mode = mode;
	r->now.ns = 1;
	host_init(&r->a, mode, 0, 11);
	host_init(&r->b, mode, 1, 22);
	if (mode == LINK_LOCAL) {
		hca_local_set(r->a.h, r->b.gid, true);
		hca_local_set(r->b.h, r->a.gid, true);
	}
}

void rig_fini(struct rig *r)
{
	hca_verify(r->a.h);
	hca_verify(r->b.h);
	hca_free(r->a.h);
	hca_free(r->b.h);
	free(r->a.buf);
	free(r->b.buf);
}

/* b's end of XRC. */
static void create_target(struct host *x, const struct link_conf *c)
{
	struct qp_init init = { .type = QPT_XRC_RECV, .owner = c->owner };
	struct qp_attr a = { .state = QPS_INIT, .port = 1, .access = c->access, .pkey_index = c->pkey_b };
	struct srq_init s = { .pdn = x->pdn, .max_wr = c->rq_depth, .max_sge = 8, .cqn = x->cqn };

	if (!x->xrcdn) {
		ck_assert_int_eq(hca_xrcd_alloc(x->h, &x->xrcdn), 0);
		s.xrcdn = x->xrcdn;
		ck_assert_int_eq(hca_srq_create(x->h, &s, &x->srqn), 0);
	}
	init.xrcdn = x->xrcdn;
	ck_assert_int_eq(hca_qp_create(x->h, &init, &x->qpn), 0);
	ck_assert_int_eq(hca_qp_modify(x->h, x->qpn, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS,
				       (mono_t){ 1 }),
			 0);
}

static void create(struct host *x, const struct link_conf *c, uint32_t srqn, uint8_t pkey)
{
	struct qp_init init = { .type = c->type,
				.sq_sig_all = c->sig_all,
				.owner = c->owner,
				.pdn = x->pdn,
				.send_cqn = x->cqn,
				.recv_cqn = x->cqn,
				.srqn = srqn,
				.cap = { c->sq_depth, c->rq_depth, 8, 8, 256 } };
	struct qp_attr a = { .state = QPS_INIT, .port = 1, .qkey = 0x1234, .access = c->access, .pkey_index = pkey };

	if (c->type == QPT_XRC_SEND)
		init.recv_cqn = init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
	ck_assert_int_eq(hca_qp_create(x->h, &init, &x->qpn), 0);
	ck_assert_int_eq(
		hca_qp_modify(x->h, x->qpn, &a,
			      QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | (c->type == QPT_UD ? QPA_QKEY : QPA_ACCESS_FLAGS),
			      (mono_t){ 1 }),
		0);
}

void rig_to_init(struct rig *r, struct host *x, const struct link_conf *c)
{
	struct qp_attr a = { .state = QPS_RESET };

	ck_assert_int_eq(hca_qp_modify(x->h, x->qpn, &a, QPA_STATE, r->now), 0);
	a = (struct qp_attr){ .state = QPS_INIT, .port = 1, .access = c->access };
	ck_assert_int_eq(
		hca_qp_modify(x->h, x->qpn, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, r->now), 0);
}

void rig_to_rtr(struct rig *r, struct host *x, struct host *peer, const struct link_conf *c)
{
	struct qp_attr a = { .state = QPS_RTR,
			     .path_mtu = c->mtu,
			     .dest_qpn = peer->qpn,
			     .rq_psn = c->psn + (peer == &r->b ? 77 : (uint32_t)c->rq_off),
			     .max_dest_rd_atomic = c->dest_rd_atomic,
			     .min_rnr_timer = c->min_rnr,
			     .av = { .sgid_index = 1, .tclass = c->tclass } };
	uint32_t mask = QPA_STATE;

	memcpy(a.av.dgid, peer->gid, 16);
	if (c->type != QPT_UD)
		mask |= QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN;
	if (c->type == QPT_RC || (c->type == QPT_XRC_SEND && x == &r->b))
		mask |= QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER;
	ck_assert_int_eq(hca_qp_modify(x->h, x->qpn, &a, mask, r->now), 0);
}

void rig_to_rts(struct rig *r, struct host *x, const struct link_conf *c)
{
	struct qp_attr a = { .state = QPS_RTS,
			     .sq_psn = c->psn + (x == &r->b ? 77 : 0),
			     .timeout = c->timeout,
			     .retry_cnt = c->retry,
			     .rnr_retry = c->rnr_retry,
			     .max_rd_atomic = c->rd_atomic };

	bool target = c->type == QPT_XRC_SEND && x == &r->b;

	ck_assert_int_eq(
		hca_qp_modify(x->h, x->qpn, &a,
			      QPA_STATE | QPA_SQ_PSN | (target ? QPA_TIMEOUT : 0) |
				      (c->type == QPT_RC || (c->type == QPT_XRC_SEND && !target)
					       ? QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC
					       : 0),
			      r->now),
		0);
}

void rig_connect(struct rig *r, const struct link_conf *c)
{
	create(&r->a, c, 0, c->pkey_a);
	if (c->type == QPT_XRC_SEND)
		create_target(&r->b, c);
	else
		create(&r->b, c, c->srqn_b, c->pkey_b);
	rig_to_rtr(r, &r->a, &r->b, c);
	rig_to_rtr(r, &r->b, &r->a, c);
	rig_to_rts(r, &r->a, c);
	rig_to_rts(r, &r->b, c);
}

void rig_connect_srq(struct rig *r, struct link_conf *c, struct srq_init s)
{
	s.pdn = r->b.pdn;
	ck_assert_int_eq(hca_srq_create(r->b.h, &s, &c->srqn_b), 0);
	rig_connect(r, c);
}

/* ---- running --------------------------------------------------------------- */

static struct host *peer_of(struct rig *r, const struct host *x) { return x == &r->a ? &r->b : &r->a; }

static void collect(struct host *x)
{
	x->wc_n += hca_completions(x->h, x->wc + x->wc_n, WCS - x->wc_n);
	x->ev_n += hca_events(x->h, x->ev + x->ev_n, 64 - x->ev_n);
	hca_verify(x->h);
}

/* One packet as a datagram; false: its payload cannot be read. */
static bool fly(struct rig *r, struct host *from, const struct burst *p)
{
	static uint8_t data[PKT_HDR_MAX + 4096 + 4];
	struct host *to = peer_of(r, from);
	size_t hdr = burst_hdr(p, 0, data), len = p->payload_len, pad = -len & 3;
	struct span dst = { NULL, (uintptr_t)(data + hdr), (uint32_t)len };

	if (len && mem_copy(NULL, &dst, 1, p->span, p->span_n, 0))
		return false;
	memset(data + hdr + len, 0, pad);
	hca_rx(to->h, &p->route, data, hdr + len + pad, r->now);
	return true;
}

static bool step(struct rig *r, struct host *x)
{
	struct burst b, one;
	struct span spans[64];

	if (!hca_tx(x->h, &b, r->now))
		return false;
	r->bursts++;
	if (r->mode == LINK_LOCAL) {
		r->pkts += b.n;
		r->last = b;
		hca_rx_burst(peer_of(r, x)->h, &b, r->now);
		return true;
	}
	for (uint32_t i = 0; i < b.n; i++) {
		burst_slice(&b, i, 1, &one, spans);
		r->pkts++;
		r->last = one;
		if ((r->hook && r->hook(r, x, &one)) || fly(r, x, &one))
			continue;
		hca_tx_fault(x->h, &b, i, r->now);
		break;
	}
	return true;
}

void rig_run(struct rig *r)
{
	bool more = true;

	while (more) {
		more = step(r, &r->a);
		more |= step(r, &r->b);
		collect(&r->a);
		collect(&r->b);
	}
}

bool rig_tick(struct rig *r)
{
	mono_t t = mono_min(hca_deadline(r->a.h), hca_deadline(r->b.h));

	if (mono_is_never(t))
		return false;
	if (mono_before(r->now, t))
		r->now = t;
	hca_tick(r->a.h, r->now);
	hca_tick(r->b.h, r->now);
	rig_run(r);
	return true;
}

void rig_settle(struct rig *r, unsigned ticks)
{
	rig_run(r);
	while (ticks-- && rig_tick(r))
		;
}

/* ---- work requests ----------------------------------------------------------- */

int rig_send(struct rig *r, struct host *x, const struct wr_arg *w)
{
	struct {
		struct send_wr wr;
		uint8_t room[1024];
	} slot = { .wr = { .wr_id = w->id,
			   .op = (uint8_t)w->op,
			   .flags = (uint8_t)(w->flags | (w->inl ? WR_INLINE : 0) | (w->quiet ? 0 : WR_SIGNALED)),
			   .imm = w->imm,
			   .rkey = w->rkey ? w->rkey : peer_of(r, x)->key,
			   .remote_addr = (uintptr_t)peer_of(r, x)->buf + w->roff } };
	struct sge *sge = (struct sge *)(void *)slot.room;
	unsigned n = w->sge_n ? w->sge_n : 1;
	uint32_t off = 0;
	struct qp_attr a;
	struct qp_init init;

	ck_assert_int_eq(hca_qp_query(x->h, x->qpn, &a, &init), 0);
	if (init.type == QPT_UD) {
		slot.wr.ud.dqpn = peer_of(r, x)->qpn;
		slot.wr.ud.qkey = 0x1234;
		slot.wr.ud.av.sgid_index = 1;
		memcpy(slot.wr.ud.av.dgid, peer_of(r, x)->gid, 16);
	} else {
		slot.wr.atomic.swap = w->swap;
		slot.wr.atomic.compare_add = w->compare_add;
		slot.wr.xrc.srqn = w->srqn ? w->srqn : peer_of(r, x)->srqn;
	}
	if (w->op == WR_BIND_MW) {
		slot.wr.remote_addr = (uintptr_t)x->buf + w->off;
		slot.wr.bind.len = w->len;
		slot.wr.bind.lkey = w->lkey ? w->lkey : x->key;
		slot.wr.bind.access = w->access;
	}
	if (w->op == WR_FLUSH) {
		slot.wr.flush.len = w->len;
		slot.wr.flush.type = w->access;
		slot.wr.flush.level = w->imm;
	}
	if (w->op == WR_BIND_MW || w->op == WR_LOCAL_INV || w->op == WR_FLUSH)
		return hca_post_send(x->h, x->qpn, &slot.wr, r->now);
	if (w->inl) {
		slot.wr.inline_len = w->len;
		memcpy(slot.room, x->buf + w->off, w->len);
		return hca_post_send(x->h, x->qpn, &slot.wr, r->now);
	}
	slot.wr.sge_n = (uint16_t)n;
	for (unsigned i = 0; i < n; i++) {
		uint32_t len = i == n - 1 ? w->len - off : w->len / n;

		sge[i] = (struct sge){ (uintptr_t)x->buf + w->off + off, len, w->lkey ? w->lkey : x->key };
		off += len;
	}
	return hca_post_send(x->h, x->qpn, &slot.wr, r->now);
}

void rig_recv(struct rig *r, struct host *x, uint64_t id, uint64_t off, uint32_t len)
{
	struct {
		struct recv_wr wr;
		struct sge sge[2];
	} slot = { { .wr_id = id, .sge_n = 2 },
		   { { (uintptr_t)x->buf + off, len / 2, x->key },
		     { (uintptr_t)x->buf + off + len / 2, len - len / 2, x->key } } };

	if (x->srqn)
		ck_assert_int_eq(hca_post_srq_recv(x->h, x->srqn, &slot.wr, r->now), 0);
	else
		ck_assert_int_eq(hca_post_recv(x->h, x->qpn, &slot.wr, r->now), 0);
}

int rig_srq_recv(struct rig *r, uint32_t srqn, uint64_t id, uint64_t off, uint32_t len)
{
	struct {
		struct recv_wr wr;
		struct sge sge;
	} slot = { { .wr_id = id, .sge_n = 1 }, { (uintptr_t)r->b.buf + off, len, r->b.key } };

	return hca_post_srq_recv(r->b.h, srqn, &slot.wr, r->now);
}

/* ---- asking --------------------------------------------------------------------- */

const struct cqe *wc_of(const struct host *x, uint64_t id)
{
	const struct cqe *c = NULL;

	for (unsigned i = 0; i < x->wc_n; i++) {
		if (x->wc[i].wr_id != id)
			continue;
		ck_assert_ptr_null(c);
		c = &x->wc[i];
	}
	return c;
}

unsigned wc_status(const struct host *x, uint64_t id)
{
	const struct cqe *c = wc_of(x, id);

	return c ? c->status : 255;
}

bool has_event(const struct host *x, unsigned type)
{
	for (unsigned i = 0; i < x->ev_n; i++)
		if (x->ev[i].type == type)
			return true;
	return false;
}

uint64_t fault_n(const struct host *x, const char *row)
{
	for (unsigned i = 0; i < hca_fault_n(); i++)
		if (!strcmp(hca_fault_name(i), row))
			return hca_fault_count(x->h, i);
	ck_abort_msg("no such fault: %s", row);
	return 0;
}

uint64_t stat_n(const struct host *x, enum hca_stat s) { return hca_stat(x->h, s); }

void fill(uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

void check_fill(const uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)(seed + i * 7 + (i >> 8)))
			ck_abort_msg("byte %zu of %zu is %u", i, len, p[i]);
}

/* ---- by hand ------------------------------------------------------------------------ */

struct burst pkt_from(struct rig *r, struct host *from, uint8_t opcode, uint32_t p)
{
	struct host *to = peer_of(r, from);
	struct burst b = { .op_first = opcode,
			   .op_last = opcode,
			   .migreq = true,
			   .pkey = 0xffff,
			   .dqpn = to->qpn,
			   .psn = psn(p),
			   .n = 1,
			   .mtu = 512,
			   .rkey = to->key,
			   .va = (uintptr_t)to->buf,
			   .sqpn = from->qpn,
			   .qkey = 0x1234,
			   .srqn = to->srqn,
			   .syndrome = aeth_ack(),
			   .ackreq = true };

	memcpy(b.route.sgid, from->gid, 16);
	memcpy(b.route.dgid, to->gid, 16);
	b.route.hop_limit = 64;
	return b;
}

void pkt_give(struct rig *r, struct host *to, struct burst *b, const void *payload, uint32_t len)
{
	struct span s = { NULL, (uintptr_t)payload, len };

	b->span = &s;
	b->span_n = len ? 1 : 0;
	b->payload_len = len;
	hca_rx_burst(to->h, b, r->now);
	collect(to);
}

bool take(struct rig *r, struct host *x, struct burst *b)
{
	bool got = hca_tx(x->h, b, r->now);

	collect(x);
	return got;
}

uint8_t rig_state(const struct host *x)
{
	struct qp_attr a;
	struct qp_init i;

	ck_assert_int_eq(hca_qp_query(x->h, x->qpn, &a, &i), 0);
	return a.state;
}
