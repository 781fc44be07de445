/* SPDX-License-Identifier: MIT */
/* top.h - `rdmactl top`: two dumps of the daemon, one behind the other, and the difference of each queue pair as a line. */
#ifndef CTL_TOP_H
#define CTL_TOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "command.h"

enum top_sort { SORT_RATE, SORT_AGAIN, SORT_FLIGHT, SORT_QPN, SORT_PROGRAM, SORTS };

struct top_qp {
	char device[64], program[32], peer[48], type[12], state[8];
	uint32_t qpn, dest_qpn;
	long long pid;
	uint64_t tx, rx, packets, retrans, rnrs; /* counters */
	double tx_rate, rx_rate, packet_rate, retrans_rate;
	uint64_t window, inflight;
	unsigned sends, recvs, retries, retry_max; /* retries: used since the last answer */
	bool fresh;                                /* was not there in the sample before */
};

struct top_sample {
	double at; /* seconds */
	struct top_qp *qp;
	size_t n;
	char version[32];
	unsigned devices;
	uint64_t sum[6]; /* of counters, over all devices; top_take.c says which */
	double rate[6];
};

/* Asks the daemon; rates are those since *old, if it is not empty.  false: no answer; why is on stderr. */
bool top_take(struct top_sample *, int *fd, const struct ask *, const struct top_sample *old);
void top_free(struct top_sample *);
void top_order(struct top_sample *, enum top_sort);

/* The sample as text of that many columns, lines at the most (0: all); marks are those of term_draw(). */
void top_text(const struct top_sample *, FILE *, int columns, int lines, enum top_sort, bool marks);

#endif
