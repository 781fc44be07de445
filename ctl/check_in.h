/* SPDX-License-Identifier: MIT */
/* check_in.h - shared by the parts of the checker: the state of one file that is being read. */
#ifndef CTL_CHECK_IN_H
#define CTL_CHECK_IN_H

#include "conv.h"
#include "find.h"

struct cm;

struct check {
	struct find find;
	struct conv *conv;             /* of its interface */
	struct cm *cm;                 /* exchanges of the connection manager; NULL: none yet */
	uint64_t frames, packets, cut; /* cut: frames of which too little is there */
	uint64_t judged;               /* of the packets, those of the sender that is asked about */
	uint64_t disturbed;            /* frames that a rule dropped or damaged: not judged */
	bool good;                     /* it has right ICRCs: where addresses were changed on the way it has none */
	bool no_memory;
};

/* A packet whose headers could be read: its frame, the headers, its raw bytes without the ICRC. */
struct packet {
	struct find_at at;
	const struct frame *frame;
	struct burst b;
	const struct opcode *op;
	const uint8_t *data;
	size_t len;
	bool vague; /* its end was cut off: it may be several packets, so its length says nothing */
};

void check_request(struct check *, struct stream *, const struct packet *); /* RC and XRC */
void check_uc(struct check *, struct stream *, const struct packet *);
void check_answer(struct check *, struct stream *, const struct packet *); /* in the stream of the answers */
void check_stream_end(struct check *, struct stream *);
void check_ud(struct check *, const struct packet *, const uint8_t *payload);
void check_cm_free(struct check *);

/* The path MTU became known: by what is u, the last READ of unknown length, settled? (check_req.c) */
void check_mtu(struct stream *, uint32_t mtu);

#endif
