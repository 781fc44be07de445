/* SPDX-License-Identifier: MIT */
/* spool.c - what goes in comes out, in order and whole; what has no room is counted; nonsense of the other side does no harm. */
#include "lab/spool.h"
#include "t/suite.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static uint8_t *mem;
static struct spool w, r;

static void make(unsigned strands, size_t len)
{
	size_t n = spool_bytes(strands, len);

	mem = aligned_alloc(4096, (n + 4095) & ~4095ul);
	ck_assert_ptr_nonnull(mem);
	memset(mem, 0, n);
	spool_make(mem, strands, len);
	ck_assert_uint_eq(spool_strands(mem, n), strands);
	ck_assert_uint_eq(spool_strands(mem, n - 1), 0);
	spool_writer(&w, mem, strands - 1);
	spool_reader(&r, mem, strands - 1);
}

static struct spool_pkt pkt(uint64_t i, const uint8_t *data)
{
	struct spool_pkt p = { .ns = i,
			       .caplen = (uint32_t)(i * 7919 % 4200),
			       .text_n = i % 5 ? 0 : 26,
			       .device = (uint8_t)(i % 3),
			       .sport = 4791,
			       .data = data,
			       .text = "abcdefghijklmnopqrstuvwxyz" };

	p.len = p.caplen;
	return p;
}

START_TEST(order_and_room)
{
	static uint8_t data[4200];
	uint64_t in = 0, out = 0, lost = 0, told = 0;
	struct spool_pkt p;

	make(3, SPOOL_LEAST);
	for (unsigned round = 0; round < 200; round++) {
		for (unsigned k = 0; k < 1 + round % 40; k++, in++) {
			p = pkt(in, data);
			memset(data, (int)in, sizeof(data));
			lost += !spool_put(&w, &p);
		}
		while (spool_next(&r, &p)) {
			struct spool_pkt want;

			told += p.drops;
			ck_assert_uint_ge(p.ns, out);
			out = p.ns + 1;
			want = pkt(p.ns, data);
			ck_assert_uint_eq(p.caplen, want.caplen);
			ck_assert_uint_eq(p.text_n, want.text_n);
			ck_assert_uint_eq(p.device, want.device);
			memset(data, (int)p.ns, sizeof(data));
			ck_assert(!memcmp(p.data, data, p.caplen));
			ck_assert_mem_eq(p.text, want.text, want.text_n);
			spool_done(&r);
		}
	}
	ck_assert_uint_gt(lost, 0);
	ck_assert_uint_lt(lost, in / 2);
	for (unsigned d = 0; d < 3; d++) {
		struct spool_count n = spool_count(&r, d);

		ck_assert_uint_eq(n.lost - w.drops[d] <= told, 1);
		in -= n.seen;
		lost -= n.lost;
	}
	ck_assert_uint_eq(in, 0);
	ck_assert_uint_eq(lost, 0);
	free(mem);
}
END_TEST

/* Full, then emptied: the next packet of the device tells of the drops, once. */
START_TEST(drops_are_told)
{
	static uint8_t data[4200];
	struct spool_pkt p;
	unsigned n = 0, lost = 0;

	make(1, SPOOL_LEAST);
	for (unsigned i = 0; i < 100; i++) {
		p = pkt(3, data);
		p.caplen = p.len = 4000;
		lost += !spool_put(&w, &p);
	}
	ck_assert_uint_gt(lost, 80);
	for (; spool_next(&r, &p); n++)
		spool_done(&r);
	ck_assert_uint_eq(n + lost, 100);
	p = pkt(1, data); /* another device */
	ck_assert(spool_put(&w, &p));
	p = pkt(3, data);
	ck_assert(spool_put(&w, &p));
	ck_assert(spool_put(&w, &p));
	ck_assert(spool_next(&r, &p) && p.drops == 0);
	spool_done(&r);
	ck_assert(spool_next(&r, &p) && p.drops == lost);
	spool_done(&r);
	ck_assert(spool_next(&r, &p) && p.drops == 0);
	ck_assert_uint_eq(spool_count(&r, 0).lost, lost);
	ck_assert_uint_eq(spool_count(&r, 0).seen, 102);
	free(mem);
}
END_TEST

START_TEST(sleep_and_wake)
{
	struct spool_pkt p = pkt(0, mem);

	make(1, SPOOL_LEAST);
	p.caplen = p.len = 0;
	ck_assert(!spool_wake(&w));
	spool_sleep(mem);
	ck_assert(!spool_next(&r, &p));
	ck_assert(spool_wake(&w));
	ck_assert(!spool_wake(&w));
	spool_sleep(mem);
	spool_awake(mem);
	ck_assert(!spool_wake(&w));
	free(mem);
}
END_TEST

/* All of the shared memory but the head becomes anything at all. */
START_TEST(nonsense)
{
	static uint8_t data[4200];
	size_t n = spool_bytes(1, SPOOL_LEAST);
	struct spool_pkt p;
	uint32_t seed = 1;

	for (unsigned round = 0; round < 300; round++) {
		make(1, SPOOL_LEAST);
		for (unsigned i = 0; i < 30; i++) {
			p = pkt(i, data);
			spool_put(&w, &p);
		}
		for (unsigned i = 0; i < 64; i++) {
			seed = seed * 1664525 + 1013904223;
			mem[64 + (seed >> 8) % (round % 2 ? 1024 : n - 64)] = (uint8_t)(seed >> 24);
		}
		for (unsigned i = 0; i < 30; i++) {
			p = pkt(i, data);
			spool_put(&w, &p);
		}
		for (unsigned i = 0; i < 100 && spool_next(&r, &p); i++) {
			ck_assert(p.data >= mem && p.data + p.caplen + p.text_n <= mem + n);
			spool_done(&r);
		}
		free(mem);
	}
}
END_TEST

#define MANY 50000u

static void *write_all(void *)
{
	static uint8_t data[4200];

	for (uint64_t i = 0; i < MANY; i++) {
		struct spool_pkt p = pkt(i, data);

		p.caplen = p.len = (uint32_t)(i % 200);
		memset(data, (int)i, p.caplen);
		while (!spool_put(&w, &p))
			sched_yield();
	}
	return NULL;
}

START_TEST(two_threads)
{
	struct spool_pkt p;
	pthread_t t;

	make(2, SPOOL_LEAST);
	ck_assert_int_eq(pthread_create(&t, NULL, write_all, NULL), 0);
	for (uint64_t i = 0; i < MANY;) {
		if (!spool_next(&r, &p)) {
			sched_yield();
			continue;
		}
		ck_assert_uint_eq(p.ns, i);
		ck_assert_uint_eq(p.caplen, i % 200);
		if (p.caplen)
			ck_assert(p.data[0] == (uint8_t)i && p.data[p.caplen - 1] == (uint8_t)i);
		spool_done(&r);
		i++;
	}
	pthread_join(t, NULL);
	free(mem);
}
END_TEST

TEST_MAIN("spool", order_and_room, drops_are_told, sleep_and_wake, nonsense, two_threads)
