/* SPDX-License-Identifier: MIT */
/* answer.c - when a completion is kept back until the peer's answer is there: the rules of daemon/shard/answer.h, one by one. */
#include "daemon/shard/answer.h"
#include "t/suite.h"

#define US    1000u
#define LONG  (600 * US) /* an answer that took that long was waited for by somebody else */
#define QUICK (5 * US)

struct game {
	struct answer a;
	uint32_t heard;
	mono_t now;
};

/* A completion, after so many ns a message of the peer and the next send: was the completion kept? */
static bool message(struct game *g, uint64_t ns)
{
	bool kept = answer_awaited(&g->a, g->heard, g->now);

	g->now = mono_add(g->now, ns);
	g->heard++;
	answer_posted(&g->a, g->heard, g->now);
	return kept;
}

static bool messages(struct game *g, unsigned n, uint64_t ns)
{
	bool kept = false;

	while (n--)
		kept |= message(g, ns);
	return kept;
}

START_TEST(quick_answers)
{
	struct game g = { .now = { 1 } };

	ck_assert_msg(!messages(&g, 100000, QUICK), "nobody waited, and it was kept");
}
END_TEST

START_TEST(slow_answers)
{
	struct game g = { .now = { 1 } };
	unsigned n = 0;

	while (!message(&g, LONG))
		ck_assert_uint_lt(++n, 20);
	ck_assert_msg(n >= 8, "after %u messages it was not known yet that the program has nothing else to do", n);
	ck_assert(messages(&g, 100, QUICK));
	/* A second after the last that was slow all is as before. */
	g.now = mono_add(g.now, 1000000 * US);
	ck_assert(!messages(&g, 1000, QUICK));
}
END_TEST

START_TEST(posts_without_answer)
{
	struct game g = { .now = { 1 } };

	messages(&g, 20, LONG);
	ck_assert(answer_awaited(&g.a, g.heard, g.now));
	answer_posted(&g.a, g.heard, g.now); /* it did not wait */
	ck_assert(!messages(&g, 7, LONG));
}
END_TEST

START_TEST(a_rare_stall)
{
	struct game g = { .now = { 1 } };

	for (unsigned i = 0; i < 100; i++) {
		ck_assert(!messages(&g, 1, LONG));
		ck_assert(!messages(&g, 20000, QUICK)); /* a tenth of a second */
		ck_assert(!messages(&g, 20000, QUICK));
	}
}
END_TEST

/* More was posted: only the first send after a completion says anything. */
START_TEST(many_posts)
{
	struct game g = { .now = { 1 } };

	messages(&g, 20, LONG);
	for (unsigned i = 0; i < 10; i++)
		answer_posted(&g.a, g.heard, g.now);
	ck_assert(answer_awaited(&g.a, g.heard, g.now));
}
END_TEST

TEST_MAIN("answer", quick_answers, slow_answers, posts_without_answer, a_rare_stall, many_posts)
