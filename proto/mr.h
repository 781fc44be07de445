/* SPDX-License-Identifier: MIT */
/*
 * mr.h - protection domains and memory regions: who may touch which bytes (rule 6.1).
 *
 *	key = | 0 | random number, 23 bits | random, 8 |	all 32 must match; 1 in front: a window's
 */
#ifndef PROTO_MR_H
#define PROTO_MR_H

#include <stdbool.h>
#include <stdint.h>

#include <rdmad/abi.h>

#include "mem.h"
#include "mono.h"
#include "places.h"

struct pd {
	uint32_t number;
	uint32_t users; /* MRs, windows, QPs, SRQs */
	uint32_t owner; /* of what user its program is; for causes: nobody is told of keys of others */
	uint32_t prog;  /* and which one that is */
};

/* The end of a key. */
enum key_end { KEY_ALIVE, KEY_DEREG, KEY_DEALLOC, KEY_INVALIDATED, KEY_BOUND_ANEW, KEY_QP_GONE };

/* For causes: keys that opened something, and do so no more. */
struct key_past {
	uint32_t key, pdn, prog;
	uint8_t end;  /* enum key_end */
	uint32_t qpn; /* whose request ended it; 0: a verb did */
	mono_t at;
	uint64_t base, len;
};

#define KEYS_PAST  128u /* of a user */
#define KEYS_USERS 8u

/* A ring; n: put in so far, 0: the place is free. */
struct key_ring {
	uint32_t owner;
	mono_t last;
	uint64_t n;
	struct key_past v[KEYS_PAST];
};

/* All of them, by the number in their keys. */
struct keys {
	struct places mr, mw;
	struct key_ring *past; /* KEYS_USERS of them, one for each user: nobody makes the HCA forget keys of others */
	bool past_lost;        /* of a user's that had to make room */
};

int keys_init(struct keys *, uint32_t max_mr, uint32_t max_mw); /* 0 or ENOMEM */
void keys_fini(struct keys *);                                  /* with all MRs and windows */
void key_ended(struct keys *, const struct pd *, const struct key_past *);
/* The last end of a key of that user; NULL: none that is known. */
const struct key_past *key_past(const struct keys *, uint32_t owner, uint32_t key);
/* It opened something once, whosever it was, or it may have: not all that ended is known. */
bool key_maybe(const struct keys *, uint32_t key);

struct mr {
	uint32_t key;
	uint32_t access;
	const struct pd *pd;
	uint64_t iova, len;
	uint64_t addr;
	void *region;
	struct pd *owner; /* pd again, to count */
	uint32_t windows; /* bound to it */
};

struct mr_attr;
struct secret;

/* As hca_mr_reg() and its like (hca.h); the region is pd's. */
int mr_reg(struct keys *, struct secret *, struct pd *, const struct mr_attr *, uint32_t *key);
int mr_dereg(struct keys *, uint32_t key, mono_t now);
int mr_rereg(struct keys *, uint32_t key, struct pd *, const struct mr_attr *);

/*
 * The span of len (not 0) bytes at va, if key, pd, every bit of need and the bounds are right; else false.
 * Local access needs 0 or ACC_LOCAL_WRITE.
 */
_Bool mr_span(const struct keys *, uint32_t key, const struct pd *, uint32_t need, uint64_t va, uint64_t len,
	      struct span *);

/* The span of bytes [off, off+len) of one sge, which has as many. */
static inline bool sge_span(const struct keys *keys, const struct sge *sge, const struct pd *pd, uint32_t need,
			    uint64_t off, uint64_t len, struct span *s)
{
	return sge->addr + off >= sge->addr && mr_span(keys, sge->lkey, pd, need, sge->addr + off, len, s);
}

/*
 * The spans of bytes [off, off+len) of a scatter/gather list, at most n of them; sges that are not
 * touched are not checked.  The number of spans, or -1: a key, right or bound is wrong.
 */
int sge_list_spans(const struct keys *, const struct sge *, unsigned n, const struct pd *, uint32_t need, uint64_t off,
		   uint64_t len, struct span *);
/* The same; most lists have one sge, and there is nothing to walk. */
static inline int sge_spans(const struct keys *keys, const struct sge *sge, unsigned n, const struct pd *pd,
			    uint32_t need, uint64_t off, uint64_t len, struct span *s)
{
	if (n != 1 || off >= sge->len || !len)
		return sge_list_spans(keys, sge, n, pd, need, off, len, s);
	return sge_span(keys, sge, pd, need, off, sge->len - off < len ? sge->len - off : len, s) ? 1 : -1;
}

#endif
