/* SPDX-License-Identifier: MIT */
/* wr_kind.c - wr.def as the core's table, and what its rows must hold to. */
#include "wr_kind.h"

#include "hdr.h"

const struct wr_kind wr_kinds[WR_CODES] = {
#define WR(name, code, kind, packet, on, data, len, right, wc, text) \
	[code] = { KIND_##kind, OP_##packet, ROLE_OF_##kind == ROLE_ASK },
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC
};

/* KIND_OF_x: the kind of packet x, as its row of opcode.def says. */
enum {
#define KIND(name, role, word)
#define OP(code, name, kind, place, hdrs, pay, uc) KIND_OF_##name = KIND_##kind,
#include "opcode.def"
#undef KIND
#undef OP
	KIND_OF_NONE = KIND_LOCAL
};

#define WR(name, code, kind, packet, on, data, len, right, wc, text)                                              \
	_Static_assert((int)KIND_OF_##packet == (int)KIND_##kind, #name ": its packet is of another kind");       \
	_Static_assert(WR_DATA_##data != WR_DATA_IN || ROLE_OF_##kind == ROLE_ASK, #name ": no answer has data"); \
	_Static_assert(!((right) & ~(ACC_REMOTE_WRITE | ACC_REMOTE_READ | ACC_REMOTE_ATOMIC | ACC_FLUSH_GLOBAL |  \
				     ACC_FLUSH_PERSISTENT)),                                                      \
		       #name ": not a right of a peer");
#define WC(name, code, text)
#include <rdmad/wr.def>
#undef WR
#undef WC

uint32_t request_right(const struct burst *b)
{
	uint8_t kind = opcode_get(b->op_first)->kind;
	uint32_t right = kind_right(kind);

	if (kind != KIND_FLUSH)
		return right;
	return right & ((b->feth & FETH_GLOBAL ? ACC_FLUSH_GLOBAL : 0u) |
			(b->feth & FETH_PERSISTENT ? ACC_FLUSH_PERSISTENT : 0u));
}
