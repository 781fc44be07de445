/* SPDX-License-Identifier: MIT */
/*
 * crc.h - the CRC-32 of Ethernet, which the ICRC is.
 *
 * crc: what came of the bytes before, 0 if there are none.  Any thread may call these at any time.
 */
#ifndef PROTO_CRC_H
#define PROTO_CRC_H

#include <stddef.h>
#include <stdint.h>

#define CRC_POLY 0xedb88320u /* bit 31 is x^0 */

/* Goes on with len bytes. */
uint32_t crc_more(uint32_t crc, const void *data, size_t len);

/*
 * Copies len bytes behind the first front bytes of to, and goes on with these and the copied ones.  Each byte of from is read
 * once: the result is that of the copy, even if somebody writes to from meanwhile.
 */
uint32_t crc_copy(uint32_t crc, uint8_t *to, size_t front, const uint8_t *from, size_t len);

#endif
