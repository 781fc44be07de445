/* SPDX-License-Identifier: MIT */
/*
 * crowd.c - a program with thousands of something: what the core does for one of them, or for another program's, does not grow with
 * their number.
 *
 * Processor time of this thread is compared, of FEW and of eight times as many: what grows with the square takes 64 times as long.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "proto/hca.h"
#include "proto/mcast.h"
#include "rig.h"
#include "t/suite.h"

#define FEW   1024u
#define MANY  (8 * FEW)
#define TIMES 24.0 /* more than 8, and with the cache's part in it less than 64 */
#define TRIES 3u

static const mono_t now = { 1 };

struct crowd {
	struct rig r;
	struct hca *h;
	uint32_t n, qpn[MANY], other[MANY];
};

static double used(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* make() makes n of them, and what end() does is measured; the best of some. */
static double best(uint32_t n, void (*make)(struct crowd *), void (*end)(struct crowd *))
{
	static struct crowd c;
	double least = 0, from, took;

	for (unsigned i = 0; i < TRIES; i++) {
		memset(&c, 0, sizeof(c));
		rig_init(&c.r, LINK_LOCAL);
		c.h = c.r.a.h;
		c.n = n;
		make(&c);
		from = used();
		end(&c);
		took = used() - from;
		least = i && least < took ? least : took;
		rig_fini(&c.r);
	}
	return least;
}

static void linear(void (*make)(struct crowd *), void (*end)(struct crowd *))
{
	double few = best(FEW, make, end), many = best(MANY, make, end);

	ck_assert_msg(many < TIMES * few, "%u take %.2f ms, %u take %.2f", FEW, few * 1e3, MANY, many * 1e3);
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

	for (uint32_t i = 0; i < c->n; i++)
		c->qpn[i] = qp_make(c, &init);
}

static void qps_destroy(struct crowd *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		ck_assert_int_eq(hca_qp_destroy(c->h, c->qpn[i]), 0);
}

/* ---- peers whose GIDs were chosen so that a sum of their bytes is the same ------------------- */

static void peers_make(struct crowd *c)
{
	static const uint8_t own[16] = { 0xfe, 0x80, [15] = 1 };
	struct qp_attr a = { .port = 1, .path_mtu = 1, .dest_qpn = 99, .av = { .sgid_index = 2 } };

	ck_assert_int_eq(hca_gid_set(c->h, 2, own), 0);
	qps_make(c, QPT_UC);
	for (uint32_t i = 0; i < c->n; i++) {
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

START_TEST(peers) { linear(peers_make, qps_destroy); }
END_TEST

/* ---- completion queues that overrun ---------------------------------------------------------- */

static void cqs_make(struct crowd *c)
{
	struct qp_init init = { .type = QPT_UD, .pdn = c->r.a.pdn };

	for (uint32_t i = 0; i < c->n; i++) {
		ck_assert_int_eq(hca_cq_create(c->h, 1, &c->other[i]), 0);
		init.send_cqn = init.recv_cqn = c->other[i];
		c->qpn[i] = qp_make(c, &init);
	}
}

static void cqs_overrun(struct crowd *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		hca_cq_overrun(c->h, c->other[i], now);
}

START_TEST(cqs) { linear(cqs_make, cqs_overrun); }
END_TEST

/* ---- shared receive queues of XRC -------------------------------------------------------------- */

static void srqs_make(struct crowd *c)
{
	struct srq_init init = { .pdn = c->r.a.pdn, .cqn = c->r.a.cqn, .max_wr = 1, .max_sge = 1 };

	ck_assert_int_eq(hca_xrcd_alloc(c->h, &init.xrcdn), 0);
	for (uint32_t i = 0; i < c->n; i++)
		ck_assert_int_eq(hca_srq_create(c->h, &init, &c->other[i]), 0);
	qps_make(c, QPT_UD);
}

static void srqs_destroy(struct crowd *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		ck_assert_int_eq(hca_srq_destroy(c->h, c->other[i]), 0);
}

START_TEST(srqs) { linear(srqs_make, srqs_destroy); }
END_TEST

/* ---- groups --------------------------------------------------------------------------------------- */

static void mgid_set(uint8_t mgid[16], uint32_t number)
{
	memset(mgid, 0, 16);
	mgid[0] = 0xff;
	mgid[1] = 0x15;
	memcpy(mgid + 12, &number, sizeof(number));
}

/* The last queue pair is in all of them; to destroy the others, which are in none, takes as long as without. */
static void groups_make(struct crowd *c)
{
	uint32_t n = c->n;
	uint8_t mgid[16];

	qps_make(c, QPT_UD);
	for (uint32_t i = 0; i < n; i++) {
		mgid_set(mgid, i);
		ck_assert_int_eq(hca_mcast_attach(c->h, c->qpn[n - 1], mgid), 0);
	}
}

START_TEST(groups) { linear(groups_make, qps_destroy); }
END_TEST

/* Of one owner so many, whatever he has; and another one's. */
START_TEST(members)
{
	struct qp_init init = { .type = QPT_UD, .owner = 1 };
	struct crowd *c = calloc(1, sizeof(*c));
	uint8_t mgid[16];
	uint32_t qpn;

	rig_init(&c->r, LINK_LOCAL);
	c->h = c->r.a.h;
	init.pdn = c->r.a.pdn;
	init.send_cqn = init.recv_cqn = c->r.a.cqn;
	mgid_set(mgid, 0);
	for (unsigned i = 0; i < MCAST_QPS; i++) {
		qpn = qp_make(c, &init);
		ck_assert_int_eq(hca_mcast_attach(c->h, qpn, mgid), 0);
		ck_assert_int_eq(hca_mcast_attach(c->h, qpn, mgid), 0);
	}
	ck_assert_int_eq(hca_mcast_attach(c->h, qp_make(c, &init), mgid), ENOMEM);
	ck_assert_int_eq(hca_mcast_detach(c->h, qpn, mgid), 0);
	ck_assert_int_eq(hca_mcast_attach(c->h, qp_make(c, &init), mgid), 0);
	init.owner = 2;
	ck_assert_int_eq(hca_mcast_attach(c->h, qp_make(c, &init), mgid), 0);
	rig_fini(&c->r);
	free(c);
}
END_TEST

TEST_MAIN("crowd", peers, cqs, srqs, groups, members)
