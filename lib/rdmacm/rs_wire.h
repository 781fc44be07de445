/* SPDX-License-Identifier: MIT */
/*
 * rs_wire.h - what two rsockets say to each other (t/data/rsocket.pcap).
 *
 * Data are RDMA writes with immediate data into the buffer that the receiver has granted: two halves in turn,
 * each told by a write to an entry of the sender's list.  The immediate data are the message: 3 bits of type,
 * 29 of value.
 */
#ifndef RDMACM_RS_WIRE_H
#define RDMACM_RS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RS_VERSION = 1, RS_FLAG_NET = 1, RS_FLAG_IOMAP = 2, RS_SGL_N = 2 };
enum { RS_OWN_LOCAL6 = 1 }; /* of a REQ: its program connects to ::1 */

enum rs_op {
	RS_OP_DATA = 0,  /* bytes that were written */
	RS_OP_SGL = 4,   /* how many data messages may be sent in all (16 bits); an entry may be new */
	RS_OP_IOMAP = 6, /* the entry that is new */
	RS_OP_CTL = 7,
};
enum rs_ctl { RS_CTL_DISCONNECT, RS_CTL_KEEPALIVE, RS_CTL_SHUTDOWN };

static inline uint32_t rs_msg(enum rs_op op, uint32_t v) { return (uint32_t)op << 29 | (v & 0x1fffffff); }
static inline enum rs_op rs_msg_op(uint32_t m) { return (enum rs_op)(m >> 29); }
static inline uint32_t rs_msg_value(uint32_t m) { return m & 0x1fffffff; }

/* In the order of bytes of whose list it is. */
struct rs_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t len;
};

struct rs_iomap {
	uint64_t offset;
	struct rs_sge sge;
};

/* Private data of REQ and REP: big endian. */
struct rs_hello {
	uint8_t version;
	uint8_t flags;
	uint16_t credits;
	uint8_t own; /* reserved in rdma-core, which does not look at it: RS_OWN_LOCAL6 */
	uint8_t reserved[2];
	uint8_t iomap_n;   /* scaled */
	struct rs_sge sgl; /* len: entries; the iomap is behind them */
	struct rs_sge buf;
};
_Static_assert(sizeof(struct rs_hello) == 40, "as it is sent");

/* Its contents, in host byte order. */
struct rs_peer {
	bool swap; /* its lists have the other order of bytes */
	bool local6;
	uint16_t credits;
	uint32_t iomap_n;
	struct rs_sge sgl, buf;
};

/* An iomap's size in 8 bits: above 128, in units of 256. */
uint8_t rs_scale(uint32_t n);
uint32_t rs_unscale(uint8_t n);
bool rs_hello_parse(struct rs_peer *, const void *data, size_t len);
struct rs_sge rs_sge_swap(struct rs_sge, bool swap);

#endif
