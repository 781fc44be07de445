/* SPDX-License-Identifier: MIT */
/* crc.h - the one function of ISA-L that the core calls, where there is no ISA-L: in WebAssembly.  A table of 256, a byte at a time. */
#ifndef SHIM_ISAL_CRC_H
#define SHIM_ISAL_CRC_H

#include <stdint.h>

/* The CRC-32 of Ethernet; seed: what came of the bytes before, or 0.  One thread only. */
static inline uint32_t crc32_gzip_refl(uint32_t seed, const unsigned char *p, uint64_t len)
{
	static uint32_t table[256];
	uint32_t crc = ~seed;

	for (uint32_t i = 0; !table[1] || i; i = (i + 1) & 255) {
		table[i] = i;
		for (unsigned k = 0; k < 8; k++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
		if (i == 255)
			break;
	}
	while (len--)
		crc = table[(crc ^ *p++) & 255] ^ crc >> 8;
	return ~crc;
}

#endif
