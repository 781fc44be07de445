/* SPDX-License-Identifier: MIT */
/*
 * crowd.c - a program with thousands of something: what the core looks at for one of them, or for another program's, does not grow
 * with their number.
 */
#include <errno.h>
#include <string.h>

#include "proto/hca_in.h"
#include "proto/mcast.h"
#include "rig.h"
#include "t/suite.h"

#define MANY    8192u
#define CHAINED (3 * MANY / 256) /* in 256 places 32 each, and more by chance */

_Static_assert(PATH_HASH == 256 && MCAST_HASH == 256, "CHAINED");

static const mono_t now = { 1 };

struct crowd {
	struct rig r;
	struct hca *h;
	uint32_t qpn[MANY], other[MANY];
};

static void begin(struct crowd *c)
{
	memset(c, 0, sizeof(*c));
	rig_init(&c->r, LINK_LOCAL);
	c->h = c->r.a.h;
}

static unsigned linked(const struct link *head)
{
	unsigned n = 0;

	for (const struct link *l = head->next; l != head; l = l->next)
		n++;
	return n;
}

static uint32_t qp_make(struct crowd *c, const struct qp_init *init)
{
	uint32_t qpn;

	ck_assert_int_eq(hca_qp_create(c->h, init, &qpn), 0);
	return qpn;
}

static void qps_make(struct crowd *c, uint8_t type)
{
	const struct qp_init init = { .type = type, .pdn = c->r.a.pdn, .send_cqn = c->r.a.cqn, .recv_cqn = c->r.a.cqn };

	for (uint32_t i = 0; i < MANY; i++)
		c->qpn[i] = qp_make(c, &init);
}

static void qps_destroy(struct crowd *c)
{
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(hca_qp_destroy(c->h, c->qpn[i]), 0);
}

/* ---- peers whose GIDs were chosen so that a sum of their bytes is the same ------------------- */

static void peers_make(struct crowd *c)
{
	static const uint8_t own[16] = { 0xfe, 0x80, [15] = 1 };
	struct qp_attr a = { .port = 1, .path_mtu = 1, .dest_qpn = 99, .av = { .sgid_index = 2 } };

	ck_assert_int_eq(hca_gid_set(c->h, 2, own), 0);
	qps_make(c, QPT_UC);
	for (uint32_t i = 0; i < MANY; i++) {
		uint8_t *gid = a.av.dgid;

		a.state = QPS_INIT;
		ck_assert_int_eq(hca_qp_modify(c->h, c->qpn[i], &a,
					       QPA_STATE | QPA_PKEY_INDEX | QPA_PORT | QPA_ACCESS_FLAGS, now),
				 0);
		memcpy(gid, own, 2);
		for (unsigned k = 0, v = i; k < 5; k++, v /= 8) {
			gid[5 + 2 * k] = (uint8_t)(v % 8);
			gid[6 + 2 * k] = (uint8_t)(250 - 31 * (v % 8));
		}
		a.state = QPS_RTR;
		ck_assert_int_eq(hca_qp_modify(c->h, c->qpn[i], &a,
					       QPA_STATE | QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN, now),
				 0);
	}
}

START_TEST(peers)
{
	static struct crowd c;
	unsigned all = 0;

	begin(&c);
	peers_make(&c);
	for (unsigned i = 0; i < PATH_HASH; i++) {
		unsigned n = 0;

		for (const struct path *p = c.h->paths.head[i]; p; p = p->next)
			n++;
		ck_assert_uint_le(n, CHAINED);
		all += n;
	}
	ck_assert_uint_ge(all, MANY);
	qps_destroy(&c);
	rig_fini(&c.r);
}
END_TEST

/* ---- completion queues that overrun ---------------------------------------------------------- */

static void cqs_make(struct crowd *c)
{
	struct qp_init init = { .type = QPT_UD, .pdn = c->r.a.pdn };

	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_int_eq(hca_cq_create(c->h, 1, &c->other[i]), 0);
		init.send_cqn = init.recv_cqn = c->other[i];
		c->qpn[i] = qp_make(c, &init);
	}
}

/* A queue that overruns looks at its own queue pairs. */
START_TEST(cqs)
{
	static struct crowd c;

	begin(&c);
	cqs_make(&c);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct cq *cq = slots_get(&c.h->cq, c.other[i]);

		ck_assert_ptr_eq(cq->sends.next, &qp_get(c.h, c.qpn[i])->in_scq);
		ck_assert_ptr_eq(cq->recvs.next, &qp_get(c.h, c.qpn[i])->in_rcq);
		ck_assert(linked(&cq->sends) == 1 && linked(&cq->recvs) == 1);
		hca_cq_overrun(c.h, c.other[i], now);
	}
	qps_destroy(&c);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct cq *cq = slots_get(&c.h->cq, c.other[i]);

		ck_assert(link_empty(&cq->sends) && link_empty(&cq->recvs));
	}
	rig_fini(&c.r);
}
END_TEST

/* ---- groups --------------------------------------------------------------------------------------- */

static void mgid_set(uint8_t mgid[16], uint32_t number)
{
	memset(mgid, 0, 16);
	mgid[0] = 0xff;
	mgid[1] = 0x15;
	memcpy(mgid + 12, &number, sizeof(number));
}

/* The last queue pair is in all of them, the others are in none. */
static void groups_make(struct crowd *c)
{
	uint8_t mgid[16];

	qps_make(c, QPT_UD);
	for (uint32_t i = 0; i < MANY; i++) {
		mgid_set(mgid, i);
		ck_assert_int_eq(hca_mcast_attach(c->h, c->qpn[MANY - 1], mgid), 0);
	}
}

START_TEST(groups)
{
	static struct crowd c;
	unsigned all = 0;

	begin(&c);
	groups_make(&c);
	for (unsigned i = 0; i < MCAST_HASH; i++) {
		unsigned n = 0;

		for (const struct mcast *g = c.h->mcast.head[i]; g; g = g->next)
			n++;
		ck_assert_uint_le(n, CHAINED);
		all += n;
	}
	ck_assert_uint_eq(all, MANY);
	ck_assert(link_empty(&qp_get(c.h, c.qpn[0])->groups));
	ck_assert_uint_eq(linked(&qp_get(c.h, c.qpn[MANY - 1])->groups), MANY);
	qps_destroy(&c);
	for (unsigned i = 0; i < MCAST_HASH; i++)
		ck_assert_ptr_null(c.h->mcast.head[i]);
	rig_fini(&c.r);
}
END_TEST

/* Of one owner so many, whatever he has; and another one's. */
START_TEST(members)
{
	struct qp_init init = { .type = QPT_UD, .owner = 1 };
	static struct crowd c;
	uint8_t mgid[16];
	uint32_t qpn;

	begin(&c);
	init.pdn = c.r.a.pdn;
	init.send_cqn = init.recv_cqn = c.r.a.cqn;
	mgid_set(mgid, 0);
	for (unsigned i = 0; i < MCAST_QPS; i++) {
		qpn = qp_make(&c, &init);
		ck_assert_int_eq(hca_mcast_attach(c.h, qpn, mgid), 0);
		ck_assert_int_eq(hca_mcast_attach(c.h, qpn, mgid), 0);
	}
	ck_assert_int_eq(hca_mcast_attach(c.h, qp_make(&c, &init), mgid), ENOMEM);
	ck_assert_int_eq(hca_mcast_detach(c.h, qpn, mgid), 0);
	ck_assert_int_eq(hca_mcast_attach(c.h, qp_make(&c, &init), mgid), 0);
	init.owner = 2;
	ck_assert_int_eq(hca_mcast_attach(c.h, qp_make(&c, &init), mgid), 0);
	rig_fini(&c.r);
}
END_TEST

TEST_MAIN("crowd", peers, cqs, groups, members)
