/* SPDX-License-Identifier: MIT */
/* dm.h - device memory. */
#ifndef VERBS_DM_H
#define VERBS_DM_H

#include "base.h"

#endif
