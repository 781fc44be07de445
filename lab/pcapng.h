/* SPDX-License-Identifier: MIT */
/*
 * pcapng.h - captures in memory: blocks of pcapng made, and read one by one, with their comments; the older pcap is
 * read, too.  It does no I/O: the caller writes what is made, and feeds what is read, from a file or a pipe.
 *
 *	section | interface interface | packet packet statistics packet ... | section ...
 */
#ifndef LAB_PCAPNG_H
#define LAB_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCAPNG_IFACES   256u /* of one section; what has more is not read */
#define PCAPNG_NAME_LEN 64u
#define PCAPNG_COMMENTS 8u          /* of one packet; further ones are left out */
#define PCAPNG_BLOCK    (16u << 20) /* longer ones are not read */
#define PCAPNG_ETHERNET 1u          /* link type */

enum pcapng_kind {
	PCAPNG_MORE,    /* not a whole block yet: item.used is 0, item.want bytes are needed */
	PCAPNG_BAD,     /* no capture, or damaged: item.why; reading ends here */
	PCAPNG_SECTION, /* the file's head; interfaces begin anew */
	PCAPNG_IFACE,   /* interface item.iface, see reader.iface[]; of pcap it takes 0 bytes */
	PCAPNG_PACKET,
	PCAPNG_STATS, /* of interface item.iface */
	PCAPNG_OTHER, /* a block of another kind */
};

/* epb_flags */
enum { PCAPNG_IN = 1, PCAPNG_OUT = 2, PCAPNG_DIR = 3 };

#define PCAPNG_NO_COUNT UINT64_MAX

struct pcapng_text {
	const char *s; /* not ended by 0 */
	size_t len;
};

struct pcapng_item {
	unsigned iface;
	bool timed;  /* ns is known */
	uint64_t ns; /* since 1970 */
	/* packets */
	const uint8_t *data;
	size_t caplen; /* bytes at data */
	size_t len;    /* of the packet as it was; 0 when put: caplen */
	uint32_t flags;
	uint64_t drops;                              /* packets of the interface lost since the one before */
	struct pcapng_text comment[PCAPNG_COMMENTS]; /* of interfaces, packets, statistics, sections */
	unsigned comments;
	/* statistics; PCAPNG_NO_COUNT: not told */
	uint64_t received, dropped; /* by the interface; lost there for want of room */
	/* reading */
	size_t used; /* bytes that the item took; the pointers above lead into them */
	size_t want;
	const char *why;
};

/* ---- reading ------------------------------------------------------------------------- */

struct pcapng_iface {
	char name[PCAPNG_NAME_LEN]; /* cut; empty: none */
	uint32_t link;
	uint32_t snaplen;  /* 0: no bound */
	uint8_t tsresol;   /* as in the file: 10^-n, or with bit 7 2^-n seconds */
	int64_t ts_offset; /* seconds */
};

struct pcapng_reader {        /* begin with zeros */
	bool begun, big, old; /* old: pcap */
	bool nano;            /* of pcap */
	unsigned ifaces;
	struct pcapng_iface iface[PCAPNG_IFACES];
};

/*
 * The next item of the capture that goes on with data.  The caller then goes on behind item.used bytes, or, at PCAPNG_MORE,
 * with the same bytes and more of them.  At the end of a whole capture it is PCAPNG_MORE with no byte left over.
 */
enum pcapng_kind pcapng_next(struct pcapng_reader *, const uint8_t *data, size_t len, struct pcapng_item *);

/* ---- making: in the byte order of PCs, time in nanoseconds --------------------------------- */

/* Bytes that a packet needs. */
size_t pcapng_packet_len(const struct pcapng_item *);

/* Each puts a block at out; the bytes it takes, 0: more than room. */
size_t pcapng_put_section(uint8_t *out, size_t room, const char *app, const char *comment); /* NULL: without */
size_t pcapng_put_iface(uint8_t *out, size_t room, const char *name, const char *descr);
size_t pcapng_put_packet(uint8_t *out, size_t room, const struct pcapng_item *);
size_t pcapng_put_stats(uint8_t *out, size_t room, const struct pcapng_item *);

#endif
