/* SPDX-License-Identifier: MIT */
/* hooks.c - hooks that do nothing. */
#include "hooks.h"

static void no_outlet(void) {}
static void no_why(struct shard *, unsigned) {}
static void no_ends(const struct ctx *, bool) {}
static int no_xrcd(struct ctx_xrcd *) { return 0; }
static struct shard *no_shard(uid_t, const struct device *) { return NULL; }
static void no_mcast(struct ctx_qp *) {}
static bool no_turn(struct shard *, mono_t) { return false; }
static mono_t no_deadline(const struct shard *) { return MONO_NEVER; }

struct hooks hooks = { no_outlet, no_why, no_ends, no_xrcd, no_shard, no_mcast, no_turn, no_deadline };
