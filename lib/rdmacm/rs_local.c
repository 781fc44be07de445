/* SPDX-License-Identifier: MIT */
/*
 * rs_local.c - localhost, which may be an address here that others have as well (192.0.2.2).  Programs ask who they are connected with,
 * and trust localhost: where there is TCP, it is that.
 */
#include "rs.h"

bool rs_is_local6(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
}

bool rs_is_loopback(const struct sockaddr *addr)
{
	const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;

	if (addr->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == IN_LOOPBACKNET);
}

bool rs_keeps_name(const struct rsock *rs, const struct sockaddr *here)
{
	return !rs->beside_tcp || !rs->localhost || rs_is_loopback(here);
}
