/* SPDX-License-Identifier: MIT */
/* waits.c - for what live programs wait: rows are found among many idle queue pairs, a few objects in a call of the shard. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/region.h"
#include "daemon/control/sessions.h"
#include "daemon/control/why.h"
#include "daemon/shard/inbox.h"
#include "t/suite.h"

#define ANN (geteuid() + 1001) /* neither root nor the daemon's user */
#define BOB (geteuid() + 1002)

#define QPS   300u
#define ROWS  128u /* of an answer */
#define PIECE 64u

/* A shard that does nothing but answer calls, and the program of Ann. */
static struct shard shard;
static struct ctx ctx;
static struct obj qps[QPS];
static struct ctx_cq cq;
static struct ring_hdr cq_hdr;
static pthread_t server;
static unsigned calls;
static uint32_t pdn, cqn;
static mono_t long_ago;

static void *serve(void *)
{
	bool stop = false;
	uint64_t n;

	while (!stop) {
		ck_assert_int_eq(read(shard.kick_fd, &n, sizeof(n)), sizeof(n));
		calls++;
		inbox_open(&shard, &stop);
	}
	return NULL;
}

/* Connected to one that is not there, and idle for long. */
static uint32_t qp_new(void)
{
	struct qp_init init = {
		.type = QPT_RC, .pdn = pdn, .send_cqn = cqn, .recv_cqn = cqn, .cap = { 4, 4, 1, 1, 0 }
	};
	struct qp_attr at = { .state = QPS_INIT,
			      .port = 1,
			      .path_mtu = 3,
			      .dest_qpn = 0x77,
			      .max_dest_rd_atomic = 1,
			      .av = { .dgid = { [15] = 1 } } };
	uint32_t qpn;

	ck_assert_int_eq(hca_qp_create(ctx.hca, &init, &qpn), 0);
	ck_assert_int_eq(
		hca_qp_modify(ctx.hca, qpn, &at, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, long_ago),
		0);
	at.state = QPS_RTR;
	ck_assert_int_eq(hca_qp_modify(ctx.hca, qpn, &at,
				       QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN |
					       QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER,
				       long_ago),
			 0);
	return qpn;
}

static void begin(void)
{
	static const uint8_t gid[16] = { [15] = 1 };
	struct hca_cfg cfg = {
		.mem = &region_mem_ops, .seed = 1, .mtu = 3, .burst_len = 4096, .local_burst_len = 4096
	};

	long_ago = (mono_t){ clock_now().ns - 10000000000u };
	devices_n = shards_n = 1;
	devices[0] = (struct device){ .name = "d", .up = true, .mtu = 3 };
	memcpy(devices[0].gid[0].gid, gid, sizeof(gid));
	shards[0] = &shard;
	shard.hca[0] = hca_new(&cfg);
	ck_assert_ptr_nonnull(shard.hca[0]);
	hca_gid_set(shard.hca[0], 0, gid);
	hca_local_set(shard.hca[0], gid, true);
	ck_assert_int_eq(objs_begin(&shard), 0);
	ctx = (struct ctx){ .shard = &shard, .dev = &devices[0], .hca = shard.hca[0], .uid = ANN, .prog = "prog" };
	shard.ctxs = &ctx;
	ck_assert_int_eq(hca_pd_alloc(ctx.hca, &pdn), 0);
	ck_assert_int_eq(hca_cq_create(ctx.hca, 16, &cqn), 0);
	for (unsigned i = 0; i < QPS; i++)
		ck_assert_int_eq(obj_add(&ctx, &qps[i], OBJ_QP, qp_new()), 0);
	cq = (struct ctx_cq){ .ring = { .hdr = &cq_hdr, .mask = 15 }, .published = long_ago };
	ck_assert_int_eq(obj_add(&ctx, &cq.obj, OBJ_CQ, cqn), 0);
	shard.inbox = inbox_new();
	inbox_asleep(shard.inbox, true); /* kicked for each call */
	shard.kick_fd = eventfd(0, 0);
	ck_assert_int_eq(pthread_create(&server, NULL, serve, NULL), 0);
}

static void end(void)
{
	inbox_stop(&shard);
	pthread_join(server, NULL);
	hca_free(shard.hca[0]);
	objs_end(&shard);
	inbox_free(shard.inbox);
	close(shard.kick_fd);
}

/* The rows that uid is shown, those of that cause. */
static unsigned rows(uid_t uid, uint32_t qpn, const char *cause)
{
	struct session viewer = { .uid = uid };
	struct waits *s = waits_begin(&viewer, qpn);
	json_t *list, *w;
	unsigned n = 0;
	size_t i;

	calls = 0;
	ck_assert_ptr_nonnull(s);
	while (waits_look(s)) {}
	list = waits_json(s);
	waits_end(s);
	json_array_foreach(list, i, w) n += !strcmp(json_string_value(json_object_get(w, "cause")), cause);
	json_decref(list);
	return n;
}

/* The data path goes on between pieces. */
START_TEST(pieces)
{
	begin();
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_POST"), ROWS);
	ck_assert_uint_ge(calls, QPS / PIECE);
	ck_assert_uint_eq(rows(BOB, 0, "WAIT_POST"), 0);
	/* That of one is looked up. */
	ck_assert_uint_eq(rows(ANN, qps[7].number, "WAIT_POST"), 1);
	ck_assert_uint_eq(calls, 1);
	ck_assert_uint_eq(rows(0, qps[QPS - 1].number, "WAIT_POST"), 1);
	ck_assert_uint_eq(rows(BOB, qps[7].number, "WAIT_POST"), 0);
	ck_assert_uint_eq(rows(ANN, 0x77, "WAIT_POST"), 0);
	end();
}
END_TEST

/* One that hangs is not hidden by many that are idle. */
START_TEST(hidden)
{
	begin();
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_POLL"), 0);
	cq.ring.pos = 3;
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_POLL"), 1);
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_POST"), ROWS - 1);
	ck_assert_uint_eq(rows(0, 0, "WAIT_POLL"), 1);
	ck_assert_uint_eq(rows(BOB, 0, "WAIT_POLL"), 0);
	end();
}
END_TEST

/* The other ends of as many as an answer has are asked for in one call of their shard. */
START_TEST(peers)
{
	begin();
	for (unsigned i = 0; i < QPS; i++)
		ck_assert_int_eq(hca_post_recv(ctx.hca, qps[i].number, &(struct recv_wr){ .wr_id = 1 }, long_ago), 0);
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_RECV"), ROWS);
	ck_assert_uint_ge(calls, QPS / PIECE);
	ck_assert_uint_le(calls, 2 * (QPS / PIECE + 1) + QPS / ROWS + 1);
	end();
}
END_TEST

static void thread_waits(struct call *call, const char *verb, bool does)
{
	struct msg_req req = { .op = MSG_WAITS, .refused = { .err = does } };

	snprintf(req.refused.verb, sizeof(req.refused.verb), "%s", verb);
	memset(req.refused.text, '\n', sizeof(req.refused.text));
	call->req = &req;
	ck_assert_int_eq(verb_waits(call), 0);
}

/* A library says that its program waits for itself: in words of the program's, for its user, and as long as it does. */
START_TEST(stuck)
{
	struct session ann = { .uid = ANN, .prog = "prog" };
	struct call call = { .s = &ann };

	begin();
	sessions_add(&ann);
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_EVENTS"), 0);
	thread_waits(&call, "ibv_destroy_cq of 0x1", true);
	ck_assert_str_eq(ann.stuck->verb, "ibv_destroy_cq of 0x1");
	ck_assert(!strncmp(ann.stuck->text, "???", 3));
	ck_assert_ptr_null(strchr(ann.stuck->text, '\n'));
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_EVENTS"), 1);
	ck_assert_uint_eq(rows(0, 0, "WAIT_EVENTS"), 1);
	ck_assert_uint_eq(rows(BOB, 0, "WAIT_EVENTS"), 0);
	/* Another thread waits for a while: this one still does. */
	thread_waits(&call, "ibv_destroy_cq of 0x2", true);
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_EVENTS"), 2);
	thread_waits(&call, "ibv_destroy_cq of 0x2", false);
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_EVENTS"), 1);
	ck_assert_str_eq(ann.stuck->verb, "ibv_destroy_cq of 0x1");
	thread_waits(&call, "ibv_destroy_cq of 0x1", false);
	ck_assert_ptr_null(ann.stuck);
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_EVENTS"), 0);
	thread_waits(&call, "ibv_destroy_cq of 0x1", false); /* it never did */
	for (unsigned i = 0; i < 20; i++)
		thread_waits(&call, "rdma_destroy_id", true);
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_EVENTS"), 8);
	stuck_end(&ann);
	ck_assert_uint_eq(rows(ANN, 0, "WAIT_EVENTS"), 0);
	sessions_del(&ann);
	end();
}
END_TEST

TEST_MAIN("waits", pieces, hidden, peers, stuck)
