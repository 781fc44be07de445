/* SPDX-License-Identifier: MIT */
/* rs_wire.c - the greeting of rsockets. */
#include "rs_wire.h"

#include <byteswap.h>
#include <endian.h>
#include <string.h>

#define HALF 128u

uint8_t rs_scale(uint32_t n)
{
	uint32_t units = n >> 8;

	if (n <= HALF)
		return (uint8_t)n;
	return (uint8_t)(HALF | (units < HALF ? units : HALF - 1));
}

uint32_t rs_unscale(uint8_t n) { return n <= HALF ? n : (n & (HALF - 1)) << 8; }

struct rs_sge rs_sge_swap(struct rs_sge s, bool swap)
{
	if (!swap)
		return s;
	return (struct rs_sge){ bswap_64(s.addr), bswap_32(s.key), bswap_32(s.len) };
}

bool rs_hello_parse(struct rs_peer *p, const void *data, size_t len)
{
	bool little = __BYTE_ORDER == __LITTLE_ENDIAN;
	struct rs_hello h;

	if (!data || len < sizeof(h))
		return false;
	memcpy(&h, data, sizeof(h));
	if (h.version != RS_VERSION)
		return false;
	p->swap = little == ((h.flags & RS_FLAG_NET) != 0);
	p->local6 = h.own & RS_OWN_LOCAL6;
	p->credits = be16toh(h.credits);
	p->iomap_n = h.flags & RS_FLAG_IOMAP ? rs_unscale(h.iomap_n) : 0;
	p->sgl = rs_sge_swap(h.sgl, little);
	p->buf = rs_sge_swap(h.buf, little);
	return p->sgl.len == RS_SGL_N;
}
