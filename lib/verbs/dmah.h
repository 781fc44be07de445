/* SPDX-License-Identifier: MIT */
/* dmah.h - DMA handles, which are hints. */
#ifndef VERBS_DMAH_H
#define VERBS_DMAH_H

#include "newer.h"

struct rd_dmah {
	struct newer_dmah dmah;
	uint32_t users; /* atomic; MRs that name it */
};

static inline struct rd_dmah *to_dmah(struct newer_dmah *d) { return (struct rd_dmah *)d; }

#endif
