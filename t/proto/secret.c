/* SPDX-License-Identifier: MIT */
#include "t/suite.h"

#include "proto/places.h"
#include "proto/secret.h"

/* The test vector of the paper's authors for 8 bytes: key 00 01 ... 0f, message 00 01 ... 07. */
START_TEST(known)
{
	static const uint64_t key[2] = { 0x0706050403020100u, 0x0f0e0d0c0b0a0908u };

	ck_assert_uint_eq(secret_hash(key, 0x0706050403020100u), 0x93f5f5799a932462u);
}
END_TEST

START_TEST(unlike) /* conf: rule 7.3 */
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

/* Numbers of objects: found again, not near each other, and not what they were once the object is gone. */
START_TEST(numbers)
{
	enum { MANY = 5000 };
	static uint32_t number[MANY];
	static char obj[MANY];
	struct secret s = { { 7, 8 }, 0 };
	struct places p;
	unsigned near = 0;

	ck_assert_int_eq(places_init(&p, MANY), 0);
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_int_eq(places_add(&p, &s, &obj[i], &number[i]), 0);
		ck_assert_uint_lt(number[i], 1u << PLACES_BITS);
		near += i && number[i] - number[i - 1] + 256 < 512;
	}
	ck_assert_int_ne(places_add(&p, &s, &obj[0], &number[0]), 0); /* max */
	ck_assert_uint_lt(near, 10);                                  /* 0.3 are to be expected */
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_ptr_eq(places_get(&p, number[i]), &obj[i]);
	for (unsigned i = 0; i < MANY; i += 2)
		places_del(&p, number[i]);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_ptr_eq(places_get(&p, number[i]), i % 2 ? &obj[i] : NULL);
	ck_assert_ptr_null(places_get(&p, 0));
	places_fini(&p);
}
END_TEST

TEST_MAIN("secret", known, unlike, numbers)
