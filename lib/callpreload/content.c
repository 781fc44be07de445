/* SPDX-License-Identifier: MIT */
/* content.c - prints of memory. */
#include "content.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define PIECE 2048u /* of a block, so much at most */

static uint64_t mix(uint64_t h, const unsigned char *p, size_t n)
{
	uint64_t w;

	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&w, p, 8);
		h = (h ^ w) * 0x9E3779B97F4A7C15u;
		h ^= h >> 29;
	}
	for (; n; n--, p++)
		h = (h ^ *p) * 0x9E3779B97F4A7C15u;
	return h;
}

/* Where block i begins; that of BLOCKS is the end. */
static size_t block_at(size_t len, unsigned i) { return (size_t)((unsigned __int128)len * i / BLOCKS); }

/*
 * Prints the blocks from `first` on, by one system call; of one piece where it can be, as the kernel takes its time for each.
 * False: some of it is not there.
 */
static bool blocks_print(const char *at, size_t len, unsigned first, uint32_t *out)
{
	static unsigned char buf[BLOCKS * PIECE];
	struct iovec there[BLOCKS], here = { buf, 0 };
	const unsigned char *p = buf;
	unsigned n = 0;

	for (unsigned i = first; i < BLOCKS; i++) {
		size_t size = block_at(len, i + 1) - block_at(len, i);

		there[n] = (struct iovec){ (void *)(uintptr_t)(at + block_at(len, i)), size > PIECE ? PIECE : size };
		here.iov_len += there[n++].iov_len;
	}
	if (len <= BLOCKS * PIECE) {
		there[0].iov_len = here.iov_len;
		n = 1;
	}
	if (here.iov_len && process_vm_readv(getpid(), &here, 1, there, n, 0) != (ssize_t)here.iov_len)
		return false;
	for (unsigned i = first; i < BLOCKS; i++) {
		size_t size = block_at(len, i + 1) - block_at(len, i), part = size > PIECE ? PIECE : size;
		uint64_t h = mix(size, p, part);

		out[i] = (uint32_t)(h ^ h >> 32);
		p += part;
	}
	return true;
}

bool content_print(struct content *c, const char *at, size_t len)
{
	c->at = blocks_print(at, len, 0, c->block) ? at : NULL;
	c->len = len;
	return c->at;
}

enum content_state content_look(const struct content *c, size_t from, size_t *begin, size_t *end)
{
	uint32_t now[BLOCKS];
	unsigned i = 0;

	while (i < BLOCKS && block_at(c->len, i) < from)
		i++;
	*begin = block_at(c->len, i);
	*end = c->len;
	if (i == BLOCKS)
		return CONTENT_SAME;
	if (!blocks_print(c->at, c->len, i, now))
		return CONTENT_GONE;
	while (i < BLOCKS && now[i] == c->block[i])
		i++;
	if (i == BLOCKS)
		return CONTENT_SAME;
	*begin = block_at(c->len, i);
	*end = block_at(c->len, i + 1);
	return CONTENT_CHANGED;
}
