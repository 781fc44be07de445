/* SPDX-License-Identifier: MIT */
/*
 * crc.c - ISA-L's CRC, and one that copies what it reads, for processors that multiply polynomials 512 bits at a time.
 *
 * Polynomials over GF(2) modulo P are in reflected order, as the CRC is: of any piece of the message the first bit is the
 * highest power.  Four accumulators of 512 bits take every fourth block of 64 bytes each.  To go on by n bits is to multiply by
 * x^n, and the first half of each 128 bits by x^(n + 64); the constants are for 32 less, for so much higher do reflected ones
 * of 33 bits stand in their 64.  Bytes that do not fill a block come first: zeros before a message do not change what is
 * left of it modulo P.
 */
#include "crc.h"

#include <stdbool.h>
#include <string.h>

#include <isa-l/crc.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/*
 * ISA-L goes on with 512 bits at a time and leaves the upper parts of the vector registers as they are.  Until they are
 * cleared, each instruction of the older kind (all that a compiler makes for any x86-64) has to keep them: what
 * follows, and the beginning of the next CRC, takes several times as long.
 */
static void vectors_clear(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroupper" ::
					 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
					   "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

uint32_t crc_more(uint32_t crc, const void *data, size_t len)
{
	crc = crc32_gzip_refl(crc, data, len);
	vectors_clear();
	return crc;
}

static uint32_t copy_first(uint32_t crc, uint8_t *to, size_t front, const uint8_t *from, size_t len)
{
	memcpy(to + front, from, len);
	return crc_more(crc, to, front + len);
}

#ifdef __x86_64__

#define BLOCK    64u
#define WIDE     __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,pclmul,vpclmulqdq")))
#define WIDE_MIN 512u /* bytes: of fewer the end takes longer than a second pass */

/* x^(n + 32) and x^(n - 32) modulo P. */
struct by {
	uint64_t first, second;
};

static const struct by by_2048 = { 0x11542778a, 0x1322d1430 };
static const struct by by_512 = { 0x154442bd4, 0x1c6e41596 };
static const struct by by_parts[4] = { /* 384, 256, 128 and 0 bits */
				       { 0x03db1ecdc, 0x174359406 },
				       { 0x0f1da05aa, 0x15a546366 },
				       { 0x1751997d0, 0x0ccaa009e },
				       { 0, 0 }
};
#define X_96   0x0ccaa009eull /* by_parts[2].second */
#define X_64   0x163cd6124ull
#define POLY   0x1db710641ull /* P itself, x^32 included */
#define BY_DIV 0x1f7011641ull /* x^64 divided by P */

WIDE static inline __m512i every(struct by k)
{
	return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)k.second, (long long)k.first));
}

/* a times x^n, plus next */
WIDE static inline __m512i on(__m512i a, __m512i by, __m512i next)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, by, 0x00), _mm512_clmulepi64_epi128(a, by, 0x11),
					 next, 0x96);
}

/* 128 bits modulo P, with 32 zeros behind them, as a CRC has them. */
WIDE static uint32_t rest(__m128i x)
{
	const __m128i low = _mm_set_epi32(0, 0, 0, -1);
	__m128i q;

	x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, _mm_set_epi64x(0, X_96), 0x00));
	q = _mm_srli_si128(x, 4);
	x = _mm_xor_si128(q, _mm_clmulepi64_si128(_mm_and_si128(x, low), _mm_set_epi64x(0, X_64), 0x00));
	q = _mm_clmulepi64_si128(_mm_and_si128(x, low), _mm_set_epi64x(0, BY_DIV), 0x00);
	q = _mm_clmulepi64_si128(_mm_and_si128(q, low), _mm_set_epi64x(0, POLY), 0x00);
	return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, q), 1);
}

/* The four parts of the last block as one. */
WIDE static uint32_t block_rest(__m512i a)
{
	__m512i by = _mm512_loadu_si512(by_parts);
	__m512i sum = _mm512_xor_si512(_mm512_clmulepi64_epi128(a, by, 0x00), _mm512_clmulepi64_epi128(a, by, 0x11));
	__m256i half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
	__m128i x = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));

	return rest(_mm_xor_si128(x, _mm512_extracti32x4_epi32(a, 3)));
}

WIDE static inline __m512i block_copy(uint8_t *to, const uint8_t *from)
{
	__m512i v = _mm512_loadu_si512(from);

	_mm512_storeu_si512(to, v);
	return v;
}

/* The last bytes of at, 4 to 64, as the end of a block; what came before is added to their first four, as a CRC does. */
WIDE static __m512i block_first(uint32_t crc, const uint8_t *at, size_t len)
{
	uint8_t block[BLOCK] = { 0 };
	uint32_t v;

	memcpy(block + BLOCK - len, at, len);
	memcpy(&v, block + BLOCK - len, sizeof(v));
	v ^= ~crc;
	memcpy(block + BLOCK - len, &v, sizeof(v));
	return _mm512_loadu_si512(block);
}

/* front is 4 at least */
WIDE static uint32_t copy_wide(uint32_t crc, uint8_t *to, size_t front, const uint8_t *from, size_t len)
{
	__m512i by = every(by_512), a[4] = { _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512() };
	size_t odd = len % BLOCK, n = len / BLOCK;

	memcpy(to + front, from, odd);
	front += odd;
	from += odd;
	if (front > BLOCK) {
		crc = crc32_gzip_refl(crc, to, front - BLOCK);
		to += front - BLOCK;
		front = BLOCK;
	}
	a[3] = block_first(crc, to, front);
	to += front;
	for (; n % 4; n--, to += BLOCK, from += BLOCK)
		a[3] = on(a[3], by, block_copy(to, from));
	for (by = every(by_2048); n; n -= 4, to += 4 * BLOCK, from += 4 * BLOCK) {
		__m512i v0 = block_copy(to, from), v1 = block_copy(to + BLOCK, from + BLOCK);
		__m512i v2 = block_copy(to + 2 * BLOCK, from + 2 * BLOCK);
		__m512i v3 = block_copy(to + 3 * BLOCK, from + 3 * BLOCK);

		a[0] = on(a[0], by, v0);
		a[1] = on(a[1], by, v1);
		a[2] = on(a[2], by, v2);
		a[3] = on(a[3], by, v3);
	}
	by = every(by_512);
	return ~block_rest(on(on(on(a[0], by, a[1]), by, a[2]), by, a[3]));
}

static bool is_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("vpclmulqdq");
}

#endif

uint32_t crc_copy(uint32_t crc, uint8_t *to, size_t front, const uint8_t *from, size_t len)
{
#ifdef __x86_64__
	if (len >= WIDE_MIN && front >= sizeof(crc) && is_wide())
		return copy_wide(crc, to, front, from, len);
#endif
	return copy_first(crc, to, front, from, len);
}
