/* SPDX-License-Identifier: MIT */
/* rs_ds_hdr.c - the headers of datagram rsockets, byte by byte. */
#include "lib/rdmacm/rs_ds_wire.h"

#include <arpa/inet.h>
#include "../suite.h"

#include <stdlib.h>
#include <string.h>

static union ds_addr v4(void)
{
	union ds_addr a;

	memset(&a, 0, sizeof(a));
	a.in.sin_family = AF_INET;
	a.in.sin_port = htons(7174);
	inet_pton(AF_INET, "10.77.0.1", &a.in.sin_addr);
	return a;
}

static union ds_addr v6(void)
{
	union ds_addr a;

	memset(&a, 0, sizeof(a));
	a.in6.sin6_family = AF_INET6;
	a.in6.sin6_port = htons(7174);
	inet_pton(AF_INET6, "fd77::1", &a.in6.sin6_addr);
	return a;
}

static const uint8_t hdr4[] = { 4, 8, 0x1c, 0x06, 10, 77, 0, 1 };
static const uint8_t hdr6[] = { 6, 24, 0x1c, 0x06, 0, 0, 0, 0, 0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 };
static const uint8_t udp4[] = { 0x55, 0x55, 0x55, 0x55, 4, 7, 16, 0, 0, 0x12, 0x34, 0x56, 10, 77, 0, 1 };
static const uint8_t udp6[] = { 0x55, 0x55, 0x55, 0x55, 6, 0, 28, 0, 0, 0x12, 0x34, 0x56, 0xfd, 0x77,
				0,    0,    0,    0,    0, 0, 0,  0, 0, 0,    0,    0,    0,    1 };

START_TEST(data)
{
	union ds_addr a = v4(), b;
	uint8_t h[DS_HDR_MAX];

	ck_assert_uint_eq(ds_hdr_make(h, &a), sizeof(hdr4));
	ck_assert_mem_eq(h, hdr4, sizeof(hdr4));
	ck_assert_uint_eq(ds_hdr_parse(h, sizeof(hdr4), &b), sizeof(hdr4));
	ck_assert(ds_addr_same(&a, &b));
	ck_assert_uint_eq(ds_hdr_parse(h, sizeof(hdr4) - 1, &b), 0);
	a = v6();
	ck_assert_uint_eq(ds_hdr_make(h, &a), sizeof(hdr6));
	ck_assert_mem_eq(h, hdr6, sizeof(hdr6));
	ck_assert_uint_eq(ds_hdr_parse(h, sizeof(hdr6), &b), sizeof(hdr6));
	ck_assert(ds_addr_same(&a, &b));
	ck_assert_uint_eq(ds_hdr_parse(h, sizeof(hdr6) - 1, &b), 0);
	h[1] = 8;
	ck_assert_uint_eq(ds_hdr_parse(h, sizeof(hdr6), &b), 0);
	h[0] = 5;
	ck_assert_uint_eq(ds_hdr_parse(h, sizeof(hdr6), &b), 0);
}
END_TEST

START_TEST(udp)
{
	union ds_addr a = v4();
	uint8_t h[DS_UDP_HDR_MAX];
	enum ds_udp_op op;
	uint32_t qpn;

	ck_assert_uint_eq(ds_udp_hdr_make(h, &a, DS_UDP_CTL, 0x123456), sizeof(udp4));
	ck_assert_mem_eq(h, udp4, sizeof(udp4));
	ck_assert_uint_eq(ds_udp_hdr_parse(h, 100, AF_INET, &op, &qpn), sizeof(udp4));
	ck_assert_int_eq(op, DS_UDP_CTL);
	ck_assert_uint_eq(qpn, 0x123456);
	ck_assert_uint_eq(ds_udp_hdr_parse(h, 100, AF_INET6, &op, &qpn), 0);
	ck_assert_uint_eq(ds_udp_hdr_parse(h, sizeof(udp4) - 1, AF_INET, &op, &qpn), 0);
	h[5] = 3;
	ck_assert_uint_eq(ds_udp_hdr_parse(h, 100, AF_INET, &op, &qpn), 0);
	a = v6();
	ck_assert_uint_eq(ds_udp_hdr_make(h, &a, DS_UDP_DATA, 0x123456), sizeof(udp6));
	ck_assert_mem_eq(h, udp6, sizeof(udp6));
	ck_assert_uint_eq(ds_udp_hdr_parse(h, sizeof(udp6), AF_INET6, &op, &qpn), sizeof(udp6));
	ck_assert_int_eq(op, DS_UDP_DATA);
	h[0] = 0;
	ck_assert_uint_eq(ds_udp_hdr_parse(h, sizeof(udp6), AF_INET6, &op, &qpn), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rs_ds_hdr");
	TCase *tc = tcase_create("rs_ds_hdr");
	SRunner *r;
	int failed;

	tcase_add_test(tc, data);
	tcase_add_test(tc, udp);
	suite_add_tcase(s, tc);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
