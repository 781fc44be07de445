/* SPDX-License-Identifier: MIT */
/* aeth.c - every syndrome and every code, against the tables of the specification as they are printed. */
#include "proto/aeth.h"
#include "t/suite.h"

#include <math.h>
#include <stdlib.h>

START_TEST(syndromes) /* conf: rule 4.4 */
{
	unsigned count[4] = { 0 };

	for (unsigned s = 0; s < 256; s++) {
		enum aeth_type t = aeth_type((uint8_t)s);

		ck_assert_int_eq(t, s < 0x20                 ? AETH_ACK
				    : s < 0x40               ? AETH_RNR_NAK
				    : s >= 0x60 && s <= 0x65 ? AETH_NAK
							     : AETH_RESERVED);
		ck_assert_uint_eq(aeth_code((uint8_t)s), s % 32);
		count[t]++;
	}
	ck_assert_uint_eq(count[AETH_ACK], 32);
	ck_assert_uint_eq(count[AETH_RNR_NAK], 32);
	ck_assert_uint_eq(count[AETH_NAK], 6);

	ck_assert_uint_eq(aeth_ack(), 0x1f);
	ck_assert_uint_eq(aeth_rnr(0), 0x20);
	ck_assert_uint_eq(aeth_rnr(31), 0x3f);
	ck_assert_uint_eq(aeth_rnr(255), 0x3f);
	ck_assert_uint_eq(aeth_nak(NAK_PSN_SEQ), 0x60);
	ck_assert_uint_eq(aeth_nak(NAK_INV_REQ), 0x61);
	ck_assert_uint_eq(aeth_nak(NAK_REM_ACCESS), 0x62);
	ck_assert_uint_eq(aeth_nak(NAK_REM_OP), 0x63);
	ck_assert_uint_eq(aeth_nak(NAK_INV_RD_REQ), 0x64);

	ck_assert_str_eq(aeth_name(0x1f), "ACK");
	ck_assert_str_eq(aeth_name(0x2c), "RNR NAK");
	ck_assert_str_eq(aeth_name(0x62), "NAK remote access error");
	ck_assert_str_eq(aeth_name(0x65), "NAK operation in progress");
	ck_assert_str_eq(aeth_name(0x66), "reserved");
	ck_assert_str_eq(aeth_name(0xff), "reserved");
}
END_TEST

START_TEST(credits) /* conf: rule 4.4 */
{
	const char *p = "0 1 2 3 4 6 8 12 16 24 32 48 64 96 128 192 256 384 512 768 1024 1536 2048 3072 4096 "
			"6144 8192 12288 16384 24576 32768";
	char *end;

	for (unsigned i = 0; i < 31; i++, p = end)
		ck_assert_uint_eq(aeth_credits((uint8_t)i), strtoul(p, &end, 10));
	ck_assert_int_eq(*p, 0);
	ck_assert_uint_eq(aeth_credits(31), CREDITS_UNLIMITED);
	ck_assert_uint_eq(aeth_credits(0x20 | 4), 4);
}
END_TEST

START_TEST(rnr_timers) /* conf: rule 4.4 */
{
	const char *p = "655.36 0.01 0.02 0.03 0.04 0.06 0.08 0.12 0.16 0.24 0.32 0.48 0.64 0.96 1.28 1.92 2.56 3.84 "
			"5.12 7.68 10.24 15.36 20.48 30.72 40.96 61.44 81.92 122.88 163.84 245.76 327.68 491.52";
	char *end;

	for (unsigned i = 0; i < 32; i++, p = end)
		ck_assert_int_eq((long)rnr_timer_ns((uint8_t)i), lround(strtod(p, &end) * 1e6));
	ck_assert_int_eq(*p, 0);
	ck_assert_uint_eq(rnr_timer_ns(33), rnr_timer_ns(1));
}
END_TEST

START_TEST(ack_timeouts) /* conf: C9-140, rule 4.5 */
{
	double us = 4.096;

	ck_assert_uint_eq(ack_timeout_ns(0), 0);
	for (unsigned i = 1; i < 32; i++)
		ck_assert_int_eq((long)ack_timeout_ns((uint8_t)i), lround((us *= 2) * 1e3));
	ck_assert_uint_eq(ack_timeout_ns(14) / 1000000, 67);
	ck_assert_uint_eq(ack_timeout_ns(19) / 10000000, 214);
}
END_TEST

TEST_MAIN("aeth", syndromes, credits, rnr_timers, ack_timeouts)
