/* SPDX-License-Identifier: MIT */
/*
 * doctor.h - `rdmactl doctor PEER`: the path to a RoCE peer, step by step, and what to do where it ends.
 *
 * A step says one line and a verdict.  Steps that need one that failed are not tried.
 */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdmad/cmmsg.h>

enum verdict { STEP_OK, STEP_UNKNOWN, STEP_FAILED };

struct doctor {
	const char *peer_name;
	const char *socket;        /* --socket; NULL: wherever programs look */
	bool mute;                 /* steps are tried, but not reported */
	json_t *json;              /* an array of steps; NULL: text */
	union cmm_addr peer, self; /* self: the source address towards the peer, once the route is known */
	char ifname[64];
	int if_mtu;
	int fd;          /* a connection to the daemon; -1: there is none */
	bool greeted;    /* it understands us, and does not end meanwhile */
	char device[64]; /* the device that has self */
	int gid_index;
	int roce_mtu; /* the device's */
	bool icmp;    /* the peer says where nobody listens */
};

/* Tells a step; help: what to do, NULL if nothing.  Returns verdict. */
enum verdict doctor_say(struct doctor *, enum verdict, const char *step, const char *help, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* doctor_net.c: by sockets alone. */
void doctor_address(const union cmm_addr *, char text[INET6_ADDRSTRLEN]); /* empty: it cannot be written */
bool doctor_same_host(const union cmm_addr *, const struct sockaddr *);   /* NULL: no */
enum verdict doctor_route(struct doctor *);
enum verdict doctor_reach(struct doctor *);
enum verdict doctor_mtu(struct doctor *);
/* Is port 4791 of self taken, and by whom (a clause), as far as can be seen? */
bool doctor_port_taken(const struct doctor *, char *who, size_t len);

/* doctor_cm.c: what the peer's CM answers to a REQ for a service that nobody offers. */
enum verdict doctor_cm(struct doctor *);

#endif
