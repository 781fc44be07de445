/* SPDX-License-Identifier: MIT */
/*
 * cnp.h - congestion notifications (protocol section 8): data that came marked CE is answered by a CNP to its sender's
 * QP; a CNP that comes slows the QP that it names, if it can be an answer to what that has sent (cong.h).
 *
 *	sender ---- data, ECT ----> switch ---- data, CE ----> receiver
 *	   ^--------------- CNP: BECN, QPN of the sender ---------'	at most one per QP in CNP_GAP_NS
 */
#ifndef PROTO_CNP_H
#define PROTO_CNP_H

#include <stdbool.h>

#include "burst.h"

struct hca;
struct qp;

#define ECN_BITS   0x03u /* of a traffic class */
#define ECN_CE     0x03u
#define CNP_GAP_NS 50000u
#define CNP_TCLASS 0xc2u /* DSCP 48, ECT(0): as adapters send it */

/* The QP got this, which may be marked. */
void cnp_note(struct hca *, struct qp *, const struct burst *);
/* qp.cnp is set; false: it is in ERR, and needs none any more. */
bool cnp_tx(struct hca *, struct qp *, struct burst *);
void cnp_rx(struct hca *, const struct burst *);

#endif
