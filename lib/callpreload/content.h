/* SPDX-License-Identifier: MIT */
/*
 * content.h - has memory changed?
 *
 * A print of 16 blocks; of blocks longer than 2 KiB, only these.  Memory that is not there is no
 * error: the kernel reads it (process_vm_readv), not this process.  With check_lock.
 */
#ifndef CALLPRELOAD_CONTENT_H
#define CALLPRELOAD_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCKS 16u

struct content {
	const char *at; /* NULL: nothing was printed */
	size_t len;
	uint32_t block[BLOCKS];
};

enum content_state { CONTENT_SAME, CONTENT_CHANGED, CONTENT_GONE };

/* False: the memory is not there. */
bool content_print(struct content *, const char *at, size_t len);
/* Of what is from byte `from` on, in whole blocks; if it changed, the block is bytes *begin up to, not with, *end. */
enum content_state content_look(const struct content *, size_t from, size_t *begin, size_t *end);

#endif
