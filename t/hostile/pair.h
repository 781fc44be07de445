/* SPDX-License-Identifier: MIT */
/*
 * pair.h - two daemons on one network, and between them an RC, a UC and a UD queue pair that play ping-pong.
 *
 *	daemon of the test, 127.A.B.2  ---- round n, bytes of round n ---->  127.A.B.3, daemon of a child
 *	                               <------------- the same ------------
 *
 * Every byte is compared.  What RC carries arrives; what is lost on UC and UD is sent again.
 */
#ifndef T_HOSTILE_PAIR_H
#define T_HOSTILE_PAIR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PAIR_RC, PAIR_UC, PAIR_UD, PAIR_QPS };
#define PAIR_PORT 7777 /* of a listener of the RDMA CM on the first daemon, which accepts whoever comes */

/* Shared memory: rounds done, as the first side counts them; end: both stop. */
struct pair {
	struct pair_end {
		uint32_t qpn[PAIR_QPS], psn[PAIR_QPS];
		bool ready;
	} end[2];
	uint32_t rounds[PAIR_QPS];
	uint32_t accepted;
	bool over;
};

struct in_addr pair_net(void); /* 127.A.B.0 */
struct in_addr pair_addr(unsigned side);
struct pair *pair_new(void);
/* Starts ./rdmad of that side (in the calling process); what daemon_stop() ends. */
void pair_daemon(unsigned side);
/* Plays until pair->over; the daemon is that of this side. */
void pair_play(struct pair *, unsigned side);

#endif
