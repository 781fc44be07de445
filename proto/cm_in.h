/* SPDX-License-Identifier: MIT */
/* cm_in.h - a CM agent from inside; for the files of proto/cm*.c only. */
#ifndef PROTO_CM_IN_H
#define PROTO_CM_IN_H

#include "cm.h"
#include "heap.h"
#include "link.h"
#include "secret.h"

#define CM_HASH     4096u  /* a power of two */
#define CM_OUT_MAX  4096u  /* MADs that wait to be sent; a power of two */
#define CM_OUT_KEPT 64u    /* room for so many stays when none waits */
#define CM_IDS      65536u /* a default */
#define CM_EVS      4u     /* request or reply; up or refused; down; out of timewait */
#define CM_PAST     128u   /* requests that are over, and remembered for CM_PAST_NS since they were last heard */

#define CM_MRA_TIMEOUT  24u           /* what we ask for, unasked, when a peer repeats itself to a slow program */
#define CM_MRA_MAX      24u           /* and what a peer gets, at most: 67 s */
#define CM_PEER_MAX     21u           /* other times that a peer sets, at most: 8.6 s */
#define CM_PEER_NS      64000000u     /* but no shorter, before something is repeated */
#define CM_TOLD         3u            /* MADs to one who is not proven, for each that came from there */
#define CM_KNOWN        256u          /* places for addresses that are proven; a power of two */
#define CM_KNOWN_NS     600000000000u /* since the last proof */
#define CM_FIRST_NS     32000000u     /* before the first repetition */
#define CM_PAST_NS      1000000000u
#define CM_SIDR_TIMEOUT 20u
#define CM_SIDR_RETRIES 15u

struct cm_ev {
	struct link link; /* in cm.events; alone: free */
	struct cm_id *id;
	enum cm_event_type type;
	bool msg; /* mad holds one */
	uint32_t sent;
	struct route route;
	uint8_t mad[MAD_LEN];
};

struct cm_id {
	struct link by_id;   /* always in the table */
	struct link by_peer; /* the peer's comm id and GUID, or SIDR request id; alone: not in it */
	struct link rest;    /* in cm.rests: freed by the host, and not over */
	struct link by_qpn;  /* the peer's QPN and GUID: from REQ or REP received till it is over, or freed */
	uint32_t id;         /* our comm id */
	uint32_t remote_id;  /* 0: not known yet */
	uint64_t remote_guid;
	uint32_t local_qpn;
	enum cm_state state;
	bool freed; /* the host's no more: goes when dead */
	bool passive;
	bool hasty;          /* its REQ */
	bool sidr;           /* in timewait: answers what is repeated */
	bool full;           /* listening: what asks is refused */
	bool proven;         /* who is at the other end has shown that he gets what we send there */
	uint8_t heard, told; /* until then: MADs from there, and to there */
	void *host;
	uint32_t listen_id;
	uint64_t service_id; /* SIDR: what was asked for */
	struct route route;
	uint64_t tid; /* of the REQ or SIDR_REQ */
	struct cm_qp qp;
	uint8_t plt;
	uint8_t own_resp_res, own_init_depth;
	uint64_t timeout_ns; /* what the peer gets to answer, each time */
	uint64_t pause_ns;   /* before the next repetition, if it comes early */
	mono_t give_up;      /* when the last repetition has waited in vain */
	mono_t patient;      /* the peer asked for patience: till then repetitions do not count */
	uint8_t retries, retries_left;
	uint32_t sent;      /* how often, of what is repeated */
	mono_t since;       /* and since when */
	uint64_t answer_ns; /* what we get to answer */
	mono_t asked;       /* since when the program has had something to answer */
	struct timer timer;
	uint8_t last[MAD_LEN]; /* what is repeated */
	struct cm_ev ev[CM_EVS];
};

/* A request that is over: who asked, and how it is answered if it is heard again. */
struct cm_past {
	uint32_t remote_id; /* 0: none */
	uint64_t guid;
	mono_t until;
	struct route back; /* to the peer */
	uint8_t rej[MAD_LEN];
};

/* An address where somebody gets what we send there. */
struct cm_known {
	uint8_t gid[16];
	mono_t until;
};

struct cm {
	struct cm_cfg cfg;
	mono_t now; /* of the call under way */
	struct secret secret;
	uint32_t next_id; /* 0: out of rng */
	struct link by_id[CM_HASH], by_peer[CM_HASH], by_qpn[CM_HASH];
	struct heap timers;
	struct link rests; /* the oldest first */
	struct link events;
	struct gsi *out; /* a ring, numbered on without end; head is the next to be sent */
	uint32_t out_size, out_head, out_tail;
	struct cm_past past[CM_PAST]; /* a ring; past_n: put in so far */
	uint32_t past_n;
	struct cm_known known[CM_KNOWN];
	struct cm_count n;
};

/* It does not go back, whatever threads call. */
static inline void cm_clock(struct cm *c, mono_t now)
{
	if (mono_before(c->now, now))
		c->now = now;
}

/* ---- cm_id.c: ids, their tables, events, what is sent ---- */

struct cm_id *id_new(struct cm *, enum cm_state); /* NULL: no memory, or too many */
void id_del(struct cm *, struct cm_id *);         /* at once, with its events */
struct cm_id *id_find(const struct cm *, uint32_t id);
/* By what the peer calls it, and the way that it came: what others say they are is not believed. */
struct cm_id *id_find_peer(const struct cm *, uint32_t remote_id, uint64_t guid, const struct route *from);
struct cm_id *id_find_sidr(const struct cm *, uint32_t request_id, const uint8_t *gid);
struct cm_id *id_find_qpn(const struct cm *, uint32_t qpn, uint64_t guid, const struct route *from);
struct cm_id *id_find_service(const struct cm *, uint64_t service_id);
void id_peer_set(struct cm *, struct cm_id *, uint32_t remote_id, uint64_t guid);
void id_qpn_set(struct cm *, struct cm_id *, uint32_t qpn);
void id_state(struct cm *, struct cm_id *, enum cm_state); /* its timer is stopped */
void id_dead(struct cm *, struct cm_id *);                 /* goes at once if the host has freed it */

/* The peer has shown that it gets what we send to its address; and is it known to get it? */
void id_proven(struct cm *, struct cm_id *);
bool gid_known(const struct cm *, const uint8_t gid[16]);

/* An event of the id; g NULL: no message brought it. */
void id_event(struct cm *, struct cm_id *, enum cm_event_type, const struct gsi *);
void id_free_events(struct cm_id *);

void out_put(struct cm *, const struct route *, const struct cm_msg *);
void out_mad(struct cm *, const struct route *, const uint8_t *mad);
void id_send(struct cm *, struct cm_id *, const struct cm_msg *); /* and remembers it */
bool id_again(struct cm *, struct cm_id *);                       /* what was remembered; false: it may not be sent */
void id_repeat(struct cm *, struct cm_id *);                      /* from now on, until retries are used up */
void id_repeat_slowly(struct cm *, struct cm_id *, uint64_t ns);  /* the same, each ns and not sooner */
void id_repeat_wait(struct cm *, struct cm_id *);                 /* sets the timer to the next time */
void id_patient(struct cm *, struct cm_id *, uint64_t ns);        /* the peer needs so much longer */

static inline uint8_t least(uint8_t a, uint8_t b) { return a < b ? a : b; }

/* The attribute of what was sent last; 0: nothing. */
static inline uint8_t cm_last(const struct cm_id *i) { return i->last[17]; }

/* ---- cm_past.c ---- */

void past_put(struct cm *, const struct cm_req *, const struct route *back, const struct cm_msg *rej);
void past_id(struct cm *, const struct cm_id *); /* the peer's request that made the id */
/* NULL: not known.  gid: of who sent the REQ. */
const struct cm_past *past_find(struct cm *, const struct cm_req *, const uint8_t *gid);

/* ---- routes ---- */

#define CM_HOPS 64u /* hop limit of what answers */

/* The way back: all the hops that there may be, and the peer's traffic class without its congestion marks. */
static inline struct route route_back(const struct route *r)
{
	struct route b = *r;

	b.hop_limit = CM_HOPS;
	b.tclass &= 0xfc;
	for (unsigned i = 0; i < 16; i++) {
		b.sgid[i] = r->dgid[i];
		b.dgid[i] = r->sgid[i];
	}
	return b;
}

/* ---- cm.c ---- */

void send_mra(struct cm *, struct cm_id *);
void send_dreq(struct cm *, struct cm_id *, const uint8_t *data);
void send_drep(struct cm *, struct cm_id *, const uint8_t *data);
void id_timewait(struct cm *, struct cm_id *);
void sidr_wait(struct cm *, struct cm_id *);

#endif
