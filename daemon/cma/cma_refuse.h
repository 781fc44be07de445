/* SPDX-License-Identifier: MIT */
/* cma_refuse.h - requests that are refused, and why: a text for `rdmactl why`, until the next request.  Control thread. */
#ifndef DAEMON_CMA_REFUSE_H
#define DAEMON_CMA_REFUSE_H

#include "cma.h"

/* Returns err. */
int cma_refuse(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* 0, or EINVAL that says which state it is in. */
int cma_must_be(const struct cma_id *, enum cma_state);
/* 0, or EINVAL: the private data of the program, the message that would carry it, and how much that has room for. */
int cma_must_fit(unsigned data_len, const char *message, unsigned room);

/* Of the last request; "": it has not said.  New: there is a new one. */
const char *cma_reason(void);
void cma_reason_new(void);

#endif
