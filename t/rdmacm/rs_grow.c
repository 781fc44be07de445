/* SPDX-License-Identifier: MIT */
/* rs_grow.c - the buffers of rsockets that grow: what is in them stays, and their growth has an end. */
#include "lib/rdmacm/rs.h"

#include "../suite.h"

enum { START = 256 << 10, MANY = 1000, WRITES = 2000 };

/* A send buffer, empty. */
static void make(struct rsock *rs, bool set)
{
	*rs = (struct rsock){ 0 };
	rs->link.send = (struct rs_ring){ .size = START, .most = rs_grow_most(START, set) };
}

/* The writes under way, the oldest first: where they lie. */
struct flight {
	uint32_t at[WRITES], len[WRITES];
	unsigned head, tail;
};

/* Does it lie in none that is under way?  A part at the end of the buffer, and a part at its beginning. */
static void check_apart(const struct flight *f, uint32_t at, uint32_t len)
{
	for (unsigned i = f->head; i < f->tail; i++)
		ck_assert(at + len <= f->at[i] || f->at[i] + f->len[i] <= at);
}

static void put(struct flight *f, uint32_t at, uint32_t len)
{
	if (!len)
		return;
	check_apart(f, at, len);
	f->at[f->tail] = at;
	f->len[f->tail++] = len;
}

/* As rs_link.c fills it and gives it back; true: there was room. */
static bool push(struct rsock *rs, struct flight *f, uint32_t want)
{
	struct rs_ring *r = &rs->link.send;
	uint32_t len, first;

	rs_grow_send(rs);
	len = r->size - r->used < want ? r->size - r->used : want;
	if (!len)
		return false;
	first = r->size - r->tail < len ? r->size - r->tail : len;
	put(f, r->tail, first);
	put(f, 0, len - first);
	r->tail = (r->tail + len) % r->size;
	r->used += len;
	return true;
}

static void done(struct rsock *rs, struct flight *f)
{
	if (f->head < f->tail)
		rs->link.send.used -= f->len[f->head++];
}

/* Of any sizes, so that it is full at any place, and wraps where it will. */
START_TEST(send_keeps_what_is_under_way)
{
	static const uint32_t piece[] = { 65536, 99999, 1, 4096, 65535 };
	struct rsock rs;

	for (unsigned first = 0; first < ARRAY_N(piece); first++) {
		struct flight f = { 0 };

		make(&rs, false);
		for (unsigned i = 0; f.tail < WRITES - 2; i++)
			if (!push(&rs, &f, piece[(i + first) % ARRAY_N(piece)]) || i % 4 == 3)
				done(&rs, &f);
		ck_assert_uint_eq(rs.link.send.size, rs.link.send.most);
		ck_assert_uint_eq(rs.opts.sndbuf, rs.link.send.size);
		ck_assert_uint_eq(rs.link.grown, rs.link.send.most - START);
		rs_grow_end(&rs);
	}
}
END_TEST

START_TEST(what_is_set_stays)
{
	struct flight f = { 0 };
	struct rsock rs;

	make(&rs, true);
	while (push(&rs, &f, 65536))
		;
	ck_assert_uint_eq(rs.link.send.size, START);
	done(&rs, &f);
	ck_assert(push(&rs, &f, 65536));
	ck_assert_uint_eq(rs.link.send.size, START);
}
END_TEST

/* Not while it is never full. */
START_TEST(small_ones_stay)
{
	static struct flight f;
	struct rsock rs;

	make(&rs, false);
	while (f.tail < WRITES - 2) {
		ck_assert(push(&rs, &f, 5000));
		done(&rs, &f);
	}
	ck_assert_uint_eq(rs.link.send.size, START);
}
END_TEST

/* A process with many of them has some memory left; one that ends makes room for another. */
START_TEST(all_together_have_a_limit)
{
	static struct rsock rs[MANY];
	struct flight f;
	unsigned grew = 0, again = 0;

	for (unsigned i = 0; i < MANY; i++) {
		make(&rs[i], false);
		f = (struct flight){ 0 };
		while (push(&rs[i], &f, 65536))
			;
		grew += rs[i].link.grown > 0;
	}
	ck_assert_uint_gt(grew, 10);
	ck_assert_uint_lt(grew, MANY);
	for (unsigned i = 0; i < MANY; i++)
		rs_grow_end(&rs[i]);
	for (unsigned i = 0; i < MANY; i++) {
		make(&rs[i], false);
		f = (struct flight){ 0 };
		while (push(&rs[i], &f, 65536))
			;
		again += rs[i].link.grown > 0;
	}
	ck_assert_uint_eq(again, grew);
}
END_TEST

TEST_MAIN("rs_grow", send_keeps_what_is_under_way, what_is_set_stays, small_ones_stay, all_together_have_a_limit)
