/* SPDX-License-Identifier: MIT */
/*
 * inject.c - messages into another user's queue pair, by one who knows its number and its PSN: with a queue pair of his own
 * that pretends to be its peer, and with packets from the host's own address.
 */
#include "t/suite.h"

#include "forge.h"
#include "stage.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOME   "127.0.0.1"
#define SHARDS 4u
#define PSN    77u

enum { VICTIM_QPN, VICTIM_READY, ATTACKS_OVER };

static struct cx_way way_home(void)
{
	struct cx_way way = { .rq_psn = PSN, .sq_psn = PSN };

	forge_gid(HOME, way.sgid);
	forge_gid(HOME, way.dgid);
	return way;
}

/* Two connected queue pairs; what comes first must be what the honest one sends when the attacks are over. */
static void victim(void *)
{
	struct cx_way way = way_home();
	static struct cx a, b;
	struct cqe e;

	cx_open(&a);
	cx_open(&b);
	cx_connect_way(&a, b.qpn, &way);
	cx_connect_way(&b, a.qpn, &way);
	cx_recv(&a, 1, 0, 64);
	note_set(VICTIM_QPN, a.qpn);
	note_set(VICTIM_READY, 1);
	note_wait(ATTACKS_OVER, 1);
	ck_assert_uint_eq(ring_used(&a.cq_ring), 0);
	memcpy(b.buf + 1024, "pay alice", 10);
	cx_send(&b, 2, 1024, 10);
	ck_assert(cx_poll(&b, &e));
	ck_assert_uint_eq(e.status, WC_SUCCESS);
	ck_assert(cx_poll(&a, &e));
	ck_assert_uint_eq(e.status, WC_SUCCESS);
	ck_assert_str_eq((char *)a.buf, "pay alice");
	cx_close(&a);
	cx_close(&b);
}

/* A queue pair on each shard. */
static void pretend(void *)
{
	struct cx_way way = way_home();
	static struct cx c[SHARDS];
	struct cqe e;

	note_wait(VICTIM_READY, 1);
	for (unsigned i = 0; i < SHARDS; i++) {
		cx_open(&c[i]);
		cx_connect_way(&c[i], note->n[VICTIM_QPN], &way);
		memcpy(c[i].buf, "pay mallory", 12);
		cx_send(&c[i], 1, 0, 12);
	}
	for (unsigned i = 0; i < SHARDS; i++) {
		ck_assert(cx_poll(&c[i], &e));
		ck_assert_uint_eq(e.status, WC_RETRY_EXC_ERR);
		cx_close(&c[i]);
	}
}

static void forge(void *own_port)
{
	struct burst b = { .op_first = SVC_RC | OP_SEND_ONLY, .psn = psn(PSN), .ackreq = true };
	uint8_t pkt[FORGE_MAX];
	struct forge f;

	note_wait(VICTIM_READY, 1);
	b.dqpn = note->n[VICTIM_QPN];
	forge_open(&f, HOME, HOME, own_port);
	for (unsigned i = 0; i < 10; i++)
		forge_send(&f, pkt, forge_pkt(&f, &b, "pay mallory", 12, pkt));
	forge_close(&f);
}

static void injected(const char *option, void (*how)(void *), void *arg, const char *named, long least)
{
	pid_t v, a;

	stage_open(option);
	v = part_begin(UID_VICTIM, victim, NULL);
	a = part_begin(UID_ATTACKER, how, arg);
	part_end(a);
	for (double end = stage_seconds() + 20; stage_counter(named) < least;)
		ck_assert_msg(stage_seconds() < end, "%s: %ld, not %ld", named, stage_counter(named), least);
	note_set(ATTACKS_OVER, 1);
	part_end(v);
	stage_close();
}

START_TEST(pretended) { injected("--shards=1", pretend, NULL, "bad_route", SHARDS); }
END_TEST
START_TEST(pretended_shards) { injected("--shards=4", pretend, NULL, "bad_route", SHARDS); }
END_TEST
START_TEST(forged) { injected("--shards=1", forge, NULL, "bad_source", 10); }
END_TEST
START_TEST(forged_port) { injected("--shards=1", forge, &note, "bad_source", 10); }
END_TEST
START_TEST(forged_port_shards) { injected("--shards=4", forge, &note, "bad_source", 10); }
END_TEST
START_TEST(forged_port_epoll) { injected("--io=epoll", forge, &note, "bad_source", 10); }
END_TEST

STAGE_MAIN("hostile: inject", pretended, pretended_shards, forged, forged_port, forged_port_shards, forged_port_epoll)
