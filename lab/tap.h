/* SPDX-License-Identifier: MIT */
/*
 * tap.h - one packet on its way, as rules and captures see it.
 *
 *	HCA --burst--> [cut into packets] --> tap_out --+--> wire ------------+--> tap_in --> HCA
 *	                                                +--> same daemon -----+
 *
 * A packet passes tap_out where it leaves a device and tap_in where it arrives at one, so one between two
 * devices of a daemon (or of a device to itself) passes both there.  At each point its fate is decided first; then
 * every listener sees the packet as it goes on from there (bytes changed, time of departure), or that it does not.
 */
#ifndef LAB_TAP_H
#define LAB_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../proto/burst.h"
#include "../proto/mono.h"

#define TAP_PKT_MAX 4224u /* bytes of a UDP payload: headers, 4096, pad, ICRC; rounded up */

enum tap_dir { TAP_OUT, TAP_IN };
enum tap_kind {
	TAP_REQUEST,
	TAP_RESPONSE,
	TAP_ACK,
	TAP_KINDS
}; /* response: with data, of READs and atomics; ack: NAKs, too */

/* A QP as its host knows it. */
struct tap_qp {
	uint32_t nth; /* how many the device had made with it, since its start */
	const char *prog;
	uint8_t type;         /* enum qp_type */
	psn_t sq_psn, rq_psn; /* the first PSN that it sends, and that it expects */
	uint32_t dest_qpn;
};

struct tap_pkt {
	unsigned device; /* index: the sender's (out), the receiver's (in) */
	unsigned shard;  /* whose thread this is */
	enum tap_dir dir;
	bool local;   /* from and to devices of one daemon, without a wire */
	mono_t now;   /* when it is made, or delivered */
	uint32_t qpn; /* of this device: the sender's, or the receiver's; 0: not known */
	const struct route *route;
	/*
	 * One packet (n is 1), with the payload as spans, good as long as this call lasts.  NULL: what came in is no packet of
	 * ours (malformed, wrong ICRC that is not a rule's); then there are bytes.
	 */
	const struct burst *b;
	/*
	 * The UDP payload: BTH to ICRC.  NULL: nobody needed it yet; tap_bytes().  Packets from the wire have the ICRC that they
	 * came with; all others that of an IP identification of 0, which is what is sent while the tap is on.
	 */
	const uint8_t *data;
	size_t len;
	uint16_t sport, ip_id; /* as the ICRC of data has them */
	bool bad;              /* a rule has damaged data, and its ICRC is wrong; b is as it was */
	/* Filled in by flow_note() (flow.h). */
	enum tap_kind kind;
	bool known; /* qp is valid */
	bool has_rel;
	struct tap_qp qp; /* of this device */
	int32_t rel;      /* PSNs behind the first one of its direction, if has_rel */
	uint16_t cm;      /* of QP 1: attribute of a CM message (enum cm_attr); 0: it is none */
	uint32_t sender;  /* flow.h; filled in by rules_decide() */
	unsigned iter;    /* which transmission of this PSN: 1 is the first; 0: nobody counts (UC, UD) */
	/* For tap_bytes(). */
	const struct mem_ops *mem;
	void *mem_host;
	uint8_t *room; /* TAP_PKT_MAX of it */
};

/* Makes data and len if they are not there.  0 or an errno: the program's memory cannot be read. */
int tap_bytes(struct tap_pkt *);

/* Puts the right ICRC behind the len bytes of a packet with that source port: identification 0. */
void tap_icrc(const struct route *, uint16_t sport, uint8_t *pkt, size_t len);

/* The fate of a packet at this point. */
struct tap_fate {
	bool dropped;        /* it does not go on */
	bool made;           /* no HCA sent it: a copy, or an answer that a rule gave */
	const char *comment; /* a line or two, e.g. "dropped by rule 2"; NULL: nothing is remarkable */
};

/* Called in the thread of pkt->shard; several shards may call at once. */
struct tap_listener {
	uint32_t devices; /* bit per device index: whose packets it is to see */
	void (*see)(struct tap_listener *, struct tap_pkt *, const struct tap_fate *);
	/* Or NULL.  Right after the HCA got a packet that came in and was seen, and before anything else; the same arguments. */
	void (*after)(struct tap_listener *, struct tap_pkt *, const struct tap_fate *);
};

#define TAP_LISTENERS 16u

void tap_see(struct tap_listener *const *listener, unsigned n, struct tap_pkt *, const struct tap_fate *);
void tap_after(struct tap_listener *const *listener, unsigned n, struct tap_pkt *, const struct tap_fate *);

#endif
