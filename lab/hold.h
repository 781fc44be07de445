/* SPDX-License-Identifier: MIT */
/*
 * hold.h - packets that go on later: by the clock, or once others of their stream have overtaken them.
 *
 * In the order of their times; of the same time, in the order in which they came.
 */
#ifndef LAB_HOLD_H
#define LAB_HOLD_H

#include "rule.h"

struct parcel {
	struct parcel *next;
	mono_t at;
	unsigned behind; /* so many others are to go first; 0: only the time counts */
	unsigned device;
	enum tap_dir dir; /* which tap it has passed */
	enum tap_kind kind;
	unsigned iter;
	uint32_t qpn;
	bool local;
	int to;    /* out, local: the index of the device it goes to; -1: to the wire */
	bool made; /* no HCA sent it */
	bool bad;  /* its ICRC is wrong */
	struct route route;
	uint16_t sport;
	char text[RULE_TEXT];
	size_t len;
	uint8_t data[]; /* with the ICRC */
};

struct hold {
	struct parcel *first;
	size_t len; /* bytes in all */
};

/* Of p's bytes, which tap_bytes() has made.  NULL: no memory, or more than HOLD_LEN is held. */
struct parcel *parcel_new(const struct hold *, const struct tap_pkt *p);
#define HOLD_LEN (64u << 20)

void hold_put(struct hold *, struct parcel *);
/* The next one whose time has come, for the caller to free(); NULL: none. */
struct parcel *hold_due(struct hold *, mono_t now);
/* One of the packet's stream is due, and has not gone yet: the packet is to go behind it.  Copies and answers do not count. */
bool hold_waits(const struct hold *, const struct tap_pkt *);
/* A packet has gone on: who waited for just that is due from now on. */
void hold_passed(struct hold *, const struct tap_pkt *);
mono_t hold_deadline(const struct hold *);
void hold_fini(struct hold *);

#endif
