/* SPDX-License-Identifier: MIT */
/*
 * qp_state.h - which changes of state a QP may make, and with which attributes (protocol section 5).
 *
 *	RESET --> INIT --> RTR --> RTS <--> SQD
 *	                            ^
 *	                            +------ SQE	(UC and UD: an error of the send queue brings it there)
 *
 *	INIT, RTS, SQD: also to itself	every state --> RESET	every state but RESET --> ERR
 */
#ifndef PROTO_QP_STATE_H
#define PROTO_QP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define QP_STATES 7u

/* May a QP of this enum qp_type be brought from one enum qp_state to the other (or the same) by modify? */
bool qp_state_edge(uint8_t type, uint8_t from, uint8_t to);

/*
 * 0 if mask (QPA_ bits) has every attribute that this change requires, and none that it does not know; else
 * EINVAL.  A modify without QPA_STATE stays where it is: to must be from.  The values are the caller's business, and
 * so are attributes that are legal in InfiniBand but not on RoCE (QPA_ALT_PATH, QPA_PATH_MIG_STATE).
 */
int qp_state_check(uint8_t type, uint8_t from, uint8_t to, uint32_t mask);

/* The attributes that the change requires (or else: knows at all, QPA_STATE among them); 0: there is no such change. */
uint32_t qp_state_attrs(uint8_t type, uint8_t from, uint8_t to, bool required);

/* "RESET" ... "ERR"; "?" for anything else. */
const char *qp_state_name(uint8_t state);

#endif
