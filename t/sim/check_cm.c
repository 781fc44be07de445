/* SPDX-License-Identifier: MIT */
/*
 * check_cm.c - connections over a network that loses, repeats and reorders: all end as they may, and nothing
 * is left.
 *
 * masks: every way to lose some of the first 12 MADs, enumerated.  swarm: many calls at once, all at random.
 */
#include "config.h"

#include "t/sim/cm_prog.h"
#include "t/suite.h"

#include <string.h>

#ifdef REPEATS_LESS
#define MASK_STEP 19u
#define SEEDS     150u
#else
#define MASK_STEP 1u
#define SEEDS     400u
#endif
#define MASKS      (1u << 12)
#define WIDE_MASKS (1u << 16)

static struct world w;

static void run_late(uint32_t mask, const struct plan *p, uint64_t late_ns)
{
	world_init(&w, mask + 1);
	w.mask = mask;
	w.late_ns = late_ns;
	w.plan[0] = *p;
	world_call(&w, 0, 0);
	world_end(&w);
}

static void run(uint32_t mask, const struct plan *p) { run_late(mask, p, 0); }

/* 16 times each message: more than can be lost here.  So it comes up, and comes down, on both sides, once. */
START_TEST(masks_connected)
{
	for (enum closer closer = CLOSE_ACTIVE; closer <= CLOSE_BOTH; closer++)
		for (uint32_t mask = 0; mask < MASKS; mask += MASK_STEP) {
			run(mask, &(struct plan){ .closer = closer, .retries = 15, .stay_ns = 100 * MS_NS });
			ck_assert_msg(w.calls == 2 && world_count(&w, true, CLOSED, true) == 1 &&
					      world_count(&w, false, CLOSED, true) == 1,
				      "closer %d, mask %#x", closer, mask);
		}
}
END_TEST

static void must_close(uint32_t mask, const struct plan *p)
{
	run(mask, p);
	ck_assert_msg(
		w.calls == 2 && world_count(&w, true, CLOSED, true) == 1 && world_count(&w, false, CLOSED, true) == 1,
		"mask %#x: retries %d, answer %d, data %d, closer %d", mask, p->retries, p->answer, p->data, p->closer);
}

/* Data flow from the moment that one end is up: before the RTU, in place of a lost one, while messages are repeated. */
START_TEST(masks_data) /* conf: rule 7.7 */
{
	for (uint32_t mask = 0; mask < WIDE_MASKS - 1; mask += 3 * MASK_STEP) /* all 16 of 15 + 1 are too many */
		must_close(mask, &(struct plan){ .closer = mask % 3, .retries = 15, .stay_ns = 5 * MS_NS, .data = 9 });
}
END_TEST

/*
 * No more losses than retries: every connection comes up, and ends in order - also if who asks leaves the other end little
 * time to wait for an answer.
 */
START_TEST(masks_live) /* conf: rule 7.6 */
{
	static const uint8_t answers[] = { 0, 8, 12 };

	for (uint32_t mask = 0; mask < WIDE_MASKS; mask++)
		for (unsigned i = 0; i < 6 && __builtin_popcount(mask) <= 3; i++)
			must_close(mask, &(struct plan){ .closer = mask % 3,
							 .retries = 3,
							 .stay_ns = 50 * MS_NS,
							 .answer = answers[i / 2],
							 .data = i % 2 * 9 });
}
END_TEST

/* Both close while messages are still lost, one of them with a bang. */
START_TEST(masks_killed)
{
	for (enum closer closer = CLOSE_ACTIVE; closer <= CLOSE_BOTH; closer++)
		for (uint32_t mask = 0; mask < MASKS; mask += MASK_STEP) {
			run(mask, &(struct plan){ .closer = closer, .kill = true, .retries = 15 });
			ck_assert_uint_eq(w.calls, 2);
			for (unsigned i = 0; i < 2; i++)
				ck_assert_msg(w.call[i].up && (w.call[i].phase == CLOSED || w.call[i].phase == KILLED),
					      "closer %d, mask %#x", closer, mask);
		}
}
END_TEST

START_TEST(masks_refused)
{
	for (uint32_t mask = 0; mask < MASKS; mask += MASK_STEP) {
		run(mask, &(struct plan){ .refuse = true, .retries = 15 });
		/* A REJ is not repeated, but the REQ is, and it is known for a second. */
		ck_assert_msg(world_count(&w, true, REFUSED, false) == 1 &&
				      world_count(&w, false, REFUSED, false) == w.calls - 1,
			      "mask %#x", mask);
		ck_assert_msg(w.calls == 2 || __builtin_popcount(mask) >= 6, "mask %#x: a call from nowhere", mask);
	}
}
END_TEST

/* Each message comes once more when the connection it was of is over: nobody is called a second time. */
START_TEST(masks_late)
{
	static const struct plan plans[] = { { .refuse = true },
					     { .kill = true },
					     { .closer = CLOSE_PASSIVE },
					     { .dies_ns = MS_NS, .think_ns = 5 * MS_NS },
					     { .dies_ns = MS_NS, .stay_ns = S_NS } };

	for (uint32_t mask = 0; mask < MASKS; mask += 5 * MASK_STEP)
		for (unsigned i = 0; i < 2 * sizeof(plans) / sizeof(*plans) && __builtin_popcount(mask) <= 3; i++) {
			struct plan p = plans[i / 2];

			p.retries = 15;
			run_late(mask, &p, i % 2 ? 40 * MS_NS : 600 * MS_NS);
			ck_assert_msg(w.calls <= 2, "mask %#x, plan %u: a call from nowhere", mask, i);
		}
}
END_TEST

/* The program thinks longer than a REQ, or a REP, is waited for: MRAs are lost, too. */
START_TEST(masks_slow)
{
	for (uint32_t mask = 0; mask < MASKS; mask += MASK_STEP) {
		run(mask, &(struct plan){ .think_ns = 20 * S_NS, .retries = 15 });
		ck_assert_msg(w.calls == 2 && world_count(&w, true, CLOSED, true) == 1 &&
				      world_count(&w, false, CLOSED, true) == 1,
			      "mask %#x", mask);
	}
}
END_TEST

/* So few repetitions that it fails as often as not. */
START_TEST(masks_impatient)
{
	unsigned timed_out = 0, closed = 0;

	for (uint32_t mask = 0; mask < MASKS; mask += MASK_STEP) {
		run(mask, &(struct plan){ .closer = mask % 3, .retries = 1, .stay_ns = MS_NS });
		timed_out += world_count(&w, true, TIMED_OUT, false);
		closed += world_count(&w, true, CLOSED, true);
	}
	ck_assert_uint_gt(timed_out, 100 / MASK_STEP);
	ck_assert_uint_gt(closed, 100 / MASK_STEP);
}
END_TEST

START_TEST(masks_sidr)
{
	for (uint32_t mask = 0; mask < MASKS; mask += MASK_STEP) {
		run(mask, &(struct plan){ .sidr = true, .refuse = mask & 1 });
		ck_assert_msg(world_count(&w, true, mask & 1 ? REFUSED : CLOSED, false) == 1, "mask %#x", mask);
		ck_assert_msg(w.calls == 2 || __builtin_popcount(mask) > 4, "mask %#x: asked twice", mask);
	}
}
END_TEST

/* The one who calls dies, after so long. */
START_TEST(masks_dies)
{
	for (uint32_t mask = 0; mask < MASKS; mask += MASK_STEP) {
		run(mask, &(struct plan){ .retries = 15,
					  .think_ns = mask % 2 * S_NS,
					  .stay_ns = 10 * S_NS,
					  .dies_ns = 1 + mask % 7 * S_NS });
		ck_assert_uint_eq(world_count(&w, true, KILLED, false) + world_count(&w, true, KILLED, true), 1);
	}
}
END_TEST

/* ---- swarm ------------------------------------------------------------------------------- */

static void plan_random(struct plan *p, struct rng *r)
{
	*p = (struct plan){
		.sidr = rng_one_in(r, 5),
		.refuse = rng_one_in(r, 6),
		.kill = rng_one_in(r, 6),
		.closer = (enum closer)rng_below(r, 3),
		.think_ns = rng_one_in(r, 3) ? rng_ns(r, 30 * S_NS) : 0,
		.stay_ns = rng_one_in(r, 2) ? rng_ns(r, 20 * S_NS) : 0,
		.dies_ns = rng_one_in(r, 6) ? 1 + rng_ns(r, 40 * S_NS) : 0,
		.retries = rng_one_in(r, 3) ? (uint8_t)rng_below(r, 4) : 15,
	};
}

static uint64_t swarm(uint64_t seed)
{
	static unsigned reached[CM_STATES][CM_SIDR_REP + 1];
	unsigned n;

	memcpy(reached, w.reached, sizeof(reached));
	world_init(&w, seed);
	memcpy(w.reached, reached, sizeof(reached));
	w.loss_ppm = (uint32_t)rng_below(&w.rng, 400000);
	w.dup_ppm = (uint32_t)rng_below(&w.rng, 300000);
	w.delay_ns = rng_one_in(&w.rng, 3) ? 0 : rng_ns(&w.rng, 10 * S_NS);
	n = (unsigned)rng_range(&w.rng, 1, 24);
	for (unsigned i = 0; i < n; i++) {
		plan_random(&w.plan[i], &w.rng);
		world_call(&w, (unsigned)rng_below(&w.rng, 2), i);
		net_until(&w.net, mono_add(w.net.now, rng_ns(&w.rng, 3 * S_NS)));
	}
	world_end(&w);
	return w.hash;
}

/* Every entry of the table of state and message, and some that are not in it. */
static const struct {
	enum cm_state state;
	uint16_t attr[9];
} must_reach[] = {
	{ CM_REQ_SENT, { CM_MRA, CM_REJ, CM_REP } },
	{ CM_MRA_REQ_RCVD, { CM_MRA, CM_REJ, CM_REP } },
	{ CM_REP_RCVD, { CM_REP, CM_REJ } },
	{ CM_MRA_REP_SENT, { CM_REP, CM_REJ } },
	{ CM_REQ_RCVD, { CM_REQ, CM_REJ } },
	{ CM_MRA_REQ_SENT, { CM_REQ, CM_REJ } },
	{ CM_REP_SENT, { CM_REQ, CM_MRA, CM_REJ, CM_RTU, CM_DREQ } },
	{ CM_MRA_REP_RCVD, { CM_REJ, CM_RTU, CM_DREQ } },
	{ CM_ESTABLISHED, { CM_REQ, CM_REP, CM_REJ, CM_RTU, CM_DREQ } },
	{ CM_DREQ_SENT, { CM_REP, CM_REJ, CM_DREQ, CM_DREP } },
	{ CM_TIMEWAIT, { CM_REQ, CM_DREQ, CM_DREP, CM_SIDR_REQ } },
	{ CM_SIDR_REQ_SENT, { CM_SIDR_REP } },
	{ CM_SIDR_REQ_RCVD, { CM_SIDR_REQ } },
	{ CM_NONE, { CM_REQ, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP, CM_SIDR_REQ, CM_SIDR_REP } },
};

START_TEST(swarm_ends)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		swarm(seed);
	for (unsigned i = 0; i < sizeof(must_reach) / sizeof(*must_reach); i++)
		for (unsigned k = 0; k < 9 && must_reach[i].attr[k]; k++)
			ck_assert_msg(w.reached[must_reach[i].state][must_reach[i].attr[k]], "%s in %s was never seen",
				      cm_attr_name(must_reach[i].attr[k]), cm_state_name(must_reach[i].state));
}
END_TEST

START_TEST(same_seed_same_run)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		uint64_t h = swarm(seed);

		ck_assert_uint_eq(h, swarm(seed));
		ck_assert_uint_ne(h, swarm(seed + 100));
	}
}
END_TEST

TEST_MAIN("cm", masks_connected, masks_data, masks_live, masks_killed, masks_refused, masks_late, masks_slow,
	  masks_impatient, masks_sidr, masks_dies, swarm_ends, same_seed_same_run)
