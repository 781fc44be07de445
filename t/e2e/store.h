/* SPDX-License-Identifier: MIT */
/*
 * store.h - an initiator and a target as of storage over fabrics, on librdmacm: what both ends and their files share.
 *
 *	initiator				target
 *	command: SEND			 -->
 *					 -->	write: READ of the data, and a look at each byte
 *					 <--	read: WRITE of the data
 *					 <--	answer: SEND, or SEND_WITH_INV if the key was that of a window
 *
 * The bytes of a block follow from the key in its command: whoever gets them can tell whether they are right.
 */
#ifndef STORE_H
#define STORE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK   4096u
#define DEPTH   32u /* commands of a connection under way */
#define CONNS   64u /* of a process */
#define CAPSULE 64u /* bytes of a command, and of an answer */

struct options {
	const char *address;
	int port;
	bool target;
	bool events;    /* sleep until a completion, else poll */
	bool own_queue; /* target: receives of each connection, no SRQ */
	bool windows;   /* every other command names a window, to be invalidated */
	unsigned conns; /* initiator: at once */
	unsigned threads;
	unsigned seconds;
	unsigned setups;   /* initiator: end when so many have come up */
	unsigned stay;     /* commands of a connection, on the average, before it is closed; 0: never */
	unsigned patience; /* ms to wait for an event of the CM */
	unsigned gap;      /* initiator: ms without a completion, though one is due, that are told */
	uint64_t seed;
};
extern struct options opt;

enum op { OP_WRITE = 1, OP_READ, OP_CLOSE };

struct command {
	uint64_t key, addr;
	uint32_t rkey;
	uint8_t op, slot, inv;
};

struct answer {
	uint64_t key;
	uint8_t slot;
};

struct hello { /* private data of the REQ */
	uint32_t magic, number;
};
#define HELLO 0x53544f52u

/* ---- work request ids ---- */

enum kind { WR_RECV, WR_COMMAND, WR_BIND, WR_DATA, WR_ANSWER, WR_DATA_ANSWER };

static inline uint64_t wr_id(unsigned conn, enum kind kind, unsigned slot, uint32_t life)
{
	return (uint64_t)life << 32 | conn << 16 | (unsigned)kind << 8 | slot;
}
static inline unsigned wr_conn(uint64_t id) { return (uint16_t)((uint32_t)id >> 16); }
static inline enum kind wr_kind(uint64_t id) { return (enum kind)(id >> 8 & 0xff); }
static inline unsigned wr_slot(uint64_t id) { return id & 0xff; }
static inline uint32_t wr_life(uint64_t id) { return (uint32_t)(id >> 32); }

/* ---- store.c ---- */

_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Something that may not happen; the program goes on, and ends with 1. */
void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
extern _Atomic bool stop;
uint64_t now_ns(void);

struct rng {
	uint64_t s;
};
uint64_t rnd(struct rng *);
void block_fill(uint64_t *, uint64_t key);
bool block_right(const uint64_t *, uint64_t key);

/* Durations by size, an eighth of a power of two each. */
struct histogram {
	uint64_t n[512], all, max;
};
void histogram_add(struct histogram *, uint64_t ns);
void histogram_join(struct histogram *, const struct histogram *);
/* The duration that so many in a thousand do not exceed. */
uint64_t histogram_at(const struct histogram *, double permille);

/* Sleeps until one of the descriptors can be read, or some ms are over. */
void wait_fds(int a, int b, int ms);
/* Waits for the next completions; *unacked: events of the channel that are to be acknowledged. */
void wait_cq(struct ibv_comp_channel *, struct ibv_cq *, int other, unsigned *unacked);
void nonblocking(int fd);

void target_run(void);
void initiator_run(void);

#endif
