/* SPDX-License-Identifier: MIT */
/* ok.h - calls that return 0, or -1 and an errno. */
#ifndef T_OK_H
#define T_OK_H

#include <check.h>
#include <errno.h>
#include <string.h>

#define ok(call)                                                                  \
	do {                                                                      \
		long ok_ = (call);                                                \
		ck_assert_msg(ok_ == 0, #call ": %ld, %s", ok_, strerror(errno)); \
	} while (0)

#define fails(call, err)                        \
	do {                                    \
		errno = 0;                      \
		ck_assert_int_eq((call), -1);   \
		ck_assert_int_eq(errno, (err)); \
	} while (0)

#endif
