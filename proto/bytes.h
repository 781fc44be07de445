/* SPDX-License-Identifier: MIT */
/* bytes.h - numbers as they lie on the wire: big-endian, at any address. */
#ifndef PROTO_BYTES_H
#define PROTO_BYTES_H

#include <stdint.h>

static inline uint32_t be16_get(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static inline uint32_t be24_get(const uint8_t *p) { return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]; }
static inline uint32_t be32_get(const uint8_t *p) { return (uint32_t)p[0] << 24 | be24_get(p + 1); }
static inline uint64_t be64_get(const uint8_t *p) { return (uint64_t)be32_get(p) << 32 | be32_get(p + 4); }

static inline void be16_put(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void be24_put(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 16);
	be16_put(p + 1, v);
}

static inline void be32_put(uint8_t *p, uint32_t v)
{
	be16_put(p, v >> 16);
	be16_put(p + 2, v);
}

static inline void be64_put(uint8_t *p, uint64_t v)
{
	be32_put(p, (uint32_t)(v >> 32));
	be32_put(p + 4, (uint32_t)v);
}

/* The ICRC alone is little-endian (protocol section 2). */
static inline uint32_t le32_get(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void le32_put(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)(v >> 16);
	p[3] = (uint8_t)(v >> 24);
}

#endif
