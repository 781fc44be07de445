/* SPDX-License-Identifier: MIT */
/*
 * play.h - two or three HCAs with a link between them that stands still until somebody says "step".
 *
 *	post --> HCA (proto/) --> packets: rules (lab/), then under way, each to be spoilt by hand --> HCA --> completions
 *
 * A host of the core like the daemon and the simulator, for contrib/playground: time is virtual and goes from event to
 * event, an event being a packet that arrives or a timer that runs out. The same calls in the same order give the same
 * bytes.
 */
#ifndef PLAY_H
#define PLAY_H

#include "lab/remark.h"
#include "lab/rule.h"
#include "proto/cm.h"
#include "proto/hca.h"
#include "proto/trace.h"
#include "proto/why.h"

#define NODES   3u
#define PAIRS   8u
#define PKTS    2048u /* packets of a scenario */
#define NOTES   4096u /* what else happened */
#define PKT_MAX 1184u /* bytes of one: headers, 1024, pad, ICRC; rounded up */

#define SLOTS 64u /* sends of a node that are not complete */

/* A node's memory, and its areas. From AREA_OUT on each send that is not complete has a slot of its own, of AREA_LEN. */
enum {
	AREA_TARGET = 0,
	AREA_IN = 0x4000,
	AREA_SOURCE = 0x8000, /* what READs of the peers get */
	AREA_WORD = 0xc000,
	AREA_RESULT = 0xc100,
	AREA_OUT = 0x10000,
	AREA_LEN = 0x4000,
	MEM_LEN = AREA_OUT + SLOTS * AREA_LEN,
	MEM_STEP = 0x1000000 /* from the address of one node's memory to that of the next */
};

#define LINK_NS     2000u /* the way of a packet */
#define LINK_GAP_NS 500u  /* between two that leave one after the other */

enum pkt_state { PKT_FLYING, PKT_ARRIVED, PKT_LOST };

struct pkt {
	uint8_t from, to;
	uint8_t state; /* enum pkt_state */
	uint8_t kind;  /* enum tap_kind */
	bool bad;      /* its bytes were damaged, and the ICRC is wrong */
	bool made;     /* no HCA sent it: a copy, or a rule's answer */
	bool ruled;    /* rules have let it arrive */
	uint32_t iter; /* which transmission; 0: nobody counts */
	uint32_t qpn;  /* of the sender */
	uint32_t order;
	uint64_t sent, at; /* ns; when it arrives, arrived, or was lost */
	struct route route;
	struct remark_text said; /* of rules and of hands, where it left, where it arrived */
	uint32_t len;            /* with the ICRC */
	uint8_t data[PKT_MAX];
};

enum note_kind { NOTE_POST, NOTE_RECV, NOTE_CQE, NOTE_TRACE, NOTE_EVENT, NOTE_WHY, NOTE_CM, NOTE_MODIFY };

struct note {
	uint8_t kind, node; /* enum note_kind */
	uint32_t order;
	uint64_t at;
	union {
		struct cqe cqe;
		struct trace_rec trace;
		struct hca_event event;
		struct {
			uint32_t qpn, op, len;
			uint64_t id;
		} post;
		struct {
			uint32_t qpn;
			uint8_t cause, key;
		} why;
		struct {
			uint32_t qpn;
			uint8_t state; /* that it did not get to */
		} modify;
		uint8_t cm; /* enum cm_event_type */
	};
};

struct node {
	uint8_t i;
	uint8_t gid[16];
	struct hca *hca;
	struct cm *cm;
	uint32_t pdn, cqn, key;
	uint64_t trace_at;
	uint64_t slot[SLOTS]; /* wr_id of the send that has it; 0: free */
	uint8_t mem[MEM_LEN];
};

struct pair {
	uint8_t type; /* enum qp_type */
	bool cm;      /* connected by the CM agents */
	uint8_t node[2];
	uint32_t qpn[2], sq_psn[2];
	struct qp_attr attr; /* of both, but for PSNs and addresses */
};

struct world {
	uint64_t now;
	unsigned nodes, pairs, pkts, notes;
	uint32_t order; /* of what happened */
	uint64_t wr_id;
	uint64_t busy[NODES][NODES]; /* the last packet leaves */
	struct node node[NODES];
	struct pair pair[PAIRS];
	struct pkt *pkt;
	struct note *note;
	struct rules rules;
	struct flows flows;
	struct remark *remark;
	bool full; /* a packet or a note found no room: what is seen is not all */
};

extern struct world world;

/* ---- play.c -------------------------------------------------------------------- */

void world_new(unsigned nodes, uint64_t seed);
mono_t world_now(void);

/* A QP on each of two nodes, connected. PSNs: of side 0, and of side 1. Its number, or -1. */
int world_pair(uint8_t type, unsigned a, unsigned b, const struct qp_attr *, uint32_t psn0, uint32_t psn1);
/* The same, but side 0 calls side 1 by the CM, as rdma_connect() does; world_hangup() ends it. */
int world_call(unsigned a, unsigned b, const struct qp_attr *);
int world_hangup(unsigned pair);
/* INIT to RTS; false: refused, and a note says so. */
bool world_connected(unsigned pair, unsigned side, const struct qp_attr *);

int world_recv(unsigned pair, unsigned side, uint32_t len);
struct post {
	uint8_t op; /* enum wr_op */
	uint32_t len, imm;
	bool bad_key;
	uint64_t compare_add, swap;
};
int world_post(unsigned pair, unsigned side, const struct post *);

/* The next event: 0 nothing will ever happen, 1 a packet, 2 a timer. *which: the packet, or the node. */
int world_step(unsigned *which);
void world_turns(void); /* after something was done by hand */
void mem_gather(uint8_t *to, uint32_t len, const struct span *src, unsigned src_n,
		uint64_t off); /* len bytes from off on */
struct note *note_new(enum note_kind, unsigned node);

/* ---- play_wire.c --------------------------------------------------------------- */

void wire_tx(struct node *, const struct burst *);
struct pkt *wire_next(void); /* the one that arrives first; NULL */
void wire_arrive(struct pkt *);
void wire_rules(
	const char *text,
	struct rule_error *); /* instead of those before; err->text: what is wrong with them, and those before hold */

enum hand { HAND_DROP, HAND_DELAY, HAND_TWICE, HAND_FLIP, HAND_NOW };
/* arg: HAND_DELAY ns, HAND_FLIP the bit. 0, or EINVAL: it is not under way. */
int wire_hand(unsigned pkt, enum hand, uint32_t arg);

/* ---- play_cm.c ----------------------------------------------------------------- */

int cm_call(unsigned pair);
int cm_hangup(unsigned pair);
void cm_turn(struct node *); /* MADs in and out, events */

/* ---- play_json.c: text that is good until the next call ------------------------ */

const char *json_world(void);
const char *json_tables(void); /* opcodes, headers and their fields, names */

#endif
