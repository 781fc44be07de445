/* SPDX-License-Identifier: MIT */
/*
 * finding.h - what --check has found: each is told once, on standard error and in $RDMAD_CHECK_LOG, and counted.
 *
 * Two are the same if their kind is, and the calls that they are about were made from the same places.
 */
#ifndef CALLPRELOAD_FINDING_H
#define CALLPRELOAD_FINDING_H

#include "stack.h"

enum finding_kind {
#define FINDING(id, name, advice) F_##id,
#include "finding.def"
	FINDINGS
};

/*
 * By what call: "posted by" and the like, and the stack of that; NULL, NULL: by this one.  The caller's stack is told besides.
 * With check_lock.
 */
__attribute__((format(printf, 4, 5))) void finding(enum finding_kind, const char *by, const struct stack *,
						   const char *fmt, ...);

/* Was there one?  And one line on the process; what: how much was looked at. */
bool finding_any(void);
void finding_sum(const char *what);
/* The next finding has this stack, too; it is not copied. */
void finding_also(const char *by, const struct stack *);
/* In a child of fork(2): what the parent found is the parent's. */
void finding_forget(void);

#endif
