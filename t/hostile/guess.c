/* SPDX-License-Identifier: MIT */
/*
 * guess.c - a stranger who can send in the name of a queue pair's peer, and knows its number, but not its PSN: how many
 * packets it takes him to have one message taken.  Prints it, and how fast he can try; SECURITY.md has the result.
 *
 * The peer has an address of the loopback that is not one of the daemon's: so this is what a host on the wire could do that
 * forges an address.  From the host's own addresses nothing is taken at all (inject.c).
 */
#include "t/suite.h"

#include "forge.h"
#include "stage.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOME     "127.0.0.1"
#define PEER     "127.0.0.9"
#define PEER_QPN 0x1234u
#define AHEAD    (1u << 17) /* so far behind the PSN he begins; all of them would be 1 << 24 */
#define BATCH    64u

enum { QPN, PSN, READY, TAKEN };

static void victim(void *)
{
	struct cx_way way = { .sq_psn = 1 };
	static struct cx c;
	struct cqe e;

	ck_assert_int_eq(getentropy(&way.rq_psn, sizeof(way.rq_psn)), 0);
	way.rq_psn &= PSN_MASK;
	forge_gid(HOME, way.sgid);
	forge_gid(PEER, way.dgid);
	cx_open(&c);
	cx_connect_way(&c, PEER_QPN, &way);
	for (unsigned i = 0; i < 8; i++)
		cx_recv(&c, i, i * 64, 64);
	note_set(QPN, c.qpn);
	note_set(PSN, way.rq_psn);
	note_set(READY, 1);
	while (!ring_used(&c.cq_ring))
		cx_ring(&c, c.qp_bell);
	note_set(TAKEN, 1);
	ck_assert(cx_poll(&c, &e));
	ck_assert_uint_eq(e.status, WC_SUCCESS);
	ck_assert_str_eq((char *)c.buf, "pay mallory");
	cx_close(&c);
}

/* Sends BATCH packets with PSNs from psn on. */
static void try(struct forge *f, uint32_t qpn, psn_t first)
{
	static uint8_t pkt[BATCH][FORGE_MAX];
	struct mmsghdr mm[BATCH];
	struct iovec iov[BATCH];

	for (unsigned k = 0; k < BATCH; k++) {
		struct burst b = { .op_first = SVC_RC | OP_SEND_ONLY, .dqpn = qpn, .psn = psn_add(first, k) };

		iov[k] = (struct iovec){ pkt[k], forge_pkt(f, &b, "pay mallory", 12, pkt[k]) };
		mm[k].msg_hdr = (struct msghdr){
			.msg_name = &f->to, .msg_namelen = sizeof(f->to), .msg_iov = &iov[k], .msg_iovlen = 1
		};
	}
	ck_assert_int_eq(sendmmsg(f->fd, mm, BATCH, 0), BATCH);
}

START_TEST(sweep)
{
	uint32_t n = 0, taken_at;
	double begun, took;
	struct forge f;
	psn_t first;
	pid_t v;

	stage_open("--shards=1");
	v = part_begin(UID_VICTIM, victim, NULL);
	note_wait(READY, 1);
	forge_open(&f, PEER, HOME, false);
	first = psn_sub(psn(note->n[PSN]), AHEAD);
	begun = stage_seconds();
	/* Each PSN once; then again what may have got lost, until it is taken. */
	for (; n < AHEAD + BATCH && !__atomic_load_n(&note->n[TAKEN], __ATOMIC_RELAXED); n += BATCH)
		try(&f, note->n[QPN], psn_add(first, n));
	took = stage_seconds() - begun;
	taken_at = n;
	for (double end = stage_seconds() + 20; !__atomic_load_n(&note->n[TAKEN], __ATOMIC_RELAXED);) {
		ck_assert_msg(stage_seconds() < end, "it was not taken at all");
		try(&f, note->n[QPN], psn(note->n[PSN]));
	}
	/* Nothing but the one PSN is taken, however near the others are. */
	ck_assert_uint_ge(taken_at, AHEAD);
	printf("%u PSNs tried in %.2f s, one was taken: %.0f a second; of 2^24 half are %.0f s\n", taken_at, took,
	       taken_at / took, (1u << 23) / (taken_at / took));
	forge_close(&f);
	part_end(v);
	stage_close();
}
END_TEST

STAGE_MAIN("hostile: guess", sweep)
