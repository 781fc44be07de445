/* SPDX-License-Identifier: MIT */
/*
 * slots.h - the functions behind the slots of struct verbs_context, as verbs.def has them: each has the type of its slot.
 *
 * Their arguments, results and rules about threads are those of the manual page of their verb.
 */
#ifndef VERBS_SLOTS_H
#define VERBS_SLOTS_H

#include <infiniband/verbs.h>

#define SLOT(slot, fn) extern __typeof__(*((struct verbs_context *)0)->slot) fn;
#include "verbs.def"

#endif
