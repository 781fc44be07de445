/* SPDX-License-Identifier: MIT */
/*
 * tap.h - the point in the daemon where packets are looked at one by one: lab/tap.h says what is seen there.
 *
 * While somebody wants the packets of a device its bursts are cut into packets of their own.  Those to the wire are made
 * into bytes here and sent one by one, not as a GSO train, so that each has the IP identification 0
 * and what was looked at is what is sent.  Those to a device of this daemon stay spans, unless bytes are wanted.
 *
 * Each has the time of the clock when it is made, or delivered, and not that of the turn: which captures show.
 *
 * While nobody does, shard->tap is NULL, and that is all there is of it on the data path.
 */
#ifndef DAEMON_TAP_H
#define DAEMON_TAP_H

#include "../../lab/tap.h"
#include "shard.h"

struct hca;

/* Control thread.  After tap_unlisten() no shard is in listener->see() any more.  0, ENOMEM, or EBUSY: there are too many. */
int tap_listen(struct tap_listener *);
void tap_unlisten(struct tap_listener *);

/* A party that decides what becomes of a packet.  In the shards' threads. */
struct flow;
struct rule_verdict;
struct tap_judge {
	void (*decide)(struct flow *, struct tap_pkt *, struct rule_verdict *);
};
/* Control thread: it decides on all packets of all devices from now on; NULL: nobody does.  0 or ENOMEM. */
int tap_judge(const struct tap_judge *);

/* ---- shard thread ---------------------------------------------------------------------- */

bool tap_wants(const struct tap *, unsigned device);

#ifdef WITHOUT_LAB
static inline bool tap_on(const struct shard *, unsigned) { return false; }
#else
static inline bool tap_on(const struct shard *s, unsigned device)
{
	return __builtin_expect(s->tap != NULL, false) && tap_wants(s->tap, device);
}
#endif

/* A burst of hca, just taken by hca_tx(); to: the device of this shard that it goes to without a wire, or NULL. */
void tap_tx(struct shard *, unsigned device, struct hca *, const struct burst *, const struct device *to);

/* A UDP payload, len bytes with its ICRC, which is good or not; it is this shard's. */
struct tap_wire {
	bool good;
	uint16_t sport, ip_id; /* what the ICRC was checked with */
};
void tap_rx(struct shard *, const struct device *, const struct route *, const uint8_t *data, size_t len,
	    const struct tap_wire *);
/* The same without an ICRC: another shard took it from its socket, and found it good. */
void tap_rx_mail(struct shard *, const struct device *, const struct route *, const uint8_t *data, size_t len);

/* Packets that rules have held back go on when it is time. */
void tap_due(struct shard *, mono_t now);
mono_t tap_deadline(const struct shard *);
/* Fills in a QP as it is known here; shard: a struct shard, for struct flows.  false: there is none. */
bool tap_qp_info(void *shard, unsigned device, uint32_t qpn, struct tap_qp *);
/* The QP was reset or destroyed. */
void tap_qp_gone(struct shard *, unsigned device, uint32_t qpn);

void tap_end(struct shard *); /* its thread has ended */

#endif
