/* SPDX-License-Identifier: MIT */
/*
 * topology.h - what a topology file says: hosts, switches, links, and what the hosts do.
 *
 * Nodes have numbers: the hosts 0..hosts-1, then the switches, group by group.  Memory ends with the program.
 */
#ifndef SIM_TOPOLOGY_H
#define SIM_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/cong.h"

#define HOSTS_MOST    10000u
#define SWITCHES_MOST 2000u
#define NAME_ROOM     32u
#define CABLES_MOST   10000000u
#define FLOWS_MOST    1000000u
#define PORTS_MOST    65535u /* of a switch */

/* Nodes first..first+n-1. */
struct nodes {
	uint32_t first, n;
};

struct ecn {
	bool on;
	uint64_t kmin, kmax; /* bytes of an egress queue */
	double pmax;         /* at kmax; beyond it everything is marked */
};

struct group {
	char name[NAME_ROOM];
	struct nodes nodes;
	uint64_t buffer; /* bytes, of all ports of one switch */
	double alpha;    /* of what is free, as much may one queue (PFC: what came in by one port) have */
	bool pfc;
	struct ecn ecn;
	unsigned line;
};

struct cable {
	uint32_t a, b;
	uint64_t rate; /* bits a second */
	uint64_t delay_ns;
	unsigned line;
};

enum load_kind { LOAD_INCAST, LOAD_PERMUTATION, LOAD_ALLREDUCE, LOADS };

struct load {
	enum load_kind kind;
	struct nodes from, to;
	bool to_said;
	uint64_t size;  /* of a message; ALLREDUCE: of each host's data */
	uint64_t count; /* messages of a flow; ALLREDUCE: rounds; 0: until the time is over */
	uint32_t depth; /* messages posted at once */
	uint64_t start_ns, stop_ns;
	unsigned line;
};

/* How the hosts' HCAs are set up: struct hca_cfg, struct qp_attr. */
struct adapter {
	uint32_t mtu; /* bytes */
	uint64_t burst, window;
	bool ecn, early;
	uint32_t timeout, retry;
	struct cong_law law;
	bool line; /* the law's is the rate of the host's link */
};

struct topology {
	uint32_t hosts, switches;
	struct group *group;
	unsigned group_n;
	struct cable *cable;
	uint32_t cable_n, cable_max;
	struct load *load;
	unsigned load_n;
	struct adapter adapter;
	uint64_t seed, duration_ns, sample_ns;
	unsigned hosts_line, sample_line;
};

/* False: said what is wrong, in which line, and what to do, and nothing is to be freed; name: of the file, for that. */
bool topology_read(struct topology *, const char *name, const char *text, size_t len);
void topology_free(struct topology *);

/* host3, leaf0 ... into text */
void topology_name(const struct topology *, uint32_t node, char *text, size_t room);
/* The group of a switch. */
const struct group *topology_group(const struct topology *, uint32_t node);
/* Packets of data on a wire have so many bytes at most. */
uint32_t topology_packet_len(const struct topology *);
/* Flows of a load, and room for those of hosts to themselves, which are left out. */
uint64_t topology_flows(const struct load *);
/* So many bytes may still come in by a link after its end has asked for a pause. */
uint64_t topology_headroom(const struct topology *, const struct cable *);

#endif
