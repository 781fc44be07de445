/* SPDX-License-Identifier: MIT */
/*
 * cm.h - the communication manager of one device: connections are made, kept apart and ended by MADs.
 *
 *	active				passive
 *	cm_connect	-- REQ -->	CM_EV_REQ (a new id)
 *	CM_EV_REP	<-- REP --	cm_accept
 *	cm_rtu		-- RTU -->	CM_EV_RTU		both: CM_ESTABLISHED
 *	cm_disconnect	-- DREQ -->	CM_EV_DREQ
 *	CM_EV_DREP	<-- DREP --	cm_disconnect, or cm_id_free
 *	CM_EV_TIMEWAIT_EXIT		CM_EV_TIMEWAIT_EXIT
 *
 * Like an HCA it does no I/O and has no clock: MADs in (cm_rx), MADs out (cm_tx), time an argument.  Turn:
 *
 *	calls of programs; cm_rx() for each hca_gsi_rx(); cm_tick() if cm_deadline() has come;
 *	cm_tx() until false, each to hca_gsi_send(); cm_event() until false.
 *
 * An id is the host's from the call (or CM_EV_REQ, CM_EV_SIDR_REQ) that made it until cm_id_free(), whatever
 * state it gets into.  After that the agent keeps what the protocol still needs (a DREQ to be answered,
 * timewait) and says nothing more of it.  The number of an id is its local comm id: never 0, not soon used
 * again.  A REQ that is heard again within a second after that is refused as it was, or as stale, and told to nobody.
 *
 * The agent knows no QPs.  The host moves them, with what cm_qp_get() says, before cm_rtu() and cm_accept().
 * Functions that return int return 0 or a positive errno: EINVAL the id is unknown or not in a state for
 * that, ENOMEM, EADDRINUSE.
 */
#ifndef PROTO_CM_H
#define PROTO_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "cm_msg.h"
#include "gsi.h"
#include "mono.h"

struct cm;

struct cm_cfg {
	uint64_t seed, seed_hi; /* 128 bits that nobody knows: comm ids follow from them (secret.h) */
	uint64_t ca_guid;       /* unique in the network: peers tell stale connections by it (rule 7.7) */
	uint32_t max_ids;       /* more REQs are refused; but ids that the host has freed give way; 0: a default */
};

#define CM_ID_LEN 4096u /* bytes of memory that an id takes, at most */

/* NULL: no memory. */
struct cm *cm_new(const struct cm_cfg *);
void cm_free(struct cm *); /* with all ids; nothing is sent */

enum cm_state {
	CM_NONE, /* no such id */
	CM_LISTEN,
	CM_REQ_SENT,
	CM_MRA_REQ_RCVD, /* REQ sent; the peer asked for patience */
	CM_REP_RCVD,
	CM_MRA_REP_SENT, /* REP received; we asked for patience */
	CM_REQ_RCVD,
	CM_MRA_REQ_SENT, /* REQ received; we asked for patience */
	CM_REP_SENT,
	CM_MRA_REP_RCVD, /* REP sent; the peer asked for patience */
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RCVD,
	CM_TIMEWAIT,
	CM_SIDR_REQ_SENT,
	CM_SIDR_REQ_RCVD,
	CM_DEAD, /* over: rejected, timed out, out of timewait; only cm_id_free() is left */
	CM_STATES
};

/* ---- what a program does -------------------------------------------------- */

/*
 * EADDRINUSE: this service id is listened on.  As many as max_ids wait to be accepted: a backlog is the
 * host's, who says when it is full: then a REQ is as if it had been lost, and comes again; one in haste is refused
 * (REJ 28), and so is a SIDR_REQ (status 2).  The host hears of none.
 */
int cm_listen(struct cm *, uint64_t service_id, void *host, uint32_t *id);

int cm_listen_full(struct cm *, uint32_t id, bool full);

/* Does some id listen for it? */
bool cm_listening(const struct cm *, uint64_t service_id);

/*
 * Sends a REQ.  req: all but local_id and ca_guid; data with the RDMA IP CM header, if that is spoken.
 * route: of all MADs of the connection, from here to the peer.  The REQ is repeated req.max_retries times, soon at
 * first and ever later, and after 2 x packet life time + req.remote_timeout for each that was sent: CM_EV_TIMEOUT.
 */
struct cm_connect {
	struct cm_req req;
	struct route route;
	uint8_t plt; /* packet life time, 4.096 us << this; Linux: 16, formerly 18 */
};
int cm_connect(struct cm *, const struct cm_connect *, void *host, uint32_t *id, mono_t now);

/*
 * Answers CM_EV_REQ.  rep: all but the ids and ca_guid.  Repeated as often as the REQ said, and as long; then CM_EV_TIMEOUT.  But
 * until something comes that has our comm id, the address that the REQ came from gets three MADs for each that came from there,
 * and not one more, unless it has sent such a thing in the last ten minutes: the REQ may be forged.
 */
int cm_accept(struct cm *, uint32_t id, const struct cm_rep *, mono_t now);

/*
 * Answers CM_EV_REP: established.  data: CM_RTU_DATA bytes, or NULL for zeros.  No answer tells whether the RTU has arrived, and
 * the peer may not be free to ask.  So it is repeated all the same, as often as the REQ would have been, each time after
 * req.local_timeout, but no sooner than after 64 ms, until the connection ends.
 */
int cm_rtu(struct cm *, uint32_t id, const uint8_t *data, mono_t now);

/*
 * The QP got a packet before the RTU came (EV_COMM_EST): as if it had come.  Nothing in other states than REP
 * sent.
 */
int cm_established(struct cm *, uint32_t id, mono_t now);

/*
 * Answers CM_EV_REQ or CM_EV_REP with a REJ, or gives up a REQ (REJ 4, whatever reason) or REP that was sent;
 * the id is dead.  data: CM_REJ_DATA bytes or NULL; ari: ari_len bytes or NULL.
 */
int cm_reject(struct cm *, uint32_t id, uint16_t reason, const uint8_t *ari, uint8_t ari_len, const uint8_t *data,
	      mono_t now);

/*
 * Established: DREQ, repeated as the REQ or REP was; then CM_EV_DREP or CM_EV_DREQ_TIMEOUT.  After
 * CM_EV_DREQ: DREP.  EINVAL in every other state: nothing is connected.  data: CM_DREQ_DATA bytes (a DREP
 * takes no more) or NULL.
 */
int cm_disconnect(struct cm *, uint32_t id, const uint8_t *data, mono_t now);

/* UD: asks for the QP behind a service.  req: all but request_id.  Repeated 15 times; given up after 16 x 4096 ms. */
int cm_sidr(struct cm *, const struct cm_sidr_req *, const struct route *, void *host, uint32_t *id, mono_t now);
/*
 * Answers CM_EV_SIDR_REQ.  rep: all but request_id and service_id.  Nothing more comes of the id; it answers
 * repeated questions for some seconds, even when the host has freed it.
 */
int cm_sidr_reply(struct cm *, uint32_t id, const struct cm_sidr_rep *, mono_t now);

/*
 * The host is done with the id: no more events of it, its number is unknown from now on.  Sends what the
 * state demands.  REQ sent: REJ 4 (timeout).  REP sent, REQ or REP received: REJ 28.  Established: DREQ,
 * repeated without a word.  DREQ received: DREP.  SIDR_REQ received: SIDR_REP 2 (rejected).  Listening: each
 * REQ and SIDR_REQ whose event is still to be fetched is freed in the same way.
 */
void cm_id_free(struct cm *, uint32_t id, mono_t now);

/* A program that owns it now; what events say from now on, those that wait included. */
int cm_host_set(struct cm *, uint32_t id, void *host);

/* The host has no room for the request of CM_EV_REQ or CM_EV_SIDR_REQ: as if the listener had been full. */
void cm_request_drop(struct cm *, uint32_t id, mono_t now);

/* ---- MADs and time ---------------------------------------------------------- */

/* Cannot fail: what is no CM message, or not for any id, is answered or dropped as the rules say. */
void cm_rx(struct cm *, const struct gsi *, mono_t now);
bool cm_tx(struct cm *, struct gsi *); /* the next MAD to send; false: none */
void cm_tick(struct cm *, mono_t now);
mono_t cm_deadline(const struct cm *); /* cm_tick() has nothing to do before; MONO_NEVER */

/* ---- what happens ------------------------------------------------------------ */

enum cm_event_type {
	CM_EV_REQ,           /* req; id is new, host is the listener's until cm_host_set() */
	CM_EV_REP,           /* rep */
	CM_EV_RTU,           /* rtu; all zeros if data or a DREQ came first */
	CM_EV_REJ,           /* rej.  The id is dead; but if a REP had come, timewait runs */
	CM_EV_TIMEOUT,       /* no answer to REQ, REP or SIDR_REQ; dead */
	CM_EV_DREQ,          /* dreq: cm_disconnect() or cm_id_free() answers; CM_EV_RTU has come before */
	CM_EV_DREP,          /* the peer knows it is over: DREP, DREQ or REJ to our DREQ; timewait runs */
	CM_EV_DREQ_TIMEOUT,  /* no answer to DREQ; timewait runs */
	CM_EV_TIMEWAIT_EXIT, /* dead; the QP number may be used again */
	CM_EV_SIDR_REQ,      /* sidr_req; id is new, as with CM_EV_REQ */
	CM_EV_SIDR_REP,      /* sidr_rep, whatever its status; dead */
};

struct cm_event {
	enum cm_event_type type;
	uint32_t id;
	void *host;
	uint32_t listen_id; /* CM_EV_REQ, CM_EV_SIDR_REQ: the listener */
	uint32_t sent;      /* how often our last REQ, REP, DREQ or SIDR_REQ was; 0: there was none */
	struct route route; /* from here to the peer, as an answer goes */
	struct cm_msg msg;  /* attr 0 if no message brought it */
};
bool cm_event(struct cm *, struct cm_event *); /* false: none */

/* ---- looking in ---------------------------------------------------------------- */

/*
 * The QP attributes that the messages agreed on (rule 7.8), from REP or REQ received on till the connection is over.
 * Of REQ received, max_rd_atomic and max_dest_rd_atomic are what the REQ asks for: cm_accept() may say less.
 */
struct cm_qp {
	uint8_t transport; /* enum cm_transport */
	uint32_t dest_qpn;
	uint32_t rq_psn, sq_psn; /* rq_psn of REQ received: 0 until cm_accept() */
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t mtu, timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t srq;        /* the peer's QP uses one */
	struct route route; /* of data, from here to the peer: the REQ's path */
};
bool cm_qp_get(const struct cm *, uint32_t id, struct cm_qp *);

/* An id that waits: for the peer, or for what its own program says. */
struct cm_wait {
	enum cm_state state;
	uint32_t sent; /* how often what is not answered was sent; 0: it is the program that has to answer */
	mono_t since;
};
bool cm_wait(const struct cm *, uint32_t id, struct cm_wait *); /* false: it waits for nothing */

enum cm_state cm_state(const struct cm *, uint32_t id); /* CM_NONE: unknown, or freed by the host */
const char *cm_state_name(enum cm_state);
const char *cm_event_name(enum cm_event_type);

struct cm_count {
	uint32_t ids; /* the host's and the agent's own */
	uint32_t by_state[CM_STATES];
	uint64_t rx[CM_APR - CM_REQ + 1], tx[CM_APR - CM_REQ + 1]; /* messages by attribute */
	uint64_t dropped;
};
void cm_counts(const struct cm *, struct cm_count *);

/* Walks every invariant; aborts if one does not hold.  For tests. */
void cm_verify(const struct cm *);
/* So many ids have one place in a table, at most.  For tests. */
unsigned cm_chain_max(const struct cm *);
/* The number of the next id.  For replays. */
void cm_next_id(struct cm *, uint32_t id);

#endif
