/* SPDX-License-Identifier: MIT */
/* icmp.h - what the kernel tells of ICMP messages by the error queue of a socket: ip(7), IP_RECVERR. */
#ifndef RDMAD_ICMP_H
#define RDMAD_ICMP_H

#include <errno.h>
#include <netinet/ip_icmp.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h> /* behind time.h */

/* A host or router has sent it, or this host to itself; else the call has failed with it. */
static inline bool icmp_is(const struct sock_extended_err *e)
{
	return e->ee_origin == SO_EE_ORIGIN_ICMP || e->ee_origin == SO_EE_ORIGIN_ICMP6;
}

/* It is a firewall's, which says so: prohibited by its administrator. */
static inline bool icmp_prohibits(const struct sock_extended_err *e)
{
	if (e->ee_origin == SO_EE_ORIGIN_ICMP6)
		return e->ee_errno == EACCES;
	return e->ee_origin == SO_EE_ORIGIN_ICMP && e->ee_type == ICMP_DEST_UNREACH &&
	       (e->ee_code == ICMP_NET_ANO || e->ee_code == ICMP_HOST_ANO || e->ee_code == ICMP_PKT_FILTERED);
}

#endif
