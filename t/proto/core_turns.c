/* SPDX-License-Identifier: MIT */
/* core_turns.c - who sends next: owners take turns, however many QPs each of them has. */
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

TEST_MAIN("core_turns", bursts, silent, window, pace)
