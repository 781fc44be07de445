/* SPDX-License-Identifier: MIT */
/*
 * mend.h - a gap is mended: what was lost is sent again alone (rule 4.5).
 *
 *	 una                                     next
 *	  | lost |  the peer keeps this (keep.h)  |		NAK of una: one packet of una, asking for an ACK
 *	         |                      una       |		its ACK: all that was kept
 *
 * Nobody tells whether a peer keeps what comes behind a gap, and no packet is any different for it: it shows in what is
 * acknowledged.  If behind the packet that was sent again alone others are acknowledged that were not, the peer has kept them. A peer
 * that goes back has to be sent all of it, as ever: that was one round trip too late then, so it is tried with the next loss but
 * one, with the fourth one behind that, and so on.
 *
 * What is kept, or lost, is not on its way any more: it leaves the window, so that others can follow while one packet is waited
 * for.  They may not be more than the peer has room for.
 *
 * Only a NAK says that something is lost. What an ACK is late for may be in the peer's socket, and in the window it stays.
 *
 * A NAK says where a gap begins and not where it ends.  So where the next packet is missing as well, twice as many are sent each
 * time, and with a long gap all of it.
 */
#ifndef PROTO_MEND_H
#define PROTO_MEND_H

#include <stdbool.h>

struct hca;
struct qp;

/* The peer has said NAK to una: true: what is missing will be sent again alone, and a retry is used up; false: all is to be. */
bool mend_nak(struct hca *, struct qp *);
/* una has moved: behind what was sent again? */
void mend_seen(struct qp *);
/* And it was an ACK that did it; true: the peer has nothing that was behind, and all is to be sent again. */
bool mend_acked(struct hca *, struct qp *);
/* It all goes again: there is nothing to mend. */
void mend_stop(struct qp *);

#endif
