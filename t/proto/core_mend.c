/* SPDX-License-Identifier: MIT */
/* core_mend.c - the requester's books of a peer that keeps what is behind a gap: what it believes of it, and what a gap costs. */
#include "proto/hca_in.h"
#include "rig.h"

#define MTU 512u

static struct qp *start(struct rig *r, const struct link_conf *c, unsigned pkts)
{
	rig_init(r, LINK_KEEP);
	rig_connect(r, c);
	ck_assert_int_eq(SEND_WR(r, &r->a, .id = 1, .op = WR_WRITE, .len = pkts * MTU), 0);
	return qp_get(r->a.h, r->a.qpn);
}

static unsigned sends(struct rig *r)
{
	struct burst b;
	unsigned n = 0;

	while (take(r, &r->a, &b))
		n += b.n;
	return n;
}

static void says(struct rig *r, uint8_t syndrome, uint32_t n)
{
	struct burst b = pkt_from(r, &r->b, OP_ACKNOWLEDGE, conf_rc.psn + n);

	b.syndrome = syndrome;
	pkt_give(r, &r->a, &b, NULL, 0);
}

static void acks(struct rig *r, uint32_t n) { says(r, aeth_ack(), n); }

/* A NAK of n: is it alone that is sent again, whatever follows for the first time? */
static bool tried(struct rig *r, uint32_t n)
{
	struct burst b;

	sends(r);
	says(r, aeth_nak(NAK_PSN_SEQ), n);
	ck_assert(take(r, &r->a, &b));
	ck_assert_uint_eq(b.psn.v, psn(conf_rc.psn + n).v);
	sends(r);
	return b.n == 1;
}

/* One that kept is believed once more when it did not, but not twice; and what it was believed before that is forgotten when it keeps. */
START_TEST(belief) /* conf: rule 4.5 */
{
	struct rig r;

	start(&r, &conf_rc, 1000);
	for (uint32_t at = 0; at < 600; at += 200) {
		ck_assert(tried(&r, at + 2));
		acks(&r, at + 5);
		ck_assert(tried(&r, at + 10));
		acks(&r, at + 10);
		ck_assert(tried(&r, at + 20));
		acks(&r, at + 20);
		ck_assert(!tried(&r, at + 30));
	}
	rig_fini(&r);
}
END_TEST

/* One that always goes back is tried at every 128th loss, at last. */
START_TEST(tried_again) /* conf: rule 4.5 */
{
	unsigned until = 0, next = 0;
	struct rig r;

	start(&r, &conf_rc, 1000);
	for (uint32_t n = 0; n < 700; n++) {
		bool t = tried(&r, n);

		ck_assert(t == (until == 0));
		if (t) {
			next = next < 127 ? 2 * next + 1 : 127;
			until = next;
		} else {
			until--;
		}
		acks(&r, n);
	}
	rig_fini(&r);
}
END_TEST

/* Two are sent again; when the first has come the second is still on its way. */
START_TEST(half_of_it)
{
	struct rig r;

	start(&r, &conf_rc, 100);
	ck_assert(tried(&r, 2));
	acks(&r, 5);
	ck_assert(tried(&r, 10));
	says(&r, aeth_nak(NAK_PSN_SEQ), 11);
	ck_assert_uint_eq(sends(&r), 2);
	acks(&r, 11);
	ck_assert_uint_eq(sends(&r), 0);
	rig_fini(&r);
}
END_TEST

/* Each costs a retry; the window halves once for all that are lost of one; and what took two tries tells nothing of the way. */
START_TEST(what_it_costs) /* conf: rule 4.5 */
{
	struct link_conf c = conf_rc;
	struct rig r;
	struct qp *qp;
	uint64_t window;

	c.retry = 1;
	qp = start(&r, &c, 1000);
	sends(&r);
	window = qp->path->window;
	ck_assert(tried(&r, 2));
	ck_assert_uint_eq(qp->path->window, window / 2);
	r.now.ns += 5 * MS;
	acks(&r, 500);
	ck_assert_uint_eq(qp->req.rtt_ns, 0);
	ck_assert(tried(&r, 501));
	ck_assert_uint_lt(qp->path->window - window / 2, 61440); /* grown by what came */
	ck_assert_uint_eq(r.a.wc_n, 0);
	says(&r, aeth_nak(NAK_PSN_SEQ), 501);
	ck_assert_uint_eq(wc_status(&r.a, 1), WC_RETRY_EXC_ERR);
	rig_fini(&r);
}
END_TEST

/* Nobody was asked for an ACK before: what is sent again asks, and is sent once more early if it is lost, too. */
START_TEST(asked_by_it) /* conf: rule 4.5 */
{
	struct burst b;
	struct rig r;

	start(&r, &conf_rc, 1000);
	ck_assert(take(&r, &r.a, &b));
	ck_assert(!b.ackreq && b.n > 10);
	says(&r, aeth_nak(NAK_PSN_SEQ), 2);
	ck_assert(take(&r, &r.a, &b));
	ck_assert(b.ackreq && b.n == 1 && b.psn.v == conf_rc.psn + 2);
	ck_assert_uint_le(hca_deadline(r.a.h).ns, r.now.ns + 10 * MS);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_mend", belief, tried_again, half_of_it, what_it_costs, asked_by_it)
