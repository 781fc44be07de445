/* SPDX-License-Identifier: MIT */
/*
 * foe.h - a program that does anything a client of the daemon can do, by dice.
 *
 * A seed is a sequence: the same seed says, sends, scribbles and dies the same.  What the daemon answers flows into it
 * (handles, keys), so that what comes later is often nearly right.  Messages are made from the tables msg.def and
 * cmmsg.def: one that is added there is sent from then on.
 */
#ifndef T_HOSTILE_FOE_H
#define T_HOSTILE_FOE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdmad/cmmsg.h>
#include <rdmad/msg.h>
#include <rdmad/ring.h>

#define FOE_LINKS 5
#define FOE_KEEP  4
#define FOE_MAPS  24
#define FOE_FDS   24
#define FOE_MEM   (1u << 18) /* bytes of each of its two pieces of memory */

/* A connection, and the numbers that the daemon has told on it: made[op] are those of the last answers to op. */
struct foe_link {
	int fd; /* -1: none */
	bool ctx;
	uint64_t key; /* of struct cmm_qp */
	struct bell *bell;
	int kick;
	struct msg_token token;
	uint32_t made[CMM_OPS][FOE_KEEP];
	uint8_t made_n[CMM_OPS];
};

/* Shared memory that the daemon has given; with slots: a ring, and at off another one. */
/* Memory of a queue at p, in a mapping of all of its slab. */
struct foe_map {
	uint8_t *p, *all;
	size_t len, off, all_len;
	uint64_t slab; /* 0: none */
	unsigned link;
	uint32_t slots, stride, slots2, stride2, bell;
	uint32_t pos, pos2;
};

/* Shared by all foes of a run. */
struct foe_tally {
	uint64_t steps;
	uint32_t refused[CMM_OPS], good[CMM_OPS]; /* by the op: refused, and done */
};

/* Memory of huge pages is among what foes send: not while a test that counts them runs beside. */
extern bool foe_huge;

struct foe {
	uint64_t dice;
	struct foe_link link[FOE_LINKS];
	struct foe_map map[FOE_MAPS];
	int fd[FOE_FDS]; /* of all kinds; -1: none */
	uint8_t *mem;    /* anonymous */
	uint8_t *shared; /* of the memfd shared_fd, sealed against shrinking */
	int shared_fd;
	const int *given; /* descriptors that it cannot make itself; it never closes them */
	char device[RDMAD_NAME_LEN];
	uint8_t gid[16];
	bool child;       /* does not fork */
	bool careful;     /* right requests only, as long as it gets somewhere by them */
	unsigned rung;    /* of right_modify(), plus 1; 0: any */
	uint32_t climber; /* the QP that does so */
	struct foe_tally *tally;
};

/*
 * Plays from that seed for so many steps, then returns, unless it has killed itself.  Ends with status FOE_HANG if the
 * daemon does not answer for FOE_PATIENCE_S.
 */
#define FOE_GIVEN 2 /* -1: not to be had */
void foe_play(uint64_t seed, unsigned steps, const int *given, struct foe_tally *);
#define FOE_HANG       3
#define FOE_PATIENCE_S 30

void foe_wake(void); /* from now on no system call keeps it for more than a second.  Of each process */

uint64_t foe_dice(struct foe *);
uint32_t foe_below(struct foe *, uint32_t n);
static inline bool foe_odds(struct foe *f, uint32_t one_in) { return !foe_below(f, one_in); }
/* A number that op has answered on that link; 0: none. */
uint32_t foe_made(struct foe *, const struct foe_link *, uint32_t op);

/* foe_msg.c: the bytes of a request; room for the longest and more.  Returns the right length. */
#define FOE_MSG_MAX (sizeof(struct msg_req) + sizeof(struct cmm_req))
size_t foe_msg(struct foe *, const struct foe_link *, uint32_t op, void *msg);
uint32_t foe_op(struct foe *, const struct foe_link *);

/* foe_fd.c: a descriptor of some kind, the foe's to close; -1: not to be had here. */
int foe_fd(struct foe *);
int foe_fd_other(struct foe *); /* one that it has */
void foe_fd_keep(struct foe *, int fd);
void foe_fd_spoil(struct foe *); /* cut, punched, sealed, filled */

/* foe_mem.c */
void foe_mem_make(struct foe *);
void foe_map_add(struct foe *, const struct foe_map *);
void foe_map_drop(struct foe *, unsigned link);
void foe_post(struct foe *);
void foe_scribble(struct foe *);
void foe_mem_spoil(struct foe *);
void foe_scribble_aside(struct foe *); /* by a child, while this one goes on */

#endif
