/* SPDX-License-Identifier: MIT */
/* enum_str.c - the names of events, as the constants are spelt. */
#include "cma.h"

/* clang-format off */
EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define NAME(e) [RDMA_CM_EVENT_##e] = "RDMA_CM_EVENT_" #e
	static const char *const names[] = {
		NAME(ADDR_RESOLVED), NAME(ADDR_ERROR), NAME(ROUTE_RESOLVED), NAME(ROUTE_ERROR),
		NAME(CONNECT_REQUEST), NAME(CONNECT_RESPONSE), NAME(CONNECT_ERROR), NAME(UNREACHABLE),
		NAME(REJECTED), NAME(ESTABLISHED), NAME(DISCONNECTED), NAME(DEVICE_REMOVAL),
		NAME(MULTICAST_JOIN), NAME(MULTICAST_ERROR), NAME(ADDR_CHANGE), NAME(TIMEWAIT_EXIT),
		"RDMA_CM_EVENT_ADDRINFO_RESOLVED", "RDMA_CM_EVENT_ADDRINFO_ERROR", "RDMA_CM_EVENT_USER",
	};
#undef NAME

	return (unsigned)event < ARRAY_N(names) ? names[event] : "UNKNOWN EVENT";
}
/* clang-format on */
