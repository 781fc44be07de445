/* SPDX-License-Identifier: MIT */
/*
 * cases.h - what the case files share: two nodes, a good link of 2 us, and short ways to
 * say what is posted and what must come of it.
 */
#ifndef SIM_CASES_H
#define SIM_CASES_H

#include <errno.h>
#include <string.h>

#include "model.h"

struct sim_case {
	const char *name;
	void (*run)(struct model *); /* nodes are there; model_end() follows */
};

extern const struct sim_case cases_state[], cases_rc[], cases_ud[], cases_wire[], cases_replay[], cases_mw[],
	cases_xrc[]; /* each ends with name NULL */

struct duo {
	struct mqp *a, *b;
};

struct duo duo_new(struct model *, uint8_t type); /* not connected; XRC: a sends, b receives by an SRQ */
struct duo duo_xrc(struct model *, const struct qp_attr *);
struct duo duo_rc(struct model *, const struct qp_attr *); /* connected; NULL: model_attr() */
struct duo duo_uc(struct model *);
struct duo duo_ud(struct model *);

void must(struct model *, bool, const char *what);
#define MUST(m, what) must(m, what, #what)

/* Work and nothing but: a failure of the post is a failure. */
void send_ok(struct mqp *, const struct post *);
void recv_ok(struct mqp *, uint32_t len);
void run_for(struct model *, uint64_t ns); /* so much virtual time */
uint32_t psn_of(const struct mqp *);       /* the PSN that its responder expects */
bool in_err(struct mqp *);
uint64_t stat_of(const struct node *, enum hca_stat);

/* A burst of one packet as b's peer would send it; what is to be wrong with it is changed by the caller. */
struct burst burst_to(const struct mqp *b, uint8_t opcode, uint32_t psn);
void inject(struct mqp *to, const struct burst *, const void *payload, uint32_t len);

#endif
