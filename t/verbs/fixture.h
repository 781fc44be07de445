/* SPDX-License-Identifier: MIT */
/*
 * fixture.h - what the tests of the library share: a context with a PD, a CQ and memory, and pairs of QPs.
 *
 * The program is an ordinary verbs program; it runs under rdmad-run (api.test).  Anything that fails
 * here fails the test at once.
 */
#ifndef T_VERBS_FIXTURE_H
#define T_VERBS_FIXTURE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"

#define BUF_LEN    8192u
#define FIX_PSN    0xfffff0u /* the first that a QP of fix_connect() sends */
#define PATIENCE_S 50        /* after which the fixture gives up: less than a test may take */

struct fix {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	unsigned char *buf;
	union ibv_gid gid;
	struct ibv_device_attr attr;
};

struct ibv_context *fix_device(void);
void fix_open(struct fix *);
void fix_close(struct fix *); /* after the test destroyed what it made: each step must succeed */

/* A QP in RESET; wr: depth of both queues.  srq may be NULL. */
struct ibv_qp *fix_qp(struct fix *, enum ibv_qp_type, unsigned wr, struct ibv_srq *srq);
void fix_init(struct ibv_qp *);
void fix_rtr(struct fix *, struct ibv_qp *, struct ibv_qp *peer);
void fix_rts(struct ibv_qp *);
void fix_connect(struct fix *, struct ibv_qp *, struct ibv_qp *); /* both to RTS */
void fix_pair(struct fix *, struct ibv_qp **, struct ibv_qp **);  /* two of RC, depth 4, connected */
void fix_pair_end(struct ibv_qp *, struct ibv_qp *);              /* destroys both */
int fix_state(struct ibv_qp *, enum ibv_qp_state);                /* to RESET or ERR */

/* XRC: a domain (of a file, or of its own), an SRQ on the fixture's CQ, and a connected pair. */
struct fix_xrc {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;
	struct ibv_qp *send, *recv;
};
void fix_xrc_open(struct fix *, struct fix_xrc *);
void fix_xrc_open_fd(struct fix *, struct fix_xrc *, int fd);
void fix_xrc_close(struct fix_xrc *);
int fix_srq_recv(struct fix *, struct ibv_srq *, uint64_t wr_id, unsigned off, unsigned len);
/* WRITE of the first len bytes of the buffer. */
int fix_write_to(struct fix *, struct ibv_qp *, uint32_t srqn, uint64_t addr, uint32_t rkey, unsigned len);
/* The next async event, acknowledged; fails after 10 s. */
enum ibv_event_type fix_event(struct ibv_context *);

int fix_send(struct fix *, struct ibv_qp *, uint64_t wr_id, unsigned off, unsigned len, unsigned flags);
int fix_recv(struct fix *, struct ibv_qp *, uint64_t wr_id, unsigned off, unsigned len);
/* The next completion; fails after 10 s. */
struct ibv_wc fix_wait(struct ibv_cq *);
struct ibv_wc fix_wait_ok(struct ibv_cq *);

void fix_fill(unsigned char *, size_t, unsigned seed);
int fix_filled(const unsigned char *, size_t, unsigned seed);
/* Private memory of its own: never touched; filled with that. */
unsigned char *fix_blank(size_t len);
unsigned char *fix_pages(size_t len, unsigned seed);
/* For peers to read and write; asserts that it can be had. */
struct ibv_mr *fix_reg(struct fix *, void *p, size_t len);
/* Of this process's mappings: how many have [p, p+len) or a part of it, and how many of those are converted. */
unsigned fix_mappings(const void *p, size_t len, unsigned *converted);
bool fix_is_mapped(const void *p); /* converted, so that the daemon has it, too */
void fix_ended_well(pid_t);        /* waits for that child, which must have exited with 0 */

/* Each file's tests. */
void api_objects(Suite *);
void api_post(Suite *);
void api_arm(Suite *);
void api_event(Suite *);
void api_ex(Suite *);
void api_mw(Suite *);
void api_newer(Suite *);
void api_cntr(Suite *);
void api_ops(Suite *);
void api_xrc(Suite *);
void api_flush(Suite *);
void api_fork(Suite *);
void api_stack(Suite *);
void api_beside(Suite *);
void api_map(Suite *);
void api_attr(Suite *);
void api_back(Suite *);
void api_caller(Suite *);
void api_segment(Suite *);
void api_arena(Suite *);
void api_hold(Suite *);
void api_memory(Suite *);
void api_share(Suite *);
void api_srq(Suite *);
void api_async(Suite *);
void api_rate(Suite *);
void api_answer(Suite *);
void api_tracer(Suite *);
void api_order(Suite *);
void api_raw(Suite *);
void api_why(Suite *);
void api_offload(Suite *);
void api_handle(Suite *);
void api_key(Suite *);
void api_inline(Suite *);
void api_rss(Suite *);
void api_many(Suite *);

/* The mailbox of one of the process's connections to the daemon; NULL: there is none. */
struct mail *fix_mail(void);

#endif
