/* SPDX-License-Identifier: MIT */
/* wr_kind.h - what wr.def says to the core: how a work request becomes a message, and what such a message needs. */
#ifndef PROTO_WR_KIND_H
#define PROTO_WR_KIND_H

#include <stdbool.h>

#include <rdmad/wr.h>

#include "burst.h"

struct wr_kind {
	uint8_t kind;   /* enum op_kind */
	uint8_t packet; /* enum op: of a message that fits into one; OP_NONE */
	bool asks;      /* completed by a response of its own */
};
extern const struct wr_kind wr_kinds[WR_CODES]; /* by enum wr_op; there is a row of zeros where wr_row() has none */

/* Bytes that each message of this kind has; 0: any number. */
static inline uint32_t kind_len(uint8_t kind)
{
#define WR(name, code, k, packet, on, data, len, right, wc, text) \
	if (kind == KIND_##k)                                     \
		return len;
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC
	return 0;
}

/* The rights that the QP and the key must grant to requests of this kind (enum access_flag); FLUSH: or less, request_right(). */
static inline uint32_t kind_right(uint8_t kind)
{
#define WR(name, code, k, packet, on, data, len, right, wc, text) \
	if (kind == KIND_##k)                                     \
		return right;
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC
	return 0;
}

/* The same of a request that has come. */
uint32_t request_right(const struct burst *);

#endif
