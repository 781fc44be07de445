/* SPDX-License-Identifier: MIT */
/*
 * packet.h - a packet of one run, as it can be met again in another run of the same program.
 *
 * Numbers of QPs and starting PSNs differ from run to run.  A packet is found again by its QP's place among those that send,
 * its operation, its PSN behind the first one, and its transmission; one of the CM by its message and how many of these
 * there were before.
 */
#ifndef RUN_PACKET_H
#define RUN_PACKET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct packet {
	char opcode[32]; /* "RC_SEND_ONLY"; of the CM the name of its message */
	char word[40];   /* the same in files of rules */
	bool cm, has_rel;
	bool in; /* where it arrives; else where it leaves */
	enum { PKT_REQUEST, PKT_RESPONSE, PKT_ACK } kind;
	unsigned sender; /* its QP is the n-th to send; 0: that of the CM */
	int rel;         /* PSN behind the first one */
	unsigned iter;   /* transmission; 0: not counted */
	unsigned nth;    /* of those for which all of this is the same; 1, until others are compared */
	unsigned bytes;  /* of payload */
};

/* From the daemon's list of decisions ("packet").  False: nothing by which it could be found again. */
bool packet_read(struct packet *, const json_t *);
/* An ACK or a NAK of a PSN. */
bool packet_is_ack(const struct packet *);
/* The same but for nth.  ACKs are coalesced as it happens: of them the transmission does not count. */
bool packet_same(const struct packet *, const struct packet *);
/* "RC_SEND_ONLY PSN +3 of QP 1"; its length. */
size_t packet_tell(const struct packet *, char *text, size_t len);
/*
 * A rule (rdmad-fault(5)) that does so to it.  ACKs are coalesced: for one of them stands the first that acknowledges its
 * PSN.
 */
void packet_rule(FILE *, const struct packet *, const char *act);

#endif
