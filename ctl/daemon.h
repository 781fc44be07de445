/* SPDX-License-Identifier: MIT */
/* daemon.h - connections of rdmactl to a daemon.  Errors are reported on stderr. */
#ifndef CTL_DAEMON_H
#define CTL_DAEMON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmad/msg.h>

/*
 * A connection to the daemon that answers at name, an address of --socket; NULL: wherever programs look.  -1: none.
 * quiet: nothing is said if there is none, unless a name was given.
 */
int daemon_find(const char *name, bool quiet);
/* Says hello; false: not of this version, or no answer. */
bool daemon_hello(int fd);
/* Both.  -1: said why not. */
int daemon_open(const char *name);
/* A request and its answer; fds: the descriptors that came with it, -1: none.  false: it was refused. */
bool daemon_ask(int fd, const struct msg_req *, struct msg_rep *, int *fds, unsigned fd_n);
/* The answer to MSG_DUMP of this enum msg_dump, after hello; NULL: there is none. */
json_t *daemon_dump(int fd, uint32_t what);
/* The same with all fields of msg.h's row dump. */
json_t *daemon_dump_of(int fd, uint32_t what, uint32_t qpn, uint32_t flags);

#endif
