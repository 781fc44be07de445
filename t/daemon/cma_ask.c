/* SPDX-License-Identifier: MIT */
/*
 * cma_ask.c - a user resolves thousands of addresses where nobody is: the control loop asks for a few of them in a turn, and
 * another user's address is asked for as if he were alone.  This file stands for the agents and for the host's neighbours.
 */
#include "daemon/cma/cma.h"
#include "daemon/cma/cma_agent.h"
#include "daemon/cma/neigh.h"
#include "t/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDS   3000u
#define TURN  16u /* questions in a turn of the loop, at most */
#define ASKED 6u  /* times, by then it is so many milliseconds that are waited: 1 + 2 + 4 ... */
#define OTHER 0xc0000202u

/* ---- the agents ----------------------------------------------------------------- */

int agents_start(void (*)(void)) { return 0; }
void agents_stop(void) {}
bool agent_event(struct device **, struct cm_event *) { return false; }
int agent_call(struct device *, int (*)(struct cm *, void *, mono_t), void *) { return ENODEV; }
int agent_ask(struct device *, int (*)(struct cm *, void *, mono_t), void *) { return ENODEV; }
void agent_id_free(struct device *, uint32_t) {}
void agent_request_drop(struct device *, uint32_t) {}
void agent_counts(struct device *, struct cm_count *n) { *n = (struct cm_count){ 0 }; }

/* ---- the neighbours -------------------------------------------------------------- */

static unsigned asked, asked_other; /* questions, and those for the other user's address */
static bool other_answers;

void neigh_begin(void) {}
void neigh_end(void) {}

int neigh_answers(const union cmm_addr *, const union cmm_addr *dst)
{
	bool other = dst->in.sin_addr.s_addr == htonl(OTHER);

	asked++;
	asked_other += other;
	return other && other_answers ? 0 : EAGAIN;
}

unsigned neigh_interface(const union cmm_addr *, const union cmm_addr *) { return 0; }

/* ---- the users --------------------------------------------------------------------- */

struct user {
	struct cma_channel ch;
	int far;
};

static void user_begin(struct user *u, uid_t uid)
{
	int sv[2];

	memset(u, 0, sizeof(*u));
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	u->ch.who.uid = uid;
	u->ch.near = sv[0];
	u->far = sv[1];
	link_init(&u->ch.records);
	link_init(&u->ch.ids);
}

static void user_end(struct user *u)
{
	while (!link_empty(&u->ch.ids))
		cma_id_destroy(LINK_OF(u->ch.ids.next, struct cma_id, in_channel));
	close(u->ch.near);
	close(u->far);
}

static union cmm_addr addr(uint32_t ip)
{
	return (union cmm_addr){ .in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(ip) } };
}

static struct cma_id *resolve(struct user *u, uint32_t ip, uint32_t timeout_ms)
{
	struct cma_id *id = cma_id_new(&u->ch, CM_PS_UDP, QPT_UD);
	union cmm_addr src = addr(INADDR_LOOPBACK), dst = addr(ip);

	ck_assert_ptr_nonnull(id);
	ck_assert_int_eq(cma_resolve_addr(id, &src, &dst, timeout_ms), 0);
	ck_assert_int_eq(id->state, CMA_ADDR_QUERY);
	return id;
}

static struct ev_loop *loop;

static void begin(void)
{
	union cmm_addr home = addr(INADDR_LOOPBACK);
	uint64_t conf[QUOTAS];

	for (unsigned q = 0; q < QUOTAS; q++)
		conf[q] = QUOTA_UNSET;
	quota_begin(conf, 1);
	devices_n = 1;
	cma_addr_gid(&home, devices[0].gid[1].gid);
	loop = ev_loop_new(0);
	ck_assert_ptr_nonnull(loop);
	ck_assert_int_eq(cma_start(loop), 0);
}

static void end(void)
{
	cma_stop(loop);
	ev_loop_destroy(loop);
}

/* A turn of the loop. */
static void turn(void)
{
	unsigned before = asked;

	ev_run(loop, EVRUN_ONCE);
	ck_assert_msg(asked - before <= TURN, "%u questions in one turn", asked - before);
}

START_TEST(many)
{
	struct user greedy, other;
	struct cma_id *id;
	unsigned before;

	begin();
	user_begin(&greedy, 1001);
	user_begin(&other, 1002);
	for (unsigned i = 0; i < IDS; i++)
		resolve(&greedy, 0xc6120000 + i, 1u << 30);
	id = resolve(&other, OTHER, 60000);
	before = asked;
	while (asked_other < ASKED)
		turn();
	ck_assert_msg(asked - before < IDS / 2, "%u others were asked for meanwhile", asked - before);
	other_answers = true;
	while (id->state == CMA_ADDR_QUERY)
		turn();
	ck_assert_int_eq(id->state, CMA_ADDR_RESOLVED);
	user_end(&other);
	user_end(&greedy);
	end();
}
END_TEST

/* It ends when its time is over, and is asked for less and less often until then. */
START_TEST(in_vain)
{
	struct cma_record *r;
	struct user u;
	struct cma_id *id;

	begin();
	user_begin(&u, 1001);
	id = resolve(&u, OTHER, 300);
	while (id->state == CMA_ADDR_QUERY)
		turn();
	ck_assert_int_eq(id->state, CMA_BOUND);
	ck_assert_uint_le(asked, 1 + 9 + 1); /* after 1, 2, 4 ... 256 ms */
	ck_assert_uint_eq(u.ch.record_n, 1);
	r = LINK_OF(u.ch.records.next, struct cma_record, link);
	ck_assert_uint_eq(r->ev.type, CMA_EV_ADDR_ERROR);
	ck_assert_int_eq(r->ev.status, -ETIMEDOUT);
	/* An id that goes while it is asked for leaves nothing. */
	id = resolve(&u, OTHER, 60000);
	turn();
	user_end(&u);
	end();
}
END_TEST

TEST_MAIN("cma ask", many, in_vain)
