/* SPDX-License-Identifier: MIT */
/*
 * conv.h - the conversations of a capture: for each direction the requests that were sent, in the order of
 * their PSNs, and their answers.
 *
 * A stream is all packets from one address to one queue pair of another.  It carries the requests of its sender, and the
 * answers of its sender to the requests of its mate, the stream of the other direction.  BTHs name the
 * receiver alone: mates are found by the CM's messages, or by an answer that fits (conv_mate).
 *
 * PSNs are unwrapped: a seq goes on counting where a PSN starts again from 0.
 */
#ifndef CTL_CONV_H
#define CTL_CONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../proto/burst.h"
#include "../proto/mono.h"
#include "frame.h"

#define RESTARTS 8u

/* A request packet; a READ stands for all its responses. */
struct sent {
	uint64_t seq;
	uint32_t n;    /* PSNs; 0: a READ of unknown MTU */
	uint32_t len;  /* payload; of a READ: asked for */
	uint32_t mark; /* of the extended headers: equal for equal ones */
	uint32_t rkey;
	uint64_t va;
	uint64_t frame_no, ns;      /* the first one, when it was sent last */
	uint64_t done_ns;           /* when it was acknowledged, or passed; 0: it was not */
	uint32_t msn;               /* messages that end with or before it, since the stream began */
	uint32_t holes;             /* gaps before it, where packets are missing, or out of order: no MSN can be told */
	uint64_t off, total;        /* in its message; total of a WRITE as its RETH says */
	uint32_t have;              /* responses that came, without a gap */
	uint32_t restart[RESTARTS]; /* the responses from which on a READ was asked for again */
	uint8_t restarts;           /* the next one to be overwritten */
	uint8_t op;                 /* whole opcode byte */
	bool linked;                /* the packet before it is known */
	bool passed;                /* acknowledged, though responses are missing */
	bool told;                  /* total is known */
	bool vague;                 /* its length is not known */
};

struct stream {
	struct stream *next; /* in its bucket */
	struct stream *mate; /* NULL: not known */
	uint8_t sgid[16], dgid[16];
	uint32_t dqpn;
	uint8_t svc;  /* SVC_... */
	uint32_t id;  /* 0 for the first of its conv, and so on */
	uint32_t mtu; /* 0: not known */
	bool begun;   /* a request was seen */
	bool agreed;  /* the first PSN is known from the CM */
	uint32_t first_psn;
	uint64_t floor; /* nothing is known of what is before it */

	/* requests */
	struct sent *v;
	size_t n, cap;
	uint64_t next_seq; /* behind the newest */
	uint64_t cursor;   /* behind the one sent last, in time */
	uint64_t sent_ns;  /* when that was */
	uint32_t block;    /* 1 + the block that it was last noted in as an asker; 0: none */

	/* answers of the mate */
	uint64_t una; /* all before it is acknowledged */
	size_t una_i; /* first of v that is not behind it */
	bool acked;
	uint64_t ack_seq; /* of the newest ACK */
	enum msn_state { MSN_UNKNOWN, MSN_ABOUT, MSN_EXACT } msn_state;
	uint32_t msn_base, msn_holes;
	bool nak, rnr; /* pending */
	bool dead;     /* by a NAK that ends the connection */
	bool unheard;  /* the NAK was lost, by what is sent again */
	uint64_t nak_seq, nak_una, rnr_seq, rnr_until, rnr_heard;
};

#define STREAM_FAR (1 << 20) /* a PSN so far off is of a queue pair that began anew */

#define CONV_BUCKETS 16384u

/* A stream that asked something with a PSN of some block, and may have no mate yet. */
struct asker {
	struct asker *next; /* in its bucket; the newest comes first */
	struct stream *stream;
};

struct conv {
	struct stream *bucket[CONV_BUCKETS];
	struct asker *asker[CONV_BUCKETS]; /* by addresses, service and block of PSNs */
	unsigned streams;
};

/* Of frame and dqpn; made if it is new.  NULL: no memory. */
struct stream *conv_stream(struct conv *, const struct frame *, uint8_t svc, uint32_t dqpn);
struct stream *conv_find(struct conv *, const uint8_t *sgid, const uint8_t *dgid, uint8_t svc, uint32_t dqpn);
/* The stream whose requests an answer of this kind and PSN in s is for; NULL: none fits, or several. */
struct stream *conv_mate(struct conv *, struct stream *s, uint8_t kind, psn_t);
/* A request was put into s: conv_mate() will know.  false: no memory. */
bool conv_asked(struct conv *, struct stream *, const struct sent *);
void conv_marry(struct stream *, struct stream *);
void conv_free(struct conv *);

/* Forgets everything but the addresses: the queue pair began anew. */
void stream_reset(struct stream *);
uint64_t seq_near(psn_t, uint64_t ref); /* the seq of a PSN that is nearest to ref */
static inline psn_t seq_psn(uint64_t seq) { return psn((uint32_t)seq); }

static inline bool stream_far(const struct stream *s, psn_t p)
{
	int32_t off = psn_diff(p, seq_psn(s->next_seq));

	return off > STREAM_FAR || off < -STREAM_FAR;
}
/* No request for long; now is when something came. */
bool stream_silent(const struct stream *, uint64_t now);

/* Lets go of requests that were acknowledged long ago: what stream_at() gave before holds no more. */
void stream_trim(struct stream *);
/* The request that has this seq; NULL: not in the capture, or long done.  *i: its index, or the one that it would have. */
struct sent *stream_at(struct stream *, uint64_t seq, size_t *i);
/* Puts one in at i, which stream_at() gave; NULL: no memory. */
struct sent *stream_put(struct stream *, size_t i, const struct sent *);

/* Requests: the kinds of messages that an AETH counts. */
static inline bool sent_ends(const struct sent *u) { return opcode_get(u->op)->place & PLACE_LAST; }
/* It has responses of its own. */
static inline bool sent_waits(const struct sent *u) { return opcode_get(u->op)->role == ROLE_ASK; }

#endif
