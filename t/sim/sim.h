/* SPDX-License-Identifier: MIT */
/*
 * sim.h - HCAs, links between them and a clock, all of one seed.
 *
 *	node 0 [hca|arena] ==link==> edge: bytes + ICRC, loss, delay ... ==> edge: ICRC, parse, join ==> node
 *1
 *	                   --local-> the burst as it is ------------------------------------------->
 *
 * Virtual time; nothing here reads a clock or an address of this process, so that the same
 * seed gives the same trace (its hash is compared).  Its user gets completions,
 * events and executed atomics through struct sim_ops.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdio.h>

#include "lab/rule.h"
#include "proto/hca.h"

#include "arena.h"
#include "sim/rng.h"

#define SIM_NODES   4u
#define SIM_PKT_MAX 4400u

#define USEC 1000ull
#define MSEC 1000000ull
#define SEC  1000000000ull

struct sim;
struct node;

struct sim_ops {
	void (*cqe)(struct sim *, struct node *, const struct cqe *);
	void (*event)(struct sim *, struct node *, const struct hca_event *);
	void (*atomic)(struct sim *, struct piece *word, bool cmp_swap, uint64_t a, uint64_t b, uint64_t old);
	void (*tx)(struct sim *, struct node *, const struct burst *);
};

struct link {
	bool local; /* the burst is handed over as it is */
	uint64_t delay_ns, jitter_ns;
	uint64_t rate;                                                   /* bytes a second; 0: no bound */
	uint32_t queue_len;                                              /* bytes that wait at most; 0: no bound */
	uint32_t loss, dup, corrupt, reorder;                            /* per million packets */
	uint32_t ce;                                                     /* marked as congested, per million packets */
	uint64_t reorder_ns;                                             /* what a reordered packet is late, at most */
	bool dark;                                                       /* blackout */
	uint64_t mask;                                                   /* bit i: packet i is lost ... */
	unsigned mask_n;                                                 /* ... for i below this */
	bool (*drop)(struct sim *, const struct burst *pkt, uint64_t n); /* true: lost */

	uint64_t busy_ns; /* when the last byte has left */
	uint64_t pkt_n;   /* packets offered so far */
	uint64_t harm_n;  /* packets lost, corrupted, repeated or late */
};

struct pkt {
	struct pkt *next;
	struct node *from, *to;
	struct route route;
	bool corrupt;
	bool ruled; /* rules have decided on its arrival, or have made it */
	uint16_t ip_id;
	char said[RULE_TEXT]; /* by rules, where it left */
	uint32_t len;         /* with the ICRC */
	uint8_t data[SIM_PKT_MAX];
};

struct node {
	struct sim *sim;
	unsigned i;
	struct hca *hca;
	uint8_t gid[2][16]; /* IPv4 and IPv6 */
	struct arena mem;
	struct pkt *inbox, **inbox_tail;
	bool rx_due;
	uint64_t gro_ns;  /* packets wait so long for others to be joined with, at most */
	uint32_t join;    /* chance, per million, to join what can be joined */
	uint32_t lazy;    /* chance, per million, that a turn ends before all was sent or reaped */
	uint64_t late_ns; /* what a host's timer is late, at most */
	uint64_t tick_at;
	bool dirty;
};

enum sim_ev_kind { SIM_ARRIVE, SIM_RX, SIM_TICK, SIM_CALL };

struct sim_ev {
	uint64_t t, seq;
	enum sim_ev_kind kind;
	struct node *node;
	struct pkt *pkt;
	void (*call)(struct sim *, void *);
	void *arg;
};

struct sim {
	const char *kind, *about; /* about: which case, or NULL */
	uint64_t seed;
	struct rng rng;
	uint64_t now, seq, steps;
	struct node node[SIM_NODES];
	unsigned node_n;
	struct link link[SIM_NODES][SIM_NODES];
	struct sim_ev *heap;
	unsigned heap_n, heap_max;
	struct pkt *spare;
	const struct sim_ops *ops;
	void *user;
	unsigned verify_every; /* events; 0: never */
	uint64_t hash;         /* of all that happened */
	bool trace;
	bool strange;         /* stores to a READ's place are not judged */
	bool late;            /* packets are under way on a link that others do not take any more */
	uint64_t completions; /* handed out so far */
	struct rules *rules;  /* NULL: none */
	struct flows flows;
};

/* Node 0..n-1 with HCAs of cfg (mem, mem_host, seed and qpn_low are set here), memory of arena_len each. */
void sim_init(struct sim *, const char *kind, uint64_t seed, unsigned nodes, const struct hca_cfg *,
	      uint32_t arena_len);
void sim_free(struct sim *);
static inline mono_t sim_now(const struct sim *s) { return (mono_t){ s->now }; }

/* The link from a to b and back. */
void sim_link(struct sim *, unsigned a, unsigned b, const struct link *);
void sim_local(struct sim *, unsigned a, unsigned b); /* tells both HCAs whether their link is local */
void sim_heal(struct sim *);                          /* nothing is impaired any more */
uint64_t sim_harm(const struct sim *, const struct node *, const struct node *); /* of both directions */

void sim_at(struct sim *, uint64_t t, void (*call)(struct sim *, void *), void *arg);
void sim_dirty(struct node *);              /* it was posted to: takes its turn after this event */
bool sim_step(struct sim *);                /* one event; false: none is left */
void sim_reap(struct sim *, struct node *); /* completions and events */
void sim_turns(struct sim *);               /* the turns of all nodes that are dirty */

/* Says what is wrong, with the seed that shows it, and aborts. */
_Noreturn void sim_fail(struct sim *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_catch(void);           /* signals that end the process name the run */
extern struct sim *sim_current; /* which run aborts belong to */

/* ---- link.c ------------------------------------------------------------- */

void sim_push(struct sim *, uint64_t t, enum sim_ev_kind, struct node *, struct pkt *);

void link_tx(struct sim *, struct node *from, const struct burst *);
void link_arrive(struct sim *, struct pkt *);
void link_rx(struct sim *, struct node *); /* the inbox, joined or not */
struct pkt *pkt_get(struct sim *);
void pkt_put(struct sim *, struct pkt *);

/* ---- impair.c ----------------------------------------------------------- */

/* From now on these rules hold; *r is the caller's to rules_fini() after sim_free(). */
void impair_set(struct sim *, struct rules *r, const char *text, const uint64_t *seed);
/* false: the packet does not go on; else it does after *delay. */
bool impair_pkt(struct sim *, struct pkt *, const struct burst *, enum tap_dir, uint64_t *delay);

/* ---- capture.c ---------------------------------------------------------- */

extern FILE *capture_file; /* NULL: none; what runs from now on goes there */
void capture_begin(struct sim *);
void capture_pkt(struct sim *, const struct pkt *, const char *what);

/* ---- trace.c ------------------------------------------------------------ */

void trace_note(struct sim *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void trace_burst(struct sim *, const struct node *from, const struct node *to, const struct burst *, const char *what);
void trace_cqe(struct sim *, const struct node *, const struct cqe *);
void trace_mix(struct sim *, const void *, size_t); /* into the hash */
void trace_last(struct sim *);                      /* the last lines, to stderr */

/* ---- cover.c ------------------------------------------------------------ */

void cover_hca(const struct hca *); /* before hca_free() */
void cover_edge(unsigned type, unsigned from, unsigned to);
unsigned cover_report(FILE *, bool all); /* how many names that can be reached were not */
void cover_share(void);                  /* before any fork: one table for all children */

#endif
