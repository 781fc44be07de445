/* SPDX-License-Identifier: MIT */
/* opcode.c - opcode.def as a table indexed by the opcode byte, filled for RC, UC and UD. */
#include "opcode.h"

#include <stddef.h>

#define BTH_LEN	12

/* Header lengths, by HDR_ bit. */
#define HDRS_LEN(h) (BTH_LEN +			\
	((h) & HDR_DETH ? 8 : 0) +		\
	((h) & HDR_RETH ? 16 : 0) +		\
	((h) & HDR_ATOMIC ? 28 : 0) +		\
	((h) & HDR_AETH ? 4 : 0) +		\
	((h) & HDR_ATOMIC_ACK ? 8 : 0) +	\
	((h) & HDR_IMM ? 4 : 0) +		\
	((h) & HDR_IETH ? 4 : 0) +		\
	((h) & HDR_FETH ? 4 : 0))

#define ROW(svc, name, kind, place, hdrs, pay) \
	{ #svc "_" #name, KIND_##kind, PLACE_##place, (hdrs), (pay), HDRS_LEN(hdrs) }

static const struct opcode rc[32] = {
#define OP(code, name, kind, place, hdrs, pay, uc) [code] = ROW(RC, name, kind, place, hdrs, pay),
#include "opcode.def"
#undef OP
};

#define UC_ROW_1(code, name, kind, place, hdrs, pay) [code] = ROW(UC, name, kind, place, hdrs, pay),
#define UC_ROW_0(code, name, kind, place, hdrs, pay)
static const struct opcode uc[32] = {
#define OP(code, name, kind, place, hdrs, pay, has) UC_ROW_##has(code, name, kind, place, hdrs, pay)
#include "opcode.def"
#undef OP
};

static const struct opcode ud[32] = {
	[OP_SEND_ONLY]     = ROW(UD, SEND_ONLY,     SEND, ONLY, HDR_DETH,           PAY_ANY),
	[OP_SEND_ONLY_IMM] = ROW(UD, SEND_ONLY_IMM, SEND, ONLY, HDR_DETH | HDR_IMM, PAY_ANY),
};

const struct opcode *opcode_get(uint8_t opcode)
{
	static const struct opcode none;

	switch (SVC_OF(opcode)) {
	case SVC_RC:
		return &rc[OP_OF(opcode)];
	case SVC_UC:
		return &uc[OP_OF(opcode)];
	case SVC_UD:
		return &ud[OP_OF(opcode)];
	}
	return &none;
}
