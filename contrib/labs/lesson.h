/* SPDX-License-Identifier: MIT */
/*
 * lesson.h - the programs of the lessons: two queue pairs, one on each of the devices "client" and "server", in one
 * process, so that what happens happens in a given order.  Plain verbs, as in any program; what goes wrong is done by
 * faults, or by the program's own fault where that is the lesson.
 */
#ifndef LABS_LESSON_H
#define LABS_LESSON_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define MTU        256 /* small, so that messages of a few packets are short */
#define MEM        8192
#define CLIENT_PSN 1000
#define SERVER_PSN 5000

struct end {
	const char *name;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	unsigned char *mem;
	union ibv_gid gid;
	int gid_index;
};

struct pair {
	struct end client, server;
};

/* How the pair is to be; what is 0 is as here: RC, PSNs as above, timeout 14 (67 ms), 7 retries, 7 RNR retries (no end), RNR timer 12. */
struct setup {
	enum ibv_qp_type type;
	uint32_t client_psn;
	uint8_t timeout, retry, min_rnr;
	uint8_t rnr_retry_1; /* and 1: 1 is none */
};

void pair_open(struct pair *, const struct setup *);
void pair_close(struct pair *);

void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A statement of the lesson, and whether it is true: the exit status of the program tells. */
void expect(bool good, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
extern int unexpected;
/* Ends the program, if err is not 0. */
void must(int err, const char *what);

void post_recv(struct end *, uint64_t id); /* all of its memory */
void post(struct end *, enum ibv_wr_opcode, uint64_t id, uint32_t len, uint64_t remote, uint32_t rkey);
/* The next completion within so many ms; false: there is none. */
bool completion(struct end *, struct ibv_wc *, int ms);
/* The next one is that of id, with this status. */
void expect_wc(struct end *, uint64_t id, enum ibv_wc_status);
void expect_none(struct end *, const char *why);
void expect_state(struct end *, enum ibv_qp_state);

void fill(unsigned char *, uint32_t len, unsigned seed);
void expect_data(const struct end *, uint32_t len, unsigned seed);

void lesson_cm(void); /* lesson_cm.c */

#endif
