/* SPDX-License-Identifier: MIT */
/*
 * ladder.h - a capture as a sequence diagram: two rails for each connection, its ends, and a rung for each packet.
 *
 *	source --ladder_frame()--> rungs --ladder_end()--> connections, bands, facts --> SVG, page, JSON
 *
 * The rules of conversations are those of the checker (check_in.h), which runs along, mute; the meaning and the fate of
 * a packet are decided in ladder_fate.c.
 */
#ifndef CTL_LADDER_H
#define CTL_LADDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../proto/mono.h"
#include "check_in.h"
#include "command.h"

#define NOWHERE UINT32_MAX /* no rung, no connection */

/* clang-format off */
enum rung_class { RUNG_SEND, RUNG_WRITE, RUNG_READ, RUNG_ATOMIC, RUNG_ACK, RUNG_NAK, RUNG_RNR, RUNG_CM, RUNG_UD, RUNG_OTHER, RUNG_CLASSES };
/* clang-format on */

enum fate {
	FATE_OK,
	FATE_LOST,       /* did not arrive: the capture says so, or what came after it does */
	FATE_MISSING,    /* is not in the capture, though it must have been sent: lost before it came there */
	FATE_UNANSWERED, /* was sent again without a word of the peer: it was lost, or its answer */
	FATE_DISCARDED,  /* arrived where another was expected, or at a receiver that was not ready */
	FATE_REFUSED,    /* a NAK that ends the connection is for it */
	FATES
};

struct rung {
	uint64_t ns;      /* seen first */
	uint64_t arrived; /* seen at the other end, 0: not captured there */
	uint64_t no;      /* packet of the file */
	uint64_t id;      /* equal for equal bytes */
	uint32_t stream, conn;
	uint64_t where, there; /* the interface, as in struct taken; that where it arrived */
	uint8_t from;          /* side of the connection */
	uint8_t class, op, fate;
	bool request;   /* of a connected service */
	bool dup;       /* the receiver had it already */
	bool out;       /* seen where it left */
	bool in;        /* seen where it arrived, and nowhere before */
	bool asked;     /* FATE_MISSING: a NAK asks for it */
	uint16_t again; /* k-th repetition */
	uint32_t n;     /* packets; of a FATE_MISSING */
	int64_t rel;    /* PSN, counted from the first of its direction; answers: of the other one */
	uint64_t seq;
	uint32_t psn, len;
	const char *name; /* opcode, without its service; of a CM message its own */
	char *note;       /* what it means */
	char *comment;    /* of the capture */
	char *say;        /* the part of it that the diagram does not show by itself */
	char *detail;     /* "name\tvalue\n"... of its headers */
};

struct conn_side {
	uint8_t gid[16];
	uint32_t qpn; /* 0: not known */
};

struct conn {
	struct conn_side side[2];
	uint8_t svc;
	uint64_t begin, end;
	uint32_t packets, again, lost, missing, unanswered, dup, nak, rnr, discarded;
	uint64_t bytes; /* payload */
};

/* A queue pair is in this state from ns on. */
struct band {
	uint64_t ns;
	struct conn_side at;
	const char *state;
	const char *why; /* how this is known */
};

struct exchange; /* of the CM, ladder_cm.c */

/* Kept for each stream of conv.h, by its id. */
struct rail {
	struct stream *stream;
	uint64_t matched; /* the last time that one of its packets was seen at both ends; 0: never */
	uint32_t since;   /* rungs before this one are of a queue pair that was there before */
	uint64_t base;    /* seq of its first PSN */
	uint32_t conn;
	uint8_t side; /* that sends */
};

struct ladder {
	struct check check;
	struct conv conv; /* the check's */
	struct rung *rung;
	uint32_t n, cap;
	struct rail *rail;
	uint32_t rails;
	struct conn *conn;
	uint32_t conns;
	struct band *band;
	uint32_t bands;
	struct exchange *exchange; /* newest first */
	uint64_t *map;             /* (stream, seq) and ids to rungs: ladder_map.c */
	uint32_t map_n, map_cap;
	uint64_t frames, begin, last;
	uint64_t skipped; /* beyond max */
	uint64_t drops;   /* the capture had no room for so many */
	uint64_t cut;     /* frames that the capture has cut */
	uint32_t missed;  /* packets that the capture has not, and that may come late */
	int odd_link;     /* link type of frames that cannot be read; 0: there was none */
	uint32_t max;
	uint64_t early_ns; /* clocks are so uneven that a packet may arrive so long before it left */
	const char *name, *title;
	bool icrcs; /* there was one that is right */
	bool no_memory;
};

/* ---- ladder_read.c ------------------------------------------------------- */

struct taken { /* a frame, and what the capture says of it */
	uint64_t no, ns;
	int link;
	const uint8_t *data;
	size_t len;
	uint64_t where; /* equal for equal interfaces */
	enum { TAKEN_ANYWHERE, TAKEN_OUT, TAKEN_IN } dir;
	const char *comment; /* lines between '\n's; NULL: none */
};
void ladder_frame(struct ladder *, const struct taken *);
/* A new rung, not yet of a stream; NULL: no room. */
struct rung *ladder_rung(struct ladder *, uint64_t ns, uint64_t no);
struct rail *ladder_rail(struct ladder *, struct stream *); /* NULL: no memory */
/* Words behind those that a rung's note has already. */
void rung_note(struct rung *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ladder_free(struct ladder *);

/* ---- ladder_map.c ------------------------------------------------------------ */

/* The newest rung of a key; NOWHERE: none. */
uint32_t map_get(const struct ladder *, uint64_t key);
void map_put(struct ladder *, uint64_t key, uint32_t rung);
#define KEY_ANSWER (1ull << 62)
static inline uint64_t key_of(const struct stream *s, uint64_t seq)
{
	return (uint64_t)(s->id + 1) << 40 | (seq & 0xffffffffff);
}

/* ---- ladder_fate.c ------------------------------------------------------------- */

void fate_request(struct ladder *, uint32_t rung, struct stream *, const struct packet *);
void fate_answer(struct ladder *, uint32_t rung, struct stream *, const struct packet *);
void fate_uc(struct ladder *, uint32_t rung, struct stream *, const struct packet *);
void fate_end(struct ladder *);

/* ---- ladder_cm.c ---------------------------------------------------------------- */

/* A MAD of the connection manager: the rung's name, details; what it does to the queue pairs. */
void ladder_cm(struct ladder *, uint32_t rung, const struct packet *, const uint8_t *mad);
void ladder_band(struct ladder *, uint64_t ns, const uint8_t *gid, uint32_t qpn, const char *state, const char *why);
void cm_connections(struct ladder *); /* of exchanges that have no stream */
void cm_free(struct ladder *);

/* ---- ladder_conn.c ---------------------------------------------------------------- */

/* All is read: what became of the last packets, connections, counts; keep is called, if given, for what is to stay. */
void ladder_end(struct ladder *, const uint32_t *qpn, unsigned qpns);
uint32_t conn_new(struct ladder *, const uint8_t *gid0, uint32_t qpn0, const uint8_t *gid1, uint32_t qpn1, uint8_t svc);

/* ---- out ------------------------------------------------------------------------------ */

struct ladder_style {
	bool unfold;
	enum { THEME_AUTO, THEME_LIGHT, THEME_DARK } theme;
};
/* Each false: no memory.  A failed write shows in the state of f. */
bool ladder_svg(const struct ladder *, const struct ladder_style *, FILE *f);
bool ladder_html(const struct ladder *, const struct ladder_style *, FILE *f);
json_t *ladder_json(const struct ladder *);

/* A word for packets that are not there. */
static inline const char *ladder_gone(const struct ladder *l) { return l->drops ? "lost or not captured" : "lost"; }

const char *class_name(enum rung_class);
const char *fate_name(enum fate);
const char *service_name(uint8_t svc);

#endif
