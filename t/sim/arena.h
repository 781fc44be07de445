/* SPDX-License-Identifier: MIT */
/*
 * arena.h - the memory of a simulated node, and what each byte of it may become.
 *
 *	region   [ piece |guard| piece |guard|  ...  ]	one registered MR
 *
 * A piece is what a scatter/gather entry or a remote address names.  Every store by the
 * core must lie within one piece that is open for it, and write the very bytes that the
 * posted work would put there: a stray, late, repeated or corrupted store is seen when
 * it is made, not when somebody compares later.
 */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/mem.h"
#include "sim/rng.h"

#define ARENA_GRAIN   64u
#define ARENA_REGIONS 6u

struct sim;
struct node;

/* The bytes of a message, or of a target that messages of one QP write one after the other. */
struct content {
	uint32_t len;
	unsigned ref;
	unsigned ver_n;
	uint8_t *ver[6];
};

enum piece_kind {
	PIECE_SRC,  /* read only */
	PIECE_DST,  /* may become a version of its content, in rising order */
	PIECE_READ, /* may become what a READ finds: any version from ver_min on */
	PIECE_RECV, /* open for whatever comes */
	PIECE_WORD, /* atomics and nothing else; the result goes to a piece of kind OPEN */
	PIECE_OPEN, /* 8 bytes for the result of an atomic; written once or more, with the same value */
};

struct region {
	struct node *node;
	uint64_t va, iova;
	uint32_t len, key, access, pdn;
	uint32_t grain0, grain_n, cursor; /* in the arena's map */
	bool alive;                       /* between reg and dereg */
	bool gone;                        /* the program unmapped it: every access is EFAULT */
};

struct piece {
	struct region *r;
	uint64_t va;
	uint32_t len;
	enum piece_kind kind;
	unsigned ref;
	uint32_t grain0, grain_n;
	struct content *c;
	uint32_t c_off;
	unsigned ver_min;
	bool uc;            /* of a WRITE of UC: an older one may come behind it, if packets may be late */
	uint32_t stored;    /* bytes stored so far, repeated ones as well */
	uint32_t high;      /* end of the highest byte stored */
	uint64_t value;     /* OPEN: what was stored */
	void *wr;           /* whose */
	struct piece *next; /* of all of the arena */
};

struct arena {
	struct node *node;
	uint8_t *bytes;
	uint32_t len;
	uint64_t va;
	struct piece **map; /* by grain */
	bool *dirty;        /* by page: may have bytes that are not zero */
	struct piece *all;
	struct region region[ARENA_REGIONS];
	unsigned region_n;
	uint64_t refused; /* accesses that were refused as EFAULT */
};

extern const struct mem_ops arena_ops; /* host: struct node */

void arena_init(struct arena *, struct node *, uint32_t len, uint64_t va);
void arena_free(struct arena *);

/* A region of len bytes at va; its bytes are not registered by this. NULL: no room. */
struct region *arena_region(struct arena *, uint32_t len);

struct content *content_new(struct rng *, uint32_t len);
unsigned content_version(struct content *, struct rng *); /* one more version; its number */
void content_put(struct content *);

/* NULL: the region is full.  align 0: at any byte. */
struct piece *piece_new(struct region *, struct rng *, enum piece_kind, uint32_t len, uint32_t align);
/* Takes a reference to c; SRC: writes the bytes of the newest version to memory. */
void piece_content(struct piece *, struct content *c, uint32_t c_off);
void piece_put(struct piece *);
const uint8_t *piece_bytes(const struct piece *);
static inline uint64_t piece_iova(const struct piece *p) { return p->va - p->r->va + p->r->iova; }

/* The part of an edge that moves payload: copies len bytes from off in the spans; EFAULT as the kernel would. */
int arena_gather(struct sim *, const struct span *, unsigned n, uint64_t off, uint32_t len, uint8_t *to);
struct piece *arena_piece(const struct span *); /* the piece a span starts in, NULL: none, or foreign bytes */

#endif
