/* SPDX-License-Identifier: MIT */
#include "slice.h"

#include <rdmad/slice.h>

void slice_short(void) { slice_set(SLICE_SHORT_NS); }
