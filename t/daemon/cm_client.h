/* SPDX-License-Identifier: MIT */
/*
 * cm_client.h - programs of the RDMA CM without the library: daemons with loopback addresses of their own,
 * event channels, and what is said on them.
 */
#ifndef T_DAEMON_CM_CLIENT_H
#define T_DAEMON_CM_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include <rdma/rdma_cma.h>
#include <rdmad/cmmsg.h>

/* A daemon; device i has 127.A.B.(i + 2), where A and B are this process's. */
struct host {
	pid_t pid;
	char socket[64];
	unsigned first, n; /* devices */
};

void host_start(struct host *, unsigned first, unsigned n);
void host_stop(struct host *);                                            /* must still run, and end with status 0 */
long host_stat(const struct host *, const char *group, const char *name); /* of MSG_DUMP stats, daemon.<group>.<name> */

union cmm_addr addr(unsigned device, uint16_t port);
union cmm_addr addr_text(const char *, uint16_t port); /* IPv4 or IPv6 */

/* A connection for verbs, before MSG_OPEN; and a request on it, whose descriptors are closed: the errno. */
int verbs_open(const struct host *);
int verbs_call(int fd, struct msg_req *, struct msg_rep *);

struct chan {
	int fd;    /* the connection */
	int event; /* rdma_event_channel.fd */
	uint64_t key;
};

void chan_open(struct chan *, const struct host *);
void chan_close(struct chan *);
/* rep may be NULL.  The errno. */
int chan_call(struct chan *, struct cmm_req *, struct cmm_rep *);
/* The next event, waited for up to 10 s, of this type; with the status. */
struct cmm_event chan_event(struct chan *, enum rdma_cm_event_type, int status);
bool chan_ready(const struct chan *); /* there is an event, waited for up to 10 s, and not fetched */
bool chan_quiet(struct chan *);       /* no event, and the descriptor says so */

/* These must succeed. */
uint32_t id_new(struct chan *, enum rdma_port_space, uint64_t cookie);
uint32_t id_listen(struct chan *, union cmm_addr, uint64_t cookie, enum rdma_port_space, uint32_t backlog);
uint32_t id_resolve(struct chan *, union cmm_addr, uint64_t cookie, enum rdma_port_space); /* address and route */
void id_destroy(struct chan *, uint32_t id);
/* The errno. */
int id_bind(struct chan *, uint32_t id, union cmm_addr);
int id_op(struct chan *, enum cmm_op, uint32_t id); /* requests with nothing but an id */
int id_option(struct chan *, uint32_t id, int name, int value);
int id_connect(struct chan *, uint32_t id, uint32_t qpn, const char *data);
int id_accept(struct chan *, uint32_t id, uint64_t cookie, uint32_t qpn, const char *data);
int id_reject(struct chan *, uint32_t id, const char *data);
struct cmm_rep id_qp(struct chan *, uint32_t id, uint8_t state);

#endif
