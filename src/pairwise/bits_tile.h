/*
 * bits_tile.h - template: one register tile of counts of bits
 *
 * Parameters, all undefined again at the end:
 *   TILE      names the function
 *   TARGET    attributes of the function, or nothing
 *   COUNT(a)  counts of the bits of a, which can be added for WORDS words
 *   SUM(a)    the count of a lane that such sums come to
 *   SUMS      1: c is the number of bits that differ; 2: second is that of the bits that either row
 *             has, twice, less c, so that c / (c + second) is half of the Jaccard distance
 * From the caller: ISA, MR, NV, METRIC_ROWS, vf32, vu32 (see kernels.h).
 *
 * Counts of a lane are below 2^31, and are rounded to f32 once.
 *
 * SPDX-License-Identifier: MIT
 */
static TARGET void TILE(const struct gram_tile *t)
{
    const int64_t ldc = t->ldc / (VBYTES / 4);

    for (int first = 0; first < MR; first += METRIC_ROWS) {
        const uint32_t *x = (const uint32_t *)t->x + first;
        const vu32 *y = t->y;
        vf32 *c = (vf32 *)((float *)t->c + first * t->ldc);
        vu32 differ[METRIC_ROWS][NV] = {0};
#if SUMS == 2
        vf32 *s = (vf32 *)((float *)t->second + first * t->ldc);
        vu32 either[METRIC_ROWS][NV] = {0};
#endif

        for (int64_t k = 0; k < t->depth;) {
            const int64_t end = t->depth - k < WORDS ? t->depth : k + WORDS;
            vu32 sum[METRIC_ROWS][NV] = {0};
#if SUMS == 2
            vu32 other[METRIC_ROWS][NV] = {0};
#endif
            for (; k < end; k++, x += MR, y += NV)
                UNROLL_FOR (i, METRIC_ROWS)
                    UNROLL_FOR (v, NV) {
                        const vu32 a = (vu32){0} + x[i];
                        sum[i][v] += COUNT(a ^ y[v]);
#if SUMS == 2
                        other[i][v] += COUNT(a | y[v]);
#endif
                    }
            UNROLL_FOR (i, METRIC_ROWS)
                UNROLL_FOR (v, NV) {
                    differ[i][v] += SUM(sum[i][v]);
#if SUMS == 2
                    either[i][v] += SUM(other[i][v]);
#endif
                }
        }
        UNROLL_FOR (i, METRIC_ROWS)
            UNROLL_FOR (v, NV) {
                c[i * ldc + v] = __builtin_convertvector((vi32)differ[i][v], vf32);
#if SUMS == 2
                /* May be above 2^31 - 1, and is exact in f32 where counts are. */
                s[i * ldc + v] =
                    2 * __builtin_convertvector((vi32)either[i][v], vf32) - c[i * ldc + v];
#endif
            }
    }
}

#undef TILE
#undef TARGET
#undef COUNT
#undef SUM
#undef WORDS
#undef SUMS
