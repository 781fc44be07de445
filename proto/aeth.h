/* SPDX-License-Identifier: MIT */
/*
 * aeth.h - the syndrome of the ACK extended header, and the times that are sent as codes.
 *
 *	7 6 5 | 4 3 2 1 0
 *	0 0 0 |  credits	ACK		(AETH_NO_CREDITS: no end-to-end flow control)
 *	0 0 1 |  timer		RNR NAK		wait rnr_timer_ns(timer), then send again
 *	0 1 0 |			reserved
 *	0 1 1 |  code		NAK		enum nak_code
 *	1 x x |			reserved
 *
 * Protocol section 4.4.
 */
#ifndef PROTO_AETH_H
#define PROTO_AETH_H

#include <stdint.h>

enum aeth_type { AETH_RESERVED, AETH_ACK, AETH_RNR_NAK, AETH_NAK };

enum nak_code {
	NAK_PSN_SEQ = 0, /* a request is missing: send again from this PSN on */
	NAK_INV_REQ = 1,
	NAK_REM_ACCESS = 2,
	NAK_REM_OP = 3,
	NAK_INV_RD_REQ = 4,
	NAK_IN_PROGRESS = 5,
	NAK_CODES
};

#define AETH_CODE_MASK    0x1fu
#define AETH_NO_CREDITS   0x1fu /* what we send: an ACK without end-to-end credits */
#define CREDITS_UNLIMITED UINT32_MAX

static inline uint8_t aeth_ack(void) { return AETH_NO_CREDITS; }
static inline uint8_t aeth_rnr(uint8_t timer) { return (uint8_t)(0x20 | (timer & AETH_CODE_MASK)); }
static inline uint8_t aeth_nak(enum nak_code code) { return (uint8_t)(0x60 | code); }
static inline uint8_t aeth_code(uint8_t syndrome) { return syndrome & AETH_CODE_MASK; }

/* AETH_RESERVED also for NAK codes that do not exist: such a packet is to be ignored. */
enum aeth_type aeth_type(uint8_t syndrome);

/* For people, e.g. "ACK", "RNR NAK", "NAK remote access error"; "reserved". */
const char *aeth_name(uint8_t syndrome);

/*
 * How many further messages the peer has receive requests for, by the code of an ACK.  Only of
 * meaning if both sides agreed on credits (we never do): HCAs without them send code 0, so that
 * 0 is no reason to stop.
 */
uint32_t aeth_credits(uint8_t code);

/* Code 0..31 (masked): 10 us .. 655.36 ms; 0 is the longest. */
uint64_t rnr_timer_ns(uint8_t code);

/* The local ACK timeout, 4.096 us * 2^code, code 1..31 (masked).  Code 0: no timeout; 0 is returned. */
uint64_t ack_timeout_ns(uint8_t code);

#endif
