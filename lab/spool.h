/* SPDX-License-Identifier: MIT */
/*
 * spool.h - packets on their way from the shards of a daemon to the process that records them: in shared memory, a
 * bounded ring of bytes for each shard.
 *
 *	head | strand 0, its shard writes | strand 1 | ...
 *	       `- record record ... pad | record ...
 *
 * A shard never waits: packets without room are counted, by device, and the count goes with the device's next packet.
 * The memory ordering between the two sides is in spool.c alone.  The reader trusts the daemon to write valid records,
 * but checks all lengths; the daemon does not trust the reader at all.
 */
#ifndef LAB_SPOOL_H
#define LAB_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../proto/burst.h"

#define SPOOL_STRANDS 16u /* shards */
#define SPOOL_DEVICES 32u
#define SPOOL_LEAST   (64u << 10) /* bytes of a strand */
#define SPOOL_MOST    (1u << 30)

struct spool_pkt {
	uint64_t ns;    /* since 1970 */
	uint64_t drops; /* of this device and shard, for want of room, since the packet before */
	struct route route;
	uint32_t caplen, len; /* of data, and of the UDP payload as it was */
	uint32_t text_n;
	uint16_t sport, ip_id;
	uint16_t sum; /* of all len bytes of data: dress_sum() */
	uint8_t device;
	uint8_t dir; /* PCAPNG_IN, PCAPNG_OUT */
	/* Of a record that the reader is given, these two lie in the ring. */
	const uint8_t *data; /* UDP payload: BTH to ICRC */
	const char *text;    /* remarks, one a line; not ended by 0 */
};

struct spool_count {
	uint64_t seen, lost;
}; /* lost ones are seen ones, too */

struct spool_head;
struct spool_strand;

/* One side's view of a strand. */
struct spool {
	struct spool_head *head;
	struct spool_strand *strand;
	uint8_t *data;
	uint64_t mask;                 /* bytes - 1 */
	uint64_t pos, other;           /* ours; the other side's as last read */
	uint64_t drops[SPOOL_DEVICES]; /* writer: not told yet */
	uint32_t taken;                /* reader: bytes of the record handed out */
};

/* Bytes of shared memory.  len: of a strand, a power of two from SPOOL_LEAST to SPOOL_MOST. */
size_t spool_bytes(unsigned strands, size_t len);

/* ---- daemon --------------------------------------------------------------------------- */

/* The memory is all zeros before. */
void spool_make(void *mem, unsigned strands, size_t len);
void spool_writer(struct spool *, void *mem, unsigned strand);
/* false: it had no room, and was counted. */
bool spool_put(struct spool *, const struct spool_pkt *);
/* The reader sleeps, and is to be woken - by the one who is told so. */
bool spool_wake(struct spool *);

/* ---- reader --------------------------------------------------------------------------- */

/* The number of strands; 0: there is something else in the memory. */
unsigned spool_strands(const void *mem, size_t bytes);
void spool_reader(struct spool *, void *mem, unsigned strand);
/* The oldest packet, good until spool_done(); false: none. */
bool spool_next(struct spool *, struct spool_pkt *);
void spool_done(struct spool *);
/* Begins to sleep; then the strands are to be looked at once more. */
void spool_sleep(void *mem);
void spool_awake(void *mem);
struct spool_count spool_count(const struct spool *, unsigned device);

#endif
