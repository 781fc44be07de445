/* SPDX-License-Identifier: MIT */
/* core_turns.c - who sends next: owners take turns, however many QPs each of them has. */
#include "proto/opcode.h"
#include "rig.h"
#include "t/suite.h"

#define MANY 100u
#define MSGS 60u
#define LEN  61440u /* one burst */

/* All of them a's: those of one owner, and another one's only one. */
struct crowd {
	struct rig r;
	uint32_t many[MANY], one;
	uint64_t many_n, one_n; /* what they sent: bursts or bytes */
};

static uint32_t crowd_add(struct crowd *c, struct link_conf *conf, uint32_t owner, unsigned msgs)
{
	conf->owner = owner;
	rig_connect(&c->r, conf);
	for (unsigned i = 0; i < msgs; i++)
		SEND_WR(&c->r, &c->r.a, .id = i, .op = WR_WRITE, .len = LEN, .quiet = true);
	return c->r.a.qpn;
}

static void crowd_init(struct crowd *c, enum link_mode mode, uint8_t type)
{
	struct link_conf conf = conf_rc;

	*c = (struct crowd){ .one = 0 };
	conf.type = type;
	rig_init(&c->r, mode);
	for (unsigned i = 0; i < MANY; i++)
		c->many[i] = crowd_add(c, &conf, 1001, MSGS);
	c->one = crowd_add(c, &conf, 1002, MSGS);
}

static void note(struct crowd *c, const struct burst *b, uint64_t n)
{
	*(b->sqpn == c->one ? &c->one_n : &c->many_n) += n;
}

static void about_half(const struct crowd *c)
{
	ck_assert_msg(c->one_n * 9 >= c->many_n * 8 && c->many_n * 9 >= c->one_n * 8, "%u: %llu, one: %llu", MANY,
		      (unsigned long long)c->many_n, (unsigned long long)c->one_n);
}

/* Nothing but their number holds them up. */
START_TEST(bursts)
{
	struct crowd c;
	struct burst b;
	unsigned per_qp[2] = { 0 };

	crowd_init(&c, LINK_LOCAL, QPT_RC);
	for (unsigned i = 0; i < 80; i++) {
		ck_assert(take(&c.r, &c.r.a, &b));
		note(&c, &b, 1);
	}
	about_half(&c);
	/* The only one falls silent: all the turns are the others', and among them, too, each has its turn. */
	ck_assert_int_eq(hca_qp_destroy(c.r.a.h, c.one), 0);
	for (unsigned i = 0; i < 2 * MANY; i++) {
		ck_assert(take(&c.r, &c.r.a, &b));
		per_qp[0] += b.sqpn == c.many[3];
		per_qp[1] += b.sqpn == c.many[MANY - 1];
	}
	ck_assert_uint_eq(per_qp[0], 2);
	ck_assert_uint_eq(per_qp[1], 2);
	rig_fini(&c.r);
}
END_TEST

/* Queue pairs that were woken and have nothing to send do not use their owner's turns up. */
START_TEST(silent)
{
	struct link_conf conf = conf_rc;
	struct crowd c = { .one = 0 };
	struct burst b;
	uint32_t last;

	conf.type = QPT_RC;
	rig_init(&c.r, LINK_LOCAL);
	for (unsigned i = 0; i < MANY; i++)
		crowd_add(&c, &conf, 1001, 0);
	last = crowd_add(&c, &conf, 1001, 1);
	c.one = crowd_add(&c, &conf, 1002, MSGS);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert(take(&c.r, &c.r.a, &b));
		c.many_n += b.sqpn == last;
	}
	ck_assert_uint_eq(c.many_n, 1);
	rig_fini(&c.r);
}
END_TEST

/* To one peer, whose window is shut most of the time: each burst is given to its receiver, each answer to the senders. */
static void shared_way(uint8_t type)
{
	struct crowd c;
	struct burst b;

	crowd_init(&c, LINK_WIRE, type);
	while (c.one_n < (MSGS - 4) * LEN && c.many_n < 16 * MSGS * LEN) {
		bool any = false;

		while (take(&c.r, &c.r.b, &b)) {
			hca_rx_burst(c.r.a.h, &b, c.r.now);
			any = true;
		}
		if (take(&c.r, &c.r.a, &b)) {
			note(&c, &b, b.payload_len);
			hca_rx_burst(c.r.b.h, &b, c.r.now);
			any = true;
		}
		if (any)
			continue;
		c.r.now = mono_min(hca_deadline(c.r.a.h), hca_deadline(c.r.b.h));
		ck_assert(!mono_is_never(c.r.now));
		hca_tick(c.r.a.h, c.r.now);
		hca_tick(c.r.b.h, c.r.now);
	}
	about_half(&c);
	rig_fini(&c.r);
}

START_TEST(window) { shared_way(QPT_RC); }
END_TEST
START_TEST(pace) { shared_way(QPT_UC); }
END_TEST

/* ---- two queue pairs of one owner ---------------------------------------------- */

struct pair {
	uint32_t a, b;
};

static struct pair pair_new(struct rig *r, uint8_t type)
{
	struct link_conf c = conf_rc;

	c.type = type;
	rig_connect(r, &c);
	return (struct pair){ r->a.qpn, r->b.qpn };
}

static void pair_use(struct rig *r, const struct pair *p)
{
	r->a.qpn = p->a;
	r->b.qpn = p->b;
}

/* Bytes that a sends, none of them answered. */
static uint64_t sent_bytes(struct rig *r)
{
	struct burst b;
	uint64_t n = 0;

	while (take(r, &r->a, &b))
		n += b.payload_len;
	return n;
}

/* b acknowledges the first n packets. */
static void acked(struct rig *r, uint32_t n)
{
	struct burst b = pkt_from(r, &r->b, OP_ACKNOWLEDGE, (conf_rc.psn + n - 1) & PSN_MASK);

	pkt_give(r, &r->a, &b, NULL, 0);
}

/* A READ among WRITEs, whose ACKs make room for a few packets at a time: it does not wait until there is room for all of it. */
START_TEST(read_among_writes)
{
	struct pair w, read;
	bool asked = false;
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	w = pair_new(&r, QPT_RC);
	for (unsigned i = 0; i < MSGS; i++)
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = BUF_LEN);
	sent_bytes(&r);
	read = pair_new(&r, QPT_RC);
	SEND_WR(&r, &r.a, .id = 100, .op = WR_READ, .len = BUF_LEN);
	pair_use(&r, &w);
	for (unsigned i = 0; i <= 4; i++) {
		if (i)
			acked(&r, 32 * i);
		while (take(&r, &r.a, &b))
			asked |= b.sqpn == read.a;
	}
	ck_assert(asked);
	rig_fini(&r);
}
END_TEST

/* Those of UC that waited for the window are told that there is room, but what they wait for now is their pace: others go on. */
START_TEST(uc_holds_up_nobody)
{
	enum { PKTS = (1 << 20) / (512 + 256) }; /* in the window: no other one fits */
	struct pair uc[8], full, last;
	struct burst b;
	struct rig r;

	rig_init(&r, LINK_WIRE);
	for (unsigned i = 0; i < 8; i++)
		uc[i] = pair_new(&r, QPT_UC);
	for (unsigned i = 0; i < 2; i++) /* half of RIG_ROOM, and nothing is left of them */
		SEND_WR(&r, &r.a, .id = i, .op = WR_WRITE, .len = i ? 683 * 512 : BUF_LEN);
	ck_assert_uint_eq(sent_bytes(&r), BUF_LEN + 683 * 512);
	full = pair_new(&r, QPT_RC);
	SEND_WR(&r, &r.a, .id = 10, .op = WR_WRITE, .len = 512 * PKTS);
	ck_assert_uint_eq(sent_bytes(&r), 512 * PKTS);
	last = pair_new(&r, QPT_RC);
	for (unsigned i = 0; i <= 8; i++) {
		pair_use(&r, i < 8 ? &uc[i] : &last);
		SEND_WR(&r, &r.a, .id = 11 + i, .op = WR_WRITE, .len = 512);
		ck_assert(!take(&r, &r.a, &b));
	}
	pair_use(&r, &full);
	acked(&r, PKTS);
	ck_assert_uint_eq(wc_status(&r.a, 10), WC_SUCCESS);
	ck_assert(take(&r, &r.a, &b));
	ck_assert_uint_eq(b.sqpn, last.a);
	rig_fini(&r);
}
END_TEST

TEST_MAIN("core_turns", bursts, silent, window, pace, read_among_writes, uc_holds_up_nobody)
