/* SPDX-License-Identifier: MIT */
/*
 * check_agenda.c - the agenda of rdmad-sim against a plain array: moments near and far, many in one ns, moved on and back, and a
 * time that passes without any.  What comes next is always the least by time, and of those the one that was set first.
 */
#include "sim/agenda.h"
#include "sim/rng.h"
#include "t/suite.h"

#define MOMENTS 300u
#define STEPS   50000u

struct model {
	struct moment m[MOMENTS];
	uint64_t ns[MOMENTS], order[MOMENTS]; /* order 0: it is not set */
	uint64_t orders;
};

/* The same ns as others, about as far as a packet takes, at the edge of what is near, or a timeout. */
static uint64_t ahead(struct rng *rng)
{
	switch (rng_below(rng, 5)) {
	case 0: return 0;
	case 1: return 340;
	case 2: return rng_below(rng, 3000);
	case 3: return AGENDA_NEAR - 2 + rng_below(rng, 4);
	default: return rng_below(rng, 10 * AGENDA_NEAR);
	}
}

static int least(const struct model *o)
{
	int best = -1;

	for (int i = 0; i < (int)MOMENTS; i++)
		if (o->order[i] &&
		    (best < 0 || o->ns[i] < o->ns[best] || (o->ns[i] == o->ns[best] && o->order[i] < o->order[best])))
			best = i;
	return best;
}

static void set(struct agenda *a, struct model *o, struct rng *rng)
{
	uint32_t i = rng_below(rng, MOMENTS);
	uint64_t ns = a->now_ns + ahead(rng);

	agenda_set(a, &o->m[i], ns);
	o->ns[i] = ns;
	o->order[i] = ++o->orders;
	ck_assert(moment_is_set(&o->m[i]) && moment_ns(&o->m[i]) == ns);
}

static void take(struct agenda *a, struct model *o, uint64_t until)
{
	struct moment *m = agenda_next(a, until);
	int i = least(o);

	if (i >= 0 && o->ns[i] > until)
		i = -1;
	ck_assert_ptr_eq(m, i < 0 ? NULL : &o->m[i]);
	if (!m) {
		a->now_ns = until;
		return;
	}
	ck_assert_uint_eq(a->now_ns, o->ns[i]);
	ck_assert(!moment_is_set(m));
	o->order[i] = 0;
}

START_TEST(in_order)
{
	static struct agenda a;
	static struct model o;
	struct rng rng = { .s = (uint64_t)_i * 77 + 1 };
	uint32_t more;

	agenda_init(&a);
	o = (struct model){ 0 };
	for (unsigned i = 0; i < STEPS; i++) {
		more = i / 1000 % 2 ? 3 : 5; /* of 8: it fills and empties by turns */
		if (rng_below(&rng, 8) < more)
			set(&a, &o, &rng);
		else
			take(&a, &o, a.now_ns + ahead(&rng) * 4);
	}
	while (least(&o) >= 0)
		take(&a, &o, UINT64_MAX);
	ck_assert_ptr_null(agenda_next(&a, UINT64_MAX));
	agenda_fini(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("agenda");
	TCase *t = tcase_create("agenda");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, in_order, 0, 4);
	suite_add_tcase(s, t);
	return suite_run(s);
}
