/* SPDX-License-Identifier: MIT */
/* loopback.h - socket addresses of localhost. */
#ifndef RDMAD_LOOPBACK_H
#define RDMAD_LOOPBACK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

/* ::1. */
static inline bool addr_is_local6(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
}

/* ::1, or one of 127.0.0.0/8, in either family. */
static inline bool addr_is_loopback(const struct sockaddr *addr)
{
	const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;

	if (addr->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == IN_LOOPBACKNET);
}

#endif
