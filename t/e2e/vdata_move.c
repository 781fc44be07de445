/* SPDX-License-Identifier: MIT */
/*
 * vdata_move.c - rounds of mixed operations over a reliable path, every byte compared.
 *
 * Both ends draw the same plan for a round: up to 16 operations, each with a place of its own in an
 * area that both have twice, as source and as destination. Both execute it at the same time:
 *
 *	mine:   src [..aaaaaaaa...bbb......cc....]        peer: dst [..aaaaaaaa...bbb............]
 *	            a: SEND   b: WRITE   c: READ          mine: dst [......................cc....]
 *
 * Data keeps its offset when an operation moves it, so after the round dst must hold the peer's source where an
 * operation was, and nothing but the guard byte elsewhere. How a request is made - scatter list, inline,
 * unsignaled, fenced, by ibv_post_send() or ibv_wr_*() - each end draws for itself.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vdata.h"

#define OPS         16
#define WORDS       64u /* for atomics: the first half is added to, the second swapped */
#define PATIENCE_MS 60000

enum op_type { OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE_IMM, OP_READ, OP_ADD, OP_COUNT, OP_SWAP, OP_TYPES };

struct op {
	enum op_type type;
	size_t off, len;
	uint32_t imm;
	bool signaled;
	uint64_t old; /* atomics: what must come back */
};

struct mover {
	struct vd_qp q;
	unsigned lane;
	bool client;
	struct vd_rng own; /* this end's choices */
	uint8_t *src, *dst;
	size_t area_len, used; /* used: of this round */
	uint64_t *words, *result;
	struct ibv_mr *src_mr, *dst_mr, *words_mr, *result_mr;
	uint64_t shadow[WORDS]; /* the peer's words, as they must be */
	uint64_t count_last, counted;
	struct op op[OPS];
	unsigned op_n;
};

static bool op_takes_recv(const struct op *op) { return op->type <= OP_SEND_IMM || op->type == OP_WRITE_IMM; }

static bool op_is_atomic(const struct op *op) { return op->type >= OP_ADD; }

/* ---- the plan -------------------------------------------------------------- */

static void plan(struct mover *m, unsigned round)
{
	const struct vd_opt *opt = m->q.node->opt;
	struct vd_rng r = { vd_key(opt->seed, m->lane, round, 7) };
	unsigned n = 1 + (unsigned)vd_below(&r, OPS), i;
	size_t off = 64 + vd_below(&r, 64);
	bool rc = opt->type == IBV_QPT_RC;
	struct op *op;

	for (i = 0; i < n; i++) {
		op = &m->op[i];
		memset(op, 0, sizeof(*op));
		op->type = (enum op_type)vd_below(&r, rc ? OP_TYPES : OP_READ);
		op->imm = (uint32_t)vd_rand(&r);
		op->len = op_is_atomic(op) ? 8 : vd_size(&r, opt->max, m->q.mtu);
		if (!rc && i == n - 1 && op->type == OP_WRITE)
			op->type = OP_WRITE_IMM; /* its completion says that all before have arrived */
		if (off + op->len + 256 > m->area_len)
			op->len = vd_below(&r, 256);
		op->off = off;
		if (!op_is_atomic(op))
			off += op->len + 64 + vd_below(&r, 128);
		if (off + 1024 > m->area_len && i + 1 < n) {
			n = i + 1;
			if (!rc && op->type == OP_WRITE)
				op->type = OP_WRITE_IMM;
		}
	}
	m->op_n = n;
	m->used = off + 64;
}

static void area_fill(struct mover *m, unsigned round)
{
	vd_fill(m->src, m->used, vd_key(m->q.node->opt->seed, m->lane, round, m->client));
	memset(m->dst, 0xa5 ^ (int)(round & 0x1f), m->used);
}

/* ---- posting ---------------------------------------------------------------- */

static void cut(struct mover *m, struct vd_piece *p, uint8_t *at, size_t len, uint32_t lkey)
{
	size_t part;

	bool more = vd_does(m->q.node->opt, 's');

	for (p->n = 0; more && p->n < 3 && len > 1 && vd_below(&m->own, 2); p->n++, at += part, len -= part) {
		part = 1 + vd_below(&m->own, len - 1);
		p->sge[p->n] = (struct ibv_sge){ (uintptr_t)at, (uint32_t)part, lkey };
	}
	if (len || vd_below(&m->own, 2))
		p->sge[p->n++] = (struct ibv_sge){ (uintptr_t)at, (uint32_t)len, lkey };
}

static void recvs_post(struct mover *m)
{
	struct ibv_recv_wr wr = { 0 };
	struct vd_piece p;
	unsigned i;

	for (i = 0; i < m->op_n; i++) {
		if (!op_takes_recv(&m->op[i]))
			continue;
		if (m->op[i].type == OP_WRITE_IMM)
			p.n = 0;
		else /* at times with more room than needed */
			cut(m, &p, m->dst + m->op[i].off, m->op[i].len + 16 * vd_below(&m->own, 3), m->dst_mr->lkey);
		wr.wr_id = 1000 + i;
		wr.sg_list = p.sge;
		wr.num_sge = p.n;
		vd_recv(&m->q, &wr);
	}
}

/* Where an atomic goes, and what it finds there. */
static void atomic_aim(struct mover *m, struct op *op, struct ibv_send_wr *wr)
{
	unsigned w = (unsigned)vd_below(&m->own, WORDS / 2);

	wr->wr.atomic.rkey = m->q.peer.words.rkey;
	if (op->type == OP_COUNT) {
		wr->wr.atomic.remote_addr = m->q.peer.counter.addr;
		wr->wr.atomic.rkey = m->q.peer.counter.rkey;
		wr->wr.atomic.compare_add = 1;
		m->counted++;
		return;
	}
	if (op->type == OP_SWAP)
		w += WORDS / 2;
	wr->wr.atomic.remote_addr = m->q.peer.words.addr + 8 * w;
	op->old = m->shadow[w];
	if (op->type == OP_ADD) {
		wr->wr.atomic.compare_add = vd_rand(&m->own);
		m->shadow[w] += wr->wr.atomic.compare_add;
		return;
	}
	wr->wr.atomic.compare_add = op->old ^ vd_below(&m->own, 2);
	wr->wr.atomic.swap = vd_rand(&m->own);
	if (wr->wr.atomic.compare_add == op->old)
		m->shadow[w] = wr->wr.atomic.swap;
}

static void wr_build(struct mover *m, unsigned i, struct ibv_send_wr *wr, struct vd_piece *p)
{
	static const enum ibv_wr_opcode code[OP_TYPES] = {
		IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,        IBV_WR_RDMA_WRITE,           IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	struct op *op = &m->op[i];
	bool into = op->type == OP_READ;

	memset(wr, 0, sizeof(*wr));
	wr->wr_id = i;
	wr->opcode = code[op->type];
	wr->imm_data = op->imm;
	op->signaled = i == m->op_n - 1 || vd_below(&m->own, 2);
	wr->send_flags = (op->signaled ? IBV_SEND_SIGNALED : 0u) |
			 (vd_below(&m->own, 8) || !vd_does(m->q.node->opt, 'f') ? 0u : IBV_SEND_FENCE);
	if (op_is_atomic(op)) {
		p->sge[0] = (struct ibv_sge){ (uintptr_t)&m->result[i], 8, m->result_mr->lkey };
		p->n = 1;
		atomic_aim(m, op, wr);
	} else {
		cut(m, p, (into ? m->dst : m->src) + op->off, op->len, into ? m->dst_mr->lkey : m->src_mr->lkey);
		wr->wr.rdma.remote_addr = (into ? m->q.peer.src.addr : m->q.peer.dst.addr) + op->off;
		wr->wr.rdma.rkey = into ? m->q.peer.src.rkey : m->q.peer.dst.rkey;
		if (op->len <= m->q.inline_max && !into && vd_below(&m->own, 2) && vd_does(m->q.node->opt, 'i'))
			wr->send_flags |= IBV_SEND_INLINE;
	}
	wr->sg_list = p->sge;
	wr->num_sge = p->n;
}

static void ex_opcode(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND: ibv_wr_send(ex); break;
	case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(ex, wr->imm_data); break;
	case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr); break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ: ibv_wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr); break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
		break;
	default:
		ibv_wr_atomic_cmp_swp(ex, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add,
				      wr->wr.atomic.swap);
	}
}

static void ex_post(struct ibv_qp_ex *ex, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf buf[4];
	int i, err;

	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	ex->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
	ex_opcode(ex, wr);
	for (i = 0; i < wr->num_sge; i++) {
		buf[i].addr = (void *)(uintptr_t)wr->sg_list[i].addr;
		buf[i].length = wr->sg_list[i].length;
	}
	if (wr->send_flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data_list(ex, (size_t)wr->num_sge, buf);
	else if (wr->num_sge == 1)
		ibv_wr_set_sge(ex, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	else
		ibv_wr_set_sge_list(ex, (size_t)wr->num_sge, wr->sg_list);
	err = ibv_wr_complete(ex);
	if (err)
		vd_die("ibv_wr_complete: %s", strerror(err));
}

/* All operations of the round, in chains of random length. */
static void sends_post(struct mover *m)
{
	const struct vd_opt *opt = m->q.node->opt;
	struct ibv_send_wr wr[OPS], *bad;
	struct vd_piece p[OPS];
	unsigned i, first;
	int err;

	for (i = 0; i < m->op_n; i++)
		wr_build(m, i, &wr[i], &p[i]);
	for (i = 0; i < m->op_n; i++) {
		if (vd_below(&m->own, 2) && vd_does(opt, 'e')) {
			ex_post(m->q.ex, &wr[i]);
			continue;
		}
		for (first = i; i + 1 < m->op_n && vd_below(&m->own, 2) && vd_does(opt, 'c'); i++)
			wr[i].next = &wr[i + 1];
		err = ibv_post_send(m->q.qp, &wr[first], &bad);
		if (err)
			vd_die("ibv_post_send: %s", strerror(err));
	}
}

/* ---- completions ------------------------------------------------------------ */

static void recv_done(struct mover *m, const struct ibv_wc *wc, unsigned i)
{
	const struct op *op = &m->op[i];
	bool imm = op->type != OP_SEND;

	if (wc->opcode != (op->type == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		vd_die("lane %u: receive %u: opcode %d", m->lane, i, wc->opcode);
	if (wc->byte_len != op->len)
		vd_die("lane %u: receive %u: %u bytes instead of %zu", m->lane, i, wc->byte_len, op->len);
	if (imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) || (imm && wc->imm_data != op->imm))
		vd_die("lane %u: receive %u: flags %x, immediate %x", m->lane, i, wc->wc_flags, wc->imm_data);
}

static void send_done(struct mover *m, const struct ibv_wc *wc, unsigned i)
{
	static const enum ibv_wc_opcode code[OP_TYPES] = {
		IBV_WC_SEND,      IBV_WC_SEND,      IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE,
		IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD, IBV_WC_FETCH_ADD,  IBV_WC_COMP_SWAP,
	};

	if (wc->opcode != code[m->op[i].type])
		vd_die("lane %u: send %u: opcode %d", m->lane, i, wc->opcode);
}

static unsigned recv_next(const struct mover *m, unsigned i)
{
	while (i < m->op_n && !op_takes_recv(&m->op[i]))
		i++;
	return i;
}

static unsigned send_next(const struct mover *m, unsigned i)
{
	while (i < m->op_n && !m->op[i].signaled)
		i++;
	return i;
}

/* Every signaled send and every receive completes once, each queue in its order. */
static void completions(struct mover *m, unsigned round)
{
	unsigned s = send_next(m, 0), r = recv_next(m, 0);
	struct ibv_wc wc;

	while (s < m->op_n || r < m->op_n) {
		if (!vd_poll(&m->q, &wc, PATIENCE_MS))
			vd_die("lane %u round %u: no completion; waiting for send %u, receive %u of %u", m->lane, round,
			       s, r, m->op_n);
		if (wc.status != IBV_WC_SUCCESS)
			vd_die("lane %u round %u: wr_id %llu: %s (vendor %u)", m->lane, round,
			       (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), wc.vendor_err);
		if (wc.qp_num != m->q.qp->qp_num)
			vd_die("lane %u round %u: completion of QP %u", m->lane, round, wc.qp_num);
		if (r < m->op_n && wc.wr_id == 1000 + r) {
			recv_done(m, &wc, r);
			r = recv_next(m, r + 1);
		} else if (s < m->op_n && wc.wr_id == s) {
			send_done(m, &wc, s);
			s = send_next(m, s + 1);
		} else {
			vd_die("lane %u round %u: wr_id %llu; expected send %u or receive %u", m->lane, round,
			       (unsigned long long)wc.wr_id, s, r);
		}
	}
}

/* ---- comparing ---------------------------------------------------------------- */

static void compare(struct mover *m, unsigned round)
{
	uint8_t *want = malloc(m->used), *peer = malloc(m->used);
	size_t at;
	unsigned i;

	vd_fill(peer, m->used, vd_key(m->q.node->opt->seed, m->lane, round, !m->client));
	memset(want, 0xa5 ^ (int)(round & 0x1f), m->used);
	for (i = 0; i < m->op_n; i++) {
		if (!op_is_atomic(&m->op[i]))
			memcpy(want + m->op[i].off, peer + m->op[i].off, m->op[i].len);
		else if (m->op[i].type != OP_COUNT && m->result[i] != m->op[i].old)
			vd_die("lane %u round %u: atomic %u found %llx instead of %llx", m->lane, round, i,
			       (unsigned long long)m->result[i], (unsigned long long)m->op[i].old);
		else if (m->op[i].type == OP_COUNT && m->counted > 1 && m->result[i] <= m->count_last && m->count_last)
			vd_die("lane %u round %u: the counter went from %llu to %llu", m->lane, round,
			       (unsigned long long)m->count_last, (unsigned long long)m->result[i]);
		else if (m->op[i].type == OP_COUNT)
			m->count_last = m->result[i];
	}
	if (memcmp(want, m->dst, m->used)) {
		for (at = 0; want[at] == m->dst[at];)
			at++;
		for (i = 0; i + 1 < m->op_n && m->op[i + 1].off <= at;)
			i++;
		vd_die("lane %u round %u: byte %zu is %02x instead of %02x; operation %u, type %d, is [%zu, %zu)",
		       m->lane, round, at, m->dst[at], want[at], i, m->op[i].type, m->op[i].off,
		       m->op[i].off + m->op[i].len);
	}
	free(want);
	free(peer);
}

static void words_compare(struct mover *m)
{
	uint64_t theirs[WORDS + 1], mine[WORDS + 1];
	unsigned i;

	memcpy(mine, m->shadow, sizeof(m->shadow));
	mine[WORDS] = m->counted;
	vd_swap(m->q.fd, mine, theirs, sizeof(mine));
	for (i = 0; i < WORDS; i++)
		if (m->words[i] != theirs[i])
			vd_die("lane %u: word %u is %llx, the peer made it %llx", m->lane, i,
			       (unsigned long long)m->words[i], (unsigned long long)theirs[i]);
	((struct vd_node *)m->q.node)->counter_want += theirs[WORDS];
}

/* ---- memory ------------------------------------------------------------------- */

static struct ibv_mr *reg(struct mover *m, void *at, size_t len, unsigned access)
{
	struct ibv_mr *mr = ibv_reg_mr(m->q.node->pd, at, len, access);

	if (!mr)
		vd_die("ibv_reg_mr of %zu bytes: %s", len, strerror(errno));
	return mr;
}

static void *pages(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		vd_die("mmap: %s", strerror(errno));
	return p;
}

static void memory_open(struct mover *m)
{
	size_t max = m->q.node->opt->max;

	m->area_len = (max < 65536 ? 65536 : max) * 2 + 65536;
	m->src = pages(m->area_len);
	m->dst = pages(m->area_len);
	m->words = pages(4096);
	m->result = pages(4096);
	m->src_mr = reg(m, m->src, m->area_len, IBV_ACCESS_REMOTE_READ);
	m->dst_mr = reg(m, m->dst, m->area_len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	m->words_mr = reg(m, m->words, WORDS * 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	m->result_mr = reg(m, m->result, 4096, IBV_ACCESS_LOCAL_WRITE);
	m->q.mine.src = (struct vd_mem){ (uintptr_t)m->src, m->src_mr->rkey, (uint32_t)m->area_len };
	m->q.mine.dst = (struct vd_mem){ (uintptr_t)m->dst, m->dst_mr->rkey, (uint32_t)m->area_len };
	m->q.mine.words = (struct vd_mem){ (uintptr_t)m->words, m->words_mr->rkey, WORDS * 8 };
}

static void memory_close(struct mover *m)
{
	if (ibv_dereg_mr(m->src_mr) || ibv_dereg_mr(m->dst_mr) || ibv_dereg_mr(m->words_mr) ||
	    ibv_dereg_mr(m->result_mr))
		vd_die("ibv_dereg_mr");
	munmap(m->src, m->area_len);
	munmap(m->dst, m->area_len);
	munmap(m->words, 4096);
	munmap(m->result, 4096);
}

void vd_move(struct vd_node *node, int fd, unsigned lane, bool client)
{
	struct vd_want want = { .type = node->opt->type, .srq = node->opt->srq };
	struct mover *m = calloc(1, sizeof(*m));
	unsigned round;

	m->lane = lane;
	m->client = client;
	m->own.s = vd_key(node->opt->seed, lane, 0, 2 + client);
	vd_qp_open(&m->q, node, fd, &want);
	memory_open(m);
	vd_qp_connect(&m->q);
	for (round = 0; round < node->opt->rounds; round++) {
		plan(m, round);
		area_fill(m, round);
		recvs_post(m);
		vd_barrier(fd);
		sends_post(m);
		completions(m, round);
		vd_barrier(fd);
		compare(m, round);
	}
	words_compare(m);
	vd_qp_close(&m->q);
	memory_close(m);
	free(m);
}
