/* SPDX-License-Identifier: MIT */
#include "pair.h"

#include <arpa/inet.h>
#include "t/suite.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdmad/cmmsg.h>
#include <rdmad/gid.h>

#include "stage.h"

#define QKEY    0x1122u
#define SLOT    5120u /* of the receive buffers; the rest of the memory is sent from */
#define SLOTS   6u
#define GRH     40u
#define AGAIN_S 0.5 /* UC, UD */
#define TIMEOUT 21  /* 8 of them are a minute and a half: a daemon that has no processor is silent, too */

static const uint32_t type_of[PAIR_QPS] = { QPT_RC, QPT_UC, QPT_UD };
static const uint32_t len_max[PAIR_QPS] = { 5000, 5000, 1000 };

struct player {
	struct cx c;
	unsigned kind;
	uint32_t round;
	double sent_s;
	uint32_t peer_qpn;
	struct av av;
};

/* ---- who is where ------------------------------------------------------------------ */

struct in_addr pair_net(void)
{
	static unsigned pid; /* of the test: children have the same */

	if (!pid)
		pid = (unsigned)getpid();
	return (struct in_addr){ htonl(127u << 24 | (pid & 0xffff) << 8) };
}

struct in_addr pair_addr(unsigned side) { return (struct in_addr){ pair_net().s_addr | htonl(2 + side) }; }

struct pair *pair_new(void)
{
	struct pair *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert(p != MAP_FAILED);
	pair_net();
	return p;
}

void pair_daemon(unsigned side)
{
	char conf[] = "/tmp/rdmad-t-pair.XXXXXX", option[64], addr[INET_ADDRSTRLEN];
	struct in_addr a = pair_addr(side);
	int fd = mkstemp(conf);

	ck_assert_int_ge(fd, 0);
	dprintf(fd, "device n%u { addresses = { \"%s\" } }\n", side, inet_ntop(AF_INET, &a, addr, sizeof(addr)));
	close(fd);
	snprintf(option, sizeof(option), "--config=%s", conf);
	daemon_start_with(option);
	unlink(conf);
}

/* ---- queue pairs ------------------------------------------------------------------------ */

static void modify(struct cx *c, const struct qp_attr *a, uint32_t mask)
{
	struct msg_req req = { .op = MSG_QP_MODIFY, .qp_mod = { .qpn = c->qpn, .mask = mask, .attr = *a } };
	struct msg_rep rep;

	ck_assert_int_eq(call(c->fd, &req, &rep, NULL), 0);
}

static uint8_t gid_row(struct cx *c, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < RDMAD_GIDS; i++) {
		struct msg_req req = { .op = MSG_QUERY_GID, .gid = { .port = 1, .index = i } };
		struct msg_rep rep;

		if (!call(c->fd, &req, &rep, NULL) && gid_same(rep.gid.gid, gid))
			return (uint8_t)i;
	}
	ck_abort_msg("the device has not its address");
}

static void gid_of(uint8_t gid[16], unsigned side)
{
	struct in_addr a = pair_addr(side);

	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &a, 4);
}

static void connect_to(struct player *p, unsigned side, const struct pair_end *me, const struct pair_end *peer)
{
	struct qp_attr a = { .state = QPS_INIT,
			     .port = 1,
			     .access = ACC_REMOTE_WRITE,
			     .qkey = QKEY,
			     .dest_qpn = peer->qpn[p->kind],
			     .path_mtu = 3,
			     .rq_psn = peer->psn[p->kind],
			     .sq_psn = me->psn[p->kind],
			     .max_rd_atomic = 4,
			     .max_dest_rd_atomic = 4,
			     .min_rnr_timer = 12,
			     .timeout = TIMEOUT,
			     .retry_cnt = 7,
			     .rnr_retry = 7 };
	bool rc = p->kind == PAIR_RC, ud = p->kind == PAIR_UD;
	uint8_t own[16];

	gid_of(own, side);
	gid_of(a.av.dgid, !side);
	a.av.sgid_index = gid_row(&p->c, own);
	p->av = a.av;
	p->peer_qpn = a.dest_qpn;
	modify(&p->c, &a, QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | (ud ? QPA_QKEY : QPA_ACCESS_FLAGS));
	a.state = QPS_RTR;
	modify(&p->c, &a,
	       QPA_STATE | (ud ? 0 : QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN) |
		       (rc ? QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER : 0));
	a.state = QPS_RTS;
	modify(&p->c, &a,
	       QPA_STATE | QPA_SQ_PSN | (rc ? QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_QP_RD_ATOMIC : 0));
}

/* ---- rounds ------------------------------------------------------------------------------- */

static uint32_t round_len(unsigned kind, uint32_t round) { return 4 + round * 7919u % (len_max[kind] - 4); }

static uint8_t byte_of(uint32_t round, uint32_t i) { return (uint8_t)(round * 31 + i * 7 + (i >> 8)); }

static void send_round(struct player *p, uint32_t round)
{
	uint32_t off = SLOT * SLOTS + round % 4 * SLOT, len = round_len(p->kind, round);
	struct send_wr *wr = ring_slot(&p->c.sq, p->c.sq.pos);
	uint8_t *b = p->c.buf + off;

	for (uint32_t i = 4; i < len; i++)
		b[i] = byte_of(round, i);
	memcpy(b, &round, 4);
	*wr = (struct send_wr){ .wr_id = 1000, .op = WR_SEND, .flags = WR_SIGNALED, .sge_n = 1 };
	if (p->kind == PAIR_UD) {
		wr->ud.dqpn = p->peer_qpn;
		wr->ud.qkey = QKEY;
		wr->ud.av = p->av;
	}
	*(struct sge *)(wr + 1) = (struct sge){ (uintptr_t)b, len, p->c.key };
	ring_publish(&p->c.sq, 1);
	cx_ring(&p->c, p->c.qp_bell);
	p->sent_s = stage_seconds();
}

/* The round that has come, all of its bytes right; a duplicate, or somebody else's copy, is one that was before. */
static uint32_t got_round(struct player *p, const struct cqe *e)
{
	uint32_t skip = p->kind == PAIR_UD ? GRH : 0, round;
	const uint8_t *b = p->c.buf + e->wr_id * SLOT + skip;

	memcpy(&round, b, 4);
	ck_assert_msg(e->byte_len == skip + round_len(p->kind, round), "kind %u, round %u: %u bytes", p->kind, round,
		      e->byte_len);
	for (uint32_t i = 4; i < round_len(p->kind, round); i++)
		ck_assert_msg(b[i] == byte_of(round, i), "kind %u, round %u: byte %u is %#x", p->kind, round, i, b[i]);
	cx_recv(&p->c, e->wr_id, (uint32_t)e->wr_id * SLOT, SLOT);
	return round;
}

static void turn(struct player *p, unsigned side, uint32_t *rounds)
{
	struct cqe e;

	while (ring_used(&p->c.cq_ring)) {
		memcpy(&e, ring_slot(&p->c.cq_ring, p->c.cq_ring.pos), sizeof(e));
		ring_consume(&p->c.cq_ring, 1);
		if (e.status != WC_SUCCESS)
			stage_explain(&p->c);
		ck_assert_msg(e.status == WC_SUCCESS, "kind %u, side %u: status %u (%u) after %u rounds", p->kind, side,
			      e.status, e.vendor_err, p->round);
		if (e.is_send)
			continue;
		uint32_t round = got_round(p, &e);

		if (side && round >= p->round) {
			p->round = round;
			send_round(p, round);
		} else if (!side && round == p->round) {
			__atomic_store_n(rounds, round, __ATOMIC_SEQ_CST);
			send_round(p, ++p->round);
		}
	}
	if (!side && p->kind != PAIR_RC && stage_seconds() - p->sent_s > AGAIN_S)
		send_round(p, p->round);
}

/* ---- the listener ---------------------------------------------------------------------------- */

static int cm_ask(int fd, struct cmm_req *req, struct cmm_rep *rep)
{
	ck_assert_int_eq(send(fd, req, cmm_req_len(req->op), MSG_NOSIGNAL), (ssize_t)cmm_req_len(req->op));
	ck_assert_int_eq(recv(fd, rep, sizeof(*rep), 0), sizeof(*rep));
	return rep->err;
}

static int cm_listen(void)
{
	struct cmm_req req = { .op = CMM_OPEN };
	struct cmm_rep rep;
	int fd = hail();

	ck_assert_int_eq(cm_ask(fd, &req, &rep), 0);
	req = (struct cmm_req){ .op = CMM_CREATE_ID, .create = { .ps = RDMA_PS_TCP, .qp_type = QPT_RC } };
	ck_assert_int_eq(cm_ask(fd, &req, &rep), 0);
	req = (struct cmm_req){ .op = CMM_BIND, .id = rep.create.id };
	req.bind.addr.in = (struct sockaddr_in){ .sin_family = AF_INET,
						 .sin_port = htons(PAIR_PORT),
						 .sin_addr = pair_addr(0) };
	ck_assert_int_eq(cm_ask(fd, &req, &rep), 0);
	req.op = CMM_LISTEN;
	req.listen.backlog = 1024;
	ck_assert_int_eq(cm_ask(fd, &req, &rep), 0);
	return fd;
}

/* Accepts whoever comes, and forgets whoever goes. */
static void cm_turn(int fd, struct pair *p, uint32_t qpn)
{
	struct cmm_req req = { .op = CMM_GET_EVENT };
	struct cmm_rep rep;

	for (unsigned n = 0; n < 16 && !cm_ask(fd, &req, &rep); n++) {
		struct cmm_req answer = { .op = CMM_DESTROY_ID, .id = rep.event.id };

		if (rep.event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			answer.op = CMM_ACCEPT;
			answer.conn.cookie = 1;
			answer.conn.conn.qp_num = qpn;
			p->accepted++;
		} else if (rep.event.type == RDMA_CM_EVENT_ESTABLISHED) {
			continue;
		}
		cm_ask(fd, &answer, &rep);
	}
}

/* ---- a side ----------------------------------------------------------------------------------- */

static void player_begin(struct player *p, unsigned kind, struct pair_end *me)
{
	uint32_t psn;

	*p = (struct player){ .kind = kind, .round = 1 };
	cx_open_type(&p->c, type_of[kind]);
	ck_assert_int_eq(getrandom(&psn, sizeof(psn), 0), sizeof(psn));
	me->qpn[kind] = p->c.qpn;
	me->psn[kind] = psn & 0xffffff;
}

static void wait_ready(const struct pair_end *e)
{
	double end = stage_seconds() + 20;

	while (!__atomic_load_n(&e->ready, __ATOMIC_SEQ_CST)) {
		ck_assert_msg(stage_seconds() < end, "the other side does not begin");
		poll(NULL, 0, 1);
	}
}

void pair_play(struct pair *pair, unsigned side)
{
	struct pair_end *me = &pair->end[side], *peer = &pair->end[!side];
	int fd = side ? -1 : cm_listen();
	struct player p[PAIR_QPS];

	for (unsigned k = 0; k < PAIR_QPS; k++)
		player_begin(&p[k], k, me);
	__atomic_store_n(&me->ready, true, __ATOMIC_SEQ_CST);
	wait_ready(peer);
	for (unsigned k = 0; k < PAIR_QPS; k++) {
		connect_to(&p[k], side, me, peer);
		for (uint32_t i = 0; i < SLOTS; i++)
			cx_recv(&p[k].c, i, i * SLOT, SLOT);
		if (!side)
			send_round(&p[k], 1);
	}
	while (!__atomic_load_n(&pair->over, __ATOMIC_SEQ_CST)) {
		for (unsigned k = 0; k < PAIR_QPS; k++)
			turn(&p[k], side, &pair->rounds[k]);
		if (fd >= 0)
			cm_turn(fd, pair, p[0].c.qpn);
		sched_yield();
	}
	for (unsigned k = 0; k < PAIR_QPS; k++)
		cx_close(&p[k].c);
	if (fd >= 0)
		close(fd);
}
