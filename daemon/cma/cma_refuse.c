/* SPDX-License-Identifier: MIT */
/* cma_refuse.c - see cma_refuse.h. */
#include "cma_refuse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static char reason[128];

int cma_refuse(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	return err;
}

int cma_must_be(const struct cma_id *id, enum cma_state state)
{
	static const char *const names[] = {
		[CMA_IDLE] = "is new",
		[CMA_BOUND] = "is bound to an address",
		[CMA_ADDR_QUERY] = "resolves its address",
		[CMA_ADDR_RESOLVED] = "has its address resolved",
		[CMA_ROUTE_RESOLVED] = "has its route resolved",
		[CMA_CONNECT] = "has a connection, or a request for one",
		[CMA_DISCONNECT] = "was disconnected",
		[CMA_LISTEN] = "listens",
	};

	return id->state == state
		       ? 0
		       : cma_refuse(EINVAL, "the id %s; wanted is one that %s", names[id->state], names[state]);
}

int cma_must_fit(unsigned data_len, const char *message, unsigned room)
{
	return data_len <= room
		       ? 0
		       : cma_refuse(EINVAL, "private_data_len %u: a %s has room for %u bytes", data_len, message, room);
}

const char *cma_reason(void) { return reason; }

void cma_reason_new(void) { *reason = '\0'; }
