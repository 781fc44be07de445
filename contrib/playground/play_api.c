/* SPDX-License-Identifier: MIT */
/*
 * play_api.c - the functions that the page calls. Numbers only; text goes through one buffer, and comes back as a pointer to
 * its end by 0.
 *
 * The runs of the simulator are here, too: the page and t/play compare their hashes with those of the native t/sim/replay.
 */
#include "play.h"

#include <stdio.h>
#include <string.h>

#include "t/sim/runs.h"

#define EXPORT(type, name, args)                            \
	__attribute__((export_name(#name))) type name args; \
	type name args

static char buf[65536];

/* Where the page puts text, 65535 bytes and a 0 at most. */
EXPORT(char *, play_buf, (void)) { return buf; }

EXPORT(void, play_new, (unsigned nodes)) { world_new(nodes, 1); }

/* The number of the pair, or -1. cm: side 0 calls side 1; PSNs are the CM's then. */
EXPORT(int, play_pair,
       (unsigned type, unsigned a, unsigned b, unsigned mtu, unsigned psn0, unsigned psn1, unsigned timeout,
	unsigned retry, unsigned rnr, unsigned rnr_timer, unsigned cm))
{
	const struct qp_attr attr = { .path_mtu = (uint8_t)(mtu & 3),
				      .timeout = (uint8_t)(timeout & 31),
				      .retry_cnt = (uint8_t)(retry & 7),
				      .rnr_retry = (uint8_t)(rnr & 7),
				      .min_rnr_timer = (uint8_t)(rnr_timer & 31),
				      .max_rd_atomic = 4,
				      .max_dest_rd_atomic = 4,
				      .qkey = 0x11111111 };

	if (!attr.path_mtu || (type != QPT_RC && type != QPT_UC && type != QPT_UD))
		return -1;
	return cm ? world_call(a, b, &attr) : world_pair((uint8_t)type, a, b, &attr, psn0, psn1);
}

EXPORT(int, play_hangup, (unsigned pair)) { return world_hangup(pair); }
EXPORT(int, play_recv, (unsigned pair, unsigned side, unsigned len)) { return world_recv(pair, side, len); }

/* 0 or an errno, as ibv_post_send() gives it. */
EXPORT(int, play_post,
       (unsigned pair, unsigned side, unsigned op, unsigned len, unsigned imm, unsigned bad_key, unsigned compare_add,
	unsigned swap))
{
	const struct post post = { .op = (uint8_t)op,
				   .len = len,
				   .imm = __builtin_bswap32(imm),
				   .bad_key = bad_key,
				   .compare_add = compare_add,
				   .swap = swap };

	return world_post(pair, side, &post);
}

/* 0: nothing will ever happen; else 1 a packet arrived, 2 a timer ran out; times 65536, and which packet or node. */
EXPORT(unsigned, play_step, (void))
{
	unsigned which = 0;
	int what = world_step(&which);

	return (unsigned)what << 16 | (which & 0xffff);
}

/* Something has happened that there was no room to keep: the page takes back what led to it. */
EXPORT(int, play_full, (void)) { return world.full; }

EXPORT(int, play_hand, (unsigned pkt, unsigned hand, unsigned arg)) { return wire_hand(pkt, hand, arg); }

/* The text in the buffer as rules; what is wrong with it, or "". */
EXPORT(const char *, play_rules, (void))
{
	struct rule_error e;
	static char said[300];

	buf[sizeof buf - 1] = '\0';
	wire_rules(buf, &e);
	said[0] = '\0';
	if (e.text[0])
		snprintf(said, sizeof said, "line %u: %s", e.line, e.text);
	return said;
}

EXPORT(const char *, play_world, (void)) { return json_world(); }
EXPORT(const char *, play_tables, (void)) { return json_tables(); }

/* Runs of the simulator: kind 0 swarm, 1 masks, 2 cases. As t/sim/replay prints it. */
EXPORT(const char *, play_hash, (unsigned kind, unsigned seed))
{
	uint64_t (*const runs[])(uint64_t, bool) = { swarm_run, masks_run, cases_run };

	snprintf(buf, sizeof buf, "%016llx", (unsigned long long)runs[kind % 3](seed, false));
	return buf;
}
