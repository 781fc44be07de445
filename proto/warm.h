/* SPDX-License-Identifier: MIT */
/* warm.h - memory that is needed soon is asked for now: for hosts with many HCAs, which know whose turn is next. */
#ifndef PROTO_WARM_H
#define PROTO_WARM_H

#include <stddef.h>
#include <stdint.h>

struct hca;

#define WARM_LINE 64u

static inline void warm(const void *p, size_t len)
{
	uintptr_t at = (uintptr_t)p & ~(uintptr_t)(WARM_LINE - 1), end = (uintptr_t)p + len;

	for (; at < end; at += WARM_LINE)
		__builtin_prefetch((const void *)at);
}

/*
 * Of an HCA, a QP and an MR, in steps 0 to 3, with some time between them, as each goes by what the one before has asked for.
 * qpn: that of what will be received; 0: it will send, the QP that sent last.
 */
void hca_warm(const struct hca *, uint32_t qpn, uint32_t key, unsigned step);

#endif
