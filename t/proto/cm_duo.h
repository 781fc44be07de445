/* SPDX-License-Identifier: MIT */
/* cm_duo.h - one connection, from a (0x11) to b (0x22), brought forward step by step. */
#ifndef T_PROTO_CM_DUO_H
#define T_PROTO_CM_DUO_H

#include "t/cm_net.h"
#include "t/suite.h"

extern struct cm_net net;
extern struct cm_end *const a, *const b;
extern uint32_t ida, idb, listener;
extern unsigned lose[2];             /* so many MADs of the end get lost */
extern unsigned seen[2][CM_APR + 1]; /* sent, by attribute */

void begin(void);           /* b listens */
void end(void);             /* both ids are freed; nothing is left */
void called(void);          /* a's REQ was sent; b has it, if it was not lost */
void asks(uint8_t timeout); /* b, for patience: an MRA to a's REQ */
void accepted(void);
void connected(void);
enum cm_state sa(void);
enum cm_state sb(void);

#endif
