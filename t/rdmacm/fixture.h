/* SPDX-License-Identifier: MIT */
/*
 * fixture.h - what the tests of librdmacm share: a client and a server in one thread, each with a channel.
 *
 * The program is an ordinary one; it runs under rdmad-run (api.test).  Anything that fails here fails the test.
 */
#ifndef T_RDMACM_FIXTURE_H
#define T_RDMACM_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "../late.h"
#include "../ok.h"
#include "../suite.h"

struct sockaddr *lo(uint16_t port); /* 127.0.0.1; one at a time */

struct rdma_event_channel *channel_new(void);
/* The next event; fails if it is another one, or none comes within 10 s. */
struct rdma_cm_event *event_get(struct rdma_event_channel *, enum rdma_cm_event_type);
void event_eat(struct rdma_event_channel *, enum rdma_cm_event_type); /* with status 0 */
int event_waits(struct rdma_event_channel *);                         /* whether its descriptor is readable now */

struct ibv_qp_init_attr qp_attr(enum ibv_qp_type);
void qp_to(struct rdma_cm_id *, struct ibv_qp *, enum ibv_qp_state); /* of the program's own, as the id says */

/* A listener on a free port, and a client on its way to it. */
struct pair {
	struct rdma_event_channel *sch, *cch;
	struct rdma_cm_id *listen, *client, *server;
	uint16_t port;
};
void pair_open(struct pair *, enum rdma_port_space); /* client: the route is resolved; no QPs yet */
void pair_connect(struct pair *, int qps);           /* up to ESTABLISHED; qps: one each is made */
void pair_close(struct pair *);                      /* everything, QPs first */

/* Both QPs move a message of len bytes from a to b. */
void message_move(struct rdma_cm_id *a, struct rdma_cm_id *b, size_t len);

/* rdmactl why says so: a basic regular expression, of this test's daemon. */
void why_says(const char *pattern);
/* A counter of the daemon's devices. */
unsigned long stats_of(const char *counter);

void api_close(Suite *);
void api_conn(Suite *);
void api_sync(Suite *);
void api_ud(Suite *);
void api_misc(Suite *);
void api_rs(Suite *);
void api_rs_accept(Suite *);
void api_rs_early(Suite *);
void api_rs_grow(Suite *);
void api_rsd(Suite *);
void api_end(Suite *);
void api_order(Suite *);
void api_sleep(Suite *);
void api_stream(Suite *);
void api_signal(Suite *);

#endif
