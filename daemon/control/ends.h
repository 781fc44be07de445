/* SPDX-License-Identifier: MIT */
/*
 * ends.h - the last queue pairs that have ended, and the last contexts that left objects undestroyed, with these.
 *
 * They are kept for those who look when the program has ended (rdmad-run --report).  The rows are limited; the oldest
 * go, and of contexts it is counted which. Written in shard threads while the control thread waits for them, read in the control thread.
 */
#ifndef DAEMON_ENDS_H
#define DAEMON_ENDS_H

#include <jansson.h>

#include "../shard/ctx.h"
#include "qp_row.h"

/* Shard thread: a QP as it was before its program destroyed it. */
void ends_qp(const struct qp_row *);
/* Shard thread: this context is about to end; shared: PDs and MRs go on in another context. */
void ends_ctx(const struct ctx *, bool shared);

/* The last QP of that number that was destroyed; NULL: not known. */
const struct qp_row *ends_find(unsigned device, uint32_t qpn);

struct session;
/* The part of it that viewer may see; totals are shown to everybody. */
json_t *ends_json(const struct session *viewer);

#endif
