/* SPDX-License-Identifier: MIT */
/* drain.c - what a change of a queue pair's state takes from the rings: all of that queue pair's, nothing of others. */
#include <stdlib.h>

#include "daemon/base/region.h"
#include "daemon/shard/ctx.h"
#include "daemon/shard/ctx_obj.h"
#include "daemon/shard/drain.h"
#include "daemon/shard/share.h"
#include "t/suite.h"

#define SLOTS 512u /* more than one queue gets in a turn */

/* One program's context with a CQ and an RC queue pair in RTS. */
struct program {
	struct ctx c;
	struct ctx_pd pd;
	struct ctx_cq cq;
	struct ctx_qp qp;
};

static struct shard shard;
static struct program a, b;

static uint8_t *memory(size_t len)
{
	uint8_t *p = aligned_alloc(64, (len + 63) / 64 * 64);

	ck_assert_ptr_nonnull(p);
	memset(p, 0, len);
	return p;
}

static void qp_to(struct program *p, uint8_t state, uint32_t mask)
{
	struct qp_attr at = { .state = state,
			      .port = 1,
			      .path_mtu = 3,
			      .dest_qpn = p->qp.obj.number,
			      .timeout = 14,
			      .retry_cnt = 7,
			      .rnr_retry = 7,
			      .max_rd_atomic = 1,
			      .max_dest_rd_atomic = 1,
			      .av = { .dgid = { [15] = 1 } } };

	ck_assert_int_eq(qp_change(&p->c, &p->qp, &at, mask | QPA_STATE), 0);
}

static void begin(struct program *p)
{
	struct msg_req req = { .cq.cqe = SLOTS };
	struct qp_rings r = { .sq_slots = SLOTS, .sq_stride = sizeof(struct send_wr) + 64 };
	size_t sq_len;

	*p = (struct program){ .c = { .shard = &shard, .dev = &devices[0], .hca = shard.hca[0], .next = shard.ctxs } };
	p->c.event_out.fd = -1;
	p->c.bell = (struct bell *)memory(sizeof(*p->c.bell));
	shard.ctxs = &p->c;
	ck_assert_int_eq(pd_make(&p->c, &p->pd), 0);
	p->cq.shm.mem = memory(ring_bytes(SLOTS, sizeof(struct cqe)));
	ck_assert_int_eq(cq_make(&p->c, &p->cq, &req, SLOTS), 0);
	sq_len = (ring_bytes(SLOTS, r.sq_stride) + 63) / 64 * 64;
	r.rq_off = sq_len;
	r.rq_slots = SLOTS;
	r.rq_stride = sizeof(struct recv_wr);
	p->qp.shm.mem = memory(sq_len + ring_bytes(SLOTS, r.rq_stride));
	p->qp.cap = (struct qp_cap){ .max_send_wr = SLOTS, .max_recv_wr = SLOTS };
	req = (struct msg_req){ .qp = { .pd = p->pd.obj.number,
					.send_cq = p->cq.obj.number,
					.recv_cq = p->cq.obj.number,
					.type = QPT_RC } };
	ck_assert_int_eq(qp_make(&p->c, &p->qp, &req, &r), 0);
	qp_to(p, QPS_INIT, QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS);
	qp_to(p, QPS_RTR,
	      QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER);
	qp_to(p, QPS_RTS, QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_SQ_PSN | QPA_MAX_QP_RD_ATOMIC);
}

static void end(struct program *p)
{
	obj_destroy(&p->qp.obj);
	obj_destroy(&p->cq.obj);
	obj_destroy(&p->pd.obj);
	free(p->c.bell);
	free(p->c.queue);
	free(p->cq.shm.mem);
	free(p->qp.shm.mem);
}

static void set_up(void)
{
	static const uint8_t gid[16] = { [15] = 1 };
	struct hca_cfg cfg = {
		.mem = &region_mem_ops, .seed = 1, .mtu = 3, .burst_len = 4096, .local_burst_len = 4096
	};

	devices_n = shards_n = 1;
	devices[0] = (struct device){ .name = "rdmad0", .up = true, .mtu = 3 };
	shard = (struct shard){ .hca[0] = hca_new(&cfg) };
	ck_assert_ptr_nonnull(shard.hca[0]);
	hca_gid_set(shard.hca[0], 0, gid);
	hca_local_set(shard.hca[0], gid, true);
	ck_assert_int_eq(objs_begin(&shard), 0);
	begin(&a);
	begin(&b);
}

static void tear_down(void)
{
	end(&b);
	end(&a);
	objs_end(&shard);
	hca_free(shard.hca[0]);
}

/* n empty messages and n receives, as the library would. */
static void post(struct program *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct send_wr wr = { .wr_id = i, .op = WR_SEND };

		memcpy(ring_slot(&p->qp.sq, i), &wr, sizeof(wr));
	}
	RING_STORE(&p->qp.sq.hdr->prod, n);
	RING_STORE(&p->qp.rq.ring.hdr->prod, n);
	bell_ring(p->c.bell, p->qp.bell);
}

START_TEST(own_only)
{
	set_up();
	post(&a, 3);
	post(&b, 3);
	qp_to(&a, QPS_SQD, 0);
	ck_assert_uint_eq(RING_LOAD(&a.qp.sq.hdr->cons), 3);
	ck_assert_uint_eq(RING_LOAD(&a.qp.rq.ring.hdr->cons), 3);
	ck_assert_msg(!RING_LOAD(&b.qp.sq.hdr->cons) && !RING_LOAD(&b.qp.rq.ring.hdr->cons),
		      "another program's queues were taken");
	tear_down();
}
END_TEST

/* However many there are, they were posted in the state before. */
START_TEST(all_of_it)
{
	set_up();
	post(&a, SLOTS);
	qp_to(&a, QPS_SQD, 0);
	ck_assert_uint_eq(RING_LOAD(&a.qp.sq.hdr->cons), SLOTS);
	ck_assert_uint_eq(RING_LOAD(&a.qp.rq.ring.hdr->cons), SLOTS);
	tear_down();
}
END_TEST

/* An index out of range breaks this queue pair, and no other. */
START_TEST(nonsense)
{
	set_up();
	post(&a, 1);
	RING_STORE(&a.qp.sq.hdr->prod, 3 * SLOTS);
	qp_to(&a, QPS_ERR, 0);
	ck_assert(a.qp.sq_broken && !b.qp.sq_broken);
	qp_to(&a, QPS_RESET, 0);
	ck_assert(!a.qp.sq_broken);
	tear_down();
}
END_TEST

static struct ctx more[63];

/* A user with 64 programs gets what one could have, unless he is alone; the other one's program is served as ever. */
START_TEST(shares)
{
	set_up();
	a.c.uid = 1;
	b.c.uid = 2;
	ck_assert_int_eq(share_join(&a.c), 0);
	for (unsigned i = 0; i < 63; i++) {
		more[i] = (struct ctx){ .shard = &shard, .uid = 1 };
		ck_assert_int_eq(share_join(&more[i]), 0);
	}
	ck_assert_uint_eq(share_of(&a.c, 1024), 1024);
	ck_assert_int_eq(share_join(&b.c), 0);
	ck_assert_uint_eq(share_of(&a.c, 1024), 16);
	ck_assert_uint_eq(share_of(&a.c, 64), 8);
	ck_assert_uint_eq(share_of(&b.c, 1024), 1024);
	post(&a, SLOTS);
	post(&b, SLOTS);
	for (unsigned i = 0, sends; i < 4; i++) /* the first ones have many receives to take */
		ctx_drain(&shard, &sends, (mono_t){ 1 });
	ck_assert_uint_ge(RING_LOAD(&b.qp.sq.hdr->cons), 128);
	ck_assert_uint_le(RING_LOAD(&a.qp.sq.hdr->cons), 64);
	for (unsigned i = 0; i < 63; i++)
		share_leave(&more[i]);
	share_leave(&b.c);
	ck_assert_uint_eq(share_of(&a.c, 1024), 1024);
	share_leave(&a.c);
	ck_assert_ptr_null(shard.shares);
	tear_down();
}
END_TEST

TEST_MAIN("drain", shares, own_only, all_of_it, nonsense)
