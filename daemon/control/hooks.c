/* SPDX-License-Identifier: MIT */
/* hooks.c - puts functions of the control half behind the hooks. */
#include "hooks.h"

#include "../cma/cma.h"
#include "../shard/hooks.h"
#include "call.h"
#include "ctl.h"
#include "ends.h"
#include "session.h"
#include "why.h"

void control_hooks(void)
{
	hooks.outlet_stuck = ctl_outlet_stuck;
	hooks.why_collect = why_collect;
	hooks.ends_ctx = ends_ctx;
	hooks.xrcd_drop = xrcd_drop;
	hooks.xrcd_shard = xrcd_shard;
	hooks.mcast_forget = mcast_forget;
	cma_hooks.refused = why_cm_call;
	cma_hooks.event = why_cm_event;
	cma_hooks.verb = verb_for;
}
