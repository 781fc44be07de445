/* SPDX-License-Identifier: MIT */
/* opcode.c - opcode.def as a table indexed by the opcode byte, filled for RC, UC, UD and XRC; and the CNP. */
#include "opcode.h"

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

/* Responses of XRC are as those of RC. */
#define XRC_HDRS(role, hdrs) ((role) == ROLE_RESPONSE || (role) == ROLE_ACK ? (hdrs) : (hdrs) | HDR_XRCETH)

#define RC_ROW(code, name, kind, place, hdrs, pay) [SVC_RC | (code)] = ROW(RC, name, kind, place, hdrs, pay),
#define XRC_ROW(code, name, kind, place, hdrs, pay) \
	[SVC_XRC | (code)] = ROW(XRC, name, kind, place, XRC_HDRS(ROLE_OF_##kind, hdrs), pay),
#define UC_ROW_1(code, name, kind, place, hdrs, pay) [SVC_UC | (code)] = ROW(UC, name, kind, place, hdrs, pay),
#define UC_ROW_0(code, name, kind, place, hdrs, pay)

const struct opcode opcodes[256] = {
#define KIND(name, role, word)
#define OP(code, name, kind, place, hdrs, pay, uc)  \
	RC_ROW(code, name, kind, place, hdrs, pay)  \
	XRC_ROW(code, name, kind, place, hdrs, pay) \
	UC_ROW_##uc(code, name, kind, place, hdrs, pay)
#include "opcode.def"
#undef OP
#undef KIND
	[SVC_UD | OP_SEND_ONLY] = ROW(UD, SEND_ONLY, SEND, ONLY, HDR_DETH, PAY_ANY),
	[SVC_UD | OP_SEND_ONLY_IMM] = ROW(UD, SEND_ONLY_IMM, SEND, ONLY, HDR_DETH | HDR_IMM, PAY_ANY),
	[OPCODE_CNP] = { "CNP", KIND_CNP, ROLE_NOTE, PLACE_ONLY, HDR_CNP, PAY_NONE, HDRS_LEN(HDR_CNP) },
};
