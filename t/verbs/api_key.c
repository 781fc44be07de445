/* SPDX-License-Identifier: MIT */
/*
 * api_key.c - what an rkey lets do, a row for each combination: regions and windows of all kinds, lengths of zero, bounds,
 * rights; how windows are bound, and how they end.  The table in doc/protocol.md, rule 6.2, names the clauses.
 */
#include "fixture.h"

#include <stdbool.h>
#include <unistd.h>

#define RW   (0u | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define MINE (0u | IBV_ACCESS_LOCAL_WRITE)
#define AT   4096u /* in the buffer: what is reached */
#define LEN  64u

#define OK  IBV_WC_SUCCESS
#define ACC IBV_WC_REM_ACCESS_ERR

enum target {
	REGION,     /* all rights */
	READABLE,   /* REMOTE_READ only */
	LOCAL,      /* no right for others */
	ZERO_BASED, /* addresses count from 0 */
	EMPTY,      /* a region of length 0, of device memory */
	OTHER_PD,
	WIN1,
	WIN2,
	WIN1_READ, /* windows with REMOTE_READ only, on a region that has no right for others at all */
	WIN2_READ,
	WIN2_ZERO,  /* zero-based */
	WIN2_OTHER, /* bound on another QP */
	FREE1,      /* never bound */
	FREE2,
	UNBOUND1,     /* bound, then bound with length 0 */
	INVALIDATED2, /* bound, then invalidated */
	NO_KEY,       /* of nothing */
	TARGETS
};

static const char *const name[TARGETS] = {
	"region",      "readable",    "local",          "zero-based",         "empty",       "other PD",
	"type 1",      "type 2",      "type 1 r",       "type 2 r",           "type 2 zero", "type 2 of another QP",
	"type 1 free", "type 2 free", "type 1 unbound", "type 2 invalidated", "no key",
};

struct scene {
	struct fix f;
	struct ibv_pd *pd; /* another one */
	struct ibv_mr *mr[TARGETS], *base;
	struct ibv_mw *mw[TARGETS];
	struct ibv_dm *dm;
	struct ibv_qp *a, *b, *c; /* a reaches what b has; c is the other one, to itself */
};

static enum ibv_wc_status post(struct scene *s, struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->send_flags |= IBV_SEND_SIGNALED;
	wr->wr_id = 77;
	ck_assert_int_eq(ibv_post_send(qp, wr, &bad), 0);
	for (;;) {
		struct ibv_wc wc = fix_wait(s->f.cq);

		if (wc.wr_id == 77)
			return wc.status;
	}
}

static enum ibv_wc_status bind1(struct scene *s, struct ibv_qp *qp, struct ibv_mw *mw, uint32_t len, unsigned access)
{
	struct ibv_mw_bind b = { .send_flags = IBV_SEND_SIGNALED,
				 .bind_info = { s->base, (uintptr_t)s->f.buf + AT, len, access } };

	ck_assert_int_eq(ibv_bind_mw(qp, mw, &b), 0);
	return fix_wait(s->f.cq).status;
}

static enum ibv_wc_status bind2(struct scene *s, struct ibv_qp *qp, struct ibv_mw *mw, unsigned access)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW,
				  .bind_mw = { mw, mw->rkey, { s->base, (uintptr_t)s->f.buf + AT, LEN, access } } };

	return post(s, qp, &wr);
}

static enum ibv_wc_status inv2(struct scene *s, struct ibv_qp *qp, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey };

	return post(s, qp, &wr);
}

/* Rights are those of the QP, too. */
static void qps_open(struct scene *s)
{
	s->a = fix_qp(&s->f, IBV_QPT_RC, 16, NULL);
	s->b = fix_qp(&s->f, IBV_QPT_RC, 16, NULL);
	fix_connect(&s->f, s->a, s->b);
}

static void regions_open(struct scene *s)
{
	static const unsigned access[] = { [REGION] = MINE | RW,
					   [READABLE] = IBV_ACCESS_REMOTE_READ,
					   [LOCAL] = MINE,
					   [ZERO_BASED] = MINE | RW | IBV_ACCESS_ZERO_BASED,
					   [EMPTY] = MINE | RW | IBV_ACCESS_ZERO_BASED,
					   [OTHER_PD] = MINE | RW };

	for (enum target t = REGION; t <= OTHER_PD; t++) {
		struct ibv_pd *pd = t == OTHER_PD ? s->pd : s->f.pd;

		s->mr[t] = t == EMPTY ? ibv_reg_dm_mr(pd, s->dm, 0, 0, access[t])
				      : ibv_reg_mr(pd, s->f.buf + AT, LEN, access[t]);
		ck_assert_msg(s->mr[t] != NULL, "%s: %s", name[t], strerror(errno));
	}
}

static void windows_bind(struct scene *s)
{
	const unsigned zero = IBV_ACCESS_ZERO_BASED;

	for (enum target t = WIN1; t <= INVALIDATED2; t++) {
		bool one = t == WIN1 || t == WIN1_READ || t == FREE1 || t == UNBOUND1;

		s->mw[t] = ibv_alloc_mw(s->f.pd, one ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
		ck_assert(s->mw[t] != NULL);
	}
	ck_assert_int_eq(bind1(s, s->b, s->mw[WIN1], LEN, RW), OK);
	ck_assert_int_eq(bind2(s, s->b, s->mw[WIN2], RW), OK);
	ck_assert_int_eq(bind1(s, s->b, s->mw[WIN1_READ], LEN, IBV_ACCESS_REMOTE_READ), OK);
	ck_assert_int_eq(bind2(s, s->b, s->mw[WIN2_READ], IBV_ACCESS_REMOTE_READ), OK);
	ck_assert_int_eq(bind2(s, s->b, s->mw[WIN2_ZERO], RW | zero), OK);
	ck_assert_int_eq(bind2(s, s->c, s->mw[WIN2_OTHER], RW), OK);
	ck_assert_int_eq(bind1(s, s->b, s->mw[UNBOUND1], LEN, RW), OK);
	ck_assert_int_eq(bind1(s, s->b, s->mw[UNBOUND1], 0, 0), OK);
	ck_assert_int_eq(bind2(s, s->b, s->mw[INVALIDATED2], RW), OK);
	ck_assert_int_eq(inv2(s, s->b, s->mw[INVALIDATED2]->rkey), OK);
}

static void windows_free(struct scene *s)
{
	for (enum target t = WIN1; t <= INVALIDATED2; t++) {
		ck_assert_int_eq(ibv_dealloc_mw(s->mw[t]), 0);
		s->mw[t] = NULL;
	}
}

static void scene_open(struct scene *s)
{
	struct ibv_alloc_dm_attr dm = { .length = 4096 };

	memset(s, 0, sizeof(*s));
	fix_open(&s->f);
	s->pd = ibv_alloc_pd(s->f.ctx);
	s->dm = ibv_alloc_dm(s->f.ctx, &dm);
	s->base = ibv_reg_mr(s->f.pd, s->f.buf, BUF_LEN, MINE | IBV_ACCESS_MW_BIND);
	ck_assert(s->pd && s->dm && s->base);
	regions_open(s);
	qps_open(s);
	s->c = fix_qp(&s->f, IBV_QPT_RC, 16, NULL);
	fix_init(s->c);
	fix_rtr(&s->f, s->c, s->c);
	fix_rts(s->c);
}

static void scene_close(struct scene *s)
{
	fix_pair_end(s->a, s->b);
	ck_assert_int_eq(ibv_destroy_qp(s->c), 0);
	for (enum target t = REGION; t <= OTHER_PD; t++)
		ck_assert_int_eq(ibv_dereg_mr(s->mr[t]), 0);
	ck_assert_int_eq(ibv_dereg_mr(s->base), 0);
	ck_assert_int_eq(ibv_free_dm(s->dm), 0);
	ck_assert_int_eq(ibv_dealloc_pd(s->pd), 0);
	fix_close(&s->f);
}

static uint32_t key_of(const struct scene *s, enum target t)
{
	return t == NO_KEY ? s->mr[REGION]->rkey ^ 0x100 : s->mr[t] ? s->mr[t]->rkey : s->mw[t]->rkey;
}

/* len bytes of the target, from off on. */
static enum ibv_wc_status reach(struct scene *s, enum ibv_wr_opcode op, enum target t, int64_t off, uint32_t len)
{
	bool from_0 = t == ZERO_BASED || t == EMPTY || t == WIN2_ZERO;
	struct ibv_sge sge = { (uintptr_t)s->f.buf, len, s->f.mr->lkey };
	struct ibv_send_wr wr = { .opcode = op, .sg_list = &sge, .num_sge = len ? 1 : 0 };
	uint64_t to = (from_0 ? 0 : (uintptr_t)s->f.buf + AT) + (uint64_t)off;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = key_of(s, t);
	} else {
		wr.wr.rdma.remote_addr = to;
		wr.wr.rdma.rkey = key_of(s, t);
	}
	if (op == IBV_WR_RDMA_WRITE_WITH_IMM)
		ck_assert_int_eq(fix_recv(&s->f, s->b, 1, 0, 8), 0);
	return post(s, s->a, &wr);
}

/* Of length 0 nothing is looked at but the right of the queue pair: no key, no address, no lkey (C9-88). */
START_TEST(zero_length) /* conf: C9-88, rule 6.2 */
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM };
	static const int64_t off[] = { 0, LEN, -1, 1 << 20 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1 };
	struct ibv_qp_attr no_right = { .qp_access_flags = 0 };
	struct ibv_sge nowhere = { 8, 0, 0x1234 };
	struct scene s;

	scene_open(&s);
	windows_bind(&s);
	for (enum target t = 0; t < TARGETS; t++)
		for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
			for (size_t k = 0; k < sizeof(off) / sizeof(*off); k++) {
				enum ibv_wc_status got = reach(&s, ops[i], t, off[k], 0);

				ck_assert_msg(got == OK, "%s, op %d at %d: %s", name[t], (int)ops[i], (int)off[k],
					      ibv_wc_status_str(got));
			}
	wr.sg_list = &nowhere;
	ck_assert_int_eq(post(&s, s.a, &wr), OK);
	wr.opcode = IBV_WR_RDMA_READ;
	ck_assert_int_eq(post(&s, s.a, &wr), OK);
	ck_assert_int_eq(ibv_modify_qp(s.b, &no_right, IBV_QP_ACCESS_FLAGS), 0);
	ck_assert_int_eq(post(&s, s.a, &wr), IBV_WC_REM_INV_REQ_ERR);
	windows_free(&s);
	scene_close(&s);
}
END_TEST

/* Of no bytes: as the kernel has it, which pins the page that the address is in, and takes no region without a page. */
START_TEST(regions_of_nothing)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct fix f;
	struct ibv_mr *mr;
	char *at;

	fix_open(&f);
	ck_assert_uint_ge(BUF_LEN, page + 16);
	at = (char *)(((uintptr_t)f.buf + page - 1) & ~(page - 1));
	for (unsigned i = 0; i < 3; i++) {
		errno = 0;
		ck_assert_ptr_null(i == 0   ? ibv_reg_mr(f.pd, at, 0, MINE)
				   : i == 1 ? ibv_reg_mr_iova(f.pd, at, 0, 64, MINE)
					    : ibv_reg_mr(f.pd, NULL, 0, RW | MINE));
		ck_assert_int_eq(errno, EINVAL);
	}
	mr = ibv_reg_mr(f.pd, at + 16, 0, RW | MINE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_uint_eq(mr->length, 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	fix_close(&f);
}
END_TEST

#define W IBV_WR_RDMA_WRITE
#define R IBV_WR_RDMA_READ
#define A IBV_WR_ATOMIC_FETCH_AND_ADD

/* Bytes that are reached, and bytes that are not.  Each row that fails needs queue pairs anew. */
static const struct row {
	enum target t;
	enum ibv_wr_opcode op;
	int64_t off;
	uint32_t len;
	enum ibv_wc_status want;
} rows[] = {
	/* bounds, of everything that has them */
	{ REGION, W, 0, LEN, OK },
	{ REGION, R, LEN - 1, 1, OK },
	{ REGION, W, LEN, 1, ACC },
	{ REGION, R, -1, 1, ACC },
	{ REGION, W, 1, LEN, ACC },
	{ REGION, A, LEN - 8, 8, OK },
	{ REGION, A, LEN, 8, ACC },
	{ ZERO_BASED, W, 0, LEN, OK },
	{ ZERO_BASED, R, LEN, 1, ACC },
	{ ZERO_BASED, W, -1, 1, ACC },
	{ EMPTY, W, 0, 1, ACC },
	{ EMPTY, R, 0, 1, ACC },
	{ EMPTY, A, 0, 8, ACC },
	{ WIN1, W, 0, LEN, OK },
	{ WIN1, R, LEN - 1, 1, OK },
	{ WIN1, W, LEN, 1, ACC },
	{ WIN1, R, -1, 1, ACC },
	{ WIN1, A, 0, 8, OK },
	{ WIN2, W, 0, LEN, OK },
	{ WIN2, R, LEN - 1, 1, OK },
	{ WIN2, W, LEN, 1, ACC },
	{ WIN2, R, -1, 1, ACC },
	{ WIN2, A, LEN - 8, 8, OK },
	{ WIN2_ZERO, W, 0, LEN, OK },
	{ WIN2_ZERO, R, LEN - 1, 1, OK },
	{ WIN2_ZERO, W, LEN, 1, ACC },
	{ WIN2_ZERO, R, -1, 1, ACC },
	/* rights: the region's, or those of the window alone */
	{ READABLE, R, 0, LEN, OK },
	{ READABLE, W, 0, 1, ACC },
	{ READABLE, A, 0, 8, ACC },
	{ LOCAL, R, 0, 1, ACC },
	{ LOCAL, W, 0, 1, ACC },
	{ WIN1_READ, R, 0, LEN, OK },
	{ WIN1_READ, W, 0, 1, ACC },
	{ WIN2_READ, R, 0, LEN, OK },
	{ WIN2_READ, W, 0, 1, ACC },
	{ WIN2_READ, A, 0, 8, ACC },
	/* whose it is */
	{ OTHER_PD, R, 0, 1, ACC },
	{ WIN2_OTHER, R, 0, 1, ACC },
	/* not bound, or nothing at all */
	{ FREE1, R, 0, 1, ACC },
	{ FREE2, W, 0, 1, ACC },
	{ UNBOUND1, R, 0, 1, ACC },
	{ INVALIDATED2, W, 0, 1, ACC },
	{ NO_KEY, R, 0, 1, ACC },
};

START_TEST(reached) /* conf: C9-88, rule 6.2 */
{
	struct scene s;

	scene_open(&s);
	windows_bind(&s);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct row *r = &rows[i];
		enum ibv_wc_status got = reach(&s, r->op, r->t, r->off, r->len);

		ck_assert_msg(got == r->want, "row %zu, %s: %s", i, name[r->t], ibv_wc_status_str(got));
		if (got == OK)
			continue;
		windows_free(&s);
		fix_pair_end(s.a, s.b);
		qps_open(&s);
		windows_bind(&s);
	}
	windows_free(&s);
	scene_close(&s);
}
END_TEST

/* ---- binds ------------------------------------------------------------------------------ */

enum how { PLAIN, AGAIN /* while it is bound */, IN_ERR /* on a QP in ERR */, OTHER /* of another PD's QP */ };

static const struct bind_row {
	unsigned type;
	enum how how;
	uint64_t off;
	uint32_t len;
	unsigned access, mr_access;
	int err;                 /* of the post */
	enum ibv_wc_status want; /* of the completion */
	const char *clause;
} binds[] = {
#define OK_MR  (MINE | IBV_ACCESS_MW_BIND)
#define NOT(x) 0, IBV_WC_MW_BIND_ERR, x
	{ 1, PLAIN, 0, LEN, RW, OK_MR, 0, OK, "" },
	{ 2, PLAIN, 0, LEN, RW, OK_MR, 0, OK, "" },
	{ 1, PLAIN, BUF_LEN - LEN, LEN, RW, OK_MR, 0, OK, "" },
	{ 2, PLAIN, BUF_LEN - LEN, LEN, RW, OK_MR, 0, OK, "" },
	{ 1, PLAIN, 0, 0, 0, OK_MR, 0, OK, "" }, /* unbinds */
	{ 2, PLAIN, 0, 0, RW, OK_MR, NOT("o10-37.2.40") },
	{ 1, AGAIN, 0, LEN, RW, OK_MR, 0, OK, "" },
	{ 2, AGAIN, 0, LEN, RW, OK_MR, NOT("o10-37.2.30") },
	{ 1, PLAIN, BUF_LEN - LEN + 1, LEN, RW, OK_MR, NOT("C10-75") },
	{ 2, PLAIN, BUF_LEN - LEN + 1, LEN, RW, OK_MR, NOT("C10-75") },
	{ 2, PLAIN, -1ull, LEN, RW, OK_MR, NOT("C10-75") },
	{ 2, PLAIN, 0, BUF_LEN + 1, RW | IBV_ACCESS_ZERO_BASED, OK_MR, NOT("C10-75") },
	{ 1, PLAIN, 0, LEN, RW, MINE | RW, NOT("C10-73") },
	{ 2, PLAIN, 0, LEN, RW, MINE | RW, NOT("C10-73") },
	{ 1, PLAIN, 0, LEN, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_MW_BIND, NOT("C10-74") },
	{ 2, PLAIN, 0, LEN, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_MW_BIND, NOT("C10-74") },
	{ 1, PLAIN, 0, LEN, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_MW_BIND, 0, OK, "C10-74" },
	{ 2, PLAIN, 0, LEN, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_MW_BIND, 0, OK, "C10-74" },
	{ 1, PLAIN, 0, LEN, RW | IBV_ACCESS_ZERO_BASED, OK_MR, EINVAL, OK, "o10-36.2.2" },
	{ 2, PLAIN, 0, LEN, RW | IBV_ACCESS_ZERO_BASED, OK_MR, 0, OK, "" },
	{ 2, PLAIN, 0, LEN, RW, OK_MR | IBV_ACCESS_ZERO_BASED, NOT("") },
	{ 1, OTHER, 0, LEN, RW, OK_MR, EPERM, OK, "" },
	{ 2, OTHER, 0, LEN, RW, OK_MR, NOT("C10-72") },
	{ 1, IN_ERR, 0, LEN, RW, OK_MR, 0, IBV_WC_WR_FLUSH_ERR, "" },
	{ 2, IN_ERR, 0, LEN, RW, OK_MR, 0, IBV_WC_WR_FLUSH_ERR, "" },
};

static int bind_post(struct ibv_qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
	struct ibv_mw_bind one = { .wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = *info };
	struct ibv_send_wr *bad, two = { .wr_id = 5,
					 .opcode = IBV_WR_BIND_MW,
					 .send_flags = IBV_SEND_SIGNALED,
					 .bind_mw = { mw, mw->rkey, *info } };

	return mw->type == IBV_MW_TYPE_1 ? ibv_bind_mw(qp, mw, &one) : ibv_post_send(qp, &two, &bad);
}

static void bind_one(struct fix *f, size_t i)
{
	const struct bind_row *r = &binds[i];
	struct ibv_mw_bind_info info = { .addr = (uintptr_t)f->buf + r->off,
					 .length = r->len,
					 .mw_access_flags = r->access };
	struct fix other = *f;
	struct ibv_qp *a, *b;
	struct ibv_mw *mw;
	int err;

	info.mr = ibv_reg_mr(f->pd, f->buf, BUF_LEN, r->mr_access);
	mw = ibv_alloc_mw(f->pd, r->type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	ck_assert(info.mr && mw);
	if (r->how == OTHER)
		other.pd = ibv_alloc_pd(f->ctx);
	fix_pair(&other, &a, &b);
	if (r->how == AGAIN) {
		ck_assert_int_eq(bind_post(b, mw, &info), 0);
		fix_wait_ok(f->cq);
	}
	if (r->how == IN_ERR)
		ck_assert_int_eq(fix_state(b, IBV_QPS_ERR), 0);
	err = bind_post(b, mw, &info);
	ck_assert_msg(err == r->err, "row %zu %s: %s", i, r->clause, strerror(err));
	if (!err) {
		struct ibv_wc wc = fix_wait(f->cq);

		ck_assert_msg(wc.wr_id == 5 && wc.status == r->want, "row %zu %s: %s", i, r->clause,
			      ibv_wc_status_str(wc.status));
	}
	/* Only what is bound holds its region. */
	err = ibv_dereg_mr(info.mr);
	ck_assert_msg(err == ((!r->err && r->want == OK && r->len) || r->how == AGAIN ? EBUSY : 0), "row %zu: %d", i,
		      err);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	if (err)
		ck_assert_int_eq(ibv_dereg_mr(info.mr), 0);
	fix_pair_end(a, b);
	if (r->how == OTHER)
		ck_assert_int_eq(ibv_dealloc_pd(other.pd), 0);
}

START_TEST(binding) /* conf: C10-72, C10-73, C10-74, C10-75, o10-36.2.2, o10-37.2.30, o10-37.2.40, rule 6.2 */
{
	struct fix f;

	fix_open(&f);
	for (size_t i = 0; i < sizeof(binds) / sizeof(*binds); i++)
		bind_one(&f, i);
	fix_close(&f);
}
END_TEST

/* ---- ends ------------------------------------------------------------------------------- */

/* Each key that cannot be invalidated, by the owner and by the peer; the queue pair is in ERR afterwards. */
START_TEST(invalidating) /* conf: o10-37.2.26, rule 6.2 */
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED };
	static const enum target whole[] = { REGION, WIN1, WIN2_OTHER, FREE2, INVALIDATED2, NO_KEY };
	struct scene s;

	scene_open(&s);
	windows_bind(&s);
	for (size_t i = 0; i < 2 * sizeof(whole) / sizeof(*whole); i++) {
		enum target t = whole[i / 2];

		if (i % 2) { /* by its own work request */
			ck_assert_msg(inv2(&s, s.b, key_of(&s, t)) == IBV_WC_MW_BIND_ERR, "%s", name[t]);
		} else { /* by the peer's SEND */
			struct ibv_wc wc[2];

			ck_assert_int_eq(fix_recv(&s.f, s.b, 1, 0, 8), 0);
			wr.wr_id = 2;
			wr.invalidate_rkey = key_of(&s, t);
			ck_assert_int_eq(ibv_post_send(s.a, &wr, &bad), 0);
			wc[0] = fix_wait(s.f.cq);
			wc[1] = fix_wait(s.f.cq);
			for (int k = 0; k < 2; k++)
				ck_assert_msg(wc[k].status == (wc[k].wr_id == 2 ? ACC : IBV_WC_LOC_ACCESS_ERR),
					      "%s: %s", name[t], ibv_wc_status_str(wc[k].status));
		}
		windows_free(&s);
		fix_pair_end(s.a, s.b);
		qps_open(&s);
		windows_bind(&s);
	}
	/* A window that another one could not invalidate is as before. */
	ck_assert_int_eq(inv2(&s, s.c, s.mw[WIN2_OTHER]->rkey), OK);
	ck_assert_int_eq(inv2(&s, s.b, s.mw[WIN2]->rkey), OK);
	ck_assert_int_eq(reach(&s, R, WIN2, 0, 1), ACC);
	windows_free(&s);
	scene_close(&s);
}
END_TEST

/* A window of type 2 goes with its queue pair, one of type 1 stays; dealloc needs no unbinding. */
START_TEST(end_of_qp) /* conf: rule 6.2 */
{
	for (unsigned type = 1; type <= 2; type++) {
		struct scene s;
		struct ibv_qp *old;

		scene_open(&s);
		s.mw[WIN1] = ibv_alloc_mw(s.f.pd, type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
		ck_assert(s.mw[WIN1] != NULL);
		ck_assert_int_eq(type == 1 ? bind1(&s, s.b, s.mw[WIN1], LEN, RW) : bind2(&s, s.b, s.mw[WIN1], RW), OK);
		ck_assert_int_eq(ibv_dereg_mr(s.base), EBUSY);
		old = s.b;
		ck_assert_int_eq(ibv_destroy_qp(s.a), 0);
		qps_open(&s);
		ck_assert_int_eq(ibv_destroy_qp(old), 0);
		ck_assert_int_eq(reach(&s, R, WIN1, 0, LEN), type == 1 ? OK : ACC);
		if (type == 2) { /* free: its region may go, and it can be bound again */
			ck_assert_int_eq(ibv_rereg_mr(s.base, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
						      (int)(MINE | IBV_ACCESS_MW_BIND)),
					 0);
			ck_assert_int_eq(bind2(&s, s.c, s.mw[WIN1], RW), OK);
		}
		ck_assert_int_eq(ibv_dereg_mr(s.base), EBUSY);
		ck_assert_int_eq(ibv_dealloc_mw(s.mw[WIN1]), 0);
		scene_close(&s);
	}
}
END_TEST

void api_key(Suite *s) { SUITE_ADD(s, zero_length, regions_of_nothing, reached, binding, invalidating, end_of_qp); }
