/* SPDX-License-Identifier: MIT */
/*
 * rs_local.c - localhost, which may be an address here that others have as well (192.0.2.2).  Programs ask who they are connected with,
 * and trust localhost: where there is TCP, it is that.
 */
#include "rs.h"

bool rs_keeps_name(const struct rsock *rs, const struct sockaddr *here)
{
	return !rs->beside_tcp || !rs->localhost || addr_is_loopback(here);
}
