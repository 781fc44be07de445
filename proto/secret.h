/* SPDX-License-Identifier: MIT */
/*
 * secret.h - numbers that nobody guesses who has seen others of them: keys of memory, comm ids, the first QPN.
 *
 * SipHash-2-4 of a counter.  The key is the host's secret; a host that knows no chance gives a constant one.
 */
#ifndef PROTO_SECRET_H
#define PROTO_SECRET_H

#include <stdint.h>
#include <string.h>

struct secret {
	uint64_t key[2];
	uint64_t n; /* given out so far */
};

static inline uint64_t secret_rotl(uint64_t v, unsigned n) { return v << n | v >> (64 - n); }

static inline void secret_rounds(uint64_t v[4], unsigned n)
{
	while (n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = secret_rotl(v[1], 13) ^ v[0];
		v[3] = secret_rotl(v[3], 16) ^ v[2];
		v[0] = secret_rotl(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = secret_rotl(v[1], 17) ^ v[2];
		v[3] = secret_rotl(v[3], 21) ^ v[0];
		v[2] = secret_rotl(v[2], 32);
	}
}

/* SipHash-2-4 of the 8 bytes of word. */
static inline uint64_t secret_hash(const uint64_t key[2], uint64_t word)
{
	const uint64_t block[2] = { word, 8ull << 56 }; /* the last one is the length */
	uint64_t v[4] = { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
			  key[1] ^ 0x7465646279746573u };

	for (unsigned i = 0; i < 2; i++) {
		v[3] ^= block[i];
		secret_rounds(v, 2);
		v[0] ^= block[i];
	}
	v[2] ^= 0xff;
	secret_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Of a GID: who chooses GIDs, or numbers, can choose none that have one place in a table. */
static inline uint64_t secret_hash_gid(const uint64_t key[2], const uint8_t gid[16])
{
	uint64_t half[2];

	memcpy(half, gid, sizeof(half));
	return secret_hash(key, half[0] ^ secret_hash(key, half[1]));
}

static inline uint64_t secret_next(struct secret *s) { return secret_hash(s->key, s->n++); }

#endif
