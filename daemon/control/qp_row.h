/* SPDX-License-Identifier: MIT */
/* qp_row.h - a queue pair as it is shown: copied in its shard's thread, made text in the control thread. */
#ifndef DAEMON_QP_ROW_H
#define DAEMON_QP_ROW_H

#include <jansson.h>

#include "../shard/ctx.h"

/* A queue pair as rdmactl shows it. */
struct qp_row {
	struct qp_info info;
	unsigned device, ctx;
	pid_t pid;
	uid_t uid;
	struct msg_runs runs;
	char prog[RDMAD_NAME_LEN];
	bool left; /* it is no more, and its program did not destroy it */
};

/* Shard thread. */
void qp_row_fill(struct qp_row *, struct shard *, unsigned device, uint32_t qpn);
/* The caller owns it; NULL: no memory. */
json_t *qp_json(const struct qp_row *);
/* The numbers of rdmad-runs, the innermost first. */
json_t *runs_json(const struct msg_runs *);

#endif
