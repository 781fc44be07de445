/* SPDX-License-Identifier: MIT */
/* opcode.h - BTH opcodes: three bits of service and five of operation, and what opcode.def knows of each. */
#ifndef PROTO_OPCODE_H
#define PROTO_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

/* Bits 7-5: macros, since they are ORed with an enum op. */
#define SVC_RC  0x00
#define SVC_UC  0x20
#define SVC_RD  0x40
#define SVC_UD  0x60
#define SVC_CNP 0x80
#define SVC_XRC 0xa0

#define SVC_OF(opcode) ((opcode)&0xe0)
#define OP_OF(opcode)  ((opcode)&0x1f)
#define OPCODE_CNP     0x81

enum op { /* bits 4-0 */
#define KIND(name, role, word)
#define OP(code, name, kind, place, hdrs, pay, uc) OP_##name = code,
#include "opcode.def"
#undef KIND
#undef OP
	  OP_NONE = 0xff
};

enum op_kind {
	KIND_NONE,
#define KIND(name, role, word) KIND_##name,
#define OP(code, name, kind, place, hdrs, pay, uc)
#include "opcode.def"
#undef KIND
#undef OP
	KINDS
};

enum kind_role {
	ROLE_NONE,
	ROLE_MESSAGE,
	ROLE_ASK,
	ROLE_RESPONSE,
	ROLE_ACK,
	ROLE_NOTE,
	ROLE_LOCAL,
/* ROLE_OF_x: of each kind. */
#define KIND(name, role, word) ROLE_OF_##name = ROLE_##role,
#define OP(code, name, kind, place, hdrs, pay, uc)
#include "opcode.def"
#undef KIND
#undef OP
};

/* clang-format off */
enum op_place { PLACE_FIRST = 1, PLACE_MIDDLE = 2, PLACE_LAST = 4, PLACE_ONLY = 5 /* FIRST | LAST */ };
enum op_pay { PAY_NONE, PAY_FULL, PAY_SOME, PAY_ANY, PAY_8 };

#define HDR_DETH	0x01
#define HDR_RETH	0x02
#define HDR_ATOMIC	0x04
#define HDR_AETH	0x08
#define HDR_ATOMIC_ACK	0x10
#define HDR_IMM		0x20
#define HDR_IETH	0x40
#define HDR_FETH	0x80
#define HDR_XRCETH	0x100
#define HDR_CNP		0x200	/* reserved bytes of a CNP */
/* clang-format on */

struct opcode {
	const char *name; /* NULL: no such operation */
	uint8_t kind;     /* enum op_kind */
	uint8_t role;     /* enum kind_role, of its kind */
	uint8_t place;    /* enum op_place */
	uint16_t hdrs;    /* HDR_ bits; for UD with HDR_DETH, for requests of XRC with HDR_XRCETH */
	uint8_t pay;      /* enum op_pay */
	uint8_t hdr_len;  /* BTH and all extended headers, bytes */
};

extern const struct opcode opcodes[256];

/* The row of an opcode byte; its name is NULL where no such opcode exists (RD and reserved ones, too). */
static inline const struct opcode *opcode_get(uint8_t opcode) { return &opcodes[opcode]; }

/* Does a responder send it? */
static inline bool op_answers(const struct opcode *op) { return op->role == ROLE_RESPONSE || op->role == ROLE_ACK; }

#endif
