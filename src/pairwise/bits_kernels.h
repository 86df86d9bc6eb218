/*
 * bits_kernels.h - how many bits of two rows differ, and how many either of them has
 *
 * Included by kernels.h once.  Panels hold words of 32 bits in the place of f32.  The portable
 * tiles count the bits of each byte by adding halves (Warren, Hacker's Delight, 2nd edition, 5-1)
 * and add bytes for as many words as a byte can take; where the processor has VPOPCNTDQ, one
 * instruction counts the bits of a word.
 *
 * SPDX-License-Identifier: MIT
 */
typedef uint32_t vu32 __attribute__((vector_size(VBYTES)));

/* The bits of each byte. */
static inline vu32 bits_of_bytes(vu32 a)
{
    a -= (a >> 1) & 0x55555555;
    a = (a & 0x33333333) + ((a >> 2) & 0x33333333);
    return (a + (a >> 4)) & 0x0f0f0f0f;
}

/* The sum of the bytes. */
static inline vu32 sum_of_bytes(vu32 a)
{
    a = (a & 0x00ff00ff) + ((a >> 8) & 0x00ff00ff);
    return (a & 0xffff) + (a >> 16);
}

#define TILE CAT(bits_hamming, ISA)
#define TARGET
#define COUNT(a) bits_of_bytes(a)
#define SUM(a)   sum_of_bytes(a)
#define WORDS    31 /* 31 * 8 <= 255 */
#define SUMS     1
#include "pairwise/bits_tile.h"

#define TILE CAT(bits_jaccard, ISA)
#define TARGET
#define COUNT(a) bits_of_bytes(a)
#define SUM(a)   sum_of_bytes(a)
#define WORDS    31
#define SUMS     2
#include "pairwise/bits_tile.h"

#if VBYTES == 64
#  define POPCOUNT __attribute__((target("avx512vpopcntdq")))

static POPCOUNT inline vu32 bits_of_words(vu32 a)
{
    return (vu32)_mm512_popcnt_epi32((__m512i)a);
}

#  define TILE     CAT(bits_hamming_popcount, ISA)
#  define TARGET   POPCOUNT
#  define COUNT(a) bits_of_words(a)
#  define SUM(a)   (a)
#  define WORDS    INT64_MAX
#  define SUMS     1
#  include "pairwise/bits_tile.h"

#  define TILE     CAT(bits_jaccard_popcount, ISA)
#  define TARGET   POPCOUNT
#  define COUNT(a) bits_of_words(a)
#  define SUM(a)   (a)
#  define WORDS    INT64_MAX
#  define SUMS     2
#  include "pairwise/bits_tile.h"
#  undef POPCOUNT
#endif
