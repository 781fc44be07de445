/* SPDX-License-Identifier: MIT */
/* aeth.c - the tables of protocol section 4.4. */
#include "aeth.h"

enum aeth_type aeth_type(uint8_t syndrome)
{
	switch (syndrome >> 5) {
	case 0: return AETH_ACK;
	case 1: return AETH_RNR_NAK;
	case 3: return aeth_code(syndrome) < NAK_CODES ? AETH_NAK : AETH_RESERVED;
	}
	return AETH_RESERVED;
}

const char *aeth_name(uint8_t syndrome)
{
	static const char *const nak[NAK_CODES] = {
		[NAK_PSN_SEQ] = "NAK PSN sequence error",     [NAK_INV_REQ] = "NAK invalid request",
		[NAK_REM_ACCESS] = "NAK remote access error", [NAK_REM_OP] = "NAK remote operational error",
		[NAK_INV_RD_REQ] = "NAK invalid RD request",  [NAK_IN_PROGRESS] = "NAK operation in progress",
	};

	switch (aeth_type(syndrome)) {
	case AETH_ACK: return "ACK";
	case AETH_RNR_NAK: return "RNR NAK";
	case AETH_NAK: return nak[aeth_code(syndrome)];
	case AETH_RESERVED: break;
	}
	return "reserved";
}

uint32_t aeth_credits(uint8_t code)
{
	static const uint16_t credits[31] = {
		0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
		256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
	};

	code &= AETH_CODE_MASK;
	return code == AETH_NO_CREDITS ? CREDITS_UNLIMITED : credits[code];
}

uint64_t rnr_timer_ns(uint8_t code)
{
	static const uint32_t ten_us[32] = {
		65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
		256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return ten_us[code & AETH_CODE_MASK] * 10000ull;
}

uint64_t ack_timeout_ns(uint8_t code)
{
	code &= AETH_CODE_MASK;
	return code ? 4096ull << code : 0;
}
