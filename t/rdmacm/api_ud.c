/* SPDX-License-Identifier: MIT */
/* api_ud.c - datagrams: services looked up, multicast groups. */
#include "fixture.h"

enum { GRH = 40, LEN = 100 };

static void datagram_check(struct rdma_cm_id *id, const char *buf, char want)
{
	struct ibv_wc wc;

	ck_assert_int_eq(rdma_get_recv_comp(id, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, GRH + LEN);
	for (int i = 0; i < LEN; i++)
		ck_assert_int_eq(buf[GRH + i], want);
}

static void datagram_send(struct rdma_cm_id *id, struct ibv_ah *ah, uint32_t qpn, char *buf, struct ibv_mr *mr)
{
	struct ibv_wc wc;

	ok(rdma_post_ud_send(id, NULL, buf, LEN, mr, 0, ah, qpn));
	ck_assert_int_eq(rdma_get_send_comp(id, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
}

START_TEST(looked_up) /* conf: rule 7.11 */
{
	char from[LEN], to[GRH + LEN];
	struct rdma_conn_param sp = { .private_data = "here", .private_data_len = 5 };
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_UD);
	struct rdma_cm_event *e;
	struct ibv_mr *mf, *mt;
	struct ibv_ah *ah;
	struct pair p;

	pair_open(&p, RDMA_PS_UDP);
	ck_assert_int_eq(p.client->qp_type, IBV_QPT_UD);
	ok(rdma_create_qp(p.client, NULL, &a));
	ok(rdma_connect(p.client, NULL));
	e = event_get(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	p.server = e->id;
	a = qp_attr(IBV_QPT_UD);
	ok(rdma_create_qp(p.server, NULL, &a));
	mf = rdma_reg_msgs(p.client, from, sizeof(from));
	mt = rdma_reg_msgs(p.server, to, sizeof(to));
	ok(rdma_post_recv(p.server, NULL, to, sizeof(to), mt));
	ok(rdma_accept(p.server, &sp));
	ck_assert_uint_eq(e->param.ud.private_data_len, 180);
	ok(rdma_ack_cm_event(e));
	e = event_get(p.cch, RDMA_CM_EVENT_ESTABLISHED);
	ck_assert_uint_eq(e->param.ud.qp_num, p.server->qp->qp_num);
	ck_assert_uint_eq(e->param.ud.qkey, RDMA_UDP_QKEY);
	ck_assert_uint_eq(e->param.ud.private_data_len, 136);
	ck_assert_str_eq(e->param.ud.private_data, "here");
	ah = ibv_create_ah(p.client->pd, &e->param.ud.ah_attr);
	ck_assert(ah != NULL);
	memset(from, 'u', sizeof(from));
	datagram_send(p.client, ah, e->param.ud.qp_num, from, mf);
	datagram_check(p.server, to, 'u');
	ok(rdma_ack_cm_event(e));
	/* There is nothing to hang up but the QP, at either end and as often as one likes. */
	for (int i = 0; i < 2; i++) {
		ok(rdma_disconnect(p.client));
		ok(rdma_disconnect(p.server));
	}
	ck_assert_int_eq(p.client->qp->state, IBV_QPS_ERR);
	ok(ibv_destroy_ah(ah));
	ok(rdma_dereg_mr(mf));
	ok(rdma_dereg_mr(mt));
	pair_close(&p);
}
END_TEST

START_TEST(turned_down)
{
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_UD);
	struct rdma_cm_event *e;
	struct pair p;

	pair_open(&p, RDMA_PS_UDP);
	ok(rdma_create_qp(p.client, NULL, &a));
	ok(rdma_connect(p.client, NULL));
	e = event_get(p.sch, RDMA_CM_EVENT_CONNECT_REQUEST);
	p.server = e->id;
	ok(rdma_reject(p.server, "no", 3));
	ok(rdma_ack_cm_event(e));
	e = event_get(p.cch, RDMA_CM_EVENT_UNREACHABLE);
	ck_assert_int_eq(e->status, 2);
	ck_assert_int_eq(p.client->qp->state, IBV_QPS_RTS);
	why_says("connection to 127.0.0.1:[0-9]* (from 127.0.0.1:[0-9]*) unreachable: SIDR status 2");
	ok(rdma_ack_cm_event(e));
	pair_close(&p);
}
END_TEST

struct member {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	char buf[GRH + LEN];
};

static struct sockaddr *group_addr(void)
{
	static struct sockaddr_in sin = { .sin_family = AF_INET };

	ck_assert_int_eq(inet_pton(AF_INET, "239.1.2.3", &sin.sin_addr), 1);
	return (struct sockaddr *)&sin;
}

static void member_open(struct member *m, struct rdma_event_channel *ch)
{
	struct ibv_qp_init_attr a = qp_attr(IBV_QPT_UD);

	ok(rdma_create_id(ch, &m->id, NULL, RDMA_PS_UDP));
	ok(rdma_bind_addr(m->id, lo(0)));
	ck_assert(m->id->verbs != NULL);
	ok(rdma_create_qp(m->id, NULL, &a));
	m->mr = rdma_reg_msgs(m->id, m->buf, sizeof(m->buf));
	ok(rdma_post_recv(m->id, NULL, m->buf, sizeof(m->buf), m->mr));
}

START_TEST(group) /* conf: rule 7.12 */
{
	struct rdma_event_channel *ch = channel_new();
	struct member m[3];
	struct rdma_cm_event *e;
	struct ibv_ah *ah = NULL;
	uint32_t qpn = 0;

	for (int i = 0; i < 3; i++) {
		member_open(&m[i], ch);
		ok(rdma_join_multicast(m[i].id, group_addr(), &m[i]));
		e = event_get(ch, RDMA_CM_EVENT_MULTICAST_JOIN);
		ck_assert_int_eq(e->status, 0);
		ck_assert_ptr_eq(e->id, m[i].id);
		ck_assert_ptr_eq(e->param.ud.private_data, &m[i]);
		ck_assert_uint_eq(e->param.ud.qp_num, 0xffffff);
		ck_assert_uint_eq(e->param.ud.qkey, RDMA_UDP_QKEY);
		if (i == 2) {
			qpn = e->param.ud.qp_num;
			ah = ibv_create_ah(m[2].id->pd, &e->param.ud.ah_attr);
			ck_assert(ah != NULL);
		}
		ok(rdma_ack_cm_event(e));
	}
	ok(rdma_leave_multicast(m[1].id, group_addr()));
	fails(rdma_leave_multicast(m[1].id, group_addr()), EADDRNOTAVAIL);
	memset(m[2].buf, 'g', LEN);
	datagram_send(m[2].id, ah, qpn, m[2].buf, m[2].mr);
	datagram_check(m[0].id, m[0].buf, 'g');
	for (int i = 0; i < 3; i++) {
		struct ibv_wc wc;

		/* In use as long as it is in a group, from which rdma_destroy_qp() takes it. */
		ck_assert_int_eq(i == 0 ? ibv_destroy_qp(m[i].id->qp) : EBUSY, EBUSY);
		if (i == 1)
			ck_assert_int_eq(ibv_poll_cq(m[1].id->recv_cq, 1, &wc), 0);
		ok(rdma_dereg_mr(m[i].mr));
		rdma_destroy_qp(m[i].id);
		ok(rdma_destroy_id(m[i].id));
	}
	ok(ibv_destroy_ah(ah));
	rdma_destroy_event_channel(ch);
}
END_TEST

START_TEST(join_errors)
{
	struct rdma_cm_join_mc_attr_ex x = { .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS, .addr = group_addr() };
	struct rdma_event_channel *ch = channel_new();
	struct sockaddr un = { .sa_family = AF_UNIX };
	struct rdma_cm_id *id;

	ok(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP));
	ok(rdma_bind_addr(id, lo(0)));
	fails(rdma_join_multicast(id, &un, NULL), EINVAL);
	fails(rdma_leave_multicast(id, &un), EINVAL);
	fails(rdma_join_multicast_ex(id, &x, NULL), EINVAL);
	x.comp_mask |= RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	x.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	fails(rdma_join_multicast_ex(id, &x, NULL), EINVAL);
	x.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	ok(rdma_join_multicast_ex(id, &x, NULL));
	event_eat(ch, RDMA_CM_EVENT_MULTICAST_JOIN);
	ok(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}
END_TEST

void api_ud(Suite *s) { SUITE_ADD(s, looked_up, turned_down, group, join_errors); }
