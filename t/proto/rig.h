/* SPDX-License-Identifier: MIT */
/*
 * rig.h - two HCAs on a table, and everything between them in the hands of the test.
 *
 *	a ---- hook() sees each packet, may drop it ---- b
 *
 * Memory is the test's own: the address of a span is a pointer.  After every step both HCAs are verified.
 */
#ifndef T_PROTO_RIG_H
#define T_PROTO_RIG_H

#include "t/suite.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/aeth.h"
#include "proto/hca.h"

#define MS      1000000ull
#define BUF_LEN (1u << 20)
#define WCS     4096u

struct region {
	bool gone;  /* the program unmapped it */
	bool ended; /* the program has */
};

struct host {
	struct hca *h;
	uint8_t gid[16];
	uint32_t pdn, cqn, key, qpn;
	uint32_t xrcdn, srqn; /* b, if it is connected by XRC */
	uint8_t *buf;         /* BUF_LEN bytes, registered as key with all rights */
	struct region region;
	struct cqe wc[WCS];
	unsigned wc_n;
	struct hca_event ev[64];
	unsigned ev_n;
};

enum link_mode {
	LINK_WIRE,
	LINK_EARLY /* and early retransmission */,
	LINK_KEEP /* and both keep what is behind a gap */,
	LINK_LOCAL
};

#define RIG_ROOM (4u << 20) /* what a host takes in while it does not look */

struct rig {
	struct host a, b;
	mono_t now;
	enum link_mode mode;
	/* Wire mode: each packet as a burst of one; true: it is lost.  from: a or b. */
	bool (*hook)(struct rig *, struct host *from, const struct burst *);
	void *hook_arg;
	unsigned pkts;     /* sent so far, by both, the lost ones too */
	unsigned bursts;   /* bursts taken */
	struct burst last; /* the packet that was sent last (its payload is gone) */
};

struct link_conf {
	uint8_t type, mtu, timeout, retry, rnr_retry, min_rnr, rd_atomic, dest_rd_atomic;
	uint32_t psn;   /* first PSN of a; b's is psn + 77 */
	int32_t rq_off; /* b expects so many more, by mistake */
	uint32_t sq_depth, rq_depth;
	uint32_t access;
	uint32_t owner;
	uint8_t tclass;
	uint8_t pkey_a, pkey_b; /* rows: rig_pkey() */
	bool sig_all;
	uint32_t srqn_b;
};
extern const struct link_conf conf_rc;
extern uint32_t rig_no_kinds;     /* of hosts that are made from now on: hca_cfg.no_kinds */
extern uint8_t rig_least_timeout; /* likewise */

/*
 * P_Key tables, behind row 0: in partition 1 both are full members, in 2 b is, in 3 a is, in 4 neither.  b has them
 * the other way round.
 */
#define RIG_PKEYS 5u
uint16_t rig_pkey(const struct rig *, const struct host *, unsigned row);

void rig_init(struct rig *, enum link_mode);
void rig_fini(struct rig *);
/* A QP of each, connected and in RTS; UD: qkey 0x1234.  QPT_XRC_SEND: a sends, b receives by an SRQ, on which rig_recv() posts. */
void rig_connect(struct rig *, const struct link_conf *);
/* The same on a new SRQ of b: *c names it from then on.  s: all but its PD. */
void rig_connect_srq(struct rig *, struct link_conf *c, struct srq_init s);
void rig_to_init(struct rig *, struct host *, const struct link_conf *); /* by RESET */
void rig_to_rtr(struct rig *, struct host *, struct host *peer, const struct link_conf *);
void rig_to_rts(struct rig *, struct host *, const struct link_conf *);

void rig_run(struct rig *);                    /* until neither has anything to send */
bool rig_tick(struct rig *);                   /* to the next deadline, and run; false: none */
void rig_settle(struct rig *, unsigned ticks); /* run, and at most so many ticks */

/* ---- work requests; offsets into the buffers ---- */
struct wr_arg {
	uint64_t id;
	enum wr_op op;
	unsigned flags;
	uint64_t off; /* in the sender's buffer */
	uint32_t len;
	uint64_t roff; /* in the peer's buffer */
	uint32_t imm;
	uint64_t swap, compare_add;
	uint32_t lkey, rkey; /* 0: the buffers' */
	unsigned sge_n;      /* 0: 1.  len is cut into so many */
	uint32_t srqn;       /* XRC; 0: b's */
	uint32_t
		access; /* FLUSH: placement (and imm: selectivity).  BIND_MW: of the window rkey, on off .. off + len of the own buffer */
	bool inl, quiet; /* inline; unsignaled */
};
int rig_send(struct rig *, struct host *from, const struct wr_arg *);
#define SEND_WR(rig, from, ...) rig_send((rig), (from), &(struct wr_arg){ __VA_ARGS__ })
void rig_recv(struct rig *, struct host *, uint64_t id, uint64_t off, uint32_t len);
int rig_srq_recv(struct rig *, uint32_t srqn, uint64_t id, uint64_t off, uint32_t len); /* b's */

const struct cqe *wc_of(const struct host *, uint64_t id); /* NULL: none */
uint8_t rig_state(const struct host *);                    /* of its QP */
unsigned wc_status(const struct host *, uint64_t id);      /* 255: none; fails the test if there are two */
bool has_event(const struct host *, unsigned type);
uint64_t fault_n(const struct host *, const char *row);
uint64_t stat_n(const struct host *, enum hca_stat);
void fill(uint8_t *p, size_t len, unsigned seed);
void check_fill(const uint8_t *p, size_t len, unsigned seed);

/* A packet made by hand, from b's peer to b (or the reverse), given straight to the receiver. */
struct burst pkt_from(struct rig *, struct host *from, uint8_t opcode, uint32_t psn);
void pkt_give(struct rig *, struct host *to, struct burst *, const void *payload, uint32_t len);
/* The next burst of a host; false: none. */
bool take(struct rig *, struct host *, struct burst *);

#endif
