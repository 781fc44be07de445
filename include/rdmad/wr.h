/* SPDX-License-Identifier: MIT */
/*
 * wr.h - what wr.def says of a work request.
 *
 * The library looks here before it posts, the core before it takes what was posted, the daemon for names.  Nothing
 * here is written to: any thread may ask.
 */
#ifndef RDMAD_WR_H
#define RDMAD_WR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmad/abi.h>

/* Services: bit per enum qp_type. */
#define ON_RC  (1u << QPT_RC | 1u << QPT_XRC_SEND)
#define ON_UC  (1u << QPT_UC)
#define ON_UD  (1u << QPT_UD)
#define ON_RAW (1u << QPT_RAW)

enum wr_data {
	WR_DATA_NONE,  /* neither sge nor inline data */
	WR_DATA_OUT,   /* the sge are read; or the data is inline */
	WR_DATA_IN,    /* the sge are written when the answer comes */
	WR_DATA_SPLIT, /* headers are copied into the slot, the payload is where the sge say */
};

struct wr_row {
	const char *name; /* without IBV_WR_ */
	uint32_t right;   /* enum access_flag */
	uint16_t on;      /* ON_ bits */
	uint8_t data;     /* enum wr_data */
	uint8_t len;      /* 0: any */
	uint8_t wc;       /* enum wc_op */
};

/* One more than the largest code. */
union wr_codes {
#define WR(name, code, kind, packet, on, data, len, right, wc, text) char name[(code) + 1];
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC
};
#define WR_CODES sizeof(union wr_codes)

/* The row of an enum wr_op; NULL: there is no such work request. */
static inline const struct wr_row *wr_row(unsigned op)
{
	static const struct wr_row rows[WR_CODES] = {
#define WR(name, code, kind, packet, on, data, len, right, wc, text) \
	[code] = { #text, (right), (on), WR_DATA_##data, (len), WC_OP_##wc },
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC
	};

	return op < WR_CODES && rows[op].name ? &rows[op] : NULL;
}

static inline bool wr_is(unsigned op, enum wr_data data)
{
	const struct wr_row *row = wr_row(op);

	return row && row->data == data;
}

/*
 * It begins when the answers to all READs and atomics before it are there.  A peer may invalidate at once what those still read
 * from: SEND_INV always does.
 */
static inline bool wr_waits(unsigned op, unsigned flags) { return flags & WR_FENCE || op == WR_SEND_INV; }

#endif
