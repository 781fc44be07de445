/* SPDX-License-Identifier: MIT */
/*
 * fabric.h - all of it: hosts, switches, links, and the time.
 *
 *	host [HCA] - port ==link== port - switch - port ==link== ... ==link== port - [HCA] host
 *
 * Virtual time: nothing here looks at a clock, and all chance is of one seed.  So the same file and the same seed make the
 * same run, to the byte.
 */
#ifndef SIM_FABRIC_H
#define SIM_FABRIC_H

#include "agenda.h"
#include "csv.h"
#include "host.h"
#include "packet.h"
#include "rng.h"
#include "switch.h"
#include "topology.h"
#include "workload.h"

/* Where a host is: the switch, and its port there. */
struct seat {
	uint32_t sw;
	uint16_t port;
};

struct fabric {
	const struct topology *t;
	struct agenda agenda;
	struct packets packets;
	struct rng rng;
	struct host *host;
	struct sw *sw;
	struct seat *seat;
	struct work work;
	struct csv csv;
	uint32_t packet_len;         /* the longest */
	uint64_t offered, delivered; /* packets that hosts sent, and got */
};

void fabric_init(struct fabric *, const struct topology *);
/* Until all is done, or the time is over. */
void fabric_run(struct fabric *);
/* Dropped packets; those that are under way.  Ends the program if they are not what was sent and has not come. */
uint64_t fabric_check(const struct fabric *, uint64_t *under_way);
void fabric_fini(struct fabric *);

static inline struct flow *flow_at(struct fabric *f, uint32_t i) { return &f->work.flow[i]; }

#endif
