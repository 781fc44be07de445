/* SPDX-License-Identifier: MIT */
/*
 * cm_net.h - two CM agents and a network between them that a test rules; time is virtual.
 *
 *	end[0] ---- fate(): lost? how late? twice? ---- end[1]
 *
 * Every step verifies both agents.  Events of a program go to its on_event(), if it has one, and
 * noted.
 */
#ifndef T_CM_NET_H
#define T_CM_NET_H

#include "proto/cm.h"

#define NOTES   512u
#define FLIGHTS 4096u
#define MS_NS   1000000ull
#define S_NS    (1000 * MS_NS)

struct cm_net;

struct cm_end {
	struct cm_net *net;
	struct cm *cm;
	uint8_t gid[16];
	uint64_t guid;
	void (*on_event)(struct cm_end *, const struct cm_event *);
	unsigned notes;
	struct cm_event note[NOTES]; /* the first of them */
};

/* The fate of a MAD. */
struct fate {
	bool lost;
	unsigned copies; /* besides the first */
	uint64_t delay_ns, copy_delay_ns;
};

struct flight {
	mono_t at;
	uint64_t seq;
	unsigned to;
	struct gsi g;
};

struct cm_net {
	mono_t now;
	struct fate (*fate)(struct cm_net *, unsigned from, const struct cm_msg *); /* NULL: at once */
	/* A MAD arrives at the end, and finds its id in that state; CM_NONE: there is none. */
	void (*landing)(struct cm_net *, unsigned to, enum cm_state, const struct cm_msg *);
	void (*before)(struct cm_net *); /* each step, at its time: what programs do by themselves */
	mono_t wake;                     /* when before() wants to be called */
	void *arg;
	uint64_t sent;      /* MADs, the lost ones too */
	struct cm_msg last; /* the one that was sent last */
	unsigned flights;
	struct cm_end end[2];
	struct flight flight[FLIGHTS];
};

void net_init(struct cm_net *, uint64_t seed);
void net_fini(struct cm_net *);
void net_run(struct cm_net *); /* until nothing is under way now; time stands still but for delays */
void net_until(struct cm_net *, mono_t);
void net_settle(struct cm_net *); /* till nothing will ever happen; aborts if that takes too long */

/* Requests that are good, from end 0 (or 1) to the other. */
#define SERVICE cm_service_id(CM_PS_TCP, 7174)
struct cm_connect net_req(const struct cm_end *, uint32_t qpn);
struct cm_rep net_rep(uint32_t qpn);
struct route net_route(const struct cm_end *);

/* The last event of the end; type only -1 if there is none. */
int note_last(const struct cm_end *);
unsigned note_count(const struct cm_end *, enum cm_event_type);
uint32_t ids(const struct cm_end *);

#endif
