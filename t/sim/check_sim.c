/* SPDX-License-Identifier: MIT */
/*
 * check_sim.c - the simulator's runs as tests.
 *
 * SIM_SEEDS is how many swarm seeds are tried (from SIM_SEED on), SIM_MASKS every how many-th
 * loss mask.  The children share one table of what was reached; the last test reads it.
 */
#include "config.h"

#include "t/suite.h"

#include <stdlib.h>
#include <string.h>

#include "runs.h"
#include "sim.h"

#ifdef REPEATS_LESS
#define SEEDS  400
#define STRIDE 37 /* odd, so that every bit of a mask is tried */
#else
#define SEEDS  5000
#define STRIDE 1
#endif

static uint64_t env(const char *name, uint64_t otherwise)
{
	const char *v = getenv(name);

	return v && *v ? strtoull(v, NULL, 0) : otherwise;
}

START_TEST(masks)
{
	uint64_t stride = env("SIM_MASKS", STRIDE), base = (uint64_t)_i << (MASKS_BITS + 1);

	for (uint64_t i = 0; i < 2u << MASKS_BITS; i += stride)
		masks_run(base + i, false);
}
END_TEST

START_TEST(swarm)
{
	uint64_t seed = env("SIM_SEED", 1), n = env("SIM_SEEDS", SEEDS);

	for (uint64_t i = 0; i < n; i++)
		swarm_run(seed + i, false);
}
END_TEST

/* Seeds beyond those that are tried each time, which found something once. */
START_TEST(found)
{
	static const uint64_t seeds[] = {
		2096751, /* a WRITE of UC under way while the link becomes a local one, and two that pass it */
		20134745, /* old READs are asked for again, their key goes, and a new one is refused before they are answered */
	};

	for (unsigned i = 0; i < sizeof(seeds) / sizeof(*seeds); i++)
		swarm_run(seeds[i], false);
}
END_TEST

START_TEST(same_seed_same_trace)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		ck_assert_uint_eq(swarm_run(seed, false), swarm_run(seed, false));
		ck_assert_uint_ne(swarm_run(seed, false), swarm_run(seed + 1, false));
	}
}
END_TEST

/* The capture of a run with rules: *n bytes; the caller frees it. */
static char *captured(uint64_t seed, size_t *n)
{
	static char log[65536];
	char *bytes = NULL;

	capture_file = open_memstream(&bytes, n);
	ck_assert_ptr_nonnull(capture_file);
	impair_run(1, seed, log, sizeof log);
	fclose(capture_file);
	capture_file = NULL;
	return bytes;
}

START_TEST(same_seed_same_capture)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		size_t n[3];
		char *a = captured(seed, &n[0]), *b = captured(seed, &n[1]), *c = captured(seed + 1, &n[2]);

		ck_assert_uint_gt(n[0], 10000);
		ck_assert_uint_eq(n[0], n[1]);
		ck_assert_mem_eq(a, b, n[0]);
		ck_assert(n[2] != n[0] || memcmp(a, c, n[0]));
		ck_assert_ptr_nonnull(memmem(a, n[0], "(loss)", 6));
		free(a);
		free(b);
		free(c);
	}
}
END_TEST

/* Other chances for all but the rules: the same decisions.  The same for all: the same packets, too. */
START_TEST(same_seed_same_rules)
{
	static char log[4][65536];

	for (uint64_t seed = 1; seed <= 10; seed++) {
		uint64_t hash = impair_run(1, seed, log[0], sizeof log[0]);

		ck_assert_uint_eq(impair_run(1, seed, log[1], sizeof log[1]), hash);
		ck_assert_uint_ne(impair_run(2, seed, log[2], sizeof log[2]), hash);
		impair_run(1, seed + 1, log[3], sizeof log[3]);
		ck_assert_str_eq(log[0], log[1]);
		ck_assert_str_eq(log[0], log[2]);
		ck_assert_str_ne(log[0], log[3]);
		ck_assert_ptr_nonnull(strstr(log[0], "(loss)"));
		ck_assert_ptr_nonnull(strstr(log[0], "(twice)"));
		ck_assert_ptr_nonnull(strstr(log[0], "transmission 2: 3 us late by rule 3 (slow)"));
	}
}
END_TEST

START_TEST(cases) { cases_run((unsigned)_i, false); }
END_TEST

START_TEST(all_reached)
{
	ck_assert_msg(cover_report(stderr, false) == 0, "some rules, counters or state changes were never reached");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sim");
	TCase *t_cases = tcase_create("cases"), *t_masks = tcase_create("masks"), *t_swarm = tcase_create("swarm"),
	      *t_cover = tcase_create("coverage");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_heap();
	cover_share();
	sim_catch();
	tcase_add_loop_test(t_cases, cases, 0, (int)cases_n());
	tcase_add_loop_test(t_masks, masks, 0, (int)masks_scripts());
	tcase_add_test(t_swarm, found);
	tcase_add_test(t_swarm, same_seed_same_trace);
	tcase_add_test(t_swarm, same_seed_same_rules);
	tcase_add_test(t_swarm, same_seed_same_capture);
	tcase_add_test(t_swarm, swarm);
	tcase_add_test(t_cover, all_reached);
	suite_add_tcase(suite, t_cases);
	suite_add_tcase(suite, t_masks);
	suite_add_tcase(suite, t_swarm);
	suite_add_tcase(suite, t_cover);
	tcase_set_timeout(t_cases, 60);
	tcase_set_timeout(t_masks, 300);
	tcase_set_timeout(t_swarm, getenv("SIM_SEEDS") ? 0 : 900); /* as many as one likes need their time */
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
