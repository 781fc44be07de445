/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/region.h"
#include "daemon/shard/ctx_obj.h"
#include "daemon/shard/idle.h"
#include "t/suite.h"

struct shard shard;

static uint8_t *memory(size_t len)
{
	uint8_t *p = aligned_alloc(64, (len + 63) / 64 * 64);

	ck_assert_ptr_nonnull(p);
	memset(p, 0, len);
	return p;
}

void program_to(struct program *p, uint8_t state, uint32_t mask)
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

void program_begin(struct program *p)
{
	struct msg_req req = { .cq.cqe = PROGRAM_SLOTS };
	struct qp_rings r = { .sq_slots = PROGRAM_SLOTS, .sq_stride = sizeof(struct send_wr) + 64 };
	size_t sq_len;

	*p = (struct program){ .c = { .shard = &shard, .dev = &devices[0], .hca = shard.hca[0] } };
	p->c.event_out.fd = -1;
	p->c.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ck_assert_int_ge(p->c.kick_fd, 0);
	p->c.bell = (struct bell *)memory(sizeof(*p->c.bell));
	p->c.next = shard.ctxs;
	if (p->c.next)
		p->c.next->prev = &p->c;
	shard.ctxs = &p->c;
	idle_add(&p->c, (mono_t){ 0 });
	ck_assert_int_eq(pd_make(&p->c, &p->pd), 0);
	p->cq.shm.mem = memory(ring_bytes(PROGRAM_SLOTS, sizeof(struct cqe)));
	ck_assert_int_eq(cq_make(&p->c, &p->cq, &req, PROGRAM_SLOTS), 0);
	sq_len = (ring_bytes(PROGRAM_SLOTS, r.sq_stride) + 63) / 64 * 64;
	r.rq_off = sq_len;
	r.rq_slots = PROGRAM_SLOTS;
	r.rq_stride = sizeof(struct recv_wr);
	p->qp.shm.mem = memory(sq_len + ring_bytes(PROGRAM_SLOTS, r.rq_stride));
	p->qp.cap = (struct qp_cap){ .max_send_wr = PROGRAM_SLOTS, .max_recv_wr = PROGRAM_SLOTS };
	req = (struct msg_req){ .qp = { .pd = p->pd.obj.number,
					.send_cq = p->cq.obj.number,
					.recv_cq = p->cq.obj.number,
					.type = QPT_RC } };
	ck_assert_int_eq(qp_make(&p->c, &p->qp, &req, &r), 0);
	program_to(p, QPS_INIT, QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS);
	program_to(p, QPS_RTR,
		   QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN | QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER);
	program_to(p, QPS_RTS, QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_SQ_PSN | QPA_MAX_QP_RD_ATOMIC);
}

void program_end(struct program *p)
{
	obj_destroy(&p->qp.obj);
	obj_destroy(&p->cq.obj);
	obj_destroy(&p->pd.obj);
	idle_del(&p->c);
	if (p->c.next)
		p->c.next->prev = p->c.prev;
	*(p->c.prev ? &p->c.prev->next : &shard.ctxs) = p->c.next;
	close(p->c.kick_fd);
	free(p->c.bell);
	free(p->c.queue);
	free(p->cq.shm.mem);
	free(p->qp.shm.mem);
}

void shard_begin(void)
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
}

void shard_end(void)
{
	objs_end(&shard);
	heap_fini(&shard.moderated);
	hca_free(shard.hca[0]);
}

uint32_t program_note(struct program *p, uint32_t recvs)
{
	struct ring_hdr *h = p->qp.rq.ring.hdr;

	RING_STORE(&h->prod, RING_LOAD(&h->prod) + recvs);
	return bell_note(p->c.bell, p->qp.bell, h);
}

uint32_t program_post(struct program *p, uint32_t sends, uint32_t recvs)
{
	uint32_t sent = RING_LOAD(&p->qp.sq.hdr->prod);

	for (uint32_t i = 0; i < sends; i++) {
		struct send_wr wr = { .wr_id = i, .op = WR_SEND };

		memcpy(ring_slot(&p->qp.sq, sent + i), &wr, sizeof(wr));
	}
	RING_STORE(&p->qp.sq.hdr->prod, sent + sends);
	RING_STORE(&p->qp.rq.ring.hdr->prod, RING_LOAD(&p->qp.rq.ring.hdr->prod) + recvs);
	return bell_ring(p->c.bell, p->qp.bell);
}
