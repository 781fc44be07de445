/* SPDX-License-Identifier: MIT */
/* ctl_rest.c - the parts of the daemon that ctl.c leaves out: they do nothing, or refuse. */
#include <errno.h>
#include <limits.h>

#include <rdmad/ring.h>

#include "daemon/cma/cma.h"
#include "daemon/control/call.h"
#include "daemon/control/capture.h"
#include "daemon/control/ctl.h"
#include "daemon/control/hooks.h"
#include "daemon/control/impair_verb.h"
#include "daemon/control/sessions.h"
#include "daemon/shard/bells.h"
#include "daemon/shard/look.h"
#include "daemon/shard/net_group.h"
#include "daemon/shard/publish.h"
#include "daemon/shard/raw.h"
#include "daemon/shard/steer.h"
#include "daemon/shard/tap.h"

int bells_add(struct ctx *) { return 0; }
void bells_del(struct ctx *) {}
void bells_sleep(struct ctx *c) { bell_sleep(c->bell, BELL_FD); }
void bells_wake(struct ctx *c) { bell_wake(c->bell); }
bool bells_touched(const struct ctx *c) { return !bell_sleeps(c->bell, BELL_FD); }
enum io_rung io_rung(const struct io *) { return IO_SILENT; } /* kicks are lost, and found */
unsigned look_kicks(struct shard *) { return 0; }
void bells_ready(struct shard *, unsigned) {}
void ctl_outlet_stuck(void) {}
void ctl_outlet_going(struct ctx *, struct outlet *) {}
void ctl_ctx_going(struct ctx *) {}
void ctl_session_ended(bool) {}
int raw_new(struct raw **, int, uid_t) { return EINVAL; }
void raw_free(struct raw *) {}
int raw_begin(struct ctx_qp *) { return ENOMEM; }
void raw_end(struct ctx_qp *) {}
int verb_capture(struct call *) { return EPERM; } /* its own tests: t/lab, t/daemon/hostile_msg.c */
void capture_end(struct capture *) {}
int verb_impair(struct call *) { return EPERM; }
void impair_session_end(uint64_t) {}
json_t *impair_json(void) { return NULL; }
void tap_qp_gone(struct shard *, unsigned, uint32_t) {}
struct steer_set *raw_steer(struct raw *, struct steer_set *set) { return set; }
unsigned shard_bits(void) { return 0; }
bool cma_addr_ok(const union cmm_addr *) { return false; }
void cma_addr_gid(const union cmm_addr *, uint8_t *) {}
uint16_t cma_addr_port(const union cmm_addr *) { return 0; }
int net_group(struct device *, const uint8_t *, unsigned, uid_t, bool) { return 0; }
int cma_call(struct cma_channel **, const struct cma_who *, const struct cmm_req *, struct cmm_rep *, int *)
{
	return ENOSYS;
}
void cma_channel_end(struct cma_channel *) {}
unsigned cma_ids_tied(unsigned *at, struct cma_id **, unsigned)
{
	*at = UINT_MAX;
	return 0;
}
struct cma_count cma_count;
