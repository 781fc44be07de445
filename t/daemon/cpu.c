/* SPDX-License-Identifier: MIT */
/* cpu.c - on which core a shard runs: when it should try another one, and that it may run where it might before. */
#include <sched.h>

#include <rdmad/cores.h>

#include "daemon/shard/cpu.h"
#include "t/suite.h"

#define MS 1000000u

START_TEST(what_is_bad)
{
	ck_assert(cpu_is_bad(4 * MS, 2 * MS, 2 * MS)); /* two that never sleep on one core */
	ck_assert(!cpu_is_bad(4 * MS, 4 * MS, 0));
	ck_assert(!cpu_is_bad(4 * MS, 3 * MS, MS));
	ck_assert_msg(!cpu_is_bad(4 * MS, MS / 2, 2 * MS), "a shard that has little to do need not move");
}
END_TEST

START_TEST(leave)
{
	cpu_set_t may, now;
	int core = sched_getcpu();

	ck_assert_int_eq(sched_getaffinity(0, sizeof(may), &may), 0);
	if (CPU_COUNT(&may) < 2) {
		ck_assert_int_eq(cores_leave(&may, core), -1);
		return;
	}
	ck_assert_int_eq(cores_leave(&may, core), 0);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(now), &now), 0);
	ck_assert_int_eq(CPU_COUNT(&now), 1);
	ck_assert(!CPU_ISSET((unsigned)core, &now) && CPU_ISSET((unsigned)sched_getcpu(), &may));
	CPU_ZERO(&now);
	CPU_SET((unsigned)core, &now);
	ck_assert_int_eq(cores_leave(&now, core), -1);
	ck_assert_int_eq(cores_go(&now, sched_getcpu()), -1);
	ck_assert_int_eq(cores_go(&now, core), 0);
	ck_assert_int_eq(sched_getcpu(), core);
	ck_assert_int_eq(cores_leave(&may, -1), -1);
}
END_TEST

/* All that one core can do to a thread: it is held elsewhere for a while at most, and is free again. */
START_TEST(free_again)
{
	cpu_set_t may, now;
	struct cpu p;
	mono_t t = { 1 };

	ck_assert_int_eq(sched_getaffinity(0, sizeof(may), &may), 0);
	cpu_init(&p);
	for (unsigned i = 0; i < 1000; i++) {
		t = mono_add(t, CPU_LOOK_NS + 257);
		p.ran = p.waited = 0; /* since then, it seems, very much */
		cpu_busy(&p, t);
	}
	for (unsigned i = 0; i < 1000; i++) {
		t = mono_add(t, 2000000000u);
		cpu_busy(&p, t);
	}
	cpu_end(&p);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(now), &now), 0);
	ck_assert(CPU_EQUAL(&may, &now));
}
END_TEST

TEST_MAIN("cpu", what_is_bad, leave, free_again)
