/* SPDX-License-Identifier: MIT */
/* rs_hello.c - the greeting of rsockets, as rdma-core's says it (frame 1 of t/data/rsocket.pcap). */
#include "lib/rdmacm/rs_wire.h"

#include "../suite.h"

#include <stdlib.h>

static const uint8_t golden[56] = {
	0x01, 0x02, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x55, 0x6a, 0x2c, 0x5a,
	0xf0, 0x00, 0x00, 0x00, 0x20, 0x5b, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x7f, 0x8d,
	0xdd, 0x7f, 0x70, 0x00, 0x00, 0x00, 0x21, 0x4d, 0x00, 0x08, 0x00, 0x00,
};

START_TEST(hello)
{
	struct rs_peer p;

	ck_assert(rs_hello_parse(&p, golden, sizeof(golden)));
	ck_assert_uint_eq(p.credits, 384);
	ck_assert_uint_eq(p.iomap_n, 0);
	ck_assert_uint_eq(p.sgl.addr, 0x556a2c5af000);
	ck_assert_uint_eq(p.sgl.key, 0x205b);
	ck_assert_uint_eq(p.sgl.len, 2);
	ck_assert_uint_eq(p.buf.addr, 0x7f8ddd7f7000);
	ck_assert_uint_eq(p.buf.key, 0x214d);
	ck_assert_uint_eq(p.buf.len, 512 << 10);
}
END_TEST

START_TEST(hello_bad)
{
	uint8_t other[sizeof(golden)];
	struct rs_peer p;

	ck_assert(!rs_hello_parse(&p, NULL, 0));
	ck_assert(!rs_hello_parse(&p, golden, 39));
	for (size_t i = 0; i < sizeof(golden); i++)
		other[i] = golden[i];
	other[0] = 2;
	ck_assert(!rs_hello_parse(&p, other, sizeof(other)));
	other[0] = 1;
	other[23] = 3; /* entries */
	ck_assert(!rs_hello_parse(&p, other, sizeof(other)));
}
END_TEST

START_TEST(messages)
{
	ck_assert_uint_eq(rs_msg(RS_OP_SGL, 384), 0x80000180); /* frames 4, 12, 182 */
	ck_assert_uint_eq(rs_msg(RS_OP_DATA, 1024), 0x00000400);
	ck_assert_uint_eq(rs_msg(RS_OP_CTL, RS_CTL_DISCONNECT), 0xe0000000);
	ck_assert_int_eq(rs_msg_op(0x80000180), RS_OP_SGL);
	ck_assert_uint_eq(rs_msg_value(0x80000180), 384);
	for (uint32_t n = 0; n <= 128; n++)
		ck_assert_uint_eq(rs_unscale(rs_scale(n)), n);
	ck_assert_uint_eq(rs_unscale(rs_scale(1024)), 1024);
	ck_assert_uint_eq(rs_unscale(rs_scale(1u << 30)), 127 * 256);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { hello, hello_bad, messages };
	Suite *s = suite_create("rs_hello");
	TCase *tc = tcase_create("rs_hello");
	SRunner *r;
	int failed;

	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
