/* SPDX-License-Identifier: MIT */
/* core_pace.c - UC, of which nobody says that it arrived: how much of it is sent, and when. */
#include "proto/hca_in.h"
#include "rig.h"
#include "t/suite.h"

#define TRAIN   61440u
#define MSGS    12u
#define AT_ONCE (RIG_ROOM / 2) /* with what each packet costs the peer beside its payload */
#define PACE_MS 2u

static void uc_init(struct rig *r, enum link_mode mode)
{
	struct link_conf c = conf_rc;

	c.type = QPT_UC;
	rig_init(r, mode);
	rig_connect(r, &c);
	for (unsigned i = 0; i < MSGS; i++)
		ck_assert_int_eq(SEND_WR(r, &r->a, .id = i, .op = WR_WRITE, .len = BUF_LEN), 0);
}

static uint64_t turn(struct rig *r)
{
	uint64_t sum = 0;
	struct burst b;

	while (take(r, &r->a, &b))
		sum += b.payload_len;
	return sum;
}

static void at_deadline(struct rig *r)
{
	mono_t at = hca_deadline(r->a.h);

	ck_assert(!mono_is_never(at));
	r->now = mono_max(r->now, at);
	hca_tick(r->a.h, r->now);
}

/* Half of the peer's buffer at once, and as much again every two milliseconds; the host tells when it has left, or does not. */
static void paced(bool tells)
{
	uint64_t sum = 0, most = 0, now;
	mono_t start;
	struct rig r;

	uc_init(&r, LINK_WIRE);
	start = r.now;
	for (;;) {
		now = turn(&r);
		sum += now;
		most = now > most ? now : most;
		if (sum == MSGS * (uint64_t)BUF_LEN)
			break;
		if (tells)
			hca_sent(r.a.h, r.now);
		at_deadline(&r);
	}
	ck_assert_uint_le(most, AT_ONCE + TRAIN);
	ck_assert_uint_ge(r.now.ns - start.ns, (sum - RIG_ROOM) * PACE_MS * MS / AT_ONCE);
	ck_assert_uint_le(r.now.ns - start.ns, 2 * sum * PACE_MS * MS / AT_ONCE);
	rig_fini(&r);
}

START_TEST(uc_is_paced)
{
	struct rig r;

	paced(true);
	paced(false);
	uc_init(&r, LINK_LOCAL);
	ck_assert_uint_eq(turn(&r), MSGS * (uint64_t)BUF_LEN);
	rig_fini(&r);
}
END_TEST

/* The host lost its core before it had sent what it took: nobody has read of that meanwhile, and so there is no room for more. */
START_TEST(what_left_late)
{
	struct rig r;

	uc_init(&r, LINK_WIRE);
	ck_assert_uint_ge(turn(&r), AT_ONCE / 2);
	r.now.ns += 2 * PACE_MS * MS;
	hca_sent(r.a.h, r.now);
	at_deadline(&r);
	ck_assert_uint_eq(turn(&r), 0);
	at_deadline(&r);
	ck_assert_uint_le(turn(&r), TRAIN);
	rig_fini(&r);
}
END_TEST

/* QPs wait, and the host is late: its peer may have been as late, and goes on where it was.  A little late counts. */
START_TEST(late_host)
{
	const struct {
		uint64_t late_ns, least, most;
	} t[] = { { PACE_MS * MS / 4, 2 * TRAIN, AT_ONCE / 2 }, { 10 * MS, 1, TRAIN } };

	for (unsigned i = 0; i < 2; i++) {
		struct rig r;
		uint64_t now;

		uc_init(&r, LINK_WIRE);
		turn(&r);
		hca_sent(r.a.h, r.now);
		r.now = mono_add(hca_deadline(r.a.h), t[i].late_ns);
		hca_tick(r.a.h, r.now);
		now = turn(&r);
		ck_assert_uint_ge(now, t[i].least);
		ck_assert_uint_le(now, t[i].most);
		rig_fini(&r);
	}
}
END_TEST

/* A QP of the way that ends while its packets have not left yet takes the way along. */
START_TEST(ended_before_it_left)
{
	struct rig r;

	uc_init(&r, LINK_WIRE);
	ck_assert_uint_ge(turn(&r), AT_ONCE / 2);
	ck_assert_int_eq(hca_qp_destroy(r.a.h, r.a.qpn), 0);
	ck_assert_uint_eq(r.a.h->paths.n, 0);
	hca_sent(r.a.h, r.now);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_pace", uc_is_paced, what_left_late, late_host, ended_before_it_left)
