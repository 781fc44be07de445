/* SPDX-License-Identifier: MIT */
/* why.c - the store of causes: each user sees his own, and nobody's fill the places of another. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/why.h"
#include "t/suite.h"

#define ANN	(geteuid() + 1001)	/* neither root nor the daemon's user */
#define BOB	(geteuid() + 1002)

static struct session of(uid_t uid)
{
	struct session s = { .uid = uid, .pid = 4711, .prog = "prog", .run = uid };

	return s;
}

static unsigned count(const struct session *viewer, uint32_t qpn, const char *text)
{
	json_t *j = why_json(viewer, qpn), *c;
	unsigned n = 0;
	size_t i;

	ck_assert(j != NULL);
	json_array_foreach(json_object_get(j, "causes"), i, c)
		n += strstr(json_string_value(json_object_get(c, "report")), text) != NULL;
	json_decref(j);
	return n;
}

START_TEST(users)
{
	struct session ann = of(ANN), bob = of(BOB), root = of(0), own = of(geteuid());

	why_say(&ann, WHY_VERB_BUSY, NULL, 0x12, "said of %s", "Ann");
	why_say(&bob, WHY_VERB_BUSY, NULL, 0x13, "said of %s", "Bob");
	ck_assert_uint_eq(count(&ann, 0, "said of Ann"), 1);
	ck_assert_uint_eq(count(&ann, 0, "said of Bob"), 0);
	ck_assert_uint_eq(count(&ann, 0x13, "said of Bob"), 0);
	ck_assert_uint_eq(count(&bob, 0, "said of Bob"), 1);
	ck_assert_uint_eq(count(&root, 0, "said of"), 2);
	ck_assert_uint_eq(count(&own, 0, "said of"), 2);
	ck_assert_uint_eq(count(&own, 0x12, "said of"), 1);
	ck_assert_uint_eq(count(&ann, 0, "hint: destroy in the reverse order"), 1);
}
END_TEST

START_TEST(bounded)
{
	struct session ann = of(ANN), bob = of(BOB), root = of(0);

	why_say(&bob, WHY_VERB_BUSY, NULL, 0, "of Bob");
	for (unsigned i = 0; i < 3 * WHY_KEPT; i++)
		why_say(&ann, WHY_VERB_BUSY, NULL, 0, "number %u of Ann", i);
	ck_assert_uint_eq(count(&ann, 0, "of Ann"), WHY_KEPT);
	ck_assert_uint_eq(count(&ann, 0, "number 0 of Ann"), 0);
	ck_assert_uint_eq(count(&bob, 0, "of Bob"), 1);
	/* More users than there are places for: the one that was silent longest goes. */
	for (unsigned i = 0; i < WHY_USERS; i++) {
		struct session other = of(ANN + 10 + i);

		why_say(&other, WHY_VERB_BUSY, NULL, 0, "of another");
	}
	ck_assert_uint_eq(count(&root, 0, "of another"), WHY_USERS);
	ck_assert_uint_eq(count(&bob, 0, "of Bob"), 0);
}
END_TEST

/* What a library says is a program's text: printable, cut off, and not more often than so many times a second. */
START_TEST(hostile)
{
	struct msg_req req = { .op = MSG_REFUSED, .refused = { .err = 0xffffffff } };
	struct session ann = of(ANN);
	struct device dev = { .name = "d" };
	struct ctx ctx = { .dev = &dev };
	struct call call = { .s = &ann, .req = &req };

	ann.ctx = &ctx;
	memset(req.refused.verb, 'v', sizeof(req.refused.verb));
	memset(req.refused.text, '\n', sizeof(req.refused.text));
	for (unsigned i = 0; i < 10 * WHY_RATE; i++)
		ck_assert_int_eq(verb_refused(&call), 0);
	ck_assert_uint_ge(count(&ann, 0, "vvvv refused: "), 1);
	ck_assert_uint_le(count(&ann, 0, "vvvv refused: "), WHY_KEPT);
	ck_assert_uint_eq(count(&ann, 0, "??????"), count(&ann, 0, "vvvv refused: "));
}
END_TEST

/* Each cause has words, whatever its numbers are. */
START_TEST(words)
{
	char buf[WHY_TEXT];

	for (unsigned c = WHY_NONE + 1; c < WHY_KEY_NONE; c++) {
		for (unsigned k = 0; k < WHY_CAUSES; k++) {
			struct words t = words_begin(buf, sizeof(buf));
			struct why w = { .cause = (uint8_t)c, .qpn = 0x12, .op = 255, .type = 255, .status = 255, .key = { .why = (uint8_t)k } };

			if (k && k < WHY_KEY_NONE)
				continue;
			w.fault = c == WHY_CQ_OVERRUN ? FAULT_CQ_OVERRUN : k ? FAULT_RESP_RKEY : FAULT_NONE;
			why_words(&t, &w);
			ck_assert_msg(!strncmp(buf, "QP 0x12", 7) && strlen(buf) > 12, "%s: %s", why_name(c), buf);
			ck_assert(*why_name(c) && *why_what(c));
			ck_assert(k == 0 || *why_advice(&w));
		}
	}
	for (unsigned e = 0; e < TR_EVENTS; e++) {
		struct words t = words_begin(buf, sizeof(buf));

		trace_words(&t, &(struct trace_rec){ .event = (uint8_t)e, .op = 4, .a = 1, .b = 2, .n = 3 });
		ck_assert_msg(*buf && *trace_word(e), "%u", e);
	}
	{
		char small[8];
		struct words t = words_begin(small, sizeof(small));

		words_put(&t, "%s", "0123456789");
		words_put(&t, "%s", "x");
		ck_assert_str_eq(small, "0123456");
	}
}
END_TEST

TEST_MAIN("why", users, bounded, hostile, words)
