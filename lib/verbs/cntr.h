/* SPDX-License-Identifier: MIT */
/* cntr.h - completion counters. */
#ifndef VERBS_CNTR_H
#define VERBS_CNTR_H

#include "qp.h"

void cntr_begin(struct rd_ctx *);
void cntr_end(struct rd_ctx *);   /* the context is being closed */
void cntr_detach(struct rd_qp *); /* it has been destroyed */

#endif
