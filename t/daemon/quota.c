/* SPDX-License-Identifier: MIT */
/* quota.c - what is kept for root of what there is, however many users take all that they may have; how much a user may do in a turn. */
#include "daemon/base/quota.h"

#include <errno.h>
#include <string.h>

#include "daemon/base/rights.h"
#include "t/suite.h"

enum { QPS = 65536, UID = 100000, USERS = 100, STEP = 64 };

static uint64_t conf[QUOTAS];

static void begin(uint64_t qps)
{
	for (unsigned q = 0; q < QUOTAS; q++)
		conf[q] = QUOTA_UNSET;
	conf[QUOTA_QPS] = qps;
	quota_begin(conf, 1);
}

/* All that the user gets, in steps. */
static uint64_t take(struct bill *b, uid_t uid)
{
	const struct cost none = { { 0 } };
	uint64_t n = 0;

	ck_assert_int_eq(bill_open(b, uid, &none), 0);
	while (!bill_set(b, QUOTA_QPS, n + STEP))
		n += STEP;
	return n;
}

static void crowd(uint64_t conf_qps, uint64_t each)
{
	static struct bill bill[USERS];
	const uint64_t room = QPS - QPS / 8;
	struct quota_use all;
	struct bill root;
	uint64_t sum = 0;
	char text[128];

	begin(conf_qps);
	for (unsigned i = 0; i < USERS; i++) {
		uint64_t n = take(&bill[i], UID + i);

		ck_assert_uint_eq(n, each < room - sum ? each : room - sum);
		sum += n;
	}
	ck_assert_uint_eq(sum, room);
	ck_assert_int_eq(bill_set(&bill[USERS - 1], QUOTA_QPS, STEP), ENOMEM);
	ck_assert(quota_refused(text, sizeof(text)));
	ck_assert_ptr_nonnull(strstr(text, "the rest is kept for root"));
	ck_assert_int_eq(bill_open(&root, 0, &(struct cost){ { [QUOTA_QPS] = QPS / 8 } }), 0);
	bill_close(&root);
	for (unsigned i = 0; i < USERS; i++)
		bill_close(&bill[i]);
	quota_all(&all);
	ck_assert_uint_eq(all.used.n[QUOTA_QPS], 0);
}

START_TEST(as_it_is) { crowd(QUOTA_UNSET, 16384); }
END_TEST
START_TEST(little) { crowd(1024, 1024); }
END_TEST
/* No limit: of a user, but not of all together. */
START_TEST(no_limit) { crowd(0, QPS - QPS / 8); }
END_TEST

/* However many HCAs there are: all that users have may be in one, and there root finds room. */
START_TEST(one_hca)
{
	const struct {
		enum quota q;
		uint64_t most;
	} of[] = { { QUOTA_PDS, 65535 }, { QUOTA_XRCDS, 65535 }, { QUOTA_MWS, 524287 } };
	struct bill b[2];
	uint64_t room;

	for (unsigned q = 0; q < QUOTAS; q++)
		conf[q] = 0;
	quota_begin(conf, 4);
	for (unsigned i = 0; i < sizeof(of) / sizeof(*of); i++) {
		struct cost cost = { { 0 } };

		room = of[i].most - of[i].most / 8;
		cost.n[of[i].q] = room;
		ck_assert_int_eq(bill_open(&b[0], UID, &cost), 0);
		cost.n[of[i].q] = 1;
		ck_assert_int_eq(bill_open(&b[1], UID + 1, &cost), ENOMEM);
		ck_assert_int_eq(bill_open(&b[1], 0, &cost), 0);
		bill_close(&b[0]);
		bill_close(&b[1]);
	}
}
END_TEST

/* All bills of a user have a turn's share together, and each user has one of his own. */
START_TEST(turns)
{
	const struct cost none = { { 0 } };
	struct bill of_one[3], other, nobody = { 0 };

	begin(QUOTA_UNSET);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(bill_open(&of_one[i], UID, &none), 0);
	ck_assert_int_eq(bill_open(&other, UID + 1, &none), 0);
	for (unsigned turn = 1; turn < 4; turn++) {
		for (unsigned i = 0; i < 64; i++)
			ck_assert(bill_turn(&of_one[i % 3], turn, 64));
		for (unsigned i = 0; i < 64; i++) {
			ck_assert_msg(!bill_turn(&of_one[i % 3], turn, 64), "%u more than his share", i + 1);
			ck_assert(bill_turn(&other, turn, 64));
			ck_assert(bill_turn(&nobody, turn, 0)); /* who was charged with nothing has no share, either */
		}
		ck_assert(!bill_turn(&other, turn, 64));
	}
	ck_assert(bill_turn(&of_one[0], 4, 64));
	bill_took(&of_one[0], 1000000);
	ck_assert(bill_turn(&of_one[1], 4, 64));
	bill_took(&of_one[1], 1000000);
	ck_assert(!bill_turn(&of_one[2], 4, 64));
	ck_assert(bill_turn(&other, 4, 64));
	ck_assert(bill_turn(&of_one[2], 5, 64));
	bill_close(&other);
	for (unsigned i = 0; i < 3; i++)
		bill_close(&of_one[i]);
}
END_TEST

TEST_MAIN("quota", as_it_is, little, no_limit, one_hca, turns)
