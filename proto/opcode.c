/* SPDX-License-Identifier: MIT */
/* opcode.c - opcode.def as a table indexed by the opcode byte, filled for RC, UC, UD and XRC; and the CNP. */
#include "opcode.h"

#include <stddef.h>

#include "hdr.h"

/* Header lengths, by HDR_ bit. */
#define HDRS_LEN(h)                                                                                                    \
	(BTH_LEN + ((h)&HDR_XRCETH ? XRCETH_LEN : 0) + ((h)&HDR_DETH ? DETH_LEN : 0) + ((h)&HDR_RETH ? RETH_LEN : 0) + \
	 ((h)&HDR_ATOMIC ? ATOMIC_LEN : 0) + ((h)&HDR_AETH ? AETH_LEN : 0) +                                           \
	 ((h)&HDR_ATOMIC_ACK ? ATOMIC_ACK_LEN : 0) + ((h)&HDR_IMM ? IMM_LEN : 0) + ((h)&HDR_IETH ? IETH_LEN : 0) +     \
	 ((h)&HDR_FETH ? FETH_LEN : 0) + ((h)&HDR_CNP ? CNP_LEN : 0))

#define ROW(svc, name, kind, place, hdrs, pay)                                                            \
	{                                                                                                 \
#svc "_" #name, KIND_##kind, ROLE_OF_##kind, PLACE_##place, (hdrs), (pay), HDRS_LEN(hdrs) \
	}

static const struct opcode rc[32] = {
#define OP(code, name, kind, place, hdrs, pay, uc) [code] = ROW(RC, name, kind, place, hdrs, pay),
#define KIND(name, role, word)
#include "opcode.def"
#undef OP
#undef KIND
};

#define UC_ROW_1(code, name, kind, place, hdrs, pay) [code] = ROW(UC, name, kind, place, hdrs, pay),
#define UC_ROW_0(code, name, kind, place, hdrs, pay)
static const struct opcode uc[32] = {
#define OP(code, name, kind, place, hdrs, pay, has) UC_ROW_##has(code, name, kind, place, hdrs, pay)
#define KIND(name, role, word)
#include "opcode.def"
#undef OP
#undef KIND
};

static const struct opcode ud[32] = {
	[OP_SEND_ONLY] = ROW(UD, SEND_ONLY, SEND, ONLY, HDR_DETH, PAY_ANY),
	[OP_SEND_ONLY_IMM] = ROW(UD, SEND_ONLY_IMM, SEND, ONLY, HDR_DETH | HDR_IMM, PAY_ANY),
};

/* Responses are as those of RC. */
#define XRC_HDRS(role, hdrs) ((role) == ROLE_RESPONSE || (role) == ROLE_ACK ? (hdrs) : (hdrs) | HDR_XRCETH)
static const struct opcode xrc[32] = {
#define OP(code, name, kind, place, hdrs, pay, uc) \
	[code] = ROW(XRC, name, kind, place, XRC_HDRS(ROLE_OF_##kind, hdrs), pay),
#define KIND(name, role, word)
#include "opcode.def"
#undef OP
#undef KIND
};

static const struct opcode cnp = { "CNP", KIND_CNP, ROLE_NOTE, PLACE_ONLY, HDR_CNP, PAY_NONE, HDRS_LEN(HDR_CNP) };

const struct opcode *opcode_get(uint8_t opcode)
{
	static const struct opcode none;

	switch (SVC_OF(opcode)) {
	case SVC_RC: return &rc[OP_OF(opcode)];
	case SVC_UC: return &uc[OP_OF(opcode)];
	case SVC_XRC: return &xrc[OP_OF(opcode)];
	case SVC_UD: return &ud[OP_OF(opcode)];
	case SVC_CNP: return opcode == OPCODE_CNP ? &cnp : &none;
	}
	return &none;
}
