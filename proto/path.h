/* SPDX-License-Identifier: MIT */
/*
 * path.h - the way to one peer GID, shared by all QPs that go there: what is in flight, and how much may be.
 *
 * UDP has no credits: more than the receiver's socket buffer holds is lost, and go-back-N then
 * sends it all again.  So bytes in flight are bounded by a window that halves on loss and
 * grows back with ACKs.  A local peer loses nothing: there is no window, and nothing is counted as in flight.
 *
 * UC is not acknowledged: nobody says how much of it has arrived.  Its messages fill a bucket of half of what the
 * peer's socket takes in, which runs out in two milliseconds: so that much may come at once, and the other
 * half while the peer does not look for as long.  Where the buffers are large that is no limit in effect.  It begins to run out
 * when the host says that what is in it has left, and time for which this host was late does not count: one whose thread lost its
 * core would send it all at once behind that, to a peer that may have lost it, too.
 *
 * Packets in flight of a dead QP must not shut the window for the others for as long as its timeout lasts:
 * if QPs wait and little is acknowledged, a new epoch begins, in which nothing is in flight yet.
 *
 * The shortest round trip of the last ten seconds or so is what the network takes, without the hosts: all QPs of the path find
 * it out together.  It is a minimum that is forgotten by time, not one that creeps up with every longer round trip: a host
 * without a core would make the network look slow within a second.
 */
#ifndef PROTO_PATH_H
#define PROTO_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "heap.h"
#include "turns.h"

struct hca;
struct qp;

struct pace {
	uint64_t room;  /* of the bucket, bytes; 0: it has no end */
	uint64_t level; /* at that time */
	mono_t at;
	struct link filled; /* in paths.filled: since hca_sent() was called */
	struct timer timer; /* runs while QPs wait, until: */
	mono_t due;
	struct link waiters; /* UC QPs */
};

struct shortest {
	uint64_t now_ns,
		before_ns; /* since then, and in the time before that in which there was something; 0: nothing */
	mono_t since;
};

struct path {
	struct path *next; /* same hash */
	uint8_t dgid[16];
	uint32_t users; /* QPs */
	bool local;
	uint32_t burst_len;   /* payload bytes of a burst */
	uint64_t window;      /* bytes that may be in flight */
	uint64_t inflight;    /* requests not acknowledged; for READs the responses asked for */
	uint64_t acked;       /* since the window was last cut */
	uint64_t acked_epoch; /* since the timer was set */
	uint32_t epoch;
	uint32_t owed; /* in this epoch: QPs whose last AckReq is not answered yet: of these something will be heard */
	struct timer timer;   /* runs while QPs wait */
	struct turns waiters; /* QPs that have more to send than the window allows, by owner */
	struct pace pace;
	struct shortest rtt;
	bool keeps;                 /* the peer keeps what it gets behind a gap: mend.h */
	uint8_t misses;             /* in a row: it did not, though it does */
	uint8_t untried, untried_n; /* losses until that is tried again; and how many there were last time */
};

#define PATH_HASH 256u

struct paths {
	struct path *head[PATH_HASH];
	uint32_t n;
	uint8_t (*local)[16];
	uint32_t local_n, local_max;
	struct link filled; /* with a bucket of which some has not left yet */
};

void paths_init(struct paths *);

/* One more user, and his lane among those who wait; NULL: no memory. */
struct path *path_get(struct hca *, const uint8_t *dgid, uint32_t owner, struct lane **);
void path_put(struct hca *, struct path *, struct lane *);
bool path_is_local(const struct hca *, const uint8_t *dgid);
void paths_fini(struct hca *);

/*
 * Bytes of room in the window; at least 1 if no answer is due, so that something always moves: what was sent without an AckReq
 * while the window was wide open may be more than the window is by now, and nobody will say that it has arrived.
 */
uint64_t path_room(const struct path *);
/* n bytes of the QP went out; or are no longer in flight; acked bytes, these or others, have arrived. */
void path_sent(struct qp *, uint64_t n);
void path_done(struct hca *, struct qp *, uint64_t n, uint64_t acked);
void path_owed(struct hca *, struct qp *, bool owed); /* the peer was asked for an ACK; or there is none to come */
void path_wait(struct hca *, struct qp *);            /* until there is room */
void path_timer(struct hca *, struct path *);         /* it fired */
/* The next one of those who wait, if there is room. */
void path_wake_next(struct hca *, struct path *);
static inline void path_wake(struct hca *h, struct path *p)
{
	if (!link_empty(&p->waiters.ring))
		path_wake_next(h, p);
}
/* n bytes of a UC QP are to go: false: not yet, it waits. */
bool path_pace(struct hca *, struct qp *, uint64_t n);
void path_pace_timer(struct hca *, struct path *);
void paths_pace_sent(struct hca *); /* hca_sent() */
void path_loss(struct hca *, struct path *, bool timeout);
/* A round trip took so long; and the shortest of late, 0: not known. */
void path_timed(const struct hca *, struct path *, uint64_t ns);
uint64_t path_rtt_least(const struct path *);

#endif
