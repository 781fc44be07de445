/* SPDX-License-Identifier: MIT */
#include "t/suite.h"

#include "proto/secret.h"

/* The test vector of the paper's authors for 8 bytes: key 00 01 ... 0f, message 00 01 ... 07. */
START_TEST(known)
{
	static const uint64_t key[2] = { 0x0706050403020100u, 0x0f0e0d0c0b0a0908u };

	ck_assert_uint_eq(secret_hash(key, 0x0706050403020100u), 0x93f5f5799a932462u);
}
END_TEST

START_TEST(unlike)
{
	struct secret a = { { 1, 2 }, 0 }, b = { { 1, 3 }, 0 };
	uint64_t last = secret_next(&a);

	for (unsigned i = 0; i < 1000; i++) {
		uint64_t next = secret_next(&a);

		ck_assert_uint_ne(next, last);
		ck_assert_uint_ne(next, secret_next(&b));
		last = next;
	}
}
END_TEST

TEST_MAIN("secret", known, unlike)
