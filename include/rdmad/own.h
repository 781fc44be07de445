/* SPDX-License-Identifier: MIT */
/* own.h - all that our librdmacm uses of our libibverbs besides its public functions: the node RDMAD_1. */
#ifndef RDMAD_OWN_H
#define RDMAD_OWN_H

#include <stdbool.h>
#include <stdint.h>

struct ibv_cq;

extern const uint32_t rdmad_verbs_abi; /* RDMAD_ABI when it was compiled */

/*
 * Whether a poll would find nothing.  A poll does more than that: it gives the core away now and then, and finds out that the
 * daemon is gone.
 */
bool rdmad_cq_quiet(struct ibv_cq *);

#endif
